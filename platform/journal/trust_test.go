package journal

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// TestHistoryJudgesEachBatchInItsBlock: a boot that knows of later facts takes what was taken, and leaves out what was not.
func TestHistoryJudgesEachBatchInItsBlock(t *testing.T) {
	const noon span.Second = 1_772_366_400
	b := membus.New(func() time.Time { return time.Unix(int64(noon), 0) })
	w := NewWriter(b)
	if err := w.Declare(t.Context(), fact.Scripted); err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	public := fact.PublicKey(key.Public().(ed25519.PublicKey))
	seq, at := uint64(0), noon
	block := func(signed bool, facts ...fact.Fact) uint64 {
		t.Helper()
		seq++
		batch := usage.Batch{Node: "n", Run: 1, Seq: seq, Minute: noon.Minute(), Spoken: 1 << seq}
		if signed {
			if err := trust.Sign(key, &batch); err != nil {
				t.Fatal(err)
			}
		}
		p, err := codec.EncodeBatch(&batch)
		if err == nil {
			_, err = b.Publish(t.Context(), p)
		}
		at++
		_, tick := false, error(nil)
		if err == nil {
			err = w.State(t.Context(), facts)
			_, tick = w.Tick(t.Context(), at)
		}
		if err := errors.Join(err, tick); err != nil {
			t.Fatal(err)
		}
		return w.tickSeq
	}
	block(false)                                                                                               // 1: taken, not enrolled yet
	block(false, fact.Fact{Key: "e", Body: &fact.NodeEnrolled{Node: "n", PublicKey: public, By: "ops"}})       // 2: unsigned, enrolled with this block
	block(true)                                                                                                // 3: taken
	last := block(true, fact.Fact{Key: "r", Body: &fact.NodeRevoked{Node: "n", PublicKey: public, By: "ops"}}) // 4: revoked with this block
	facts, err := b.LastSeq(t.Context(), "GPUHOUR_FACTS")
	if err != nil {
		t.Fatal(err)
	}
	_, messages, err := History(t.Context(), b, facts, 0, last)
	if err != nil {
		t.Fatal(err)
	}
	var taken []uint64
	for _, m := range messages {
		taken = append(taken, m.Batch.Seq)
	}
	if d := cmp.Diff([]uint64{1, 3}, taken); d != "" {
		t.Error(d)
	}
}
