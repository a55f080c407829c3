package nodes_test

import (
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/nodes"
)

// TestTheFirstOfOneName: readers believe it, and so what is disclosed under the name is it.
func TestTheFirstOfOneName(t *testing.T) {
	b := membus.New(func() time.Time { return time.Unix(1, 0) })
	for _, seq := range []uint64{1, 2, 2, 2, 3} {
		p, err := codec.EncodeBatch(&usage.Batch{Node: "n", Run: 1, Seq: seq, Minute: 29_500_000, Spoken: 1})
		if err == nil {
			_, err = b.Publish(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if h, err := nodes.Find(t.Context(), b, "n", 1, 2); err != nil || h.Seq != 2 {
		t.Errorf("run 1 sequence 2 is message %d, %v; want the first, 2", h.Seq, err)
	}
}
