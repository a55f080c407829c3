package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

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
