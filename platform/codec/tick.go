package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

// Tick ends a block: usage up to the tick's own position, then facts up to FactsSeq, then the time At.
type Tick struct {
	FactsSeq uint64
	At       span.Second
}

// latest is the last second of the year 9999.
const latest span.Second = 253402300799

// EncodeTick writes a tick as the log keeps it, without an expectation on its subject. The error is ErrBody.
func EncodeTick(t Tick) (bus.Publication, error) {
	if err := t.validate(); err != nil {
		return bus.Publication{}, fmt.Errorf("encode tick: %w", err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&logv1.Tick{FactsSeq: t.FactsSeq, AtUnixSeconds: int64(t.At)})
	if err != nil {
		return bus.Publication{}, fmt.Errorf("encode tick: %w: %w", ErrBody, err)
	}
	return bus.Publication{Subject: bus.Tick, Data: data}, nil
}

// DecodeTick reads a tick from the log. Whether it grows is judged by the reader that knows the one before. Errors,
// which stop a reader because there is no order without ticks, are ErrUnknown, ErrEnvelope and ErrBody.
func DecodeTick(m bus.Message) (Tick, error) {
	t, err := decodeTick(m)
	if err != nil {
		return Tick{}, fmt.Errorf("decode tick %d on %s: %w", m.Seq, m.Subject, err)
	}
	return t, nil
}

func decodeTick(m bus.Message) (Tick, error) {
	if m.Subject != bus.Tick {
		return Tick{}, fmt.Errorf("%w: ticks are on %s", ErrEnvelope, bus.Tick)
	}
	var wire logv1.Tick
	if err := proto.Unmarshal(m.Data, &wire); err != nil {
		return Tick{}, fmt.Errorf("%w: %w", ErrBody, err)
	}
	if len(wire.ProtoReflect().GetUnknown()) > 0 {
		return Tick{}, fmt.Errorf("a field is %w", ErrUnknown)
	}
	t := Tick{FactsSeq: wire.GetFactsSeq(), At: span.Second(wire.GetAtUnixSeconds())}
	return t, t.validate()
}

func (t Tick) validate() error {
	if t.At <= 0 || t.At > latest {
		return fmt.Errorf("%w: the time is %d seconds after 1970, outside 1970 to 9999", ErrBody, t.At)
	}
	return nil
}
