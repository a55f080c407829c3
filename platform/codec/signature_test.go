package codec

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// TestAnyBitOfASignedBatchCounts flips each bit of signed batches as they stand in the log: what can still be read is refused. The seed of
// a batch without blocks salts nothing, so its bits say nothing.
func TestAnyBitOfASignedBatchCounts(t *testing.T) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	flipped, undecodable, refused := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		b := draw{t}.batch()
		slices.SortFunc(b.Blocks, byDevice)
		if err := trust.Sign(private, &b); err != nil {
			t.Fatal(err)
		}
		p, err := EncodeBatch(&b)
		if err != nil {
			t.Fatal(err)
		}
		keys := trust.Of([]fact.Fact{{Seq: 1, Key: "k", Body: &fact.NodeEnrolled{Node: b.Node, PublicKey: fact.PublicKey(private.Public().(ed25519.PublicKey)), By: "ops"}}})
		judge := func(data []byte) (decoded, taken bool) {
			read, q := DecodeBatch(bus.Message{Subject: p.Subject, Data: data})
			return q == nil, q == nil && keys.Judge(&read, 1, span.Open) == nil
		}
		if _, taken := judge(p.Data); !taken {
			t.Fatal("the batch as it was signed is refused")
		}
		seed := bytes.Index(p.Data, b.Seed)
		data := slices.Clone(p.Data)
		step := max(1, len(data)*8/400) // of a large batch some
		for bit := rapid.IntRange(0, step-1).Draw(t, "first bit"); bit < len(data)*8; bit += step {
			if len(b.Blocks) == 0 && bit/8 >= seed && bit/8 < seed+usage.SeedBytes {
				continue
			}
			data[bit/8] ^= 1 << (bit % 8)
			decoded, taken := judge(data)
			data[bit/8] ^= 1 << (bit % 8)
			flipped++
			switch {
			case taken:
				t.Fatalf("bit %d of %d may be changed", bit, len(data)*8)
			case decoded:
				refused++
			default:
				undecodable++
			}
		}
	})
	t.Logf("%d bits: %d undecodable, %d refused", flipped, undecodable, refused)
}
