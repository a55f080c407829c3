package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// Writer states facts and publishes ticks.
type Writer struct {
	bus bus.Bus
	// the last tick, as far as this writer knows
	tick    codec.Tick
	tickSeq uint64
	known   bool
}

// NewWriter writes to a log.
func NewWriter(b bus.Bus) *Writer { return &Writer{bus: b} }

// Declare makes clock.declared the log's first fact, or checks that the log was declared alike.
func (w *Writer) Declare(ctx context.Context, mode fact.ClockMode) error {
	have, err := declaredMode(ctx, w.bus)
	if err != nil {
		return fmt.Errorf("declare the clock: %w", err)
	}
	if have == "" {
		_, err := w.Claim(ctx, 0, fact.Fact{Key: "clock.declared", Body: &fact.ClockDeclared{Mode: mode}})
		if err != nil && !errors.Is(err, bus.ErrConflict) {
			return fmt.Errorf("declare the clock: %w", err)
		}
		if have, err = declaredMode(ctx, w.bus); err != nil { // another process may have declared at the same time
			return fmt.Errorf("declare the clock: %w", err)
		}
	}
	if have != mode {
		return fmt.Errorf("declare the clock: this log's clock is %s, not %s; use another data directory", have, mode)
	}
	return nil
}

// statedBytes bounds the bodies of one atomic batch, so that with their headers they stay below bus.MaxBatchBytes.
const statedBytes = bus.MaxBatchBytes / 2

// State publishes facts in order, in atomic batches. After an unknown outcome it may be called again with the same facts: a
// repeated key with the same content is ignored by every reader.
func (w *Writer) State(ctx context.Context, facts []fact.Fact) error {
	var batch []bus.Publication
	bytes := 0
	for i, f := range facts {
		p, err := codec.EncodeFact(f)
		if err != nil {
			return err
		}
		batch = append(batch, p)
		bytes += len(p.Data)
		if len(batch) == bus.MaxBatch || bytes > statedBytes || i == len(facts)-1 {
			if _, err := w.bus.PublishBatch(ctx, batch); err != nil {
				return fmt.Errorf("publish facts up to %s: %w", f.Key, err)
			}
			batch, bytes = batch[:0], 0
		}
	}
	return nil
}

// Claim publishes one fact whose subject's last message must be the expected one, 0 for none, and returns its position. It
// is safe to repeat.
func (w *Writer) Claim(ctx context.Context, last uint64, f fact.Fact) (uint64, error) {
	p, err := codec.EncodeFact(f)
	if err != nil {
		return 0, err
	}
	p.ExpectLast = &last
	seq, err := bus.Claim(ctx, w.bus, p)
	if err != nil {
		return 0, fmt.Errorf("publish %s: %w", f.Key, err)
	}
	return seq, nil
}

// ClaimBoth publishes two facts in one atomic batch, each with its expectation, and returns the second's position.
func (w *Writer) ClaimBoth(ctx context.Context, first fact.Fact, firstLast uint64, second fact.Fact, secondLast uint64) (uint64, error) {
	batch := make([]bus.Publication, 2)
	for i, c := range []struct {
		f    fact.Fact
		last uint64
	}{{first, firstLast}, {second, secondLast}} {
		p, err := codec.EncodeFact(c.f)
		if err != nil {
			return 0, err
		}
		p.ExpectLast = &c.last
		batch[i] = p
	}
	seq, err := bus.ClaimBatch(ctx, w.bus, batch)
	if err != nil {
		return 0, fmt.Errorf("publish %s with %s: %w", first.Key, second.Key, err)
	}
	return seq, nil
}

// Tick publishes {F, T} when either moved and tells whether it did. F is the fact stream's end; T never goes back.
func (w *Writer) Tick(ctx context.Context, at span.Second) (bool, error) {
	if err := w.lastTick(ctx); err != nil {
		return false, fmt.Errorf("publish tick: %w", err)
	}
	facts, err := w.bus.LastSeq(ctx, bus.Facts)
	if err != nil {
		return false, fmt.Errorf("publish tick: %w", err)
	}
	t := codec.Tick{FactsSeq: facts, At: max(at, w.tick.At)}
	if w.tickSeq > 0 && t == w.tick {
		return false, nil
	}
	p, err := codec.EncodeTick(t)
	if err != nil {
		return false, fmt.Errorf("publish tick: %w", err)
	}
	last := w.tickSeq
	p.ExpectLast = &last
	seq, err := bus.Claim(ctx, w.bus, p)
	if err != nil {
		w.known = false // somebody else ticks, or the outcome is unknown: read again
		return false, fmt.Errorf("publish tick at %v: %w", at, err)
	}
	w.tick, w.tickSeq = t, seq
	return true, nil
}

// LastTick is the time of the log's last tick, 0 before the first.
func (w *Writer) LastTick(ctx context.Context) (codec.Tick, error) {
	err := w.lastTick(ctx)
	return w.tick, err
}

func (w *Writer) lastTick(ctx context.Context) error {
	if w.known {
		return nil
	}
	m, err := w.bus.Last(ctx, bus.Tick)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		w.tick, w.tickSeq = codec.Tick{}, 0
	case err != nil:
		return err
	default:
		if w.tick, err = codec.DecodeTick(m); err != nil {
			return err
		}
		w.tickSeq = m.Seq
	}
	w.known = true
	return nil
}
