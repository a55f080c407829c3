package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// ErrRewound is a log that is not the one that was read before. Whoever goes on would miss what took the same positions.
var ErrRewound = errors.New("the log was rewound, replaced or restored from an older copy; stop gpuhour and restore a newer copy of the log, " +
	"or go on with this one: `gpuhour recover --by NAME --reason TEXT`")

// tail follows one stream. Every fetch asks again for the message that was read last: where another stands in its place, or
// none, the stream is not the one that was read.
type tail struct {
	stream, subject string // subject is a filter, "" for all
	read            uint64 // position read last, 0 before the first
	digest          fact.Hash
	buffer          []bus.Message
}

// next is the next message, or false when the stream holds none yet.
func (t *tail) next(ctx context.Context, b bus.Bus) (m bus.Message, ok bool, err error) {
	if len(t.buffer) == 0 {
		if err := t.fetch(ctx, b); err != nil || len(t.buffer) == 0 {
			return bus.Message{}, false, err
		}
	}
	m, t.buffer = t.buffer[0], t.buffer[1:]
	t.read = m.Seq
	return m, true, nil
}

// fetch fills the buffer. A digest that is not known, as at a position that says none, is not compared.
func (t *tail) fetch(ctx context.Context, b bus.Bus) error {
	messages, err := t.ask(ctx, b, max(t.read, 1)-1)
	if err != nil {
		return err
	}
	if t.read > 0 {
		if len(messages) == 0 || messages[0].Seq != t.read || t.digest != (fact.Hash{}) && Digest(messages[0]) != t.digest {
			return fmt.Errorf("read %s on from %d: another message stands there now, or none: %w", t.stream, t.read, ErrRewound)
		}
		if messages = messages[1:]; len(messages) == 0 { // a read may return fewer than there are
			if messages, err = t.ask(ctx, b, t.read); err != nil {
				return err
			}
		}
	}
	if n := len(messages); n > 0 {
		t.digest = Digest(messages[n-1])
	}
	t.buffer = messages
	return nil
}

func (t *tail) ask(ctx context.Context, b bus.Bus, after uint64) ([]bus.Message, error) {
	if t.subject != "" {
		return b.ReadSubject(ctx, t.stream, t.subject, after, chunk)
	}
	return b.Read(ctx, t.stream, after, chunk)
}

// Digest is the hash of a message as stored: sequence, subject and body.
func Digest(m bus.Message) fact.Hash {
	return sha256.Sum256(append([]byte(strconv.FormatUint(m.Seq, 10)+"\x00"+m.Subject+"\x00"), m.Data...))
}

// CheckTick stops a service whose saved position is not in this log with ErrRewound.
func CheckTick(ctx context.Context, b bus.Bus, block uint64, digest fact.Hash) error {
	messages, err := b.Read(ctx, bus.Usage, block-1, 1)
	if err != nil {
		return fmt.Errorf("check position %d: %w", block, err)
	}
	if len(messages) == 0 || messages[0].Seq != block || Digest(messages[0]) != digest {
		return fmt.Errorf("check position %d: the log does not hold the tick that the tables stand on: %w", block, ErrRewound)
	}
	return nil
}

// FactsBefore is the F of the tick in front of a block, 0 when the block is the first.
func FactsBefore(ctx context.Context, b bus.Bus, block uint64) (uint64, error) {
	for back := uint64(chunk); ; back *= 8 {
		after := block - min(back, block)
		last, found, err := tickBetween(ctx, b, after, block)
		if err != nil {
			return 0, fmt.Errorf("read the tick in front of block %d: %w", block, err)
		}
		if found || after == 0 {
			return last.FactsSeq, nil
		}
	}
}

// tickBetween is the last tick between two positions, neither included.
func tickBetween(ctx context.Context, b bus.Bus, after, before uint64) (last codec.Tick, found bool, err error) {
	for {
		messages, err := b.ReadSubject(ctx, bus.Usage, bus.Tick, after, chunk)
		if err != nil || len(messages) == 0 {
			return last, found, err
		}
		for _, m := range messages {
			if m.Seq >= before {
				return last, found, nil
			}
			if last, err = codec.DecodeTick(m); err != nil {
				return last, false, err
			}
			after, found = m.Seq, true
		}
	}
}

// Incarnation is the log's: 1, or what its last log.recovered says. seq is that fact's position, 0 in the first.
func Incarnation(ctx context.Context, b bus.Bus) (n, seq uint64, err error) {
	m, err := b.Last(ctx, codec.FactSubject(&fact.LogRecovered{}))
	if errors.Is(err, bus.ErrNotFound) {
		return 1, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the log's incarnation: %w", err)
	}
	f, err := codec.DecodeFact(m)
	if err != nil {
		return 0, 0, fmt.Errorf("read the log's incarnation: %w", err)
	}
	recovered, ok := f.Body.(*fact.LogRecovered)
	if !ok {
		return 0, 0, fmt.Errorf("read the log's incarnation: fact %d is %s", m.Seq, f.Body.Type())
	}
	return recovered.Incarnation, m.Seq, nil
}
