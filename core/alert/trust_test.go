package alert

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

// runSigned is run with a key; nil does not sign.
func (w *world) runSigned(t *testing.T, from, to int, key ed25519.PrivateKey, bodies ...fact.Body) {
	t.Helper()
	for n := from; n < to; n++ {
		b := full("A", 10)
		b.Minute, b.Seq = minuteAt(n).Minute(), uint64(n+1)
		if key != nil {
			if err := trust.Sign(key, &b); err != nil {
				t.Fatal(err)
			}
		}
		w.block(minuteAt(n+1), []usage.Batch{b}, bodies...)
		bodies = nil
	}
}

// TestOnlyTakenBatchesAreWatched: what the rater quarantines raises nothing here either.
func TestOnlyTakenBatchesAreWatched(t *testing.T) {
	key, other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	enrolled := &fact.NodeEnrolled{Node: "n", PublicKey: fact.PublicKey(key.Public().(ed25519.PublicKey)), By: "ops"}
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.runSigned(t, 0, 20, nil, enrolled)
	w.runSigned(t, 20, 60, other)
	w.expect(t)
	w.runSigned(t, 60, 100, key)
	w.expect(t, "84 raised customer acme 100", "84 raised lease L 100") // 24 of 30 minutes are known, 80 %
	w.told = nil
	w.runSigned(t, 100, 140, key, &fact.NodeRevoked{Node: "n", PublicKey: enrolled.PublicKey, By: "ops"})
	w.expect(t) // nothing is known, so nothing is resolved
}
