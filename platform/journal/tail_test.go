package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// changing is a log that is replaced while it is read.
type changing struct{ bus.Bus }

// TestRewoundWhileRead: a reader that stands at the end of a log notices that another log is there, whether that is empty,
// shorter, as long or longer; the same log, grown, it reads on.
func TestRewoundWhileRead(t *testing.T) {
	build := func(at span.Second, blocks int) *world {
		w := newWorld(t)
		w.declare(fact.Scripted)
		for i := range blocks {
			if i > 0 {
				w.sample("n1")
				w.state("L" + string(rune('0'+i)))
			}
			w.tick(at)
		}
		return w
	}
	for name, c := range map[string]struct {
		other *world
		same  bool
	}{
		"empty":                   {newWorld(t), false},
		"shorter":                 {build(noon, 2), false},
		"as long, other ticks":    {build(noon+1, 3), false},
		"longer, other ticks":     {build(noon+1, 5), false},
		"the same":                {build(noon, 3), true},
		"the same, and goes on":   {build(noon, 5), true},
		"longer, facts are other": {otherFacts(build(noon, 3)), false},
	} {
		for _, open := range []func(bus.Bus, journal.Position) *journal.Reader{journal.Open, journal.OpenTicks} {
			w := build(noon, 3)
			b := &changing{w.bus}
			r := open(b, journal.Position{})
			for range 3 {
				next(t, r)
			}
			none(t, r)
			b.Bus = c.other.bus
			for {
				_, _, ok, err := r.Next(t.Context())
				if ok {
					continue
				}
				if rewound := errors.Is(err, journal.ErrRewound); rewound == c.same || c.same && err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err != nil && !strings.Contains(err.Error(), "gpuhour recover --by NAME") {
					t.Errorf("%s: %v; want what to do", name, err)
				}
				break
			}
		}
	}
}

// otherFacts goes on with the same ticks and samples over a fact stream that was replaced alone.
func otherFacts(w *world) *world {
	other := newWorld(w.t)
	for _, s := range []string{"M1", "M2", "M3", "M4"} {
		other.state(s)
	}
	messages, err := w.bus.Read(w.t.Context(), bus.Usage, 0, 100)
	w.must(err)
	for _, m := range messages {
		other.publish(bus.Publication{Subject: m.Subject, Data: m.Data})
	}
	other.foreign(4, noon)
	return other
}

// TestRewoundWhileDown: a position that names its tick's digest is compared before anything is read on.
func TestRewoundWhileDown(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	w.tick(noon)
	b, digest, _, err := journal.Open(w.bus, journal.Position{}).Next(t.Context())
	w.must(err)
	at := journal.Position{Block: b.Seq, FactsSeq: b.FactsSeq, At: b.At, Tick: digest}
	w.sample("n1")
	w.tick(noon + 1)
	next(t, journal.Open(w.bus, at))
	wrong, past, unknown := at, at, at
	wrong.Tick[0]++
	past.Block, unknown.Tick = 9, fact.Hash{}
	for name, pos := range map[string]journal.Position{"another tick": wrong, "past the end": past} {
		if err := stops(t, journal.Open(w.bus, pos)); !errors.Is(err, journal.ErrRewound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	next(t, journal.Open(w.bus, unknown))
}

func TestIncarnation(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	last := uint64(0)
	for _, n := range []uint64{2, 3, 7} {
		before, seq, err := journal.Incarnation(t.Context(), w.bus)
		if err != nil || before >= n || seq != last {
			t.Fatalf("incarnation %d at %d, %v; want one before %d at %d", before, seq, err, n, last)
		}
		f := fact.Fact{Key: "log.recovered", Body: &fact.LogRecovered{Incarnation: n, By: "ops", Reason: "a disk was lost"}}
		if _, err := w.writer.Claim(t.Context(), last+99, f); !errors.Is(err, bus.ErrConflict) {
			t.Fatalf("a claim behind another: %v", err)
		}
		last, err = w.writer.Claim(t.Context(), last, f)
		w.must(err)
		if now, seq, err := journal.Incarnation(t.Context(), w.bus); now != n || seq != last || err != nil {
			t.Fatalf("incarnation %d at %d, %v; want %d at %d", now, seq, err, n, last)
		}
	}
	w.publish(bus.Publication{Subject: codec.FactSubject(&fact.LogRecovered{}), Data: []byte{0xff}})
	if _, _, err := journal.Incarnation(t.Context(), w.bus); !errors.Is(err, codec.ErrEnvelope) && !errors.Is(err, codec.ErrUnknown) {
		t.Errorf("a fact that cannot be read: %v", err)
	}
}
