package gpuhour_test

import (
	"os"
	"syscall"
)

// ownMounts gives a process mounts of its own, which are gone with it however it ends. Who is not root is root in there.
func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags = syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// mountSmall puts a disk in memory of so many bytes under a directory.
func mountSmall(dir, size string) error {
	return syscall.Mount("gpuhour-test", dir, "tmpfs", 0, "size="+size)
}

// remount lets nobody write to it any more, or everybody again.
func remount(dir string, readOnly bool) error {
	flags := uintptr(syscall.MS_REMOUNT)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	return syscall.Mount("", dir, "", flags, "")
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
