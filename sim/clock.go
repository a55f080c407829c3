package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// tickOf is a tick in the log: its position, F, T and the server's stamp in seconds.
type tickOf struct {
	seq, facts uint64
	at, stamp  int64
}

// wallTime knows how far the ticks of a wall clock can be believed: one that is more than five seconds ahead of its stamp, or
// more than an hour after the one before, waits for clock.resumed.v1 behind the facts of the last good tick.
type wallTime struct {
	last    tickOf   // the last good one
	waiting []tickOf // behind it
	resumed uint64   // position of the last clock.resumed.v1
}

func (w *wallTime) heard(t tickOf) { w.waiting = append(w.waiting, t) }

// good moves on as far as it may and is the last tick that counts.
func (w *wallTime) good() tickOf {
	for len(w.waiting) > 0 {
		next := w.waiting[0]
		broken := next.at-next.stamp > 5 || w.last.at > 0 && next.at-w.last.at > hour
		if broken && w.resumed <= w.last.facts {
			break
		}
		w.last, w.waiting = next, w.waiting[1:]
	}
	return w.last
}

func (w *wallTime) stuck() bool {
	w.good()
	return len(w.waiting) > 0
}

// mode is how the log's clock was declared.
func (r *road) mode() fact.ClockMode {
	if r.story.wall {
		return fact.Wall
	}
	return fact.Scripted
}

// tick lets a clock tick. A wall clock's machine may be ahead or have stepped back; the publisher stops while it is behind the
// last tick by more than five seconds, and a careful one also at a jump, until a person says that time goes on. A careless one,
// or another program, leaves that to the readers.
func (r *road) tick(w *journal.Writer, at span.Second) (ticked bool, err error) {
	ctx := context.Background()
	if !r.story.wall {
		return w.Tick(ctx, at)
	}
	if err := w.Declare(ctx, fact.Wall); err != nil { // as the process does before its first tick
		return false, err
	}
	if !r.f.off {
		at += r.skew()
	}
	last, err := w.LastTick(ctx)
	if err != nil {
		return false, err
	}
	careful := r.f.off || r.dice.IntN(2) == 0
	switch ahead := at - last.At; {
	case ahead < -5:
		r.figures.count("wall: no tick while the clock is behind", 1)
		return false, nil
	case careful && last.At > 0 && ahead > span.SecondsPerHour:
		resumed, err := journal.ResumedAfter(ctx, r.log, last.FactsSeq)
		if err != nil || !resumed {
			return false, err
		}
	}
	return w.Tick(ctx, at)
}

// skew is by how much a machine's clock is wrong, in seconds.
func (r *road) skew() span.Second {
	switch r.dice.IntN(8) {
	case 0:
		return span.Second(r.dice.IntN(6)) // as far as is tolerated
	case 1:
		r.figures.count("wall: clock ahead", 1)
		return span.Second(6 + r.dice.IntN(7200))
	case 2:
		r.figures.count("wall: clock stepped back", 1)
		return -span.Second(1 + r.dice.IntN(7200))
	default:
		return 0
	}
}

// resume is a person who looks at the time, finds it right, and lets it go on.
func (r *road) resume(next int64) {
	w := &r.watch.time
	needed := w.stuck() || w.last.at > 0 && next-w.last.at > hour
	if !r.story.wall || !needed || !r.f.off && r.dice.IntN(3) > 0 {
		return
	}
	r.resumes++
	body := &fact.TimeResumed{At: span.Second(next), By: "ops"}
	died := r.act("people", func() error {
		return r.people.State(context.Background(), []fact.Fact{{Key: fmt.Sprintf("resumed/%d", r.resumes), Body: body}})
	})
	if died {
		r.people = journal.NewWriter(r.log)
	}
	r.figures.count("wall: clock resumed by a person", 1)
}

// refusesTime tells whether a service stands at a tick that breaks the clock, as it must.
func (r *road) refusesTime(err error) bool {
	r.look() // a publication that waited may have landed meanwhile
	refuses := r.story.wall && errors.Is(err, journal.ErrClock) && r.watch.time.stuck()
	if refuses {
		r.figures.count("wall: steps that refused a tick", 1)
	}
	return refuses
}

// believes fails a run in which the rater took a tick that breaks the clock.
func (r *road) believes() {
	if !r.story.wall || r.err != nil {
		return
	}
	r.look()
	p, err := r.tables.Store.Progress(context.Background(), "rater")
	if good := r.watch.time.good(); err == nil && p.Block > good.seq {
		r.fails("the rater stands at block %d, time is good up to block %d", p.Block, good.seq)
	}
}
