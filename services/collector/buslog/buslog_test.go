package buslog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
)

func TestBatchesComeBackAsTheyWent(t *testing.T) {
	log := buslog.New(membus.New(func() time.Time { return time.Unix(1, 0) }))
	held, err := log.Last(t.Context(), "node 1")
	if err != nil || held.Position != 0 {
		t.Fatalf("an empty log holds %v, %v", held, err)
	}
	r := collector.NewRecorder(collector.Identity{Node: "node 1", Boot: "b", Run: 1})
	var batches []usage.Batch
	for at := range 20 {
		batches = r.Record(1_767_225_600, []collector.Reading{{Device: "g1", Busy: collector.Known(int64(at))}, {Device: "g0"}}, 0, batches)
	}
	batches = r.Stop(batches)
	none := uint64(0)
	out := []collector.Outgoing{{Batch: batches[0], ExpectLast: &none}, {Batch: batches[1]}}
	last, err := log.Publish(t.Context(), out)
	if err != nil || last != 2 {
		t.Fatalf("published up to %d: %v", last, err)
	}
	held, err = log.Last(t.Context(), "node 1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(collector.Held{Batch: batches[1], Position: 2}, held); d != "" {
		t.Fatal(d)
	}
	if _, err := log.Publish(t.Context(), out[:1]); !errors.Is(err, collector.ErrConflict) {
		t.Fatalf("error is %v", err)
	}
}

// silent is a bus that stores, and answers nothing.
type silent struct{ *membus.Bus }

func (s silent) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	_, err := s.Bus.PublishBatch(ctx, ps)
	return 0, errors.Join(err, bus.ErrAmbiguous)
}

// TestWhatIsNotKnownIsAmbiguous: the publisher reads what stands, and does not believe that nothing was stored.
func TestWhatIsNotKnownIsAmbiguous(t *testing.T) {
	log := buslog.New(silent{membus.New(func() time.Time { return time.Unix(1, 0) })})
	b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 29_500_000, Spoken: 1}
	if _, err := log.Publish(t.Context(), []collector.Outgoing{{Batch: b, ExpectLast: new(uint64)}}); !errors.Is(err, collector.ErrAmbiguous) {
		t.Errorf("error is %v, want %v", err, collector.ErrAmbiguous)
	}
	if held, err := log.Last(t.Context(), "n"); err != nil || held.Position != 1 {
		t.Errorf("the log holds %+v, %v", held, err)
	}
}
