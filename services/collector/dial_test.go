package collector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// flaky is a connection to a log; it fails while broken is set, and declines while busy is.
type flaky struct {
	collector.Log
	broken, busy *bool
	why          *error
	closed       *int
}

func (f flaky) Publish(ctx context.Context, out []collector.Outgoing) (uint64, error) {
	if *f.broken {
		return 0, errors.New("the connection broke")
	}
	if *f.busy {
		return 0, fmt.Errorf("%w: it is busy", *f.why)
	}
	return f.Log.Publish(ctx, out)
}

func (f flaky) Close() error {
	*f.closed++
	return nil
}

func TestDialledReachesTheLogAnewAfterAnError(t *testing.T) {
	memory := &stream{}
	dialled, closed, broken, busy, away := 0, 0, false, false, true
	why := collector.ErrDeclined
	log := collector.Dial(func(context.Context) (collector.Connection, error) {
		if away {
			return nil, errors.New("nobody listens")
		}
		dialled++
		return flaky{memory, &broken, &busy, &why, &closed}, nil
	})
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	r.Record(start, nil, usage.GapError, nil)
	none := uint64(0)
	out := []collector.Outgoing{{Batch: r.Stop(nil)[0], ExpectLast: &none}}
	publish := func(want string) {
		t.Helper()
		_, err := log.Publish(t.Context(), out)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Fatalf("error %v, want %q", err, want)
		}
	}
	publish("reach the log: nobody listens")
	away, broken = false, true
	publish("the connection broke")
	broken, busy = false, true
	publish("it is busy")
	why = collector.ErrUntold
	publish("it is busy") // on the same connection
	busy = false
	publish("")
	publish(collector.ErrConflict.Error()) // says nothing of the connection
	held, err := log.Last(t.Context(), "n")
	if err != nil || held.Position != 1 {
		t.Fatalf("the log holds %v, %v", held, err)
	}
	if dialled != 2 || closed != 1 {
		t.Errorf("dialled %d times, closed %d", dialled, closed)
	}
	if err := errors.Join(log.Close(), log.Close()); err != nil || closed != 2 {
		t.Errorf("closed %d connections: %v", closed, err)
	}
}
