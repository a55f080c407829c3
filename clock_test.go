package gpuhour_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// machine is a clock that a test sets.
type machine struct{ at atomic.Int64 }

func (m *machine) set(at span.Second) { m.at.Store(int64(at)) }
func (m *machine) now() time.Time     { return time.Unix(m.at.Load(), 0) }

// TestClockSteps serves the real engines while the machine's clock steps back, then jumps ahead: no time is published, the
// log says why, and what `gpuhour resume` states lets it go on. The invoices are those of a clock that did neither.
func TestClockSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse and runs some seconds of wall time; left out of -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	said := &background{name: "serve"}
	e := open(t, embeddedConfig(t, t.TempDir()), gpuhour.Options{Logger: slog.New(slog.NewTextHandler(said, nil))})
	began := time.Now()
	first := span.Second(time.Now().Unix()) - 3*span.SecondsPerHour // everything below is past for the log's own stamps
	jumped := first + 2*span.SecondsPerHour
	again := jumped + 600
	w := past(first, again)
	want := w.replayed(t)
	state := func(from, to span.Second) {
		t.Helper()
		must(t, w.direct(e.Bus())(ctx, from, to))
		must(t, e.State(ctx, w.facts(from, to)...))
	}
	clock := &machine{}
	clock.set(first)
	e.SetClock(clock.now)
	state(0, first)
	serving, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Serve(serving); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { // also after a failure
		stop()
		running.Wait()
		closed(t, e)
	})
	facts := &watch{Bus: e.Bus()}
	facts.until(t, ctx, "15 invoices", func(fact.Body) bool { return len(facts.issued) == 15 })

	reads := func(at span.Second) bool {
		tick, err := journal.NewWriter(e.Bus()).LastTick(ctx)
		must(t, err)
		return tick.At == at
	}
	clock.set(first - 6)
	said.await(t, ctx, "no time is published until the clock is there again")
	clock.set(jumped)
	said.await(t, ctx, "check the machine's time, then run `gpuhour resume --by NAME`")
	if !reads(first) {
		t.Fatalf("a tick was published; the last one was at %v", first)
	}
	must(t, e.State(ctx, fact.Fact{Key: "clock.resumed/" + jumped.String(), Body: &fact.TimeResumed{At: jumped, By: "ops"}}))
	eventually(t, ctx, "time goes on", func() bool { return reads(jumped) })

	state(first, again)
	clock.set(again - 1)
	eventually(t, ctx, "a tick", func() bool { return reads(again - 1) })
	clock.set(again)
	eventually(t, ctx, "all invoices are in the tables", func() bool { // at the tick after the one that issued them
		rows, err := e.Invoices(ctx)
		must(t, err)
		return len(rows) == len(want.Documents)
	})
	stop()
	running.Wait()
	got := harvest(t, e, want)
	got.Blocked = want.Blocked
	equal(t, "a clock that stepped", want, got)
	t.Logf("%d invoices in %v", len(want.Documents), time.Since(began).Round(time.Millisecond))
}
