package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// chunk is how many messages one read asks for.
const chunk = 1000

// Statement is a fact of a node and when the log took it.
type Statement struct {
	fact.Fact
	Stored time.Time
}

// Register is everything that is stated of nodes.
type Register struct {
	Keys       *trust.Keys
	Statements map[string][]Statement // by node, in order, without repeats
}

// Read reads the facts of all nodes. It looks at no other facts, so it does not see that a fact's key was used for another kind of
// statement before; services do, and refuse it as a conflict.
func Read(ctx context.Context, b bus.Bus) (*Register, error) {
	r := &Register{Keys: trust.New(), Statements: map[string][]Statement{}}
	known := map[string]bool{}
	for after := uint64(0); ; {
		messages, err := b.ReadSubject(ctx, bus.Facts, "gh.fact.node.*", after, chunk)
		if err != nil {
			return nil, fmt.Errorf("read the facts of nodes after %d: %w", after, err)
		}
		if len(messages) == 0 {
			return r, nil
		}
		for _, m := range messages {
			f, err := codec.DecodeFact(m)
			if err != nil {
				return nil, err
			}
			after = m.Seq
			if !known[f.Key] {
				known[f.Key] = true
				r.Keys.Take(f)
				r.Statements[f.Body.Entity()] = append(r.Statements[f.Body.Entity()], Statement{f, m.Time})
			}
		}
	}
}

// Names lists the nodes, sorted.
func (r *Register) Names() []string { return slices.Sorted(maps.Keys(r.Statements)) }

// Owner is a node other than the given one of which the key is stated.
func (r *Register) Owner(key fact.PublicKey, besides string) (node string, ok bool) {
	for _, name := range r.Names() {
		if _, found := r.Key(name, key); found && name != besides {
			return name, true
		}
	}
	return "", false
}

// Key is what is stated of a node's key.
func (r *Register) Key(node string, key fact.PublicKey) (trust.Key, bool) {
	for _, k := range r.Keys.Node(node) {
		if k.Public == key {
			return k, true
		}
	}
	return trust.Key{}, false
}

// Active lists the keys that a node signs with now.
func (r *Register) Active(node string) []trust.Key {
	return slices.DeleteFunc(r.Keys.Node(node), func(k trust.Key) bool { return !k.Active(^uint64(0)) })
}

// At is the statement at a position of the facts.
func (r *Register) At(node string, seq uint64) (Statement, bool) {
	for _, s := range r.Statements[node] {
		if s.Seq == seq {
			return s, true
		}
	}
	return Statement{}, false
}
