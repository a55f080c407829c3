package live

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

const (
	storeAgain = time.Second // after the disk refused
	maxAppend  = 64          // batches in one append: a spool that is nearly full may take these and not all
)

// keep moves batches from memory to the spool, until no more come, and then records the stop. An error ends the run.
func (l *Loop) keep() error {
	for {
		err := l.store()
		switch {
		case errors.Is(err, spool.ErrBroken):
			return err
		case err != nil:
			l.alarms.raise("spool_refuses", "the spool takes no batches; they wait in memory", "error", err)
		}
		select {
		case <-l.ending:
			return l.finish()
		default:
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(storeAgain)
		}
		select {
		case <-l.wakeUnless(err):
		case <-again:
		case <-l.ending:
		}
	}
}

// wakeUnless is the signal of new batches, or none that ever comes: the disk that refused gets its pause.
func (l *Loop) wakeUnless(err error) <-chan struct{} {
	if err != nil {
		return nil
	}
	return l.wake
}

// finish stores what is left and records the stop.
func (l *Loop) finish() error {
	if err := l.store(); err != nil {
		return fmt.Errorf("store the last %d batches, whose seconds are lost: %w", l.waiting(), err)
	}
	return l.cfg.Spool.Stop()
}

func (l *Loop) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// store appends everything that waits, and then, where it must, that there is more to come.
func (l *Loop) store() error {
	for {
		batches := l.oldest()
		if len(batches) == 0 {
			return l.storeBegin()
		}
		err := l.cfg.Spool.Append(batches...)
		for len(batches) > 1 && errors.Is(err, spool.ErrFull) { // a small spool may never take as many at once
			batches = batches[:len(batches)/2]
			err = l.cfg.Spool.Append(batches...)
		}
		if err != nil {
			l.noteSpool()
			return err
		}
		l.mu.Lock()
		l.held = append([]usage.Batch(nil), l.held[len(batches):]...)
		l.mu.Unlock()
		l.noteSpool()
		signal(l.stored)
	}
}

func (l *Loop) storeBegin() error {
	l.mu.Lock()
	from := l.begin
	l.mu.Unlock()
	if from == 0 {
		return nil
	}
	if err := l.cfg.Spool.Begin(l.cfg.Node.Name, l.cfg.Boot, from); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begin == from {
		l.begin = 0
	}
	return nil
}

func (l *Loop) oldest() []usage.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[:min(len(l.held), maxAppend)]
}

func (l *Loop) noteSpool() {
	st := l.cfg.Spool.Stats()
	l.mu.Lock()
	l.stats.Spool = st
	l.mu.Unlock()
	if st.Thinned > l.thinned {
		l.thinned = st.Thinned
		l.alarms.raise("thinned", "the spool was full; unsent seconds were given up for gaps", "batches", st.Thinned, "seconds", st.Lost)
	}
}

// send moves batches from the spool to the log, until no more come and one last attempt was made. An error ends the run.
func (l *Loop) send(ctx context.Context) error {
	wait := time.Duration(0)
	for ending := false; ; {
		err := l.drain(ctx)
		if errors.Is(err, collector.ErrCloned) || errors.Is(err, spool.ErrBroken) {
			return err
		}
		wait = l.after(err, wait)
		if ending {
			return nil // what the log did not take waits in the spool
		}
		var again <-chan time.Time
		stored := l.stored
		if wait > 0 {
			again, stored = time.After(wait), nil
		}
		select {
		case <-stored:
			ending = l.turn()
		case <-again:
		case <-l.leave:
			ending = true
		}
	}
}

// turn waits for this node's place among all that close a batch in this second; ending tells that the end came first.
func (l *Loop) turn() (ending bool) {
	select {
	case <-time.After(l.cfg.place()):
		return false
	case <-l.leave:
		return true
	}
}

// place follows from the node's name, so that it is the same after a restart.
func (c *Config) place() time.Duration {
	if c.Spread <= 0 {
		return 0
	}
	hash := fnv.New64a()
	hash.Write([]byte(c.Node.Name)) // a hash never returns an error
	return time.Duration(hash.Sum64() % uint64(c.Spread))
}

// after is how long to wait before the next attempt: not at all when this one succeeded.
func (l *Loop) after(err error, wait time.Duration) time.Duration {
	if err == nil {
		return 0
	}
	l.alarms.raise("log_refuses", "usage is not published; it waits in the spool", "error", err, "unsent", l.Stats().Spool.Unsent)
	return min(max(2*wait, firstWait), lastWait)
}

// drain makes one attempt to publish everything.
func (l *Loop) drain(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, l.cfg.Attempt)
	defer cancel()
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	before := l.publisher.Counters()
	err := l.publisher.Drain(attempt, now)
	after, st := l.publisher.Counters(), l.cfg.Spool.Stats()
	boot := l.cfg.Clock.Now().Boot
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Publisher, l.stats.Spool = after, st
	if after.Published != before.Published || after.Adopted != before.Adopted {
		l.acked = boot
	}
	if err != nil {
		l.stats.PublishErrors++
	}
	return err
}
