package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// Held is a batch in the log.
type Held struct {
	Batch  usage.Batch
	Seq    uint64
	Stored time.Time
}

// Last is the last message of a node, false when there is none. One that cannot be read is an error.
func Last(ctx context.Context, b bus.Bus, node string) (Held, bool, error) {
	m, err := b.Last(ctx, codec.UsageSubject(node))
	if errors.Is(err, bus.ErrNotFound) {
		return Held{}, false, nil
	}
	if err != nil {
		return Held{}, false, fmt.Errorf("read the last batch of node %s: %w", node, err)
	}
	batch, q := codec.DecodeBatch(m)
	if q != nil {
		return Held{}, false, fmt.Errorf("read the last batch of node %s, message %d: %w", node, m.Seq, q)
	}
	return Held{batch, m.Seq, m.Time}, true, nil
}

// Find finds a batch by its name. Of several that carry one name, as a thief's may, it is the first.
func Find(ctx context.Context, b bus.Bus, node string, run, seq uint64) (Held, error) {
	last, ok, err := Last(ctx, b, node)
	if err != nil {
		return Held{}, err
	}
	missing := fmt.Errorf("the log holds no batch of run %d sequence %d of node %s", run, seq, node)
	if !ok {
		return Held{}, missing
	}
	order := func(x *usage.Batch) int { return cmp.Or(cmp.Compare(x.Run, run), cmp.Compare(x.Seq, seq)) }
	after, err := seek(ctx, b, node, last.Seq, func(x *usage.Batch) bool { return order(x) < 0 })
	if err != nil {
		return Held{}, err
	}
	var found Held
	_, err = walk(ctx, b, node, after, func(h *Held) bool {
		if order(&h.Batch) == 0 {
			found = *h
		}
		return order(&h.Batch) < 0
	})
	if err == nil && found.Seq == 0 {
		err = fmt.Errorf("%w; its last one is of run %d sequence %d", missing, last.Batch.Run, last.Batch.Seq)
	}
	return found, err
}

// seek is a position below the node's first batch that is not before what is looked for. Batches of a node rise in the log by run and
// sequence, and so by time where its clock does not go back.
func seek(ctx context.Context, b bus.Bus, node string, last uint64, before func(*usage.Batch) bool) (after uint64, err error) {
	low, high := uint64(0), last // what lies at or below low is before
	for low < high {
		middle := low + (high-low)/2
		at, isBefore := uint64(0), false
		_, err := walk(ctx, b, node, middle, func(h *Held) bool {
			at, isBefore = h.Seq, before(&h.Batch)
			return false
		})
		switch {
		case err != nil:
			return 0, err
		case at > 0 && isBefore:
			low = at
		default:
			high = middle
		}
	}
	return low, nil
}

// walk reads a node's batches after a position until visit says stop. It counts the messages that cannot be read.
func walk(ctx context.Context, b bus.Bus, node string, after uint64, visit func(*Held) bool) (unreadable int, err error) {
	for size := 1; ; size = chunk {
		messages, err := b.ReadSubject(ctx, bus.Usage, codec.UsageSubject(node), after, size)
		if err != nil {
			return unreadable, fmt.Errorf("read the batches of node %s after %d: %w", node, after, err)
		}
		if len(messages) == 0 {
			return unreadable, nil
		}
		for _, m := range messages {
			after = m.Seq
			batch, q := codec.DecodeBatch(m)
			if q != nil {
				unreadable++
				continue
			}
			if !visit(&Held{batch, m.Seq, m.Time}) {
				return unreadable, nil
			}
		}
	}
}

// View is what a node said lately.
type View struct {
	From, To   span.Second // the time that was looked at
	Batches    int
	Unreadable int
	Unsigned   int
	Cut        bool // there is more between From and To than was looked at
	Topology   *usage.Topology
	Found      span.Second // the minute of the batch that holds the topology
	// Complete: the batches from Found to the view's end were all looked at, so no other topology came after.
	Complete bool
	Gaps     []usage.Gap // by device and time; clipped to what was looked at
}

// maxBatches bounds a look: eleven days of a node that sends every ten seconds.
const maxBatches = 100_000

// Look reads the batches of a node over the last seconds before its last one, and the topology that it stated last: in that time, or else
// with the first batch of its run.
func Look(ctx context.Context, b bus.Bus, last Held, seconds int64) (*View, error) {
	node := last.Batch.Node
	v := &View{To: last.Batch.Last() + 1}
	v.From = v.To - span.Second(seconds)
	after, err := seek(ctx, b, node, last.Seq, func(x *usage.Batch) bool { return x.Last() < v.From })
	if err != nil {
		return nil, err
	}
	var gaps []usage.Gap
	v.Unreadable, err = walk(ctx, b, node, after, func(h *Held) bool {
		if v.Cut = v.Batches == maxBatches; v.Cut {
			return false
		}
		v.Batches++
		if len(h.Batch.Signature) == 0 {
			v.Unsigned++
		}
		if h.Batch.Topology != nil {
			v.Topology, v.Found, v.Complete = h.Batch.Topology, h.Batch.Minute.Start(), true
		}
		for _, g := range h.Batch.Gaps {
			if g.From, g.To = max(g.From, v.From), min(g.To, v.To); g.From < g.To {
				gaps = append(gaps, g)
			}
		}
		return h.Seq < last.Seq
	})
	if err != nil {
		return nil, err
	}
	v.Complete = v.Complete && !v.Cut
	usage.SortGaps(gaps)
	for _, g := range gaps {
		v.Gaps = usage.AppendGap(v.Gaps, g)
	}
	if v.Topology == nil {
		first, err := Find(ctx, b, node, last.Batch.Run, 1)
		if err == nil && first.Batch.Topology != nil {
			v.Topology, v.Found = first.Batch.Topology, first.Batch.Minute.Start()
		}
	}
	return v, nil
}
