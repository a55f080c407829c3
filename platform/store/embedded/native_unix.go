//go:build (linux || darwin) && (amd64 || arm64)

package embedded

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/ebitengine/purego"
)

// dlopen maps the library into the process and looks every function up before one is called, so that a library of
// another version is an error here and not a crash later.
func dlopen(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load engine library %s: %w (on Linux it needs glibc)", path, err)
	}
	lib := new(library)
	for name, fn := range lib.symbols() {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("load engine library %s: it is not libchdb %s: %w", path, Version, err)
		}
		purego.RegisterFunc(fn, address)
	}
	return lib, nil
}

// makeWritable makes a directory, and says what to do when this process cannot write there: the engine would only stop.
func makeWritable(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		const write = 2
		if err = syscall.Access(dir, write); err != nil {
			err = fmt.Errorf("write there: %w", err)
		}
	}
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		err = fmt.Errorf("%w: make it writable for this user, or choose another data directory", err)
	}
	return err
}

// tryLock takes an exclusive advisory lock on an open file, which goes away with the process. It reports false when
// another open file holds the lock.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// isFull reports that an error is a full disk or a used-up quota.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
