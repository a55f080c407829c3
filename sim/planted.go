package sim

import (
	"errors"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/invoicer"
	"github.com/gpuhour/gpuhour/services/rater"
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
	NotFenced         Bug = "second rater not fenced"
	RoundingKept      Bug = "rounding of a late amendment left alone in closed periods"
	NoiseDropped      Bug = "quarantined batch dropped silently"
	PartitionIgnored  Bug = "batch of a wrong partition taken"
	HaltIgnored       Bug = "halted customer billed"
	JumpAccepted      Bug = "clock jump accepted"
	TermKept          Bug = "amended term not noticed"
	AdvanceKept       Bug = "closing 0 not taken off at closing 1"
	AdvanceForgotten  Bug = "fees in advance billed in arrears"
	EndedADayLate     Bug = "terminated contract ended a day late"
	PackageKept       Bug = "ended package goes on covering"
	DeclarationLost   Bug = "declaration of a device ignored"
	DeclarationLate   Bug = "declaration of a device counted from the next full minute"
)

// Bugs lists them.
func Bugs() []Bug {
	return []Bug{
		ProgressFirst, ReadBeyondBlock, StaleBase, TickSkipped, FactsPastF, NumberReused, CorrectedTwice, UnknownAsZero, ErrorAsEmpty,
		TrimOffByOne, WindowedDedup, InferredLost, CutWithoutFlush, TrimForgotten, AmbiguousAsStored, PutAgain, FloorForgotten,
		LateDropped, SpoolNotSynced, NotFenced, RoundingKept, NoiseDropped, PartitionIgnored, HaltIgnored, JumpAccepted, TermKept,
		AdvanceKept, AdvanceForgotten, EndedADayLate, PackageKept, DeclarationLost, DeclarationLate,
	}
}

// plant puts a bug between a service and the ports. SpoolNotSynced is the disk's, see newAgent, NotFenced the tables', see fence.
func plant(bug Bug, who string, b bus.Bus, s store.Store, m *memory) (bus.Bus, store.Store) {
	switch bug {
	case RoundingKept, HaltIgnored, AdvanceKept, AdvanceForgotten, EndedADayLate:
		if who != invoicer.Service {
			return b, s
		}
		return &buggyBus{Bus: b, bug: bug}, s
	case PackageKept, DeclarationLost, DeclarationLate:
		if who != rater.Service {
			return b, s
		}
		return &buggyBus{Bus: b, bug: bug}, s
	case TickSkipped, FactsPastF, NumberReused, UnknownAsZero, WindowedDedup, AmbiguousAsStored, NoiseDropped, PartitionIgnored, JumpAccepted, TermKept:
		return &buggyBus{Bus: b, bug: bug}, s
	case "", SpoolNotSynced, NotFenced:
		return b, s
	default:
		return b, &buggyStore{s, bug, m}
	}
}

// unanswered tells whether nobody knows what came of a call.
func unanswered(err error) bool { return errors.Is(err, bus.ErrAmbiguous) }
