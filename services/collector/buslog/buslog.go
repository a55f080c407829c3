package buslog

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Bus is the part of bus.Bus that a collector uses.
type Bus interface {
	PublishBatch(ctx context.Context, ps []bus.Publication) (last uint64, err error)
	Last(ctx context.Context, subject string) (bus.Message, error)
}

type log struct{ bus Bus }

// New is the collector's log on a bus.
func New(b Bus) collector.Log { return log{b} }

// Publish implements collector.Log.
func (l log) Publish(ctx context.Context, out []collector.Outgoing) (uint64, error) {
	ps := make([]bus.Publication, len(out))
	for i := range out {
		p, err := codec.EncodeBatch(&out[i].Batch)
		if err != nil {
			return 0, err
		}
		p.ExpectLast = out[i].ExpectLast
		ps[i] = p
	}
	last, err := l.bus.PublishBatch(ctx, ps)
	switch {
	case errors.Is(err, bus.ErrConflict):
		return 0, fmt.Errorf("%w: %w", collector.ErrConflict, err)
	case errors.Is(err, bus.ErrAmbiguous):
		return 0, fmt.Errorf("%w: %w", collector.ErrAmbiguous, err)
	default:
		return last, err
	}
}

// Last implements collector.Log.
func (l log) Last(ctx context.Context, node string) (collector.Held, error) {
	m, err := l.bus.Last(ctx, codec.UsageSubject(node))
	if errors.Is(err, bus.ErrNotFound) {
		return collector.Held{}, nil
	}
	if err != nil {
		return collector.Held{}, err
	}
	b, quarantine := codec.DecodeBatch(m)
	if quarantine != nil {
		return collector.Held{}, fmt.Errorf("message %d on %s: %w", m.Seq, m.Subject, quarantine)
	}
	return collector.Held{Batch: b, Position: m.Seq}, nil
}
