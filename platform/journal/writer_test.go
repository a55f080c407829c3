package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
)

// end is where a stream ends.
func (w *world) end(stream string) uint64 {
	w.t.Helper()
	last, err := w.bus.LastSeq(w.t.Context(), stream)
	w.must(err)
	return last
}

func TestTickOnlyWhenSomethingMoved(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		before func()
		at     int64
		want   bool
		tick   codec.Tick
	}{
		{nil, 0, true, codec.Tick{FactsSeq: 0, At: noon}},
		{nil, 0, false, codec.Tick{FactsSeq: 0, At: noon}},
		{func() { w.sample("n1") }, 0, false, codec.Tick{FactsSeq: 0, At: noon}},
		{func() { w.state("L1") }, 0, true, codec.Tick{FactsSeq: 1, At: noon}},
		{nil, 1, true, codec.Tick{FactsSeq: 1, At: noon + 1}},
		{nil, -100, false, codec.Tick{FactsSeq: 1, At: noon + 1}}, // time never goes back
		{func() { w.state("L2") }, -100, true, codec.Tick{FactsSeq: 2, At: noon + 1}},
	} {
		if c.before != nil {
			c.before()
		}
		if got := w.tick(noon + span.Second(c.at)); got != c.want {
			t.Errorf("call %d: ticked %v, want %v", i, got, c.want)
		}
		for _, writer := range []*journal.Writer{w.writer, journal.NewWriter(w.bus)} {
			if got, err := writer.LastTick(t.Context()); err != nil || got != c.tick {
				t.Errorf("call %d: last tick %+v, %v; want %+v", i, got, err, c.tick)
			}
		}
	}
	if got := w.end(bus.Usage); got != 5 {
		t.Errorf("the usage stream ends at %d; want four ticks and one batch", got)
	}
}

// TestTwoClocks: one of two writers that tick at once gets the conflict and goes on at its next tick.
func TestTwoClocks(t *testing.T) {
	w := newWorld(t)
	second := journal.NewWriter(w.bus)
	w.tick(noon)
	if did, err := second.Tick(t.Context(), noon+1); err != nil || !did {
		t.Fatalf("the second writer's first tick: %v, %v", did, err)
	}
	if _, err := w.writer.Tick(t.Context(), noon+5); !errors.Is(err, bus.ErrConflict) || !strings.Contains(err.Error(), "publish tick at ") {
		t.Fatalf("a tick on an old position: %v", err)
	}
	if !w.tick(noon + 5) {
		t.Error("the writer did not recover")
	}
	if _, err := second.Tick(t.Context(), noon+4); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("the other one: %v", err)
	}
	if did, err := second.Tick(t.Context(), noon+4); err != nil || did {
		t.Errorf("a tick behind the other's: %v, %v; want none, as time does not go back", did, err)
	}
	w.declare(fact.Scripted)
	w.tick(noon + 5)
	r := journal.Open(w.bus, journal.Position{})
	for _, at := range []int64{0, 1, 5, 5} {
		if got := next(t, r); got.At != noon+span.Second(at) {
			t.Errorf("block %+v; want it at %v", got, noon+span.Second(at))
		}
	}
	none(t, r)
}

// TestSameTickTwice: two writers that say the same at once are both right.
func TestSameTickTwice(t *testing.T) {
	w := newWorld(t)
	second := journal.NewWriter(w.bus)
	if _, err := second.LastTick(t.Context()); err != nil { // stands on an empty log
		t.Fatal(err)
	}
	w.tick(noon)
	if did, err := second.Tick(t.Context(), noon); err != nil || !did {
		t.Errorf("the same tick: %v, %v", did, err)
	}
	if got := w.end(bus.Usage); got != 1 {
		t.Errorf("the stream ends at %d, want one tick", got)
	}
}

func TestDeclare(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Wall)
	w.declare(fact.Wall)
	w.must(journal.NewWriter(w.bus).Declare(t.Context(), fact.Wall))
	err := w.writer.Declare(t.Context(), fact.Scripted)
	if err == nil || !strings.Contains(err.Error(), "this log's clock is wall, not scripted; use another data directory") {
		t.Errorf("another mode: %v", err)
	}
	if err := newWorld(t).writer.Declare(t.Context(), "lunar"); err == nil || !strings.Contains(err.Error(), "write wall or scripted") {
		t.Errorf("a mode that is none: %v", err)
	}
	if got := w.end(bus.Facts); got != 1 {
		t.Errorf("%d facts, want one declaration", got)
	}

	w = newWorld(t)
	w.state("L1")
	if err := w.writer.Declare(t.Context(), fact.Wall); err == nil || !strings.Contains(err.Error(), "the log's first fact is lease.stopped.v1") {
		t.Errorf("a log that begins otherwise: %v", err)
	}
	if got := w.end(bus.Facts); got != 1 {
		t.Errorf("%d facts: a declaration that comes too late was published", got)
	}
}

func TestStateRepeated(t *testing.T) {
	w := newWorld(t)
	facts := []fact.Fact{stop("L1"), stop("L2")}
	for range 2 {
		w.must(w.writer.State(t.Context(), facts))
	}
	w.must(w.writer.State(t.Context(), nil))
	messages, err := w.bus.Read(t.Context(), bus.Facts, 0, 10)
	w.must(err)
	var got []fact.Fact
	for _, m := range messages {
		f, err := codec.DecodeFact(m)
		w.must(err)
		got = append(got, f)
	}
	if len(got) != 4 || got[0].Hash != got[2].Hash || got[0].Key != got[2].Key || got[1].Hash != got[3].Hash {
		t.Errorf("facts %+v; want each twice with the same key and hash, for readers to see the repeat", got)
	}
}

// TestStateLongLists: more facts than an atomic batch holds, and documents of more bytes than one holds.
func TestStateLongLists(t *testing.T) {
	many := make([]fact.Fact, 2*bus.MaxBatch+1)
	for i := range many {
		many[i] = stop("L" + strings.Repeat("x", i%100))
	}
	large := make([]fact.Fact, 2*bus.MaxBatchBytes/fact.MaxDocument)
	for i := range large {
		body := &fact.ContractSigned{Contract: "c", Customer: "acme", Document: strings.Repeat("d", fact.MaxDocument)}
		large[i] = fact.Fact{Key: "contract/" + strings.Repeat("x", i), Body: body}
	}
	for name, facts := range map[string][]fact.Fact{"many": many, "large": large} {
		w := newWorld(t)
		if err := w.writer.State(t.Context(), facts); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.end(bus.Facts); got != uint64(len(facts)) {
			t.Errorf("%s: %d facts in the log, want %d", name, got, len(facts))
		}
	}
}

func TestStateInvalid(t *testing.T) {
	w := newWorld(t)
	bad := fact.Fact{Key: "k", Body: &fact.LeaseStopped{Lease: "L1", At: noon, By: "nobody"}}
	if err := w.writer.State(t.Context(), []fact.Fact{stop("L1"), bad}); !errors.Is(err, codec.ErrBody) || !strings.Contains(err.Error(), `by is "nobody"`) {
		t.Errorf("error %v", err)
	}
	if got := w.end(bus.Facts); got != 0 {
		t.Errorf("%d facts of a bad list are in the log", got)
	}
}

func cut(name string) fact.Fact {
	return fact.Fact{Key: "cut.requested/" + name, Body: &fact.CutRequested{Cut: name, At: noon}}
}

func invoice(number uint64, closing string) fact.Fact {
	body := &fact.InvoiceIssued{Series: "GH", Number: number, Customer: "acme", Closing: closing, Document: []byte("{}")}
	return fact.Fact{Key: "invoice.issued/" + closing, Body: body}
}

func closed(contract string) fact.Fact {
	body := &fact.PeriodClosed{Contract: contract, PeriodStart: noon, PeriodEnd: noon + 1, N: 1, Cut: "1"}
	return fact.Fact{Key: "period.closed/" + contract, Body: body}
}

func TestClaim(t *testing.T) {
	w := newWorld(t)
	for range 2 { // repeating a claim finds it
		if seq, err := w.writer.Claim(t.Context(), 0, cut("1")); err != nil || seq != 1 {
			t.Fatalf("Claim = %d, %v", seq, err)
		}
	}
	other := cut("1")
	other.Key = "cut.requested/by another"
	if _, err := w.writer.Claim(t.Context(), 0, other); !errors.Is(err, bus.ErrConflict) || !strings.Contains(err.Error(), "publish cut.requested/by another: ") {
		t.Errorf("another claim of the same place: %v", err)
	}
	if _, err := w.writer.Claim(t.Context(), 0, fact.Fact{Key: "k", Body: &fact.CutRequested{}}); !errors.Is(err, codec.ErrBody) {
		t.Errorf("an invalid claim: %v", err)
	}
	if got := w.end(bus.Facts); got != 1 {
		t.Errorf("%d facts, want 1", got)
	}
}

// TestClaimBoth: a closing and its invoice number stand together or not at all.
func TestClaimBoth(t *testing.T) {
	w := newWorld(t)
	claim := func(contract string, number, last uint64) (uint64, error) {
		return w.writer.ClaimBoth(t.Context(), closed(contract), 0, invoice(number, contract), last)
	}
	var got []uint64
	for range 2 {
		seq, err := claim("c1", 1, 0)
		w.must(err)
		got = append(got, seq)
	}
	seq, err := claim("c2", 2, 2)
	w.must(err)
	if diff := cmp.Diff([]uint64{2, 2, 4}, append(got, seq)); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		contract     string
		number, last uint64
	}{
		"a number that is given":  {"c3", 2, 2},
		"a period that is closed": {"c1", 3, 4},
	} {
		if _, err := claim(c.contract, c.number, c.last); !errors.Is(err, bus.ErrConflict) || !strings.Contains(err.Error(), "with invoice.issued/"+c.contract) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.writer.ClaimBoth(t.Context(), closed("c4"), 0, invoice(0, "c4"), 4); !errors.Is(err, codec.ErrBody) {
		t.Errorf("an invalid pair: %v", err)
	}
	if got := w.end(bus.Facts); got != 4 {
		t.Errorf("%d facts, want 4", got)
	}
}

func TestWriterOnAClosedLog(t *testing.T) {
	w := newWorld(t)
	w.must(w.bus.Close())
	_, tick := w.writer.Tick(t.Context(), noon)
	_, last := w.writer.LastTick(t.Context())
	_, claim := w.writer.Claim(t.Context(), 0, cut("1"))
	for name, err := range map[string]error{
		"Tick": tick, "LastTick": last, "Claim": claim, "Declare": w.writer.Declare(t.Context(), fact.Wall),
		"State": w.writer.State(t.Context(), []fact.Fact{stop("L1")}),
	} {
		if !errors.Is(err, bus.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
