package ingest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/ingest"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

func equal(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
}

// gate is a log whose publications wait until they are let through, one for each token.
type gate struct {
	*membus.Bus
	begun chan int // the size of each publication that waits
	pass  chan struct{}
	err   error // of every publication, instead of storing it
}

func newGate() *gate {
	return &gate{Bus: memory(), begun: make(chan int, 100), pass: make(chan struct{}, 100)}
}

func (g *gate) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	g.begun <- len(ps)
	select {
	case <-g.pass:
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", bus.ErrAmbiguous, ctx.Err())
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.Bus.PublishBatch(ctx, ps)
}

// open lets everything through until closed.
func (g *gate) open() (closed func()) {
	end := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case <-g.begun:
				g.pass <- struct{}{}
			case <-end:
				return
			}
		}
	})
	return func() { close(end); passing.Wait() }
}

func TestNodesShareACommit(t *testing.T) {
	g, h := newGate(), &hall{}
	s := serve(t, g, h, ingest.Options{Lanes: 1})
	first, err := h.send(asked(t, 0, batch("first", 1, 0)))
	check(t, err)
	if n := <-g.begun; n != 1 {
		t.Fatalf("the first commit has %d batches", n)
	}
	var answers []<-chan []byte // they come while the first is synced
	for i := range 20 {
		name := fmt.Sprint("n", i)
		a, err := h.send(asked(t, 0, batch(name, 1, 0), batch(name, 2, 0)))
		check(t, err)
		answers = append(answers, a)
	}
	if s.count(t, "waiting_bytes") < 41*30 {
		t.Errorf("%v bytes wait", s.count(t, "waiting_bytes"))
	}
	g.pass <- struct{}{}
	g.pass <- struct{}{}
	equal(t, wire.Answer{Outcome: wire.Stored, Position: 1, Batch: []byte{}}, answerOf(t, first))
	for i, a := range answers {
		equal(t, wire.Answer{Outcome: wire.Stored, Position: uint64(3 + 2*i), Batch: []byte{}}, answerOf(t, a))
	}
	if n := <-g.begun; n != 40 {
		t.Errorf("the second commit has %d batches, want all 40", n)
	}
	for name, want := range map[string]float64{
		`requests_total{result="stored"}`: 21, "batches_total": 41, `commits_total{result="stored"}`: 2, "waiting_bytes": 0,
		"commit_batches_sum": 41, "answer_seconds_count": 21, "lost_answers_total": 0,
	} {
		if got := s.count(t, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestCommitsAreBounded: what does not fit begins the next commit, nothing is left over.
func TestCommitsAreBounded(t *testing.T) {
	g, h := newGate(), &hall{}
	serve(t, g, h, ingest.Options{Lanes: 1})
	var answers []<-chan []byte
	for i := range 6 { // 1 of 400, then 2 of 400 each
		name, batches := fmt.Sprint("n", i), []usage.Batch{}
		for seq := range uint64(400) {
			batches = append(batches, batch(name, seq+1, 0))
		}
		a, err := h.send(asked(t, 0, batches...))
		check(t, err)
		answers = append(answers, a)
		if i == 0 {
			equal(t, 400, <-g.begun)
		}
	}
	for range answers {
		g.pass <- struct{}{}
	}
	for _, a := range answers {
		if got := answerOf(t, a); got.Outcome != wire.Stored || got.Position%400 != 0 {
			t.Errorf("answer %+v", got)
		}
	}
	equal(t, []int{800, 800, 400}, []int{<-g.begun, <-g.begun, <-g.begun})
}

// TestBytesOfACommitAreBounded: what waits in front of a stream is bounded by the server, for all lanes of all ingests together.
func TestBytesOfACommitAreBounded(t *testing.T) {
	g, h := newGate(), &hall{}
	serve(t, g, h, ingest.Options{Lanes: 1})
	var answers []<-chan []byte
	each := 0
	send := func(b usage.Batch) {
		subject, question := asked(t, 0, b)
		a, err := h.send(subject, question)
		check(t, err)
		answers, each = append(answers, a), len(question)-5 // what goes before the batch
	}
	send(batch("first", 1, 0))
	equal(t, 1, <-g.begun)
	for i := range 50 {
		b := batch(fmt.Sprint("n", i), 1, 0)
		b.Blocks = nil
		for d := range 700 {
			block := usage.Block{Device: fmt.Sprintf("%0250d", d), Seen: 1}
			b.Blocks = append(b.Blocks, block.Append(nil))
		}
		send(b)
	}
	for range answers {
		g.pass <- struct{}{}
	}
	for _, a := range answers {
		if got := answerOf(t, a); got.Outcome != wire.Stored {
			t.Errorf("answer %+v", got)
		}
	}
	if n := <-g.begun; n*each > 8<<20 || (n+1)*each <= 8<<20 {
		t.Errorf("%d batches of %d bytes are one commit", n, each)
	}
}

func TestMalformed(t *testing.T) {
	good := batch("node7", 1, 0)
	p, err := codec.EncodeBatch(&good)
	check(t, err)
	publish := func(batches ...[]byte) []byte {
		r := wire.Request{Kind: wire.Publish, Batches: batches}
		return r.Append(nil)
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(p.Data, 99, protowire.VarintType), 1)
	many := make([][]byte, wire.MaxBatches+1)
	home := wire.Subject(p.Subject)
	tests := []struct {
		name, subject string
		question      []byte
		want          string
	}{
		{"nothing", home, nil, "ends early"},
		{"unknown kind", home, []byte{9}, "kind 9 is unknown here: an ingest is upgraded before its nodes"},
		{"no batches", home, publish(), "no batch"},
		{"too many batches", home, publish(many...), "more than 1000 batches"},
		{"torn", home, publish(p.Data)[:20], "ends early"},
		{"garbage behind it", home, append(publish(p.Data), 0xff), "ends early"},
		{"garbage as a batch", home, publish([]byte{0xff}), "batch 1 of 1: batch of node \"node7\" is quarantined as undecodable: the bytes are no protobuf"},
		{"the second is garbage", home, publish(p.Data, []byte{0xff}), "batch 2 of 2"},
		{"empty batch", home, publish([]byte{}), "node name of 0 bytes"},
		{"unknown field", home, publish(unknown), "field 99 with wire type 0 is unknown"},
		{"another node", wire.Subject(codec.UsageSubject("node8")), publish(p.Data), "it came on gh.usage.47.node8 and belongs on gh.usage.14.node7"},
		{"another partition", "gh.ingest.15.node7", publish(p.Data), "belongs on gh.usage.14.node7"},
		{"batch too large", home, publish(make([]byte, bus.MaxMessageBytes+1)), "too large for the log"},
		{"request too large", home, publish(make([]byte, wire.MaxBytes)), "at most 1047584"},
		{"bytes behind a question", home, []byte{byte(wire.Last), 0}, "1 bytes follow"},
	}
	log, h := memory(), &hall{}
	s := serve(t, log, h, ingest.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answered, err := h.send(tt.subject, tt.question)
			check(t, err)
			if a := answerOf(t, answered); a.Outcome != wire.Refused || !strings.Contains(a.Detail, tt.want) {
				t.Errorf("answer %v %q; want it refused with %q", a.Outcome, a.Detail, tt.want)
			}
		})
	}
	if n := s.count(t, `requests_total{result="refused"}`); n != float64(len(tests)) {
		t.Errorf("%v are counted as refused, want %d", n, len(tests))
	}
	if a := h.say(t, 0, good); a.Outcome != wire.Stored || a.Position != 1 {
		t.Errorf("after them a good request gets %+v; want it stored as the first message", a)
	}
}

// TestRepeat: a request whose answer was lost is answered as the first time, and stored once.
func TestRepeat(t *testing.T) {
	for _, n := range []uint64{1, 3} {
		log, h := memory(), &hall{}
		s := serve(t, log, h, ingest.Options{})
		var batches []usage.Batch
		for seq := range n {
			batches = append(batches, batch("n", seq+1, 0))
		}
		for range 3 {
			equal(t, wire.Answer{Outcome: wire.Stored, Position: n, Batch: []byte{}}, h.say(t, 0, batches...))
		}
		if held := held(t, log)["n"]; uint64(len(held)) != n {
			t.Errorf("%d batches are in the log, want %d", len(held), n)
		}
		if c := s.count(t, `commits_total{result="conflict"}`); c != 0 {
			t.Errorf("%v commits failed for what was known before", c)
		}
		// Another ingest does not know, tries, and finds the same.
		other := serve(t, log, h, ingest.Options{})
		check(t, s.stop())
		equal(t, wire.Answer{Outcome: wire.Stored, Position: n, Batch: []byte{}}, h.say(t, 0, batches...))
		if c := other.count(t, `commits_total{result="conflict"}`); c != 1 {
			t.Errorf("%v commits of the other one failed, want 1", c)
		}
		if held := held(t, log)["n"]; uint64(len(held)) != n {
			t.Errorf("%d batches are in the log, want %d", len(held), n)
		}
	}
}

// TestConflictIsOneNodes: whoever is overtaken by another writer is told so; who shares its commit is stored.
func TestConflictIsOneNodes(t *testing.T) {
	g, h := newGate(), &hall{}
	s := serve(t, g, h, ingest.Options{Lanes: 1})
	foreign := batch("n3", 1, 77)
	p, err := codec.EncodeBatch(&foreign)
	check(t, err)
	_, err = g.Publish(t.Context(), p)
	check(t, err)
	for range 100 {
		g.pass <- struct{}{}
	}
	round := func(seq uint64, expect []uint64) (positions []uint64) {
		var answers []<-chan []byte
		for i := range 10 {
			a, err := h.send(asked(t, expect[i], batch(fmt.Sprint("n", i), seq, 0)))
			check(t, err)
			answers = append(answers, a)
		}
		for i, a := range answers {
			got := answerOf(t, a)
			if want := wire.Stored; i == 3 {
				equal(t, wire.Answer{Outcome: wire.Conflict, Position: 1, Batch: []byte{}}, got)
			} else if got.Outcome != want {
				t.Fatalf("n%d: %+v", i, got)
			}
			positions = append(positions, got.Position)
		}
		return positions
	}
	after := round(1, make([]uint64, 10))
	after[3] = 1 << 60 // it lies; no commit is tried with it any more
	round(2, after)
	if n := s.count(t, `commits_total{result="conflict"}`); n != 1 {
		t.Errorf("%v commits failed, want 1: the second time the node is read first", n)
	}
	a := h.say(t, 1, batch("n3", 2, 0)) // now it says what follows
	if a.Outcome != wire.Stored {
		t.Errorf("a node that has settled gets %+v", a)
	}
}

func TestWhatStands(t *testing.T) {
	log, h := memory(), &hall{}
	serve(t, log, h, ingest.Options{})
	ask := func() wire.Answer {
		answered, err := h.send(wire.Subject(codec.UsageSubject("n")), []byte{byte(wire.Last)})
		check(t, err)
		return answerOf(t, answered)
	}
	equal(t, wire.Answer{Outcome: wire.Held, Batch: []byte{}}, ask())
	b := batch("n", 1, 5)
	h.say(t, 0, b)
	p, err := codec.EncodeBatch(&b)
	check(t, err)
	equal(t, wire.Answer{Outcome: wire.Held, Position: 1, Batch: p.Data}, ask())
	check(t, log.Close())
	if a := ask(); a.Outcome != wire.Failed || !strings.Contains(a.Detail, "read the last message of gh.usage.") {
		t.Errorf("of a closed log it answers %+v", a)
	}
}

// TestBackPressure: what does not fit into the queue is answered as busy and stored when it comes again.
func TestBackPressure(t *testing.T) {
	g, h := newGate(), &hall{}
	_, one := asked(t, 0, batch("n00", 1, 0))
	const room = 5
	s := serve(t, g, h, ingest.Options{Lanes: 1, QueueBytes: room * int64(len(one))})
	var waiting []int
	for i := range 20 {
		waiting = append(waiting, i)
	}
	round := func() (stored int) {
		var answers []<-chan []byte
		for _, i := range waiting {
			a, err := h.send(asked(t, 0, batch(fmt.Sprintf("n%02d", i), 1, 0)))
			check(t, err)
			answers = append(answers, a)
		}
		opened := g.open()
		defer opened()
		var again []int
		for k, a := range answers {
			switch got := answerOf(t, a); got.Outcome {
			case wire.Stored:
				stored++
			case wire.Busy:
				again = append(again, waiting[k])
			default:
				t.Fatalf("answer %+v", got)
			}
		}
		waiting = again
		return stored
	}
	for want := room; len(waiting) > 0; want += room {
		equal(t, room, round())
		equal(t, want, len(held(t, g)))
	}
	for node, batches := range held(t, g) {
		if len(batches) != 1 {
			t.Errorf("%s is in the log %d times", node, len(batches))
		}
	}
	if s.count(t, `requests_total{result="busy"}`) != 15+10+5 || s.count(t, "waiting_bytes") != 0 {
		t.Error("busy answers are not counted, or bytes are left over")
	}
}

// TestOneRequestANode: a second one while the first is under way would overtake it or wait for it; it is told to come again.
func TestOneRequestANode(t *testing.T) {
	g, h := newGate(), &hall{}
	serve(t, g, h, ingest.Options{})
	first, err := h.send(asked(t, 0, batch("n", 1, 0)))
	check(t, err)
	<-g.begun
	if a := h.say(t, 0, batch("n", 1, 0)); a.Outcome != wire.Busy {
		t.Errorf("the repeat gets %+v, want busy", a)
	}
	answered, err := h.send(wire.Subject(codec.UsageSubject("n")), []byte{byte(wire.Last)})
	check(t, err)
	if a := answerOf(t, answered); a.Outcome != wire.Busy {
		t.Errorf("what stands is answered with %+v while it is about to change, want busy", a)
	}
	g.pass <- struct{}{}
	if a := answerOf(t, first); a.Outcome != wire.Stored {
		t.Errorf("the first gets %+v", a)
	}
}

// TestTwoIngests: each request goes to either; the expectation makes them one.
func TestTwoIngests(t *testing.T) {
	log, h := memory(), &hall{}
	one, two := serve(t, log, h, ingest.Options{}), serve(t, log, h, ingest.Options{Lanes: 1})
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			last := uint64(0)
			for seq := range uint64(5) {
				a := h.say(t, last, batch(fmt.Sprint("n", i), seq+1, 0))
				if a.Outcome != wire.Stored {
					t.Errorf("n%d sequence %d: %+v", i, seq+1, a)
				}
				last = a.Position
			}
		})
	}
	group.Wait()
	for node, batches := range held(t, log) {
		for i, b := range batches {
			if b.Seq != uint64(i+1) || len(batches) != 5 {
				t.Fatalf("%s: sequence %d of %d stands at %d", node, b.Seq, len(batches), i+1)
			}
		}
	}
	if one.count(t, "batches_total") == 0 || two.count(t, "batches_total") == 0 {
		t.Error("only one of them worked")
	}
}

// TestARepeatIsWhole: that the last batch of a request stands does not say that those before it do.
func TestARepeatIsWhole(t *testing.T) {
	log, h := memory(), &hall{}
	serve(t, log, h, ingest.Options{})
	other := batch("n", 1, 7)
	for expect, b := range []usage.Batch{other, batch("n", 2, 0)} {
		if a := h.say(t, uint64(expect), b); a.Outcome != wire.Stored {
			t.Fatalf("answer %+v", a)
		}
	}
	whole := func() wire.Answer { return h.say(t, 0, batch("n", 1, 0), batch("n", 2, 0)) }
	equal(t, wire.Answer{Outcome: wire.Conflict, Position: 2, Batch: []byte{}}, whole())
	// The same where nothing is left to compare with.
	lost := &hall{}
	serve(t, archived{log}, lost, ingest.Options{})
	h = lost
	equal(t, wire.Answer{Outcome: wire.Conflict, Position: 2, Batch: []byte{}}, whole())
}

// archived is a log whose messages are gone but for the last.
type archived struct{ *membus.Bus }

func (archived) ReadSubject(_ context.Context, stream, _ string, after uint64, _ int) ([]bus.Message, error) {
	return nil, &bus.GapError{Stream: stream, After: after, Next: after + 2}
}
