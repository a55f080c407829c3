package journal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
)

var withoutDigest = cmpopts.IgnoreFields(block{}, "Digest")

func TestBlocksInOrder(t *testing.T) {
	w := newWorld(t)
	r := journal.Open(w.bus, journal.Position{})
	none(t, r)
	w.declare(fact.Scripted)
	w.sample("n1")
	w.state("L1")
	w.sample("n2")
	none(t, r) // usage and facts without a tick are no block yet
	none(t, r)
	w.tick(noon)
	w.state("L2") // after F: belongs to the next block
	if diff := cmp.Diff(block{Seq: 3, F: 2, At: noon, Usage: []uint64{1, 2}, Facts: []string{"clock.declared", "L1/stopped"}}, next(t, r), withoutDigest); diff != "" {
		t.Errorf("first block (-want +got):\n%s", diff)
	}
	w.sample("n1")
	none(t, r)
	w.tick(noon + 1)
	w.tick(noon + 2)
	if diff := cmp.Diff(block{Seq: 5, F: 3, At: noon + 1, Usage: []uint64{4}, Facts: []string{"L2/stopped"}}, next(t, r), withoutDigest); diff != "" {
		t.Errorf("second block (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(block{Seq: 6, F: 3, At: noon + 2}, next(t, r), withoutDigest); diff != "" {
		t.Errorf("empty block (-want +got):\n%s", diff)
	}
	none(t, r)
}

// TestQuarantinedMessagesStay: a message that cannot be read is told with its block, between its neighbours.
func TestQuarantinedMessagesStay(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	w.sample("n1")
	w.publish(bus.Publication{Subject: codec.UsageSubject("n1"), Data: []byte{0xff}})
	p, err := codec.EncodeBatch(&usage.Batch{Node: "n9", Run: 1, Seq: 1, Minute: noon.Minute(), Spoken: 1})
	w.must(err)
	p.Subject = "gh.usage.15.elsewhere"
	w.publish(p)
	w.sample("n2")
	w.tick(noon)
	token := codec.UsageSubject("n1")[strings.LastIndexByte(codec.UsageSubject("n1"), '.')+1:]
	want := block{
		Seq: 5, F: 1, At: noon, Usage: []uint64{1, 4}, Facts: []string{"clock.declared"},
		Quarantined: []string{"2 undecodable " + token, "3 wrong_partition n9"},
	}
	if diff := cmp.Diff(want, next(t, journal.Open(w.bus, journal.Position{})), withoutDigest); diff != "" {
		t.Errorf("block (-want +got):\n%s", diff)
	}
}

func TestTicksOnly(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	for at := noon; at < noon+3; at++ {
		w.sample("n1")
		w.tick(at)
	}
	w.state("L1")
	w.tick(noon + 3)
	r, all := journal.OpenTicks(w.bus, journal.Position{}), journal.Open(w.bus, journal.Position{})
	for range 4 {
		want := next(t, all)
		want.Usage = nil
		if diff := cmp.Diff(want, next(t, r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	none(t, r)
}

func TestReaderStops(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*world)
		want  string
	}{
		"time goes back":             {func(w *world) { w.foreign(2, noon-1) }, "goes back from {F 2, T 2026-03-01T12:00:00Z}"},
		"facts go back":              {func(w *world) { w.foreign(1, noon+1) }, "goes back"},
		"facts that are not there":   {func(w *world) { w.foreign(9, noon+1) }, "the tick names facts up to 9, the log ends at 2: the log was rewound"},
		"a tick that is none":        {func(w *world) { w.publish(bus.Publication{Subject: bus.Tick, Data: []byte{0xff}}) }, "decode tick 2"},
		"an unknown fact":            {func(w *world) { w.unknownFact(); w.tick(noon + 1) }, `type "lease.teleported.v1" is unknown to this version of gpuhour; upgrade this reader`},
		"a fact that is no protobuf": {func(w *world) { w.brokenFact(); w.tick(noon + 1) }, "decode fact 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declare(fact.Scripted)
			w.state("L1")
			w.tick(noon)
			c.spoil(w)
			r := journal.Open(w.bus, journal.Position{})
			next(t, r)
			if err := stops(t, r); !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "read block 2: ") {
				t.Errorf("error %v; want %s", err, c.want)
			}
		})
	}
}

func (w *world) unknownFact() {
	p, err := codec.EncodeFact(stop("L2"))
	w.must(err)
	p.Header["ce-type"] = "lease.teleported.v1"
	w.publish(p)
}

func (w *world) brokenFact() {
	p, err := codec.EncodeFact(stop("L2"))
	w.must(err)
	p.Data = []byte{0xff}
	w.publish(p)
}

// TestAnUnknownFactBeyondTheTickIsNotReadYet: a newer writer does not stop what came before it.
func TestAnUnknownFactBeyondTheTickIsNotReadYet(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	w.tick(noon)
	w.unknownFact()
	r := journal.Open(w.bus, journal.Position{})
	next(t, r)
	none(t, r)
}

// TestReopenedAnywhereGivesTheSameBlocks reads random logs, grown while they are read, throwing the reader away at random.
func TestReopenedAnywhereGivesTheSameBlocks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		mode := rapid.SampledFrom([]fact.ClockMode{fact.Wall, fact.Scripted}).Draw(rt, "mode")
		w.declare(mode)
		restless, steady := journal.Open(w.bus, journal.Position{}), journal.Open(w.bus, journal.Position{})
		ticks := journal.OpenTicks(w.bus, journal.Position{})
		var got, want, bare []block
		var pos journal.Position
		for _, act := range rapid.SliceOfN(rapid.SampledFrom([]string{"sample", "spoil", "state", "tick", "read", "reopen"}), 1, 60).Draw(rt, "acts") {
			switch act {
			case "sample":
				w.sample(rapid.SampledFrom([]string{"n1", "n2"}).Draw(rt, "node"))
			case "spoil":
				w.publish(bus.Publication{Subject: codec.UsageSubject("n3"), Data: []byte{0xff}})
			case "state":
				w.state("L" + rapid.StringMatching(`[0-9]{4}`).Draw(rt, "lease"))
			case "tick":
				w.now += span.Second(rapid.IntRange(0, 3000).Draw(rt, "passed"))
				w.tick(w.now)
			case "read":
				got = append(got, readAll(rt, restless, &pos, rapid.IntRange(0, 3).Draw(rt, "blocks"))...)
			case "reopen":
				restless = journal.Open(w.bus, pos)
			}
		}
		var unused journal.Position
		got = append(got, readAll(rt, restless, &pos, 1000)...)
		want = readAll(rt, steady, &unused, 1000)
		bare = readAll(rt, ticks, &unused, 1000)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("blocks of a reader that was reopened (-want +got):\n%s", diff)
		}
		for i := range want {
			want[i].Usage, want[i].Quarantined = nil, nil
		}
		if diff := cmp.Diff(want, bare); diff != "" {
			rt.Fatalf("blocks of a reader of ticks (-want +got):\n%s", diff)
		}
	})
}

// readAll reads up to n blocks and moves pos behind them.
func readAll(t *rapid.T, r *journal.Reader, pos *journal.Position, n int) (all []block) {
	for range n {
		b, digest, ok, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		*pos = journal.Position{Block: b.Seq, FactsSeq: b.FactsSeq, At: b.At}
		all = append(all, short(b, digest))
	}
	return all
}

func TestCheckTick(t *testing.T) {
	build := func(second string) *world {
		w := newWorld(t)
		w.declare(fact.Scripted)
		w.sample("n1")
		w.tick(noon)
		w.sample(second)
		w.tick(noon + 1)
		return w
	}
	w := build("n1")
	r := journal.Open(w.bus, journal.Position{})
	first, second := next(t, r), next(t, r)
	for _, b := range []block{first, second} {
		if err := journal.CheckTick(t.Context(), w.bus, b.Seq, b.Digest); err != nil {
			t.Errorf("the log that the position came from: %v", err)
		}
	}
	short := newWorld(t)
	short.declare(fact.Scripted)
	other := build("n1")
	other.tick(noon + 9)
	for name, c := range map[string]struct {
		w      *world
		block  uint64
		digest fact.Hash
	}{
		"another digest":   {w, second.Seq, first.Digest},
		"no tick there":    {w, 3, second.Digest},
		"an empty log":     {short, second.Seq, second.Digest},
		"position 0":       {w, 0, first.Digest},
		"past the end":     {w, 99, second.Digest},
		"another position": {other, 5, second.Digest},
	} {
		if err := journal.CheckTick(t.Context(), c.w.bus, c.block, c.digest); !errors.Is(err, journal.ErrRewound) || !strings.Contains(err.Error(), "does not hold the tick") {
			t.Errorf("%s: %v; want what happened and what to do", name, err)
		}
	}
	if err := w.bus.Close(); err != nil {
		t.Fatal(err)
	}
	if err := journal.CheckTick(t.Context(), w.bus, first.Seq, first.Digest); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("a log that cannot be read: %v", err)
	}
}

func TestHistory(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	w.sample("n1") // 1
	w.tick(noon)   // 2
	w.state("L1")
	w.sample("n1")                                                                    // 3
	w.publish(bus.Publication{Subject: codec.UsageSubject("n1"), Data: []byte{0xff}}) // 4
	w.sample("n2")                                                                    // 5
	w.tick(noon + 1)                                                                  // 6
	w.state("L2")
	w.sample("n2") // 7
	for _, c := range []struct {
		last, floor, block uint64
		facts              []string
		usage              []uint64
	}{
		{2, 0, 6, []string{"clock.declared", "L1/stopped"}, []uint64{1, 3, 5}},
		{1, 2, 6, []string{"clock.declared"}, []uint64{3, 5}},
		{3, 5, 6, []string{"clock.declared", "L1/stopped", "L2/stopped"}, nil},
		{0, 6, 6, nil, nil},
	} {
		facts, messages, err := journal.History(t.Context(), w.bus, c.last, c.floor, c.block)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, f := range facts {
			keys = append(keys, f.Key)
		}
		var seqs []uint64
		for _, m := range messages {
			seqs = append(seqs, m.Seq)
		}
		if diff := cmp.Diff(c.facts, keys) + cmp.Diff(c.usage, seqs); diff != "" {
			t.Errorf("History(%d, %d, %d) (-want +got):\n%s", c.last, c.floor, c.block, diff)
		}
	}
	for _, c := range [][3]uint64{{9, 0, 6}, {2, 0, 99}} {
		if _, _, err := journal.History(t.Context(), w.bus, c[0], c[1], c[2]); !errors.Is(err, journal.ErrRewound) {
			t.Errorf("History%v of a log that ends before: %v", c, err)
		}
	}
}

// TestHistoryLeavesOutWhatWasAhead: a batch that spoke of more than a minute after its tick was quarantined in that block. A
// restart at a later tick must not take it in.
func TestHistoryLeavesOutWhatWasAhead(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Scripted)
	w.sample("n1")                           // 1
	w.tick(noon - usage.MaxAheadSeconds - 1) // 2: ahead
	w.sample("n1")                           // 3
	w.tick(noon)                             // 4
	_, messages, err := journal.History(t.Context(), w.bus, 1, 0, 4)
	w.must(err)
	if len(messages) != 1 || messages[0].Seq != 3 {
		t.Fatalf("messages are %v; the first was ahead of its tick", messages)
	}
}

// TestDigest pins the digest: it stands in the tables of every release.
func TestDigest(t *testing.T) {
	m := bus.Message{Seq: 7, Subject: bus.Tick, Data: []byte{1}, Time: time.Unix(9, 0)}
	text, err := journal.Digest(m).MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	const want = "0456a2359132c91aec088db91dbf4c00890c731d89422822b45fbf5ba7ac7fe4" // SHA-256 of 7, 0, gh.tick, 0, 1
	if string(text) != want {
		t.Errorf("digest %s, want %s", text, want)
	}
}
