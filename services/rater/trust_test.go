package rater_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/rater"
)

// signed is what a node says in one minute, counted from noon; without a key it is not signed.
func signed(run, seq uint64, minute span.Minute, key ed25519.PrivateKey) usage.Batch {
	b := usage.Batch{Node: "n", Run: run, Seq: seq, Minute: span.Second(noon).Minute() + minute, Spoken: span.FullMinute}
	block := usage.Block{Device: "GPU-0", Seen: span.FullMinute}
	b.Blocks = [][]byte{block.Append(nil)}
	if key != nil {
		if err := trust.Sign(key, &b); err != nil {
			panic(err)
		}
	}
	return b
}

// rotation is a log in which a node is enrolled, its key changed while the log was away, and the old one used by a thief.
type rotation struct {
	t        *testing.T
	bus      bus.Bus
	w        *journal.Writer
	old, new ed25519.PrivateKey
}

func (r *rotation) say(batches ...usage.Batch) {
	r.t.Helper()
	for i := range batches {
		p, err := codec.EncodeBatch(&batches[i])
		if err == nil {
			_, err = r.bus.Publish(r.t.Context(), p)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rotation) state(facts ...fact.Fact) {
	r.t.Helper()
	if err := r.w.State(r.t.Context(), facts); err != nil {
		r.t.Fatal(err)
	}
}

// minute is what happens in one minute; the tick that ends it is the caller's.
func (r *rotation) minute(m span.Minute) {
	seq := uint64(m + 1)
	public := func(k ed25519.PrivateKey) fact.PublicKey { return fact.PublicKey(k.Public().(ed25519.PublicKey)) }
	switch {
	case m < 5:
		r.say(signed(1, seq, m, nil)) // not enrolled yet
	case m == 5: // its batch comes before the enrolment, in one block with it
		r.say(signed(1, seq, m, r.old))
		r.state(fact.Fact{Key: "enrol/old", Body: &fact.NodeEnrolled{Node: "n", PublicKey: public(r.old), By: "ops"}})
	case m == 7:
		r.say(signed(1, seq, m, nil)) // refused: unsigned
	case m == 10:
		r.state(fact.Fact{Key: "enrol/new", Body: &fact.NodeEnrolled{Node: "n", PublicKey: public(r.new), By: "ops"}})
		r.say(signed(1, seq, m, r.old))
	case m < 13:
		r.say(signed(1, seq, m, r.old))
	case m < 16: // the log is away
	case m == 16: // what waited is signed with the new key
		for waited := span.Minute(13); waited <= m; waited++ {
			r.say(signed(1, uint64(waited+1), waited, r.new))
		}
		r.state(fact.Fact{Key: "revoke/old", Body: &fact.NodeRevoked{Node: "n", PublicKey: public(r.old), By: "ops"}})
		r.say(signed(1_000, 1, 2, r.old)) // refused: the thief claims an old minute, with a run of his own
	case m == 18:
		forged := signed(1, seq, m, r.new)
		forged.Seq, forged.Spoken = 1_000, 1 // refused: altered
		block := usage.Block{Device: "GPU-0", Seen: 1}
		forged.Blocks = [][]byte{block.Append(nil)}
		r.say(signed(1, seq, m, r.new), forged)
	default:
		r.say(signed(1, seq, m, r.new))
	}
	if m%6 == 0 {
		name := "cut-" + (span.Second(noon).Minute() + m).Start().String()
		r.state(fact.Fact{Key: "cut.requested/" + name, Body: &fact.CutRequested{Cut: name, At: noon + span.Second(m+1)*60}})
	}
}

// TestRotationOfANodesKey: verdicts are the same for a rater that runs on, for one that starts anew after every block, and for an audit.
func TestRotationOfANodesKey(t *testing.T) {
	const minutes = 30
	r := &rotation{
		t: t, bus: membus.New(func() time.Time { return time.Unix(noon, 0) }),
		old: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), new: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32)),
	}
	r.w = journal.NewWriter(r.bus)
	if err := r.w.Declare(t.Context(), fact.Scripted); err != nil {
		t.Fatal(err)
	}
	one, other := memstore.New(), memstore.New()
	running := rater.New(r.bus, one)
	for m := range span.Minute(minutes) {
		r.minute(m)
		_, tick := r.w.Tick(t.Context(), noon+span.Second(m+1)*60)
		_, step := running.Step(t.Context())
		_, anew := rater.New(r.bus, other).Step(t.Context())
		if err := errors.Join(tick, step, anew); err != nil {
			t.Fatalf("minute %d: %v", m, err)
		}
	}
	if a, b := progress(t, one), progress(t, other); a != b {
		t.Errorf("the running rater stands at %+v, the restarted one at %+v", a, b)
	}
	for name, tables := range map[string]store.Store{"running": one, "restarted": other} {
		first := span.Second(noon).Minute()
		rows, err := tables.Minutes(t.Context(), []meter.MinuteRange{{Device: "GPU-0", From: first, To: first + minutes}}, ^uint64(0))
		if err != nil {
			t.Fatal(err)
		}
		var seen, want []span.Minute
		for _, row := range rows {
			seen = append(seen, row.Minute-first)
		}
		for m := range span.Minute(minutes - 1) { // the last one is still open
			if m != 7 {
				want = append(want, m)
			}
		}
		if d := cmp.Diff(want, seen); d != "" {
			t.Errorf("%s: minutes measured: %s", name, d)
		}
		refused(t, name, tables,
			"run 1 sequence 8 is not signed, and the node is enrolled",
			"run 1000 sequence 1 is signed with key "+fact.PublicKey(r.old.Public().(ed25519.PublicKey)).Fingerprint()+", which fact ",
			"run 1 sequence 1000 is signed, but with no key that is enrolled of the node, or it was altered afterwards")
	}
	audited(t, r.bus, minutes/6)
}

func progress(t *testing.T, s store.Store) store.Progress {
	t.Helper()
	p, err := s.Progress(t.Context(), rater.Service)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refused compares the batches that are quarantined.
func refused(t *testing.T, name string, s store.Store, want ...string) {
	t.Helper()
	all, err := s.OpenRefusals(t.Context(), ^uint64(0))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range all {
		if x.Reason == string(usage.BadSignature) {
			got = append(got, x.Detail)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d batches are refused, want %d: %s", name, len(got), len(want), strings.Join(got, "\n"))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
			t.Errorf("%s: none of %q says %q", name, got, w)
		}
	}
}

// audited replays the log and compares its cuts.
func audited(t *testing.T, b bus.Bus, cuts int) {
	t.Helper()
	auditor := replay.NewAuditor(replay.Options{Series: "GH"})
	reader := journal.Open(b, journal.Position{})
	for {
		block, _, ok, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if err := auditor.Take(block); err != nil {
			t.Fatal(err)
		}
	}
	if a := auditor.Finish(); len(a.Differences) > 0 || a.Cuts < cuts-1 {
		t.Errorf("the audit compared %d cuts and found %q", a.Cuts, a.Differences)
	}
}
