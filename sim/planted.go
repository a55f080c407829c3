package sim

import (
	"errors"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Bug names a planted mistake. Each is a wrapper around a port that behaves as a service with the mistake would: the product
// holds no hook for it.
type Bug string

// The planted bugs.
const (
	ProgressFirst     Bug = "progress before rows"
	ReadBeyondBlock   Bug = "read beyond the block"
	StaleBase         Bug = "difference against the wrong base"
	TickSkipped       Bug = "tick skipped"
	FactsPastF        Bug = "facts past F applied"
	NumberReused      Bug = "number reused"
	CorrectedTwice    Bug = "correction billed twice"
	UnknownAsZero     Bug = "unknown as zero"
	ErrorAsEmpty      Bug = "an answer that did not come taken as an empty one"
	TrimOffByOne      Bug = "boundary off by one"
	WindowedDedup     Bug = "dedup by window"
	InferredLost      Bug = "carry over the full hour lost"
	CutWithoutFlush   Bug = "cut flush missing"
	TrimForgotten     Bug = "trim forgotten at boot"
	AmbiguousAsStored Bug = "unknown outcome taken as stored"
	PutAgain          Bug = "rows put again after an unknown outcome"
	FloorForgotten    Bug = "open minutes forgotten at boot"
	LateDropped       Bug = "late sample dropped"
	SpoolNotSynced    Bug = "spool not synced"
)

// Bugs lists them.
func Bugs() []Bug {
	return []Bug{
		ProgressFirst, ReadBeyondBlock, StaleBase, TickSkipped, FactsPastF, NumberReused, CorrectedTwice, UnknownAsZero, ErrorAsEmpty,
		TrimOffByOne, WindowedDedup, InferredLost, CutWithoutFlush, TrimForgotten, AmbiguousAsStored, PutAgain, FloorForgotten,
		LateDropped, SpoolNotSynced,
	}
}

// plant puts a bug between the services and the ports. SpoolNotSynced is the disk's, see newAgent.
func plant(bug Bug, b bus.Bus, s store.Store) (bus.Bus, store.Store) {
	switch bug {
	case TickSkipped, FactsPastF, NumberReused, UnknownAsZero, WindowedDedup, AmbiguousAsStored:
		return &buggyBus{Bus: b, bug: bug}, s
	case "", SpoolNotSynced:
		return b, s
	default:
		return b, &buggyStore{Store: s, bug: bug, first: map[store.Period]uint64{}}
	}
}

// unanswered tells whether nobody knows what came of a call.
func unanswered(err error) bool { return errors.Is(err, bus.ErrAmbiguous) }
