package usage

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/span"
)

// ClockState is the node's own account of its clock, from the kernel's NTP state.
type ClockState uint8

// Clock states; unknown is not synchronised.
const (
	ClockUnknown ClockState = iota
	ClockSynchronised
	ClockFree
	ClockScripted
	clockEnd
)

// ClockEvidence goes with each batch.
type ClockEvidence struct {
	State          ClockState
	OffsetNanos    int64
	ErrorBoundNano int64
}

// Batch is one flush of one node: at most a minute, never across a minute's edge. Its name is node / boot / run /
// sequence; sequences of a run are gap-free from 1.
type Batch struct {
	Node, Boot string
	Run        uint64 // grows with every start of the collector on this node
	Seq        uint64
	// PreviousRun and PreviousSeq name the last batch of the run before; set in a run's first batch only.
	PreviousRun, PreviousSeq uint64
	Minute                   span.Minute
	Spoken                   span.SecondMask // the seconds this batch speaks for, whatever was seen in them
	Clock                    ClockEvidence
	Blocks                   [][]byte  // one per device, see Block
	Gaps                     []Gap     // by rising (device, from)
	Topology                 *Topology // nil: as in the batch before
	Seed, Signature          []byte    // of a signed batch, see SignedBytes
}

// Limits of a batch. maxMinute is the last minute of the year 9999: later ones would overflow as seconds.
const (
	MaxBlocks    = 1024 // devices or slices of one node
	MaxNameBytes = 256  // of node and boot

	maxMinute span.Minute = 253402300799 / span.SecondsPerMinute
)

// Validate judges a decoded batch taken alone, without its blocks.
func (b *Batch) Validate() error {
	switch {
	case b.Node == "" || len(b.Node) > MaxNameBytes || len(b.Boot) > MaxNameBytes:
		return fmt.Errorf("node name of %d bytes and boot id of %d; at most %d each, and the node is named", len(b.Node), len(b.Boot), MaxNameBytes)
	case !utf8.ValidString(b.Node) || !utf8.ValidString(b.Boot):
		return fmt.Errorf("node %q or boot %q is not valid UTF-8", b.Node, b.Boot)
	case b.Seq == 0 || b.Run == 0:
		return fmt.Errorf("run %d sequence %d: both count from 1", b.Run, b.Seq)
	case b.Spoken == 0 || !b.Spoken.Valid():
		return fmt.Errorf("spoken mask %#x names no second or one above 59", uint64(b.Spoken))
	case b.Minute <= 0 || b.Minute > maxMinute:
		return fmt.Errorf("minute %d lies outside 1970 to 9999", b.Minute)
	case b.Clock.State >= clockEnd || b.Clock.ErrorBoundNano < 0:
		return fmt.Errorf("clock state %d with error bound %d ns is unknown", b.Clock.State, b.Clock.ErrorBoundNano)
	case len(b.Blocks) > MaxBlocks:
		return fmt.Errorf("%d device blocks; at most %d", len(b.Blocks), MaxBlocks)
	}
	return cmp.Or(b.validatePrevious(), b.validateGaps(), b.Topology.validate(), b.validateSignature())
}

func (b *Batch) validatePrevious() error {
	none := b.PreviousRun == 0 && b.PreviousSeq == 0
	if none || b.Seq == 1 && b.PreviousRun > 0 && b.PreviousRun < b.Run && b.PreviousSeq > 0 {
		return nil
	}
	return fmt.Errorf("run %d sequence %d names run %d sequence %d as its last before; only a first batch names one, of an earlier run",
		b.Run, b.Seq, b.PreviousRun, b.PreviousSeq)
}

// ValidateBlocks decodes each block once: devices rise by name, and seen seconds and faults lie in the seconds that
// the batch speaks for.
func (b *Batch) ValidateBlocks() error {
	var block Block
	last := ""
	for i, raw := range b.Blocks {
		if err := block.Decode(raw); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		if block.Device <= last {
			return fmt.Errorf("block %d: device %q does not come after %q", i, block.Device, last)
		}
		last = block.Device
		if len(block.Faults) > MaxFaults {
			return fmt.Errorf("block %d: device %q has %d faults; at most %d", i, block.Device, len(block.Faults), MaxFaults)
		}
		said := block.Seen
		for _, f := range block.Faults {
			said |= span.Bit(int(f.Second))
		}
		if said&^b.Spoken != 0 {
			return fmt.Errorf("block %d: device %q has values or faults in seconds %#x, which the batch does not speak for", i, block.Device, uint64(said&^b.Spoken))
		}
	}
	return nil
}
