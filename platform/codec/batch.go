package codec

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

// EncodeBatch writes a batch as the log keeps it, its blocks by device name, without an expectation on its subject. It
// refuses what DecodeBatch would quarantine.
func EncodeBatch(b *usage.Batch) (bus.Publication, error) {
	sorted := *b
	sorted.Blocks = slices.Clone(b.Blocks)
	slices.SortFunc(sorted.Blocks, byDevice)
	if err := errors.Join(sorted.Validate(), sorted.ValidateBlocks()); err != nil {
		return bus.Publication{}, fmt.Errorf("encode batch %s run %d sequence %d: %w", b.Node, b.Run, b.Seq, err)
	}
	m := &logv1.UsageBatch{
		Node: b.Node, Boot: b.Boot, Run: b.Run, Seq: b.Seq, PreviousRun: b.PreviousRun, PreviousSeq: b.PreviousSeq,
		UnixMinute: int64(b.Minute), Spoken: uint64(b.Spoken), Blocks: sorted.Blocks,
		Clock: &logv1.ClockEvidence{
			State: logv1.ClockState(b.Clock.State), OffsetNanos: b.Clock.OffsetNanos, ErrorBoundNanos: b.Clock.ErrorBoundNano,
		},
		Topology: topologyMessage(b.Topology), Seed: b.Seed, Signature: b.Signature,
	}
	for _, g := range b.Gaps {
		m.Gaps = append(m.Gaps, &logv1.UsageGap{
			Device: g.Device, FromUnixSeconds: int64(g.From), ToUnixSeconds: int64(g.To), Reason: logv1.GapReason(g.Reason),
		})
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return bus.Publication{}, fmt.Errorf("encode batch %s run %d sequence %d: %w", b.Node, b.Run, b.Seq, err)
	}
	return bus.Publication{Subject: UsageSubject(b.Node), Data: data}, nil
}

// byDevice puts blocks in the order of their devices; what is no block is found by ValidateBlocks.
func byDevice(a, b []byte) int {
	deviceA, _ := usage.BlockDevice(a)
	deviceB, _ := usage.BlockDevice(b)
	if deviceA == deviceB {
		return bytes.Compare(a, b)
	}
	return strings.Compare(deviceA, deviceB)
}

// DecodeBatch reads a batch from the log and decodes each of its blocks once, so that whoever merges them later
// believes them. Blocks share memory with m.Data. A batch that cannot be taken comes back as a quarantine: undecodable or
// wrong_partition.
func DecodeBatch(m bus.Message) (usage.Batch, *usage.Quarantine) {
	var b usage.Batch
	err := parseBatch(m.Data, &b)
	if err == nil {
		err = b.Validate()
	}
	if err == nil {
		err = b.ValidateBlocks()
	}
	if err != nil {
		return usage.Batch{}, &usage.Quarantine{
			Reason: usage.Undecodable, Node: m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], Detail: err.Error(),
		}
	}
	if want := UsageSubject(b.Node); m.Subject != want {
		return usage.Batch{}, &usage.Quarantine{
			Reason: usage.WrongPartition, Node: b.Node, Detail: fmt.Sprintf("it came on %s and belongs on %s", m.Subject, want),
		}
	}
	return b, nil
}

var errWire = errors.New("the bytes are no protobuf")

// parseBatch reads UsageBatch by hand: the generated code would copy every block. A field number that is unknown here,
// or known with another wire type, is an error.
func parseBatch(data []byte, b *usage.Batch) error {
	for len(data) > 0 {
		field, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errWire
		}
		data = data[n:]
		var number uint64
		var raw []byte
		switch wire {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(data)
		case protowire.BytesType:
			raw, n = protowire.ConsumeBytes(data)
		default:
			return fmt.Errorf("field %d with wire type %d is unknown", field, wire)
		}
		if n < 0 {
			return errWire
		}
		data = data[n:]
		if err := setBatchField(b, field, wire, number, raw); err != nil {
			return err
		}
	}
	return nil
}

// batchField is a field number and its wire type in one comparable value.
func batchField(field protowire.Number, wire protowire.Type) int64 {
	return int64(field)<<3 | int64(wire)
}

func setBatchField(b *usage.Batch, field protowire.Number, wire protowire.Type, number uint64, raw []byte) error {
	const varint, fixed64, length = int64(protowire.VarintType), int64(protowire.Fixed64Type), int64(protowire.BytesType)
	switch batchField(field, wire) {
	case 1<<3 | length:
		b.Node = string(raw)
	case 2<<3 | length:
		b.Boot = string(raw)
	case 3<<3 | varint:
		b.Run = number
	case 4<<3 | varint:
		b.Seq = number
	case 5<<3 | varint:
		b.PreviousRun = number
	case 6<<3 | varint:
		b.PreviousSeq = number
	case 7<<3 | varint:
		b.Minute = span.Minute(number)
	case 8<<3 | fixed64:
		b.Spoken = span.SecondMask(number)
	case 9<<3 | length:
		return parseClock(raw, &b.Clock)
	case 10<<3 | length:
		if b.Blocks == nil {
			b.Blocks = make([][]byte, 0, 8) // a usual node
		}
		b.Blocks = append(b.Blocks, raw[:len(raw):len(raw)])
	case 11<<3 | length:
		return parseGap(raw, b)
	case 12<<3 | length:
		return parseTopology(raw, b)
	case 14<<3 | length:
		b.Seed = raw[:len(raw):len(raw)]
	case 15<<3 | length:
		b.Signature = raw[:len(raw):len(raw)]
	default:
		return fmt.Errorf("field %d with wire type %d is unknown", field, wire)
	}
	return nil
}

// parseClock reads ClockEvidence, whose fields are all varints.
func parseClock(data []byte, c *usage.ClockEvidence) error {
	for len(data) > 0 {
		field, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errWire
		}
		data = data[n:]
		number, n := protowire.ConsumeVarint(data)
		if wire != protowire.VarintType || n < 0 {
			return errWire
		}
		data = data[n:]
		switch field {
		case 1:
			if number > 255 {
				return fmt.Errorf("clock state %d is unknown", number)
			}
			c.State = usage.ClockState(number)
		case 2:
			c.OffsetNanos = protowire.DecodeZigZag(number)
		case 3:
			c.ErrorBoundNano = int64(number)
		default:
			return fmt.Errorf("field %d of the clock evidence is unknown", field)
		}
	}
	return nil
}
