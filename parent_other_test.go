//go:build !linux

package gpuhour_test

import "syscall"

// endsWithParent is known to Linux alone.
func endsWithParent() *syscall.SysProcAttr { return nil }
