package buslog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
)

func TestBatchesComeBackAsTheyWent(t *testing.T) {
	bus := membus.New(func() time.Time { return time.Unix(1, 0) })
	log := buslog.New(bus)
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
