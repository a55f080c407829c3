package live

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
)

// TestABatchThatBreaksTheFormatBecomesAGap: nobody could take it, and those behind it would wait for ever.
func TestABatchThatBreaksTheFormatBecomesAGap(t *testing.T) {
	l := &Loop{alarms: newAlarms(slog.New(slog.DiscardHandler)), wake: make(chan struct{}, 1)}
	bad := usage.Batch{Node: "n", Boot: "b", Run: 3, Seq: 4, Minute: 100, Spoken: 0b110111, Blocks: [][]byte{[]byte("no block")}}
	l.hand([]usage.Batch{bad})
	want := bad
	want.Blocks = nil
	want.Gaps = []usage.Gap{{From: 6000, To: 6003, Reason: usage.GapError}, {From: 6004, To: 6006, Reason: usage.GapError}}
	if diff := cmp.Diff([]usage.Batch{want}, l.held); diff != "" {
		t.Fatal(diff)
	}
	if err := l.held[0].Validate(); err != nil {
		t.Fatal(err)
	}
	if l.alarms.counts()["invalid_batch"] != 1 {
		t.Fatal("nobody was told")
	}
}
