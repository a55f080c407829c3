//go:build !linux

package gpuhour_test

import (
	"errors"
	"syscall"
)

// errNoMounts is the answer where a process cannot have mounts of its own.
var errNoMounts = errors.New("only Linux gives a process mounts of its own")

func ownMounts() *syscall.SysProcAttr { return nil }

func mountSmall(string, string) error { return errNoMounts }

func remount(string, bool) error { return errNoMounts }

func unmount(string) error { return errNoMounts }
