package gpuhour_test

import "syscall"

// endsWithParent lets a child end when the test is killed and cannot clean up.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
