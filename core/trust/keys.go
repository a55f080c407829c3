package trust

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Key is what is stated of one key of one node. Positions are those of facts; 0 is never.
type Key struct {
	Public            fact.PublicKey
	Enrolled, Revoked uint64
}

// Active tells whether the key signs as of a position of the facts.
func (k Key) Active(facts uint64) bool { return k.enrolledBy(facts) && !k.revokedBy(facts) }

func (k Key) enrolledBy(facts uint64) bool { return k.Enrolled > 0 && k.Enrolled <= facts }
func (k Key) revokedBy(facts uint64) bool  { return k.Revoked > 0 && k.Revoked <= facts }

// Keys are the keys of all nodes. They answer for any position that was taken, so what is read late is judged as it was when it
// was met.
type Keys struct {
	nodes map[string][]Key // the newest enrolment first
}

// New knows of no key.
func New() *Keys { return &Keys{nodes: map[string][]Key{}} }

// Take takes a fact, which has its position. It must not be a repeat: the first statement of a key stands.
func (k *Keys) Take(f fact.Fact) {
	switch b := f.Body.(type) {
	case *fact.NodeEnrolled:
		key := k.key(b.Node, b.PublicKey)
		key.Enrolled = first(key.Enrolled, f.Seq)
		slices.SortStableFunc(k.nodes[b.Node], func(a, b Key) int { return cmp.Compare(b.Enrolled, a.Enrolled) })
	case *fact.NodeRevoked:
		key := k.key(b.Node, b.PublicKey)
		key.Revoked = first(key.Revoked, f.Seq)
	}
}

func (k *Keys) key(node string, public fact.PublicKey) *Key {
	i := slices.IndexFunc(k.nodes[node], func(x Key) bool { return x.Public == public })
	if i < 0 {
		i = len(k.nodes[node])
		k.nodes[node] = append(k.nodes[node], Key{Public: public})
	}
	return &k.nodes[node][i]
}

func first(a, b uint64) uint64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// Of takes facts in order, without those that repeat a key.
func Of(facts []fact.Fact) *Keys {
	k, known := New(), make(map[string]bool, len(facts))
	for _, f := range facts {
		if !known[f.Key] {
			known[f.Key] = true
			k.Take(f)
		}
	}
	return k
}

// Node lists what is stated of a node's keys, the newest enrolment first.
func (k *Keys) Node(node string) []Key { return slices.Clone(k.nodes[node]) }

// Judge decides about a batch in the block that holds it, by its tick's facts and time: nil when it is measured. What it says never
// changes afterwards, whatever later facts and ticks say.
func (k *Keys) Judge(b *usage.Batch, facts uint64, tick span.Second) *usage.Quarantine {
	if b.Ahead(tick) {
		return &usage.Quarantine{
			Reason: usage.AheadOfTick, Node: b.Node, Detail: fmt.Sprintf("it speaks of %v, the tick says %v", b.Last(), tick),
		}
	}
	keys := k.nodes[b.Node]
	if len(keys) == 0 || !slices.ContainsFunc(keys, func(x Key) bool { return x.enrolledBy(facts) }) {
		return nil
	}
	if _, detail := signer(b, keys, facts); detail != "" {
		return &usage.Quarantine{Reason: usage.BadSignature, Node: b.Node, Detail: detail}
	}
	return nil
}

// Signer finds the key of its node that signed a batch, whatever became of it since.
func (k *Keys) Signer(b *usage.Batch) (Key, bool) {
	keys := k.nodes[b.Node]
	if len(b.Signature) == 0 || len(keys) == 0 {
		return Key{}, false
	}
	signed, err := b.SignedBytes()
	if err != nil {
		return Key{}, false
	}
	i := slices.IndexFunc(keys, func(x Key) bool { return ed25519.Verify(x.Public[:], signed, b.Signature) })
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}

// signer finds the active key that signed a batch, or says why there is none. A signature does not name its key, so that of an unknown
// key and one whose batch was altered look the same.
func signer(b *usage.Batch, keys []Key, facts uint64) (key Key, detail string) {
	name := fmt.Sprintf("run %d sequence %d", b.Run, b.Seq)
	if len(b.Signature) == 0 {
		return Key{}, name + " is not signed, and the node is enrolled"
	}
	signed, err := b.SignedBytes()
	if err != nil {
		return Key{}, fmt.Sprintf("%s: what was signed cannot be told: %v", name, err)
	}
	made := func(x Key) bool { return ed25519.Verify(x.Public[:], signed, b.Signature) }
	for _, x := range keys {
		if x.Active(facts) && made(x) {
			return x, ""
		}
	}
	for _, x := range keys {
		if x.revokedBy(facts) && made(x) {
			return Key{}, fmt.Sprintf("%s is signed with key %s, which fact %d revoked", name, x.Public.Fingerprint(), x.Revoked)
		}
	}
	return Key{}, name + " is signed, but with no key that is enrolled of the node, or it was altered afterwards"
}
