package quote

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/price"
)

// Windows are what the contract's off-peak windows do for the use of a span on demand.
type Windows struct {
	Best            string   // the cheapest window for time on demand
	Inside, Outside int64    // of all windows, in milli-GPU-seconds
	Cost            *big.Rat // of the time inside, exact
	WithoutWindows  *big.Rat // what that time would cost outside of every window, exact
}

// offPeak tells what the windows save, and bounds what they could: everything outside moved into the cheapest.
func (t *trial) offPeak() (Mode, error) {
	best := t.cheapestWindow()
	if best == nil {
		return Mode{Name: OffPeak, Why: NotSold}, nil
	}
	w := &Windows{Best: best.Name, Cost: timeCost(t.offered, true)}
	moved, err := t.repriced(func(k *meter.ChargeKey) {
		if k.Window == "" {
			k.Window = best.Name
		}
	})
	if err != nil {
		return Mode{}, err
	}
	flat, err := t.repriced(func(k *meter.ChargeKey) { k.Window = "" })
	if err != nil {
		return Mode{}, err
	}
	w.WithoutWindows = new(big.Rat).Sub(timeCost(flat, false), timeCost(t.offered, false))
	for _, s := range t.offered.Statements {
		for i := range s.Lines {
			switch l := &s.Lines[i]; {
			case l.Item != nil:
			case l.Key.Window != "":
				w.Inside += l.Quantity
			default:
				w.Outside += l.Quantity
			}
		}
	}
	m := t.mode(OffPeak, t.offered)
	m.cost(moved.Total, t.offered.Total)
	m.Windows = w
	return m, nil
}

// cheapestWindow is the window that takes most off the price on demand, or nil.
func (t *trial) cheapestWindow() (best *contract.Window) {
	if t.base.Schedule == nil {
		return nil
	}
	least := big.NewRat(1, 1)
	for i := range t.base.Schedule.Windows {
		if w := &t.base.Schedule.Windows[i]; slices.Contains(w.Modes, price.OnDemand) && w.Factor.Cmp(least) < 0 {
			best, least = w, w.Factor
		}
	}
	return best
}

// repriced bills the time on demand again, each of its keys changed.
func (t *trial) repriced(change func(*meter.ChargeKey)) (*Offer, error) {
	out := &Offer{Total: t.offered.Total.Sub(t.offered.Total)}
	for _, s := range t.offered.Statements {
		totals := slices.Clone(t.onDemand.totals[periodKey{s.Contract.ID, s.Period.From}])
		for i := range totals {
			if totals[i].Key.Standing == meter.Priced {
				change(&totals[i].Key)
			}
		}
		again, err := bill.Compute(t.onDemand.state.Contracts(), s.Contract.ID, s.Period, totals)
		if err != nil {
			return nil, err
		}
		out.add(again)
	}
	return out, nil
}

// timeCost is the exact cost of GPU time inside windows or outside of them.
func timeCost(o *Offer, inside bool) *big.Rat {
	sum := new(big.Rat)
	for _, s := range o.Statements {
		for i := range s.Lines {
			if l := &s.Lines[i]; l.Item == nil && (l.Key.Window != "") == inside {
				sum.Add(sum, l.Exact)
			}
		}
	}
	return sum
}
