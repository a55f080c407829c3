package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/ingest"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// TestLogRefuses: nobody is told that it is stored, everybody why it is not.
func TestLogRefuses(t *testing.T) {
	for _, tt := range []struct {
		err    error
		want   wire.Outcome
		detail string
	}{
		{bus.ErrFull, wire.Failed, "store is full"},
		{errors.New("not connected"), wire.Failed, "not connected"},
		{bus.ErrAmbiguous, wire.Unknown, "changed under every attempt"},
		{bus.ErrConflict, wire.Busy, "changed under every attempt"}, // no node is found that stands elsewhere
	} {
		g, h := newGate(), &hall{}
		serve(t, g, h, ingest.Options{})
		g.err = tt.err
		for range 10 {
			g.pass <- struct{}{}
		}
		a := h.say(t, 0, batch("n", 1, 0))
		if a.Outcome != tt.want || !strings.Contains(a.Detail, tt.detail) {
			t.Errorf("%v: answer %v %q; want %v, %q", tt.err, a.Outcome, a.Detail, tt.want, tt.detail)
		}
		for len(g.pass) > 0 {
			<-g.pass
		}
		g.err = nil // the log is well again, and the node is not shut out
		g.pass <- struct{}{}
		equal(t, wire.Answer{Outcome: wire.Stored, Position: 1, Batch: []byte{}}, h.say(t, 0, batch("n", 1, 0)))
	}
}

// moody is a log that answers publications with its errors, one after the other.
type moody struct {
	*membus.Bus
	errs chan error
}

func (m moody) PublishBatch(context.Context, []bus.Publication) (uint64, error) { return 0, <-m.errs }

// TestOnceUnknownStaysUnknown: what is refused now may have been stored by the attempt before, or is later.
func TestOnceUnknownStaysUnknown(t *testing.T) {
	for _, then := range []error{bus.ErrTooLarge, bus.ErrFull} {
		m, h := moody{memory(), make(chan error, 10)}, &hall{}
		serve(t, m, h, ingest.Options{Lanes: 1, Linger: time.Second})
		full := make([]usage.Batch, 500) // two of them are a commit
		for i := range full {
			full[i] = batch("b", uint64(i+1), 0)
		}
		for _, err := range []error{bus.ErrAmbiguous, then, then, then} {
			m.errs <- err
		}
		var answers []<-chan []byte
		for _, name := range []string{"a", "b"} {
			for i := range full {
				full[i].Node = name
			}
			a, err := h.send(asked(t, 0, full...))
			check(t, err)
			answers = append(answers, a)
		}
		for _, a := range answers {
			if got := answerOf(t, a); got.Outcome != wire.Unknown {
				t.Errorf("first nothing is heard, then %v: %+v, want unknown", then, got)
			}
		}
	}
}

// picky refuses every publication with one of its subjects.
type picky struct {
	*membus.Bus
	not string
}

func (p picky) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	for i := range ps {
		if ps[i].Subject == p.not {
			return 0, fmt.Errorf("the server takes less than this: %w", bus.ErrTooLarge)
		}
	}
	return p.Bus.PublishBatch(ctx, ps)
}

// TestTooLargeForTheServer: a site may allow less than a batch needs; only its node is told.
func TestTooLargeForTheServer(t *testing.T) {
	log, h := memory(), &hall{}
	serve(t, picky{log, codec.UsageSubject("n7")}, h, ingest.Options{Lanes: 1})
	var answers []<-chan []byte
	for i := range 20 {
		a, err := h.send(asked(t, 0, batch(fmt.Sprint("n", i), 1, 0)))
		check(t, err)
		answers = append(answers, a)
	}
	for i, a := range answers {
		want := wire.Stored
		if i == 7 {
			want = wire.Failed
		}
		if got := answerOf(t, a); got.Outcome != want {
			t.Errorf("n%d: %+v, want %v", i, got, want)
		}
	}
}

// TestStop: what was taken is answered, what comes later finds nobody.
func TestStop(t *testing.T) {
	g, h := newGate(), &hall{}
	s := serve(t, g, h, ingest.Options{Lanes: 1})
	var answers []<-chan []byte
	for i := range 30 {
		a, err := h.send(asked(t, 0, batch(fmt.Sprint("n", i), 1, 0)))
		check(t, err)
		answers = append(answers, a)
	}
	<-g.begun
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	for range 40 {
		g.pass <- struct{}{}
	}
	check(t, <-stopped)
	for i, a := range answers {
		if got := answerOf(t, a); got.Outcome != wire.Stored {
			t.Errorf("n%d: %+v", i, got)
		}
	}
	if _, err := h.send(asked(t, 0, batch("late", 1, 0))); !errors.Is(err, errNobody) {
		t.Errorf("a late request: %v", err)
	}
}

// hatch is a door that lets one request in while it closes, and hears no answers.
type hatch struct {
	late func(take func(string, []byte, func([]byte) error))
}

func (h hatch) Serve(_, _ string, take func(string, []byte, func([]byte) error)) (func(context.Context) error, error) {
	return func(context.Context) error { h.late(take); return nil }, nil
}

// TestWhatArrivesWhileItEnds is taken: the server has handed it out, and no other ingest will get it. That its answer is not heard is counted.
func TestWhatArrivesWhileItEnds(t *testing.T) {
	log := memory()
	subject, question := asked(t, 0, batch("late", 1, 0))
	s := serve(t, log, hatch{func(take func(string, []byte, func([]byte) error)) {
		take(subject, question, func([]byte) error { return errors.New("the connection broke") })
	}}, ingest.Options{})
	check(t, s.stop())
	if n := len(held(t, log)["late"]); n != 1 {
		t.Errorf("it is stored %d times, want once", n)
	}
	if n := s.count(t, "lost_answers_total"); n != 1 {
		t.Errorf("%v lost answers are counted, want 1", n)
	}
}

// TestStopDoesNotWaitForEver: a log that does not answer leaves the outcome unknown, and that is what nodes are told.
func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := newGate(), &hall{}
		s := serve(t, g, h, ingest.Options{})
		answered, err := h.send(asked(t, 0, batch("n", 1, 0)))
		check(t, err)
		<-g.begun
		check(t, s.stop())
		if a := answerOf(t, answered); a.Outcome != wire.Unknown {
			t.Errorf("answer %+v, want unknown", a)
		}
	})
}

// TestALiarHoldsUpItselfAlone: who answers every truth with a lie about what it expects makes one commit of others fail, not every other one.
func TestALiarHoldsUpItselfAlone(t *testing.T) {
	g, h := newGate(), &hall{}
	s := serve(t, g, h, ingest.Options{Lanes: 1})
	defer g.open()()
	last := map[string]uint64{}
	for round := range uint64(20) {
		var answers []<-chan []byte
		names := []string{"n0", "n1", "liar", "n2"}
		for _, name := range names {
			expect, seq := last[name], round+1
			if name == "liar" {
				if seq = round/2 + 1; round%2 == 1 {
					expect += 1 << 40
				}
			}
			a, err := h.send(asked(t, expect, batch(name, seq, byte(round))))
			check(t, err)
			answers = append(answers, a)
		}
		for i, a := range answers {
			got, want := answerOf(t, a), wire.Stored
			if names[i] == "liar" && round%2 == 1 {
				want = wire.Conflict
			}
			if got.Outcome != want {
				t.Fatalf("round %d: %s gets %+v, want %v", round, names[i], got, want)
			}
			last[names[i]] = got.Position
		}
	}
	if n := s.count(t, `commits_total{result="conflict"}`); n != 1 {
		t.Errorf("%v commits failed, want 1", n)
	}
	if n := len(held(t, g)["n1"]); n != 20 {
		t.Errorf("of another node %d batches are stored, want 20", n)
	}
}

// TestAFleetsTroubleIsOneLine: what befalls thousands of nodes at once is told with their number, and names one of them.
func TestAFleetsTroubleIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		g, h := newGate(), &hall{}
		g.err = bus.ErrFull
		s := serve(t, g, h, ingest.Options{Lanes: 1, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		closed := g.open()
		say := func(times int) {
			for i := range times {
				h.say(t, 0, batch(fmt.Sprint("n", i), 1, 0))
				answered, err := h.send(wire.Subject(codec.UsageSubject("bad")), []byte{9})
				check(t, err)
				answerOf(t, answered)
			}
		}
		say(40)
		<-time.After(time.Minute) // by the clock of the bubble
		say(1)
		closed()
		check(t, s.stop())
		var lines []string
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(line, " ") // without its time
			lines = append(lines, line)
		}
		const full = ` outcome=failed error="the log's store is full: nothing was stored; add room or raise its limit"` + "\n"
		const odd = ` one_on=gh.usage.56.bad reason="a request of kind 9 is unknown here: an ingest is upgraded before its nodes"` + "\n"
		equal(t, []string{
			`level=ERROR msg="nodes are told to send again" nodes=1` + full,
			`level=WARN msg="a node sends what the log's readers would not take" nodes=1` + odd,
			`level=ERROR msg="nodes are told to send again" nodes=40` + full,
			`level=WARN msg="a node sends what the log's readers would not take" nodes=40` + odd,
		}, lines)
	})
}
