package gpuhour_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/alert"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/alerter"
)

// mute keeps alerts out of a log.
type mute struct{ bus.Bus }

// PublishBatch implements bus.Bus.
func (m mute) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	if strings.HasPrefix(ps[0].Subject, "gh.fact.alert.") {
		return 0, nil
	}
	return m.Bus.PublishBatch(ctx, ps)
}

// copied is another log with the same messages.
func copied(t rapid.TB, b bus.Bus) bus.Bus {
	out := membus.New(stamp)
	for _, stream := range []string{bus.Facts, bus.Usage} {
		messages, err := b.Read(context.Background(), stream, 0, 1<<20)
		must(t, err)
		for _, m := range messages {
			_, err := out.Publish(context.Background(), bus.Publication{Subject: m.Subject, Header: m.Header, Data: m.Data})
			must(t, err)
		}
	}
	return out
}

// alerts runs an alerter to the log's end and lists what it stated, each once.
func alerts(t rapid.TB, b bus.Bus, again func() (restart bool, blocks int)) (out []string) {
	tables := memstore.New()
	var pump *alerter.Alerter
	for worked := true; worked; {
		restart, blocks := again()
		if pump == nil || restart {
			pump = alerter.New(b, tables, alert.Default())
		}
		pump.Blocks = blocks
		var err error
		worked, err = pump.Step(context.Background())
		must(t, err)
	}
	messages, err := b.ReadSubject(context.Background(), bus.Facts, "gh.fact.alert.>", 0, 1<<20)
	must(t, err)
	stated := map[string]fact.Hash{}
	for _, m := range messages {
		f, err := codec.DecodeFact(m)
		must(t, err)
		if hash, ok := stated[f.Key]; ok && hash != f.Hash {
			t.Fatalf("%s was stated twice with different content", f.Key)
		} else if !ok {
			out = append(out, fmt.Sprintf("%s %+v", f.Key, f.Body))
		}
		stated[f.Key] = f.Hash
	}
	return out
}

// TestAlertsAreTheSameAfterRestarts: whatever its batches and restarts, the alerter states the same transitions.
func TestAlertsAreTheSameAfterRestarts(t *testing.T) {
	t.Parallel()
	w := rich()
	for at := w.nodes[0].source.Window.From; at < w.until; at += 100 { // more ticks, more places to restart at
		if w.nodes[0].source.Window.To+3600 < at {
			break
		}
		w.stops = append(w.stops, at)
	}
	w.finishStops()
	log := mute{membus.New(stamp)}
	must(t, w.play(t.Context(), gpuhour.OpenOn(log, memstore.New()), w.direct(log), nowhere))
	want := alerts(t, copied(t, log), func() (bool, int) { return false, 1 })
	if len(want) < 3 {
		t.Fatalf("only %d alerts: %v", len(want), want)
	}
	for seed := range uint64(40) {
		dice := rand.New(rand.NewPCG(seed, 0))
		often := 1 + dice.IntN(20)
		got := alerts(t, copied(t, log), func() (bool, int) { return dice.IntN(often) == 0, 1 + dice.IntN(12) })
		if d := gocmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d: other alerts (-want +got)\n%s", seed, d)
		}
	}
}
