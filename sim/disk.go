package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// disk is a folder whose files forget at a crash what was not synced, but for a part that had reached the platter.
type disk struct {
	*faults
	files   map[string]*platter // as the running process sees them
	durable map[string]*platter // names that the folder's last sync made durable
	lying   bool                // says synced and is not: a planted bug
}

// platter is a file's content: as written, and as synced.
type platter struct{ data, synced []byte }

func newDisk(f *faults) *disk {
	return &disk{faults: f, files: map[string]*platter{}, durable: map[string]*platter{}}
}

// powerLoss forgets what was not synced; of what was only written, a part may have reached the platter.
func (d *disk) powerLoss() {
	d.files = maps.Clone(d.durable)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		p := d.files[name]
		if n := len(p.data) - len(p.synced); n > 0 && d.dice().IntN(2) == 0 {
			p.synced = p.data[:len(p.synced)+d.dice().IntN(n)]
		}
		p.data = slices.Clone(p.synced)
	}
}

// List implements spool.Files.
func (d *disk) List() ([]string, error) { return slices.Sorted(maps.Keys(d.files)), nil }

// Open implements spool.Files.
func (d *disk) Open(name string) (spool.File, error) {
	if d.files[name] == nil {
		d.files[name] = &platter{}
	}
	return &openFile{d, d.files[name]}, nil
}

// Rename implements spool.Files.
func (d *disk) Rename(from, to string) error {
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

// Remove implements spool.Files.
func (d *disk) Remove(name string) error {
	delete(d.files, name)
	return nil
}

// Sync implements spool.Files.
func (d *disk) Sync() error {
	d.durable = maps.Clone(d.files)
	return nil
}

// Close implements spool.Files.
func (d *disk) Close() error { return nil }

type openFile struct {
	*disk
	*platter
}

func (f *openFile) ReadAt(b []byte, at int64) (int, error) {
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *openFile) WriteAt(b []byte, at int64) (int, error) {
	kind := f.draw("write", crashBefore, crashAfter, noAnswer)
	if kind == crashBefore {
		panic(crashed{"write"})
	}
	if at > int64(len(f.data)) {
		return 0, fmt.Errorf("write at %d of a file of %d bytes leaves a hole", at, len(f.data))
	}
	n := len(b)
	if kind == noAnswer { // the disk is full in the middle
		n = f.dice().IntN(len(b) + 1)
	}
	if grown := int(at) + n; grown > len(f.data) {
		f.data = append(f.data, make([]byte, grown-len(f.data))...)
	}
	copy(f.data[at:], b[:n])
	if kind == crashAfter {
		panic(crashed{"write"})
	}
	if n < len(b) {
		return n, fmt.Errorf("write: disk full: %w", errInjected)
	}
	return n, nil
}

func (f *openFile) Close() error         { return nil }
func (f *openFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *openFile) Truncate(size int64) error {
	f.data = slices.Clone(f.data[:size])
	return nil
}

func (f *openFile) Sync() error {
	switch f.draw("sync", crashBefore, crashAfter) {
	case crashBefore:
		panic(crashed{"sync"})
	case crashAfter:
		f.keep()
		panic(crashed{"sync"})
	}
	if !f.lying {
		f.keep()
	}
	return nil
}

// keep makes the content durable.
func (p *platter) keep() { p.synced = append(p.synced[:0], p.data...) }
