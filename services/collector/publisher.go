package collector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// Limits of one publication; the bytes leave room below the bus's own limit for what the wire adds.
const (
	MaxPublish      = 1000
	maxPublishBytes = 16 << 20
	maxAttempts     = 4 // a conflict or a lost answer is settled by reading, then tried again; more means a fault
)

// Outgoing is a batch on its way into the log. ExpectLast is the stream sequence of the last message of the node's
// subject, 0 for none; it is nil where the same publication already wrote that subject.
type Outgoing struct {
	Batch      usage.Batch
	ExpectLast *uint64
}

// Held is the last batch of a node that the log holds. Position is its stream sequence; 0 when it holds none.
type Held struct {
	Batch    usage.Batch
	Position uint64
}

// Log is the usage stream as the publisher needs it (package buslog wires it to platform/bus).
type Log interface {
	// Publish stores all batches, contiguous and in order, and returns the last one's stream sequence, or stores
	// none. Errors: ErrConflict and ErrAmbiguous, which the publisher settles; anything else stops the step.
	Publish(ctx context.Context, out []Outgoing) (last uint64, err error)
	Last(ctx context.Context, node string) (Held, error)
}

// Errors of a Log and of the publisher.
var (
	ErrConflict  = errors.New("the node's last message is not the expected one; nothing was stored")
	ErrAmbiguous = errors.New("the log did not answer; the batches may be stored or not")
	// ErrDeclined says that the log answered and could not take anything now: nothing is wrong with the connection to it.
	ErrDeclined = errors.New("the log answered and took nothing")
	// ErrUntold goes with ErrAmbiguous where that was the answer: the connection is as right as with ErrDeclined.
	ErrUntold = errors.New("the log answered that it cannot tell")
	// ErrCloned means that two writers use one node name. Nothing of this one is published until a person acts.
	ErrCloned = errors.New("somebody else publishes as this node: a cloned machine, a copied spool, or a second collector;" +
		" give one of them another node name, or, if the spool was restored from a copy, start with an empty one")
)

// Counters are for metrics and alarms, since the start.
type Counters struct {
	Published uint64 // batches that the log acknowledged to this process
	Adopted   uint64 // batches found in the log after a lost answer or a restart
	Resent    uint64 // batches that the log had acknowledged and lost
	Gone      uint64 // lost batches of the log that had left the spool already; the archive may have them
}

// Signer sets seed and signature of a batch on its way into the log. The same batch gets the same ones as long as the key is the same.
type Signer interface {
	Sign(b *usage.Batch) error
}

// Publisher is the single writer of its nodes' subjects. It publishes what the spool holds, oldest first.
type Publisher struct {
	Signer   Signer // nil: batches go unsigned
	log      Log
	spool    *spool.Spool
	known    map[string]uint64 // node -> stream sequence of its last message, once read from the log
	counters Counters
}

// NewPublisher takes over the nodes of a spool. Where the log stands is read from the log, never believed from disk.
func NewPublisher(log Log, sp *spool.Spool) *Publisher {
	return &Publisher{log: log, spool: sp, known: map[string]uint64{}}
}

// Counters reads the counters.
func (p *Publisher) Counters() Counters { return p.counters }

// Drain publishes until nothing waits. now is the sample time of the acknowledgements. What it could not publish stays
// in the spool and is taken up by the next call, so its errors may be retried; ErrCloned will come again.
func (p *Publisher) Drain(ctx context.Context, now span.Second) error {
	for attempt := 0; ; {
		batches, err := p.spool.Unsent(MaxPublish, maxPublishBytes)
		if err != nil || len(batches) == 0 {
			return err
		}
		settled, err := p.settle(ctx, batches, now)
		if err != nil {
			return err
		}
		if settled {
			continue // what waits has changed
		}
		err = p.publish(ctx, batches, now)
		switch {
		case err == nil:
			attempt = 0
		case !errors.Is(err, ErrConflict) && !errors.Is(err, ErrAmbiguous):
			return err
		default:
			if attempt++; attempt == maxAttempts {
				return err
			}
		}
	}
}

// publish sends batches in one step and marks them. A node whose answer is missing must be read before it writes again.
func (p *Publisher) publish(ctx context.Context, batches []usage.Batch, now span.Second) error {
	out := make([]Outgoing, len(batches))
	newest := make(map[string]int, len(p.known))
	for i, b := range batches {
		out[i].Batch = b
		if p.Signer != nil {
			if err := p.Signer.Sign(&out[i].Batch); err != nil {
				return err
			}
		}
		if _, written := newest[b.Node]; !written {
			expect := p.known[b.Node]
			out[i].ExpectLast = &expect
		}
		newest[b.Node] = i
	}
	last, err := p.log.Publish(ctx, out)
	if err != nil {
		p.forget(newest)
		return fmt.Errorf("publish %d usage batches: %w", len(out), err)
	}
	p.counters.Published += uint64(len(out))
	marks := make([]spool.Mark, 0, len(newest))
	for i, b := range batches {
		if newest[b.Node] == i {
			position := last - uint64(len(batches)-1-i)
			p.known[b.Node] = position
			marks = append(marks, spool.Mark{Node: b.Node, Sent: name(&b), Position: position, At: now})
		}
	}
	if err := p.spool.MarkSent(marks...); err != nil {
		p.forget(newest) // they still wait: where the log stands is read before they go again, and then they are adopted
		return err
	}
	return nil
}

// forget makes the log be read before these nodes write again.
func (p *Publisher) forget(nodes map[string]int) {
	for node := range nodes {
		delete(p.known, node)
	}
}

func name(b *usage.Batch) spool.Name { return spool.Name{Run: b.Run, Seq: b.Seq} }

// settle reads where the log stands for nodes about which that is not known, and makes spool and log agree. It
// returns true when that changed what waits.
func (p *Publisher) settle(ctx context.Context, batches []usage.Batch, now span.Second) (changed bool, err error) {
	for i := range batches {
		node := batches[i].Node
		if _, ok := p.known[node]; ok {
			continue
		}
		held, err := p.log.Last(ctx, node)
		if err != nil {
			return changed, fmt.Errorf("read the last usage batch of node %s: %w", node, err)
		}
		moved, err := p.agree(&batches[i], held, now)
		if err != nil {
			return changed, err
		}
		p.known[node] = held.Position
		changed = changed || moved
	}
	return changed, nil
}

// agree compares the log's last batch of a node with what was acknowledged and with what the spool holds, of which
// waiting is the oldest unsent.
func (p *Publisher) agree(waiting *usage.Batch, held Held, now span.Second) (changed bool, err error) {
	node := waiting.Node
	at, sent := name(&held.Batch), p.spool.Sent(node).Sent
	switch order := at.Compare(sent); {
	case order < 0: // a rewound stream: what it lost is sent again
		back, oldest := p.spool.Rewind(node, at)
		p.counters.Resent += uint64(back)
		p.counters.Gone += gone(at, oldest, sent)
		return back > 0, nil
	case order > 0 && at.Compare(p.spool.Last(node)) > 0:
		return false, fmt.Errorf("node %s: the log holds %s, this spool ends at %s: %w", node, at, p.spool.Last(node), ErrCloned)
	}
	ours, ok, err := p.spool.Find(node, at)
	switch {
	case err != nil:
		return false, err
	case ok && !same(&held.Batch, &ours):
		return false, fmt.Errorf("node %s: the log holds other content as %s: %w", node, at, ErrCloned)
	case at == sent:
		return false, nil
	case ok:
		p.counters.Adopted++
		return true, p.spool.MarkSent(spool.Mark{Node: node, Sent: at, Position: held.Position, At: now})
	case sent == spool.Name{} && at.Run < waiting.Run: // an earlier spool of this node wrote it; this one began empty
		return false, nil
	default:
		return false, fmt.Errorf("node %s: the log holds %s, which this spool never held: %w", node, at, ErrCloned)
	}
}

// gone counts sequences behind the log's last that neither log nor spool has any more, as far as one run's numbers tell.
func gone(at, oldest, sent spool.Name) uint64 {
	switch {
	case oldest.Compare(at) <= 0:
		return 0
	case oldest.Run == at.Run:
		return oldest.Seq - at.Seq - 1
	case sent.Run == at.Run:
		return sent.Seq - at.Seq
	default:
		return oldest.Seq - 1
	}
}

// same tells whether the log's batch is ours. A batch that was thinned after its answer got lost still is.
func same(held, ours *usage.Batch) bool {
	if gap := spool.Gap(*held); len(ours.Blocks) == 0 && ours.Spoken.Count() == 1 && len(held.Blocks) > 0 {
		held = &gap
	}
	a, b := *held, *ours
	a.Seed, a.Signature, b.Seed, b.Signature = nil, nil, nil, nil // with which key it was signed does not matter here
	if !slices.EqualFunc(a.Blocks, b.Blocks, slices.Equal[[]byte]) {
		return false
	}
	a.Blocks, b.Blocks = nil, nil
	return reflect.DeepEqual(a, b)
}
