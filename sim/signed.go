package sim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

// signer signs as a node does: every agent of it has the same key. That changes no bill, enrolled or not, whatever fails.
type signer struct{ key ed25519.PrivateKey }

func signerOf(node string) signer {
	seed := sha256.Sum256([]byte("key of " + node))
	return signer{ed25519.NewKeyFromSeed(seed[:])}
}

func (s signer) Sign(b *usage.Batch) error { return trust.Sign(s.key, b) }

// writeKeys enrols some nodes, at any time and at times beside a key that nobody signs with and that is revoked again, from dice of its
// own. What agents sign is taken all the same; a batch that is not judged as of its block would be missed by the auditor.
func (a *author) writeKeys(seed uint64) {
	a.dice = rand.New(rand.NewPCG(seed, 14)) // so that the seeds of TestLaterRegressions draw nothing here
	for i := range a.nodes {
		n := &a.nodes[i]
		if !a.one(6) {
			continue
		}
		at, group := a.from+a.dice.Int64N(a.to-a.from), n.name+"/keys"
		say := func(after int64, name string, body fact.Body) {
			a.events = append(a.events, event{known: at + after, key: n.name + "/" + name, body: body, group: group})
			if a.one(6) {
				a.events = append(a.events, event{known: at + after + a.dice.Int64N(2*hour), key: n.name + "/" + name, body: body, group: group, repeat: true})
			}
		}
		say(0, "enrolled", &fact.NodeEnrolled{Node: n.name, PublicKey: signerOf(n.name).public(), By: "ops"})
		if a.one(2) {
			other := signerOf(fmt.Sprint(n.name, " before")).public()
			say(-a.dice.Int64N(hour), "enrolled-before", &fact.NodeEnrolled{Node: n.name, PublicKey: signerOf(n.name).public(), By: "ops"})
			say(0, "enrolled-too", &fact.NodeEnrolled{Node: n.name, PublicKey: other, By: "ops"})
			say(a.dice.Int64N(hour), "revoked", &fact.NodeRevoked{Node: n.name, PublicKey: other, By: "ops"})
		}
	}
}

func (s signer) public() fact.PublicKey {
	public, _ := s.key.Public().(ed25519.PublicKey) // it is one
	return fact.PublicKey(public)
}
