//go:build unix

package spool

import (
	"errors"
	"os"
	"syscall"
)

// lock holds until the file is closed or the process dies, so a kill leaves nothing stale behind.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
