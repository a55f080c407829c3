package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// agent is a node's collector with its disk; it lives on through crashes.
type agent struct {
	*node
	disk     *disk
	clone    int
	spool    *spool.Spool
	engine   *collector.Engine // nil while the process is down
	kept     map[uint64]uint64 // by run: the last sequence that the spool accepted
	out      bool              // it found another writer under its name and stopped
	restored bool              // the log was restored from a copy: what left the spool may be gone
}

func newAgent(f *faults, n *node, clone int, bug Bug) *agent {
	d := newDisk(f)
	d.lying = bug == SpoolNotSynced
	return &agent{node: n, disk: d, clone: clone, kept: map[uint64]uint64{}}
}

// Sample implements collector.Source.
func (n *node) Sample(at span.Second, into []collector.Reading) ([]collector.Reading, error) {
	if at%97 == 5 {
		return into, errors.New("the driver does not answer")
	}
	for k := range 2 {
		busy, seen := n.says(k, int64(at))
		if !seen {
			continue
		}
		reading := collector.Reading{Device: n.device(k), Busy: collector.Known(busy), Power: collector.Known(int64(at) % 7)}
		if busy < 0 {
			reading.Busy = collector.Unknown(usage.ReasonNotAvailable)
		}
		into = append(into, reading)
	}
	return into, nil
}

// collect runs an agent over the seconds up to an instant. What fails is tried again: by itself, or by the next process.
func (r *road) collect(a *agent, next int64) {
	died := r.act("collector "+a.name, func() error {
		r.f.away = !r.f.off && in(a.away, r.now)
		err := r.run(a, next)
		if errors.Is(err, collector.ErrCloned) && (a.cloned || a.restored) {
			r.f.note("  %v", err)
			a.out = true
			return nil
		}
		return err
	})
	if died {
		a.engine = nil
		if r.dice.IntN(2) == 0 {
			a.disk.powerLoss()
		}
	}
}

func (r *road) run(a *agent, next int64) error {
	ctx := context.Background()
	if a.out {
		return nil
	}
	if a.engine == nil {
		if err := a.start(r, next); err != nil || a.engine == nil {
			return err
		}
	}
	failed := a.sample(ctx, r, next)
	if failed == nil {
		failed = a.engine.Flush(ctx)
		a.remember()
	}
	if errors.Is(failed, spool.ErrBroken) { // a person restarts it
		a.engine = nil
		return errInjected
	}
	return failed
}

// sample takes every second of the spans in which the collector runs, and stops it where one ends.
func (a *agent) sample(ctx context.Context, r *road, next int64) (failed error) {
	for _, up := range a.up {
		for at := max(int64(up.From), r.now+1); at <= min(int64(up.To), next); at++ {
			work := a.engine.Stop
			if at < int64(up.To) {
				work = func(ctx context.Context) error { return a.engine.Step(ctx, span.Second(at)) }
				r.figures.SampledSeconds += 2
			}
			err := work(ctx)
			a.remember()
			if errors.Is(err, collector.ErrCloned) || errors.Is(err, spool.ErrBroken) {
				return err
			}
			if err != nil {
				failed = err
			}
		}
	}
	return failed
}

// start begins a run, when there is something to sample or to send.
func (a *agent) start(r *road, next int64) error {
	wanted := false
	for _, s := range a.up {
		wanted = wanted || !s.Intersect(span.Span{From: span.Second(r.now + 1), To: span.Second(next + 1)}).Empty()
	}
	if !wanted && len(a.kept) == 0 {
		return nil
	}
	sp, err := spool.Open(a.disk, spool.Options{})
	if err != nil {
		return fmt.Errorf("open the spool of %s: %w", a.name, err)
	}
	a.spool = sp
	a.engine = collector.New(collector.Config{
		Boot: "sim", FirstRun: uint64(r.now + 1 + int64(a.clone)), Clock: usage.ClockEvidence{State: usage.ClockScripted},
		Signer: signerOf(a.name),
	}, []collector.Node{{Name: a.name, Source: a.node}}, sp, buslog.New(r.log))
	return nil
}

// remember notes what the spool answered for.
func (a *agent) remember() {
	last := a.spool.Last(a.name)
	if last.Run > 0 {
		a.kept[last.Run] = max(a.kept[last.Run], last.Seq)
	}
}
