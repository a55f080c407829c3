package spooltest

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// ErrDied is what every operation says after the process died.
var ErrDied = errors.New("the process died here")

// Disk is a folder. The zero value is of no use, see New.
type Disk struct {
	mu      sync.Mutex
	names   map[string]*file // what the process sees
	durable map[string]*file // what a power loss leaves of the names
	ops     int
	dieAt   int // the operation at which the process dies; 0: never
	whole   bool
	dead    bool
	died    chan struct{}
	full    bool
	stall   chan struct{} // syncs wait until it is closed
}

type file struct{ live, synced []byte }

// New is an empty disk.
func New() *Disk {
	return &Disk{names: map[string]*file{}, durable: map[string]*file{}, died: make(chan struct{})}
}

// DieIn lets the process die at the nth operation from now on that changes the disk: before it takes effect, or, where it writes, in the
// middle of it; or, when whole is set, after it.
func (d *Disk) DieIn(n int, whole bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dieAt, d.whole = d.ops+n, whole
}

// Died is closed when the process dies.
func (d *Disk) Died() <-chan struct{} { return d.died }

// Dead tells whether it did.
func (d *Disk) Dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// SetFull lets writes fail for want of room, or succeed again.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Stall lets syncs hang until release is called.
func (d *Disk) Stall() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	d.stall = c
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.stall = nil
		d.mu.Unlock()
		close(c)
	})
}

// Killed ends the process, if it lives, and is the disk as the next one finds it: all that was written is there.
func (d *Disk) Killed() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.die()
	next := New()
	for name, f := range d.names {
		next.names[name] = &file{slices.Clone(f.live), slices.Clone(f.synced)}
		if g := d.durable[name]; g != nil {
			next.durable[name] = next.names[name]
		}
	}
	return next
}

// PowerLost ends the process and is the disk after a power loss: names as they were synced, or as they were last when late is set, and content that
// was synced, with up to keep bytes of what was written behind it.
func (d *Disk) PowerLost(keep int, late bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.die()
	names := d.durable
	if late {
		names = d.names
	}
	next := New()
	for name, f := range names {
		data := slices.Clone(f.synced)
		if extra := len(f.live) - len(f.synced); extra > 0 {
			data = append(data, f.live[len(f.synced):len(f.synced)+min(extra, keep)]...)
		}
		next.names[name] = &file{data, slices.Clone(data)}
	}
	next.durable = maps.Clone(next.names)
	return next
}

// change runs an operation that changes the disk, and lets the process die at it.
func (d *Disk) change(whole, half func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return ErrDied
	}
	d.ops++
	if d.ops != d.dieAt {
		return whole()
	}
	d.die()
	if d.whole {
		half = whole
	}
	return errors.Join(half(), ErrDied)
}

func (d *Disk) die() {
	if !d.dead {
		d.dead = true
		close(d.died)
	}
}

func nothing() error { return nil }

// List implements spool.Files.
func (d *Disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

// Open implements spool.Files.
func (d *Disk) Open(name string) (spool.File, error) {
	d.mu.Lock()
	f := d.names[name]
	d.mu.Unlock()
	if f == nil {
		f = &file{}
		if err := d.change(func() error { d.names[name] = f; return nil }, nothing); err != nil {
			return nil, err
		}
	}
	return &handle{d, f}, nil
}

// Rename implements spool.Files.
func (d *Disk) Rename(from, to string) error {
	return d.change(func() error {
		if d.names[from] == nil {
			return errors.New("no such file")
		}
		d.names[to] = d.names[from]
		delete(d.names, from)
		return nil
	}, nothing)
}

// Remove implements spool.Files.
func (d *Disk) Remove(name string) error {
	return d.change(func() error { delete(d.names, name); return nil }, nothing)
}

// Sync implements spool.Files.
func (d *Disk) Sync() error {
	return d.change(func() error { d.durable = maps.Clone(d.names); return nil }, nothing)
}

// Close implements spool.Files.
func (d *Disk) Close() error { return nil }

type handle struct {
	d *Disk
	f *file
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	n := copy(p, h.f.live[min(off, int64(len(h.f.live))):])
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	write := func(p []byte) error {
		behind := h.f.live[min(off+int64(len(p)), int64(len(h.f.live))):]
		h.f.live = slices.Concat(h.f.live[:off], p, behind)
		n = len(p)
		return nil
	}
	err := h.d.change(func() error {
		if h.d.full {
			return errors.Join(write(p[:len(p)/3]), syscall.ENOSPC)
		}
		return write(p)
	}, func() error { return write(p[:len(p)/2]) })
	return n, err
}

func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.live)), nil
}

func (h *handle) Truncate(size int64) error {
	return h.d.change(func() error { h.f.live = h.f.live[:size]; return nil }, nothing)
}

func (h *handle) Sync() error {
	h.d.mu.Lock()
	stall := h.d.stall
	h.d.mu.Unlock()
	if stall != nil {
		<-stall
	}
	return h.d.change(func() error { h.f.synced = slices.Clone(h.f.live); return nil }, nothing)
}

func (h *handle) Close() error { return nil }
