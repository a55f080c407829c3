package gpuhour_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/rater"
)

func has(key string) func(replay.Statement) bool {
	return func(s replay.Statement) bool { return s.Fact.Key == key }
}

// rows keeps what a rater put, by block, beside the tables.
type rows struct {
	store.Store
	put map[uint64]meter.Outcome
}

// Put implements store.Store.
func (r *rows) Put(ctx context.Context, p store.Put) error {
	for _, o := range p.Outcomes {
		r.put[o.Block] = meter.Outcome{ // without cuts, which are no rows; an empty table is one with nil
			Block: o.Block, Rows: append([]usage.Row(nil), o.Rows...), Ledger: append([]meter.Difference(nil), o.Ledger...),
			Devices: append([]meter.DeviceDifference(nil), o.Devices...), Refusals: append([]meter.Refusal(nil), o.Refusals...),
		}
	}
	return r.Store.Put(ctx, p)
}

// Trim implements store.Store.
func (r *rows) Trim(ctx context.Context, block uint64) error {
	maps.DeleteFunc(r.put, func(b uint64, _ meter.Outcome) bool { return b > block })
	return r.Store.Trim(ctx, block)
}

func stamp() time.Time { return time.Unix(int64(newMonth), 0) }

// recordLog writes a log as services at work write it: ticks come whenever they come, each service works when it does.
func recordLog(rt *rapid.T, w *world) bus.Bus {
	b := membus.New(stamp)
	e := gpuhour.OpenOn(b, memstore.New())
	ctx := context.Background()
	must(rt, e.Declare(ctx, fact.Scripted))
	samples := w.direct(b)
	for at := span.Second(0); at < w.until; {
		next := w.next(at, e.NextDue(at))
		if at > newMonth && rapid.Bool().Draw(rt, "overrun") {
			next = min(next+span.Second(rapid.IntRange(0, 5000).Draw(rt, "by")), w.until)
		}
		must(rt, e.State(ctx, w.facts(at, next)...))
		must(rt, samples(ctx, at, next))
		must(rt, e.Tick(ctx, next))
		for range rapid.IntRange(0, 6).Draw(rt, "steps") {
			_, err := rapid.SampledFrom(e.Steps()).Draw(rt, "service")(ctx)
			must(rt, err)
		}
		at = next
	}
	must(rt, e.Advance(ctx, w.until))
	return b
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rate runs a rater over the log to its end; again says before every step whether it is thrown away, and its budget.
func rate(b bus.Bus, again func() (restart bool, blocks, budget int)) (map[uint64]meter.Outcome, store.Progress, error) {
	r := &rows{memstore.New(), map[uint64]meter.Outcome{}}
	var pump *rater.Rater
	for worked := true; worked; {
		restart, blocks, budget := again()
		if pump == nil || restart {
			pump = rater.New(b, r)
		}
		pump.Blocks, pump.Rows = blocks, budget
		var err error
		if worked, err = pump.Step(context.Background()); err != nil {
			p, _ := r.Progress(context.Background(), rater.Service)
			return r.put, p, err
		}
	}
	p, err := r.Progress(context.Background(), rater.Service)
	return r.put, p, err
}

// TestReplayGivesTheSameRows: one log, rated block by block, in random batches and with restarts at random steps, gives
// the same rows in every table and the same running digest. The log's own cut.done facts hold the first digest: a rater
// that came to another one could not state its own and would fail.
func TestReplayGivesTheSameRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := recordLog(rt, draw(rt))
		want, stands, err := rate(b, func() (bool, int, int) { return false, 1, 1 })
		must(rt, err)
		for _, restarts := range []bool{false, true} {
			got, p, err := rate(b, func() (bool, int, int) {
				return restarts && rapid.Bool().Draw(rt, "restart"), rapid.IntRange(1, 9).Draw(rt, "blocks"), rapid.SampledFrom([]int{1, 7, 50, 5000}).Draw(rt, "rows")
			})
			if err != nil || !reflect.DeepEqual(want, got) {
				rt.Fatalf("restarts %v: %v; other rows (-block by block +batches)\n%s", restarts, err, gocmp.Diff(want, got))
			}
			if d := gocmp.Diff(stands, p); d != "" {
				rt.Fatalf("restarts %v: other progress (-block by block +batches)\n%s", restarts, d)
			}
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(want)), func(o meter.Outcome) bool { return len(o.Ledger) > 0 }) {
			rt.Skip("nothing was leased")
		}
	})
}
