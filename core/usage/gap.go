package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/span"
)

// GapReason says why there is no sample. The list is closed and frozen (docs/format.md, Gap reasons); the numbers below
// GapStopped are those of Reason, and mean what they mean there.
type GapReason uint8

// Reasons for which a collector that could have sampled did not.
const (
	GapNotSupported GapReason = GapReason(ReasonNotSupported)
	GapNotAvailable GapReason = GapReason(ReasonNotAvailable)
	GapPermission   GapReason = GapReason(ReasonPermission)
	GapLost         GapReason = GapReason(ReasonLost)
	GapStale        GapReason = GapReason(ReasonStale)
	GapTimeout      GapReason = GapReason(ReasonTimeout)
	GapError        GapReason = GapReason(ReasonError)

	GapStopped   GapReason = 16 // the collector was stopped as it should be
	GapKilled    GapReason = 17 // it ended without a word, and the machine ran on
	GapRebooted  GapReason = 18 // the machine started anew
	GapSuspended GapReason = 19 // the machine slept
	GapStepped   GapReason = 20 // the clock was set over these seconds: they never were
	GapStalled   GapReason = 21 // the collector did not get to run in time
	GapThinned   GapReason = 22 // sampled, and given up when the spool was full
	GapPaused    GapReason = 23 // the disk took nothing, so nothing was sampled
	gapEnd       GapReason = 24
)

// Valid tells whether the reason is of the list.
func (g GapReason) Valid() bool {
	return g >= GapStopped && g < gapEnd || g > 0 && g < GapReason(reasonEnd)
}

func (g GapReason) String() string {
	switch g {
	case GapNotSupported:
		return "not_supported"
	case GapNotAvailable:
		return "not_available"
	case GapPermission:
		return "permission"
	case GapLost:
		return "lost"
	case GapStale:
		return "stale"
	case GapTimeout:
		return "timeout"
	case GapError:
		return "error"
	case GapStopped:
		return "stopped"
	case GapKilled:
		return "killed"
	case GapRebooted:
		return "rebooted"
	case GapSuspended:
		return "suspended"
	case GapStepped:
		return "clock_stepped"
	case GapStalled:
		return "stalled"
	case GapThinned:
		return "thinned"
	case GapPaused:
		return "paused"
	default:
		return fmt.Sprintf("gap reason %d", uint8(g))
	}
}

// Gap is a stretch of seconds in which a device was not seen, and why. It adds no second and takes none away: what counts is
// the blocks. Device is empty for the whole node.
type Gap struct {
	Device   string
	From, To span.Second
	Reason   GapReason
}

// MaxGaps is more than 1024 devices can need in a batch of ten seconds.
const MaxGaps = 16384

// validateGaps: gaps rise by (device, from) and do not overlap, none reaches beyond the batch's minute.
func (b *Batch) validateGaps() error {
	if len(b.Gaps) > MaxGaps {
		return fmt.Errorf("%d gaps; at most %d", len(b.Gaps), MaxGaps)
	}
	end := b.Minute.End()
	for i, g := range b.Gaps {
		switch {
		case len(g.Device) > MaxDeviceBytes || !utf8.ValidString(g.Device):
			return fmt.Errorf("gap %d: device %q is no name", i, g.Device)
		case !g.Reason.Valid():
			return fmt.Errorf("gap %d: reason %d is unknown", i, g.Reason)
		case g.From <= 0 || g.From >= g.To || g.To > end:
			return fmt.Errorf("gap %d: seconds %d to %d are none, or lie after the batch's minute", i, g.From, g.To)
		case i > 0 && compareGaps(b.Gaps[i-1], g) >= 0:
			return fmt.Errorf("gap %d does not come after the one before it", i)
		case i > 0 && b.Gaps[i-1].Device == g.Device && b.Gaps[i-1].To > g.From:
			return fmt.Errorf("gap %d overlaps the one before it", i)
		}
	}
	return nil
}

// AppendGap adds a gap, as a part of the last one where it goes on from it.
func AppendGap(gaps []Gap, g Gap) []Gap {
	if n := len(gaps); n > 0 && gaps[n-1].To == g.From && gaps[n-1].Device == g.Device && gaps[n-1].Reason == g.Reason {
		gaps[n-1].To = g.To
		return gaps
	}
	return append(gaps, g)
}

// SortGaps puts gaps into the order of a batch.
func SortGaps(gaps []Gap) { slices.SortFunc(gaps, compareGaps) }

func compareGaps(a, b Gap) int {
	return cmp.Or(strings.Compare(a.Device, b.Device), cmp.Compare(a.From, b.From))
}
