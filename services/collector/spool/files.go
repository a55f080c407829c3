package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// File is an open segment. Offsets are bytes from its start.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
}

// Files is the folder that holds the segments: every effect of the spool on a disk, so that a test can make each of
// them fail or tear.
type Files interface {
	List() ([]string, error)
	// Open opens a file for reading and writing, creating it empty when it is not there.
	Open(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes creations, renames and removals durable.
	Sync() error
	// Close gives up the folder's lock.
	Close() error
}

// ErrLocked is a folder that another process is writing.
var ErrLocked = errors.New("another collector is writing this spool; one process a folder")

type dir struct {
	path string
	lock *os.File
}

// Dir is a folder on disk, created when absent and locked against a second writer until Close.
func Dir(path string) (Files, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create spool folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the spool's lock: %w", err)
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("lock spool folder %s: %w", path, err), file.Close())
	}
	return &dir{path, file}, nil
}

func (d *dir) List() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (d *dir) Open(name string) (File, error) {
	f, err := os.OpenFile(filepath.Join(d.path, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d *dir) Rename(from, to string) error {
	return os.Rename(filepath.Join(d.path, from), filepath.Join(d.path, to))
}

func (d *dir) Remove(name string) error { return os.Remove(filepath.Join(d.path, name)) }

func (d *dir) Sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *dir) Close() error { return d.lock.Close() }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
