//go:build unix

package natsbus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockFile is held while a server has the directory open.
const lockFile = "gpuhour.lock"

// lockDir takes the directory for this process. nats-server has no such lock: two of them on one
// directory overwrite each other's messages. The kernel frees it when the process ends, however that
// happens. Close the file to free it; the file itself stays, removing it would race with others.
func lockDir(dir string) (*os.File, error) {
	err := os.MkdirAll(dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		err = fmt.Errorf("%w: make it writable for this user, or choose another data directory", err)
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(f) // only for the message
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("it is in use by process %s: stop that one, or connect to it by address", strings.TrimSpace(string(holder)))
		}
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
