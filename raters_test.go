package gpuhour_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/clickhouse"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/rater"
)

// TestTwoRatersAtOnce: two raters put one log's rows into one database, as fast as they can, each broken off again and again
// in the middle of whatever it asks ClickHouse, which does it all the same, and started again from progress. The
// ledger is the one that core/replay gives, and the digests are those of the log's own cuts, or a rater could not state its.
func TestTwoRatersAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse; left out of -short")
	}
	w := rich()
	want := w.replayed(t)
	b := membus.New(time.Now)
	if err := w.play(t.Context(), gpuhour.OpenOn(b, memstore.New()), w.direct(b), nowhere); err != nil {
		t.Fatal(err)
	}
	end, err := b.LastSeq(t.Context(), bus.Usage)
	if err != nil {
		t.Fatal(err)
	}
	embeddedConfig(t, t.TempDir()) // is there an engine at all?
	first, engine, err := clickhouse.OpenEmbedded(t.Context(), t.TempDir(), embedded.Options{}, nil, clickhouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := clickhouse.Open(t.Context(), engine.ClientOptions(), clickhouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	seed := uint64(time.Now().UnixNano())
	var wg sync.WaitGroup
	var done [2]struct{ stops, takeovers int }
	for i, s := range []store.Store{first, second} {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() { done[i].stops, done[i].takeovers = pumpBroken(t, b, s, end, dice) })
	}
	wg.Wait()
	t.Logf("seed %d: times that each rater was broken off, and found that the other had begun to put: %v", seed, done)
	if done[0].stops == 0 || done[1].stops == 0 {
		t.Error("a rater was never broken off")
	}
	got := harvest(t, gpuhour.OpenOn(b, first), bills{Totals: want.Totals})
	got.Documents, got.Blocked = want.Documents, want.Blocked // no invoicer ran
	equal(t, "two raters against core/replay", want, got)
	if seen, err := second.SeenSeconds(t.Context(), span.Span{From: 0, To: span.Open}, all); err != nil || seen != w.seen() {
		t.Errorf("%d seconds of devices are stored (%v), %d were sampled", seen, err, w.seen())
	}
}

// pumpBroken runs a rater to the end of the log through deadlines that come at any moment, and lets it wait after an error as
// run.Loop does.
func pumpBroken(t *testing.T, b bus.Bus, s store.Store, end uint64, dice *rand.Rand) (stops, takeovers int) {
	pump := rater.New(b, s)
	for patience := 40; pump.Progress().Block < end; {
		pump.Blocks = 1 + dice.IntN(8)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+dice.IntN(patience))*time.Millisecond)
		_, err := pump.Step(ctx)
		cancel()
		if err == nil {
			continue
		}
		switch {
		case errors.Is(err, store.ErrOtherWriter):
			takeovers++
		case ctx.Err() != nil:
			stops++
		default:
			t.Errorf("a rater failed by itself: %v", err)
			return stops, takeovers
		}
		patience += 4 // in the end it gets through
		select {
		case <-time.After(time.Duration(dice.IntN(patience)) * time.Millisecond):
		case <-t.Context().Done():
			t.Error("the test's time is over")
			return stops, takeovers
		}
		pump = rater.New(b, s)
	}
	return stops, takeovers
}
