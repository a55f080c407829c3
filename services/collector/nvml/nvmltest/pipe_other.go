//go:build !linux

package nvmltest

import (
	"errors"
	"os"
)

// openPipe fails: the library is a Linux one.
func openPipe(string) (*os.File, error) { return nil, errors.ErrUnsupported }
