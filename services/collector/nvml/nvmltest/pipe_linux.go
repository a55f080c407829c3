package nvmltest

import (
	"os"
	"syscall"
)

// openPipe holds both ends, so that no reader or writer that comes and goes ends it.
func openPipe(path string) (*os.File, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
}
