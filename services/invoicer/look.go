package invoicer

import (
	"context"
	"fmt"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Standing is where the invoices of a log stand, for a process that looks on.
type Standing struct {
	Issued  uint64       // last number of the series
	Due     int          // periods that the last cut was to close or to bill in advance and did not, blocked ones included
	Blocked []bill.Block // those of the first MaxLooked of them that cannot close, with the reason
}

// MaxLooked bounds how many due periods are looked at: an hourly contract signed late has thousands.
const MaxLooked = 100

// Look decides anew what the last cut could not close or bill in advance. It reads the log and the tables and writes nothing. A correction
// that is blocked is not among it.
func Look(ctx context.Context, b bus.Bus, s store.Store, series string, grace int64) (Standing, error) {
	i := New(b, s, series, grace)
	i.looking = true
	if _, err := i.boot(ctx); err != nil {
		return Standing{}, fmt.Errorf("look at the invoices: %w", err)
	}
	var out Standing
	out.Issued, _ = i.state.Number()
	cuts := i.state.Cuts()
	if len(cuts) == 0 {
		return out, nil
	}
	cut := cuts[len(cuts)-1]
	due := i.state.DueAt(cut)
	out.Due = len(due)
	if rated, err := i.rated(ctx, cut.Block); err != nil || !rated {
		return out, err // tables that hold less than the cut would look broken
	}
	refusals, err := s.OpenRefusals(ctx, cut.Block)
	if err != nil {
		return Standing{}, err
	}
	for _, d := range due[:min(len(due), MaxLooked)] {
		blocked := i.state.CheckAdvance(d)
		if !d.Advance {
			if _, blocked, err = i.check(ctx, d, cut, refusals); err != nil {
				return Standing{}, err
			}
		}
		if blocked != nil {
			out.Blocked = append(out.Blocked, *blocked)
		}
	}
	return out, nil
}
