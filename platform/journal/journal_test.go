package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// noon is when the logs of these tests begin.
const noon span.Second = 1772366400

// world is a log in memory whose server stamps with its own clock.
type world struct {
	t      testing.TB
	now    span.Second
	bus    *membus.Bus
	writer *journal.Writer
	batch  uint64
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: noon}
	w.bus = membus.New(func() time.Time { return time.Unix(int64(w.now), 0) })
	w.writer = journal.NewWriter(w.bus)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) declare(mode fact.ClockMode) {
	w.t.Helper()
	w.must(w.writer.Declare(w.t.Context(), mode))
}

// state states the stop of a lease.
func (w *world) state(lease string) {
	w.t.Helper()
	w.must(w.writer.State(w.t.Context(), []fact.Fact{stop(lease)}))
}

func (w *world) resume() {
	w.t.Helper()
	f := fact.Fact{Key: fmt.Sprintf("clock.resumed/%v/%d", w.now, w.batch), Body: &fact.TimeResumed{At: w.now, By: "operator"}}
	w.must(w.writer.State(w.t.Context(), []fact.Fact{f}))
}

func stop(lease string) fact.Fact {
	return fact.Fact{Key: lease + "/stopped", Body: &fact.LeaseStopped{Lease: lease, At: noon, By: fact.ByCustomer}}
}

// sample publishes a batch of a node and returns its position.
func (w *world) sample(node string) uint64 {
	w.t.Helper()
	w.batch++
	p, err := codec.EncodeBatch(&usage.Batch{Node: node, Boot: "b", Run: 1, Seq: w.batch, Minute: noon.Minute(), Spoken: 1})
	w.must(err)
	return w.publish(p)
}

func (w *world) publish(p bus.Publication) uint64 {
	w.t.Helper()
	seq, err := w.bus.Publish(w.t.Context(), p)
	w.must(err)
	return seq
}

// tick lets the clock's service tick; foreign publishes any tick, as a broken or another program might.
func (w *world) tick(at span.Second) bool {
	w.t.Helper()
	did, err := w.writer.Tick(w.t.Context(), at)
	w.must(err)
	return did
}

func (w *world) foreign(factsSeq uint64, at span.Second) uint64 {
	w.t.Helper()
	p, err := codec.EncodeTick(codec.Tick{FactsSeq: factsSeq, At: at})
	w.must(err)
	return w.publish(p)
}

// block is a block as these tests compare it.
type block struct {
	Seq, F      uint64
	At          span.Second
	Usage       []uint64
	Quarantined []string
	Facts       []string
	Digest      fact.Hash
}

func short(b meter.Block, digest fact.Hash) block {
	out := block{Seq: b.Seq, F: b.FactsSeq, At: b.At, Digest: digest}
	for _, m := range b.Usage {
		out.Usage = append(out.Usage, m.Seq)
	}
	for _, q := range b.Quarantined {
		out.Quarantined = append(out.Quarantined, fmt.Sprintf("%d %s %s", q.Seq, q.Reason, q.Node))
	}
	for i, f := range b.Facts {
		if want := b.FactsSeq - uint64(len(b.Facts)-1-i); f.Seq != want {
			out.Facts = append(out.Facts, fmt.Sprintf("at %d instead of %d:", f.Seq, want))
		}
		out.Facts = append(out.Facts, f.Key)
	}
	return out
}

// next expects a block.
func next(t testing.TB, r *journal.Reader) block {
	t.Helper()
	b, digest, ok, err := r.Next(t.Context())
	if err != nil || !ok {
		t.Fatalf("Next = %v, %v; want a block", ok, err)
	}
	return short(b, digest)
}

// none expects that there is no whole block yet.
func none(t testing.TB, r *journal.Reader) {
	t.Helper()
	if b, _, ok, err := r.Next(t.Context()); err != nil || ok {
		t.Fatalf("Next = %+v, %v, %v; want none yet", b, ok, err)
	}
}

// stops expects an error and gives it.
func stops(t testing.TB, r *journal.Reader) error {
	t.Helper()
	b, _, ok, err := r.Next(t.Context())
	if err == nil {
		t.Fatalf("Next = %+v, %v; want an error", b, ok)
	}
	return err
}
