package gpuhour_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/store/clickhouse"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// flood publishes one node's samples in large batches, the same ones again and again.
type flood struct {
	node    sampled
	batches [][]bus.Publication
}

func newFlood(t *testing.T, name string, window span.Span) flood {
	t.Helper()
	f := flood{node: sampled{name, recording(name, window), 0}}
	var all []bus.Publication
	for _, m := range f.node.record() {
		p, err := codec.EncodeBatch(&m.Batch)
		must(t, err)
		all = append(all, p)
	}
	f.batches = slices.Collect(slices.Chunk(all, 300))
	return f
}

// run publishes until it is told to stop and every batch was acknowledged. What was refused, or not answered, it publishes
// again.
func (f flood) run(ctx context.Context, b bus.Bus, stop <-chan struct{}, acknowledged, again *atomic.Int64) error {
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for round := 0; ; round++ {
		for _, batch := range f.batches {
			select {
			case <-stop:
				if round > 0 {
					return nil
				}
			default:
			}
			for {
				_, err := b.PublishBatch(ctx, batch)
				if err == nil {
					break
				}
				again.Add(1)
				select {
				case <-retry.C:
				case <-ctx.Done():
					return fmt.Errorf("%s: %w, at last %w", f.node.name, ctx.Err(), err)
				}
			}
			acknowledged.Add(1)
		}
	}
}

// TestBrokerKilledInTheMiddleOfBatches kills the NATS server again and again, as it is deployed, while two nodes publish large
// atomic batches and the road runs over TCP. No batch is ever there in part, batches that were published again count once,
// and the bills are exact.
func TestBrokerKilledInTheMiddleOfBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse and NATS several times; left out of -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	seed := testSeed(t)
	dice := rand.New(rand.NewPCG(seed, 0))
	embeddedConfig(t, t.TempDir()) // is there an engine at all?
	tables, _, err := clickhouse.OpenEmbedded(ctx, t.TempDir(), embedded.Options{}, nil, clickhouse.Options{})
	must(t, err)
	defer tables.Close()
	s := &site{ctx: ctx, dir: t.TempDir(), nats: freePort(t)}
	broker := s.engine(t, "nats", s.nats)
	road := s.dial(t)
	e := gpuhour.OpenOn(road, tables)

	day := instant("2026-01-31T00:00:00Z") // before the world begins
	floods := []flood{
		newFlood(t, "n-x", span.Span{From: day, To: day + 4*span.SecondsPerHour}),
		newFlood(t, "n-y", span.Span{From: day, To: day + 4*span.SecondsPerHour}),
	}
	w := rich()
	want := flooded(floods)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	var acknowledged, again atomic.Int64
	stop := make(chan struct{})
	for _, f := range floods {
		b := s.dial(t)
		working.Go(func() {
			if err := f.run(ctx, b, stop, &acknowledged, &again); err != nil {
				t.Error(err)
			}
		})
	}
	working.Go(func() { playThrough(t, ctx, w, e) })

	var longest time.Duration
	const kills = 6
	for range kills {
		before := acknowledged.Load()
		eventually(t, ctx, "batches are acknowledged", func() bool { return acknowledged.Load() >= before+3 })
		select {
		case <-time.After(time.Duration(dice.IntN(40_000)) * time.Microsecond):
		case <-ctx.Done():
		}
		broker.kill(t)
		began := time.Now()
		broker = s.engine(t, "nats", s.nats)
		before = acknowledged.Load()
		eventually(t, ctx, "a batch is acknowledged again", func() bool { return acknowledged.Load() > before })
		longest = max(longest, time.Since(began))
	}
	close(stop)
	working.Wait()
	copies := wholeBatches(t, ctx, road, floods)
	must(t, e.Advance(ctx, want.until)) // what came after the world's last tick
	compareKilled(t, e, want, want.replayed(t))
	t.Logf("%d kills, %d batches acknowledged, %d published again, %d in the log; the longest until one was acknowledged again: %v",
		kills, acknowledged.Load(), again.Load(), copies, longest.Round(time.Millisecond))
	if again.Load() < kills {
		t.Errorf("%d kills met only %d publications", kills, again.Load())
	}
}

// flooded is the world with the floods' samples, a little longer.
func flooded(floods []flood) *world {
	w := rich()
	w.until += 10
	for _, f := range floods {
		w.nodes = append(w.nodes, f.node)
		for _, m := range f.node.record() {
			w.batches = append(w.batches, replay.Measurement{Known: w.stops[0], Batch: m.Batch})
		}
	}
	slices.SortStableFunc(w.batches, func(a, b replay.Measurement) int { return cmp.Compare(a.Known, b.Known) })
	return w
}

// playThrough plays on after every error, until the world or the time is over.
func playThrough(t *testing.T, ctx context.Context, w *world, e *gpuhour.Engine) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := w.play(ctx, e, w.direct(e.Bus()), nowhere)
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Errorf("the road ended at %v", err)
			return
		}
	}
}

// wholeBatches counts the floods' batches in the log, where each has to be whole and in one piece.
func wholeBatches(t *testing.T, ctx context.Context, b bus.Bus, floods []flood) (copies int) {
	t.Helper()
	type place struct{ flood, batch, message int }
	places := map[string]place{}
	for i, f := range floods {
		for j, batch := range f.batches {
			for k, p := range batch {
				places[string(p.Data)] = place{i, j, k}
			}
		}
	}
	var last place // of the message before, when it is a flood's
	left := 0      // of its batch
	for after := uint64(0); ; {
		messages, err := b.Read(ctx, bus.Usage, after, 1000)
		must(t, err)
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			at, ours := places[string(m.Data)]
			if left > 0 && (!ours || at != place{last.flood, last.batch, last.message + 1}) || left == 0 && ours && at.message > 0 {
				t.Fatalf("message %d is %v of a batch, after %v with %d to come", m.Seq, at, last, left)
			}
			if !ours {
				continue
			}
			last, left = at, len(floods[at.flood].batches[at.batch])-at.message-1
			if left == 0 {
				copies++
			}
		}
		after = messages[len(messages)-1].Seq
	}
	if left > 0 {
		t.Fatalf("the log ends inside a batch, after %v with %d to come", last, left)
	}
	return copies
}
