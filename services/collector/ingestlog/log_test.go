package ingestlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/ingestlog"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// script is an ingest that stores what it is sent, and says something else where it is told to.
type script struct {
	held [][]byte
	size []int // batches of each request
	say  map[int]func() ([]byte, error)
}

func (s *script) Ask(_ context.Context, subject string, question []byte) ([]byte, error) {
	r, err := wire.ParseRequest(question)
	if err != nil || !strings.HasPrefix(subject, "gh.ingest.") {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	if r.Kind == wire.Last {
		a := wire.Answer{Outcome: wire.Held, Position: uint64(len(s.held))}
		if n := len(s.held); n > 0 {
			a.Batch = s.held[n-1]
		}
		return a.Append(nil), nil
	}
	s.size = append(s.size, len(r.Batches))
	if say := s.say[len(s.size)]; say != nil {
		return say()
	}
	if r.ExpectLast != uint64(len(s.held)) {
		return answer(wire.Conflict, "")()
	}
	s.held = append(s.held, r.Batches...)
	a := wire.Answer{Outcome: wire.Stored, Position: uint64(len(s.held))}
	return a.Append(nil), nil
}

func answer(o wire.Outcome, detail string) func() ([]byte, error) {
	a := wire.Answer{Outcome: o, Detail: detail}
	return func() ([]byte, error) { return a.Append(nil), nil }
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batches are n of one node, of about size bytes each.
func batches(n, size int) (all []usage.Batch) {
	for seq := range uint64(n) {
		b := usage.Batch{Node: "n", Boot: "b", Run: 1, Seq: seq + 1, Minute: span.Minute(29_500_000 + seq), Spoken: 1}
		for d := range max(size/280, 1) {
			block := usage.Block{Device: fmt.Sprintf("%0250d", d), Seen: 1}
			b.Blocks = append(b.Blocks, block.Append(nil))
		}
		all = append(all, b)
	}
	return all
}

func outgoing(all []usage.Batch) []collector.Outgoing {
	out := make([]collector.Outgoing, len(all))
	for i := range all {
		out[i].Batch = all[i]
	}
	out[0].ExpectLast = new(uint64)
	return out
}

func TestBatchesComeBackAsTheyWent(t *testing.T) {
	s := &script{}
	log := ingestlog.New(s)
	held, err := log.Last(t.Context(), "n")
	if err != nil || held.Position != 0 {
		t.Fatalf("an empty log holds %v, %v", held, err)
	}
	all := batches(3, 1)
	last, err := log.Publish(t.Context(), outgoing(all))
	if err != nil || last != 3 {
		t.Fatalf("published up to %d: %v", last, err)
	}
	held, err = log.Last(t.Context(), "n")
	check(t, err)
	if d := cmp.Diff(collector.Held{Batch: all[2], Position: 3}, held); d != "" {
		t.Fatal(d)
	}
	if _, err := log.Publish(t.Context(), outgoing(all)); !errors.Is(err, collector.ErrConflict) {
		t.Fatalf("error is %v", err)
	}
}

// TestManyGoInSeveralRequests, none larger than a server lets through, each after the one before.
func TestManyGoInSeveralRequests(t *testing.T) {
	s := &script{}
	if last, err := ingestlog.New(s).Publish(t.Context(), outgoing(batches(20, 100_000))); err != nil || last != 20 {
		t.Fatalf("published up to %d: %v", last, err)
	}
	sum := 0
	for _, n := range s.size {
		sum += n
	}
	if len(s.size) < 2 || sum != 20 {
		t.Errorf("requests of %v batches", s.size)
	}
}

func TestErrors(t *testing.T) {
	lost := func() ([]byte, error) { return nil, fmt.Errorf("ask: %w", bus.ErrAmbiguous) }
	for _, tt := range []struct {
		name   string
		at     int // of the requests
		say    func() ([]byte, error)
		want   error
		detail string

		answered bool
	}{
		{"busy", 1, answer(wire.Busy, ""), ingestlog.ErrBusy, "stays in the spool", true},
		{"refused", 1, answer(wire.Refused, "field 99"), ingestlog.ErrRefused, "field 99", true},
		{"failed", 1, answer(wire.Failed, "disk full"), ingestlog.ErrFailed, "disk full", true},
		{"conflict", 1, answer(wire.Conflict, ""), collector.ErrConflict, "it stands at 0", false},
		{"unknown", 1, answer(wire.Unknown, "no leader"), collector.ErrAmbiguous, "no leader", true},
		{"no answer", 1, lost, collector.ErrAmbiguous, "ask", false},
		{"nobody", 1, func() ([]byte, error) { return nil, errors.New("nobody") }, nil, "does `gpuhour ingest` run", false},
		{"nonsense", 1, func() ([]byte, error) { return []byte{99}, nil }, collector.ErrAmbiguous, "kind 99", false},
		{"an answer to something else", 1, answer(wire.Held, ""), collector.ErrAmbiguous, "", true},
		{"busy in the middle", 2, answer(wire.Busy, ""), collector.ErrAmbiguous, "10 of 20 batches were, and then: the log answered and took nothing: the ingest is busy", true},
		{"conflict in the middle", 2, answer(wire.Conflict, ""), collector.ErrConflict, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{say: map[int]func() ([]byte, error){tt.at: tt.say}}
			_, err := ingestlog.New(s).Publish(t.Context(), outgoing(batches(20, 100_000)))
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.detail) {
				t.Errorf("error %v; want %v with %q", err, tt.want, tt.detail)
			}
			// A fleet that is answered must not dial anew (collector.Dialled).
			if answered := errors.Is(err, collector.ErrDeclined) || errors.Is(err, collector.ErrUntold); answered != tt.answered {
				t.Errorf("%v is an answer: %v, want %v", err, answered, tt.answered)
			}
			if ambiguous := errors.Is(err, collector.ErrAmbiguous); ambiguous && !errors.Is(tt.want, collector.ErrAmbiguous) {
				t.Errorf("%v is ambiguous, but nothing was stored", err)
			}
		})
	}
	two := outgoing(batches(2, 1))
	two[1].Batch.Node = "other"
	s := &script{}
	if _, err := ingestlog.New(s).Publish(t.Context(), two); err == nil || len(s.held) > 0 || !strings.Contains(err.Error(), "one node publishes at a time") {
		t.Errorf("two nodes in one publication: %v, %d stored", err, len(s.held))
	}
	if _, err := ingestlog.New(s).Publish(t.Context(), two[1:]); !errors.Is(err, bus.ErrInvalid) {
		t.Errorf("without an expectation: %v", err)
	}
}

// TestPublisherGoesOn: the collector's own publisher settles whatever an ingest answers.
func TestPublisherGoesOn(t *testing.T) {
	files, err := spool.Dir(t.TempDir())
	check(t, err)
	sp, err := spool.Open(files, spool.Options{})
	check(t, err)
	defer sp.Close()
	all := batches(40, 100_000)
	check(t, sp.Append(all...))
	lost := func() ([]byte, error) { return nil, bus.ErrAmbiguous }
	s := &script{say: map[int]func() ([]byte, error){1: lost, 3: lost, 4: answer(wire.Busy, ""), 5: answer(wire.Unknown, ""), 7: answer(wire.Busy, "")}}
	p := collector.NewPublisher(ingestlog.New(s), sp)
	failed := 0
	for sp.Stats().Unsent > 0 {
		if err := p.Drain(t.Context(), 1); err != nil {
			failed++
			if !errors.Is(err, ingestlog.ErrBusy) {
				t.Fatal(err)
			}
		}
	}
	if failed == 0 || len(s.held) != len(all) {
		t.Errorf("%d batches are stored of %d, after %d flushes that were put off", len(s.held), len(all), failed)
	}
	for i, data := range s.held {
		if !strings.Contains(string(data), fmt.Sprintf("%0250d", 0)) || i > 0 && string(data) == string(s.held[i-1]) {
			t.Fatalf("message %d is not the next batch", i+1)
		}
	}
}
