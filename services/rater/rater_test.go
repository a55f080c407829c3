package rater_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/rater"
)

const noon = 1_772_366_400

// TestAnswerOnOtherRows: tables that are rebuilt to other rows than a cut was answered on do not go on as if they were the
// same; the error says what a person can do.
func TestAnswerOnOtherRows(t *testing.T) {
	b := membus.New(func() time.Time { return time.Unix(noon, 0) })
	w := journal.NewWriter(b)
	err := errors.Join(w.Declare(t.Context(), fact.Scripted), w.State(t.Context(), []fact.Fact{
		{Key: "request", Body: &fact.CutRequested{Cut: "c", At: noon}},
		{Key: "cut.done/c", Body: &fact.CutDone{Cut: "c", At: noon, Block: 1, Digest: fact.Hash{1}}},
	}))
	_, tick := w.Tick(t.Context(), noon)
	if err := errors.Join(err, tick); err != nil {
		t.Fatal(err)
	}
	_, err = rater.New(b, memstore.New()).Step(t.Context())
	if !errors.Is(err, bus.ErrConflict) || !strings.Contains(err.Error(), "rate this log with the release that wrote it") {
		t.Errorf("error %v", err)
	}
}

// TestAnswerThatTheLogLost: a log that was restored without the answer to a cut holds every tick that the tables stand on. The
// rater must not answer for a later block what a replay answers for the cut's own.
func TestAnswerThatTheLogLost(t *testing.T) {
	b, tables := membus.New(func() time.Time { return time.Unix(noon, 0) }), memstore.New()
	w := journal.NewWriter(b)
	err := errors.Join(w.Declare(t.Context(), fact.Scripted), w.State(t.Context(), []fact.Fact{
		{Key: "request", Body: &fact.CutRequested{Cut: "c", At: noon}},
	}))
	for at := span.Second(noon); at < noon+3; at++ {
		_, tick := w.Tick(t.Context(), at)
		err = errors.Join(err, tick)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rater.New(b, tables).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rater.New(b, tables).Step(t.Context()); err != nil {
		t.Errorf("with the answer in the log: %v", err)
	}
	older := membus.New(func() time.Time { return time.Unix(noon, 0) })
	for stream, n := range map[string]int{bus.Facts: 2, bus.Usage: 3} { // the third fact is the answer
		messages, err := b.Read(t.Context(), stream, 0, n)
		if err != nil || len(messages) != n {
			t.Fatal(len(messages), err)
		}
		for _, m := range messages {
			if _, err := older.Publish(t.Context(), bus.Publication{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := rater.New(older, tables).Step(t.Context()); !errors.Is(err, journal.ErrRewound) {
		t.Errorf("without it: %v", err)
	}
	if n, err := older.LastSeq(t.Context(), bus.Facts); err != nil || n != 2 {
		t.Errorf("the log has %d facts, %v", n, err)
	}
	p, err := tables.Progress(t.Context(), rater.Service)
	if err != nil || p.Block != 3 {
		t.Errorf("the tables stand at %+v, %v", p, err)
	}
}
