package spool

import (
	"errors"
	"io"
	"slices"
	"syscall"
)

// disk is a folder in memory that knows what was synced. Faults are set by tests.
type disk struct {
	files    map[string]*content
	durable  map[string]bool // names that survive a power loss
	room     int64           // bytes that may still be written; a negative number is no limit
	syncFail error
	cutFail  error
	goFail   error // of Remove
	syncs    int
}

type content struct{ live, synced []byte }

func newDisk() *disk {
	return &disk{files: map[string]*content{}, durable: map[string]bool{}, room: -1}
}

// crash is the disk after a power loss: synced content and, of what was written after, the first keep bytes.
func (d *disk) crash(keep int) *disk {
	after := newDisk()
	for name, c := range d.files {
		if !d.durable[name] {
			continue
		}
		data := slices.Clone(c.synced)
		if extra := len(c.live) - len(c.synced); extra > 0 {
			data = append(data, c.live[len(c.synced):len(c.synced)+min(extra, keep)]...)
		}
		after.files[name] = &content{data, slices.Clone(data)}
		after.durable[name] = true
	}
	return after
}

func (d *disk) List() ([]string, error) {
	var names []string
	for name := range d.files {
		names = append(names, name)
	}
	return names, nil
}

func (d *disk) Open(name string) (File, error) {
	if d.files[name] == nil {
		d.files[name] = &content{}
	}
	return &handle{d, name}, nil
}

func (d *disk) Rename(from, to string) error {
	if d.files[from] == nil {
		return errors.New("no such file")
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *disk) Remove(name string) error {
	if d.goFail == nil {
		delete(d.files, name)
	}
	return d.goFail
}

func (d *disk) Sync() error {
	d.durable = map[string]bool{}
	for name := range d.files {
		d.durable[name] = true
	}
	return d.syncFail
}

func (d *disk) Close() error { return nil }

type handle struct {
	d    *disk
	name string
}

func (h *handle) file() *content { return h.d.files[h.name] }

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, h.file().live[min(off, int64(len(h.file().live))):])
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	c := h.file()
	n := len(p)
	if h.d.room >= 0 {
		n = int(min(int64(n), h.d.room))
		h.d.room -= int64(n)
	}
	behind := c.live[min(off+int64(n), int64(len(c.live))):]
	c.live = slices.Concat(c.live[:off], p[:n], behind)
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (h *handle) Size() (int64, error) { return int64(len(h.file().live)), nil }

func (h *handle) Truncate(size int64) error {
	if h.d.cutFail != nil {
		return h.d.cutFail
	}
	h.file().live = h.file().live[:size]
	return nil
}

func (h *handle) Sync() error {
	if h.d.syncFail != nil {
		return h.d.syncFail
	}
	h.d.syncs++
	h.file().synced = slices.Clone(h.file().live)
	return nil
}

func (h *handle) Close() error { return nil }
