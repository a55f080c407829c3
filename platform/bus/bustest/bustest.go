package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// deadline bounds each test, so that a log that hangs fails instead of stopping the run.
const deadline = time.Minute

// Run runs the suite. open returns an empty log, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) bus.Bus) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, context.Context, bus.Bus)
	}{
		{"empty log", emptyLog},
		{"publish and read back", publishAndReadBack},
		{"header round trip", headerRoundTrip},
		{"data belongs to the caller", dataBelongsToCaller},
		{"expectations", expectations},
		{"largest message", largestMessage},
		{"too large", tooLarge},
		{"invalid arguments", invalidArguments},
		{"batch", batch},
		{"batch of one", batchOfOne},
		{"batch conflict stores nothing", batchConflict},
		{"claim and number", claimAndNumber},
		{"claims", claims},
		{"largest batch", largestBatch},
		{"read anywhere", readAnywhere},
		{"read by subject", readBySubject},
		{"wait", wait},
		{"wait ends with its context", waitEnds},
		{"one of many wins", oneWins},
		{"one of many batches wins", oneBatchWins},
		{"concurrent publishers leave no hole", noHole},
		{"cancelled context", cancelled},
		{"closed", closed},
		{"close ends a wait", closeEndsWait},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			b := open(t)
			defer func() {
				if err := b.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			test.run(t, ctx, b)
		})
	}
}

func fact(i int) bus.Publication {
	return bus.Publication{
		Subject: fmt.Sprintf("gh.fact.lease.l%d", i),
		Header:  map[string]string{bus.HeaderID: fmt.Sprintf("lease/l%d", i), "ce-type": "LeaseStarted"},
		Data:    fmt.Appendf(nil, "fact %d", i),
	}
}

func usage(node, i int) bus.Publication {
	return bus.Publication{Subject: fmt.Sprintf("gh.usage.%d.node%d", node%64, node), Data: fmt.Appendf(nil, "batch %d", i)}
}

func expect(p bus.Publication, last uint64) bus.Publication {
	p.ExpectLast = &last
	return p
}

// publish publishes singly and checks the sequence.
func publish(t *testing.T, ctx context.Context, b bus.Bus, want uint64, p bus.Publication) {
	t.Helper()
	seq, err := b.Publish(ctx, p)
	if err != nil || seq != want {
		t.Fatalf("Publish(%s) = %d, %v; want %d", p.Subject, seq, err, want)
	}
}

func wantLastSeq(t *testing.T, ctx context.Context, b bus.Bus, stream string, want uint64) {
	t.Helper()
	if got, err := b.LastSeq(ctx, stream); err != nil || got != want {
		t.Fatalf("LastSeq(%s) = %d, %v; want %d", stream, got, err, want)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v; want %v", err, want)
	}
}

// wantMessages compares all but the server's time, which must be set.
func wantMessages(t *testing.T, got []bus.Message, stream string, first uint64, want ...bus.Publication) {
	t.Helper()
	messages := make([]bus.Message, 0, len(want))
	for i, p := range want {
		messages = append(messages, bus.Message{Stream: stream, Seq: first + uint64(i), Subject: p.Subject, Header: p.Header, Data: p.Data})
	}
	if len(want) == 0 && len(got) == 0 {
		return
	}
	options := cmp.Options{ // no header or data is the same as an empty one
		cmp.Comparer(bytes.Equal), cmp.Comparer(maps.Equal[map[string]string, map[string]string]),
		cmpopts.IgnoreFields(bus.Message{}, "Time"),
	}
	if diff := cmp.Diff(messages, got, options); diff != "" {
		t.Fatalf("messages (-want +got):\n%s", diff)
	}
	for _, m := range got {
		if m.Time.IsZero() || m.Time.Location() != time.UTC {
			t.Fatalf("message %d has time %v; want the server's, in UTC", m.Seq, m.Time)
		}
	}
}

// readAll reads in the given steps until there is no more.
func readAll(t *testing.T, ctx context.Context, b bus.Bus, stream string, after uint64, step int) []bus.Message {
	t.Helper()
	var all []bus.Message
	for {
		messages, err := b.Read(ctx, stream, after, step)
		if err != nil {
			t.Fatalf("Read(%s, %d): %v", stream, after, err)
		}
		if len(messages) == 0 {
			return all
		}
		all = append(all, messages...)
		after = messages[len(messages)-1].Seq
	}
}
