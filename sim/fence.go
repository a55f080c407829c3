package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
)

// fence is what tables that two raters share have to do (ADR 10): a boot that deletes begins a run, a put of an older run is
// refused, progress of an older run above the newer one's start does not count, and identical rows count once.
type fence struct {
	store.Store // the rows; it keeps no progress of its own
	rows        map[string]uint64
	progress    []standing
	run         uint64
	begin       uint64 // block above which the run deleted
	open        bool   // nothing is refused: a planted bug
}

// standing is a progress and the run that wrote it, 0 when it stands on no rows.
type standing struct {
	store.Progress
	run uint64
}

func newFence(bug Bug) *fence {
	return &fence{Store: memstore.New(), rows: map[string]uint64{}, run: 1, open: bug == NotFenced}
}

func (f *fence) counts(s standing) bool {
	return s.run == 0 || s.run >= f.run || s.Block <= f.begin || f.open
}

// Progress implements store.Store.
func (f *fence) Progress(_ context.Context, service string) (store.Progress, error) {
	best := store.Progress{}
	for _, s := range f.progress {
		if s.Service == service && f.counts(s) && s.Block >= best.Block {
			best = s.Progress
		}
	}
	if best.Service == "" {
		return best, store.ErrNotFound
	}
	return best, nil
}

// Put implements store.Store, for a service that puts no rows.
func (f *fence) Put(ctx context.Context, p store.Put) error { return f.put(ctx, p, 0) }

// put appends what is not there yet, then the progress, whoever sends it and however late.
func (f *fence) put(ctx context.Context, p store.Put, run uint64) error {
	for _, o := range p.Outcomes {
		fresh := meter.Outcome{
			Block: o.Block, Rows: distinct(f, o.Block, o.Rows), Ledger: distinct(f, o.Block, o.Ledger),
			Devices: distinct(f, o.Block, o.Devices), Refusals: distinct(f, o.Block, o.Refusals),
		}
		part := store.Put{Outcomes: []meter.Outcome{fresh}, Progress: store.Progress{Service: noService, Block: o.Block}}
		if err := f.Store.Put(ctx, part); err != nil {
			return err
		}
	}
	if p.Progress.Service != noService {
		f.progress = append(f.progress, standing{p.Progress, run})
	}
	return nil
}

// distinct keeps the rows that are not in the tables.
func distinct[T any](f *fence, block uint64, rows []T) (fresh []T) {
	for _, r := range rows {
		name := fmt.Sprintf("%T%+v", r, r)
		if _, known := f.rows[name]; !known {
			f.rows[name] = block
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// client is a process's connection to shared tables.
type client struct {
	*fence
	run uint64
}

func (c *client) check() error {
	if c.run != c.fence.run && !c.open {
		return store.ErrOtherWriter
	}
	return nil
}

// Put implements store.Store.
func (c *client) Put(ctx context.Context, p store.Put) error {
	if len(p.Outcomes) == 0 {
		return c.put(ctx, p, 0)
	}
	if err := c.check(); err != nil {
		return err
	}
	return c.put(ctx, p, c.run)
}

// Trim implements store.Store.
func (c *client) Trim(ctx context.Context, block uint64) error {
	c.run = c.fence.run
	top, rows := uint64(0), 0
	for _, s := range c.progress {
		if s.run != 0 && c.counts(s) {
			top, rows = max(top, s.Block), rows+1
		}
	}
	if !c.open && (rows > 0 && top < block || rows == 0 && c.run > 1 && block > c.begin) {
		return store.ErrOtherWriter
	}
	above := false
	for name, b := range c.rows {
		if b > block {
			above = true
			delete(c.rows, name)
		}
	}
	if !above {
		return nil
	}
	c.fence.run, c.begin = c.fence.run+1, block
	c.run = c.fence.run
	for _, s := range c.progress {
		if s.run != 0 && s.Block == block {
			c.progress = append(c.progress, standing{s.Progress, c.run})
		}
	}
	return c.Store.Trim(ctx, block)
}

// newTables are empty tables of the kind that the story needs.
func (r *road) newTables() store.Store {
	if r.story.raters > 1 {
		return newFence(r.o.Bug)
	}
	return memstore.New()
}

// client is the tables as one rater's process holds them: while a call of it is under way the other one works.
func (r *road) client(k int) *failingStore {
	s := *r.tables
	if f, shared := s.Store.(*fence); shared {
		s.Store = &client{fence: f}
		s.meanwhile = func() { r.meanwhile(k) }
	}
	return &s
}

// meanwhile lets a rater work while a call of somebody else is under way.
func (r *road) meanwhile(k int) {
	other := r.dice.IntN(len(r.raters))
	if r.nested || other == k || r.dice.IntN(4) > 0 {
		return
	}
	who := r.f.who
	r.nested = true
	if other > 0 {
		other = len(r.invoice) + 2
	}
	r.service(other)
	r.nested, r.f.who = false, who
}

// taken tells whether a service found that another rater is at work, or was.
func (r *road) taken(err error) bool {
	if r.story.raters < 2 || !errors.Is(err, store.ErrOtherWriter) && !strings.Contains(err.Error(), "another rater started") {
		return false
	}
	r.figures.count("raters: found another at work", 1)
	return true
}
