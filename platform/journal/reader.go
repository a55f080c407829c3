package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// chunk is how many messages one read asks for.
const chunk = 1000

// Position is where a reader stands: after the block of that tick. Tick is the tick's Digest, zero when it is not known: then
// a log that was rewound since is noticed only where it is shorter.
type Position struct {
	Block    uint64
	FactsSeq uint64
	At       span.Second
	Tick     fact.Hash
}

// ErrClock is time that breaks the log's declared clock; a person mends it with clock.resumed.v1.
var ErrClock = errors.New("the tick breaks the log's clock; if the time is right, run `gpuhour resume --by NAME`")

// Reader gives blocks in order. After an error it is thrown away.
type Reader struct {
	bus          bus.Bus
	mode         fact.ClockMode
	pos          Position
	usage, facts tail
	block        meter.Block // what was met since the last tick
}

// Open reads on after a position; the zero Position is the start of the log.
func Open(b bus.Bus, pos Position) *Reader {
	return &Reader{
		bus: b, pos: pos,
		usage: tail{stream: bus.Usage, read: pos.Block, digest: pos.Tick}, facts: tail{stream: bus.Facts, read: pos.FactsSeq},
	}
}

// OpenTicks reads only ticks and facts: blocks have no usage.
func OpenTicks(b bus.Bus, pos Position) *Reader {
	r := Open(b, pos)
	r.usage.subject = bus.Tick
	return r
}

// Next gives the next whole block and the digest of its tick, or false when the log holds none yet.
func (r *Reader) Next(ctx context.Context) (meter.Block, fact.Hash, bool, error) {
	for {
		m, ok, err := r.usage.next(ctx, r.bus)
		if err != nil || !ok {
			return meter.Block{}, fact.Hash{}, false, err
		}
		if m.Subject != bus.Tick {
			r.take(m)
			continue
		}
		block, err := r.tick(ctx, m)
		if err != nil {
			return meter.Block{}, fact.Hash{}, false, fmt.Errorf("read block %d: %w", m.Seq, err)
		}
		return block, Digest(m), true, nil
	}
}

// take decodes a batch; one that cannot be taken is quarantined, never dropped.
func (r *Reader) take(m bus.Message) {
	b, q := codec.DecodeBatch(m)
	if q != nil {
		r.block.Quarantined = append(r.block.Quarantined, meter.Quarantined{Seq: m.Seq, Quarantine: *q})
		return
	}
	r.block.Usage = append(r.block.Usage, meter.UsageMessage{Seq: m.Seq, Batch: b})
}

func (r *Reader) tick(ctx context.Context, m bus.Message) (meter.Block, error) {
	t, err := codec.DecodeTick(m)
	if err != nil {
		return meter.Block{}, err
	}
	if t.At < r.pos.At || t.FactsSeq < r.pos.FactsSeq {
		return meter.Block{}, fmt.Errorf("tick {F %d, T %v} goes back from {F %d, T %v}: another program wrote it, or the log was put together "+
			"from two; restore it from a copy", t.FactsSeq, t.At, r.pos.FactsSeq, r.pos.At)
	}
	block := r.block
	r.block = meter.Block{}
	block.Seq, block.FactsSeq, block.At = m.Seq, t.FactsSeq, t.At
	if block.Facts, err = r.factsUpTo(ctx, t.FactsSeq); err != nil {
		return meter.Block{}, err
	}
	if err := r.checkClock(ctx, m, block); err != nil {
		return meter.Block{}, err
	}
	r.pos = Position{Block: block.Seq, FactsSeq: block.FactsSeq, At: block.At}
	return block, nil
}

// factsUpTo reads the facts after the last block's up to F. A tick never names facts that are not in the log.
func (r *Reader) factsUpTo(ctx context.Context, last uint64) ([]fact.Fact, error) {
	var out []fact.Fact
	for r.pos.FactsSeq+uint64(len(out)) < last {
		m, ok, err := r.facts.next(ctx, r.bus)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("the tick names facts up to %d, the log ends at %d: %w", last, r.facts.read, ErrRewound)
		}
		f, err := codec.DecodeFact(m)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Wall clock bounds, in seconds (design page 2, Ticks). A tick behind the server's stamp is only late, as on a slow disk; one
// ahead of it would close time that has not passed.
const (
	wallAheadSeconds = 5
	wallJumpSeconds  = 3600
)

// checkClock holds a tick against the log's first fact: a scripted clock only grows; a wall clock does not run ahead of the
// server's stamps and does not jump, unless a person stated clock.resumed.v1 after the last good block.
func (r *Reader) checkClock(ctx context.Context, m bus.Message, b meter.Block) error {
	if r.mode == "" {
		mode, err := declaredMode(ctx, r.bus)
		if err != nil {
			return err
		}
		r.mode = mode
	}
	if r.mode != fact.Wall {
		return nil
	}
	var broken error
	if ahead := int64(b.At) - m.Time.Unix(); ahead > wallAheadSeconds {
		broken = fmt.Errorf("tick time %v is %d s ahead of the server's stamp: %w", b.At, ahead, ErrClock)
	} else if r.pos.At > 0 && b.At-r.pos.At > wallJumpSeconds {
		broken = fmt.Errorf("tick time jumps from %v to %v: %w", r.pos.At, b.At, ErrClock)
	}
	if broken == nil {
		return nil
	}
	resumed, err := ResumedAfter(ctx, r.bus, r.pos.FactsSeq)
	if err != nil {
		return err
	}
	if resumed {
		return nil
	}
	return broken
}

// ResumedAfter tells whether a person stated clock.resumed.v1 after a position of the fact stream.
func ResumedAfter(ctx context.Context, b bus.Bus, after uint64) (bool, error) {
	for {
		messages, err := b.ReadSubject(ctx, bus.Facts, codec.FactSubject(&fact.TimeResumed{}), after, chunk)
		if err != nil || len(messages) == 0 {
			return false, err
		}
		for _, m := range messages {
			f, err := codec.DecodeFact(m)
			if err != nil {
				return false, err
			}
			if _, ok := f.Body.(*fact.TimeResumed); ok {
				return true, nil
			}
			after = m.Seq
		}
	}
}

// declaredMode reads the log's first fact.
func declaredMode(ctx context.Context, b bus.Bus) (fact.ClockMode, error) {
	first, err := b.Read(ctx, bus.Facts, 0, 1)
	if err != nil {
		return "", err
	}
	if len(first) == 0 {
		return "", nil
	}
	f, err := codec.DecodeFact(first[0])
	if err != nil {
		return "", err
	}
	declared, ok := f.Body.(*fact.ClockDeclared)
	if !ok {
		return "", fmt.Errorf("the log's first fact is %s, not %s", f.Body.Type(), fact.TypeClockDeclared)
	}
	return declared.Mode, nil
}

// History reads facts 1 to last, for a service that starts, and the usage after floor up to and including block, which is a
// tick. Batches that are not measured are left out: they were quarantined in their block, and a later one changes nothing.
func History(ctx context.Context, b bus.Bus, last, floor, block uint64) ([]fact.Fact, []meter.UsageMessage, error) {
	r := Open(b, Position{})
	facts, err := r.factsUpTo(ctx, last)
	if err != nil {
		return nil, nil, fmt.Errorf("read facts up to %d: %w", last, err)
	}
	r.usage.read = floor
	keys := trust.Of(facts)
	taken := 0 // batches whose tick was met
	for r.usage.read < block {
		m, ok, err := r.usage.next(ctx, b)
		if err != nil {
			return nil, nil, fmt.Errorf("read usage from %d to %d: %w", floor, block, err)
		}
		if !ok {
			return nil, nil, fmt.Errorf("read usage from %d to %d: the stream ends at %d: %w", floor, block, r.usage.read, ErrRewound)
		}
		if m.Subject != bus.Tick {
			r.take(m)
			continue
		}
		t, err := codec.DecodeTick(m)
		if err != nil {
			return nil, nil, fmt.Errorf("read usage from %d to %d: %w", floor, block, err)
		}
		fresh := slices.DeleteFunc(r.block.Usage[taken:], func(u meter.UsageMessage) bool {
			return keys.Judge(&u.Batch, t.FactsSeq, t.At) != nil
		})
		r.block.Usage = r.block.Usage[:taken+len(fresh)]
		taken += len(fresh)
	}
	return facts, r.block.Usage[:taken], nil
}
