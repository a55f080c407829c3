package quote

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// ModeName is a way to buy the same use.
type ModeName string

// The closed list of modes.
const (
	OnDemand ModeName = "on_demand" // every lease on demand, with the contract's windows, without its commitments
	Reserved ModeName = "reserved"  // a reservation of the best quantity, beyond it on demand
	Spot     ModeName = "spot"      // every lease of a SKU with spot terms as spot
	OffPeak  ModeName = "off_peak"  // on demand, with everything moved into the cheapest window: a bound
)

// Why a mode has no rank.
type Why string

// The closed list of reasons.
const (
	NotSold      Why = "not_sold"       // the contract has no terms for it and the SKUs that were held
	OtherTime    Why = "other_time"     // it prices other time than on demand does: the two costs are not of the same thing
	NotWholeDays Why = "not_whole_days" // a reservation is paid by local days, and the span cuts one
)

// Modes ranks the ways to buy the use of a span under one contract.
type Modes struct {
	Contract string // whose words in force at the end of the span hold for all of it
	List     []Mode // ranked by cost, then those without a rank
}

// Mode is the bill of the span in one mode, held against on demand.
type Mode struct {
	Name   ModeName
	Why    Why           // it has no rank; "" else
	Offer  *Offer        // nil of a mode that is not sold or cannot be tried
	Total  money.Rounded // the offer's; of OffPeak what it would come down to
	Saving money.Rounded // against on demand; negative where it is dearer
	Part   *big.Rat      // of on demand that is saved; nil where that costs nothing
	// What is behind it, by mode.
	Held    []Held
	Market  *Market
	Windows *Windows
}

// Held is a SKU's best reserved quantity.
type Held struct {
	SKU         string
	Reservation contract.Reservation // the contract's cheapest, with the quantity that is best and the days of the span
	Most        int64                // GPUs held at once at most, part of one counted as one
	Costs       []money.Rounded      // of the whole bill, by quantity from 0 to Most
	Fee         money.Rounded
	Unused      int64 // of what the fee pays for, in milli-GPU-seconds
}

// trial tries modes under one contract.
type trial struct {
	*Quote
	base, bare *contract.Contract
	end        span.Second // of the term of a base that was terminated, else 0
	skus       []string    // that were held, in order
	onDemand   *rated
	offered    *Offer
	done, of   int
	told       func(done, of int)
}

// modes tries every mode under the first quoted contract, else under the customer's only one.
func (q *Quote) modes(told func(done, of int)) (*Modes, error) {
	t := &trial{Quote: q, told: told, of: 3}
	out := &Modes{}
	switch {
	case len(q.quoted) > 0:
		t.base, out.Contract = q.quoted[0], q.request.Contracts[0].ID
	case len(q.own) == 1:
		v, ok := q.known.Governing(q.own[0].Contract.ID, q.span.To-1)
		if !ok {
			return nil, nil
		}
		t.base, out.Contract = v.Contract, v.Contract.ID
		if e := q.known.Terminated(v.Contract.ID); e != nil {
			t.end = e.At
		}
	default:
		return nil, nil
	}
	var err error
	if t.bare, err = t.with(nil); err != nil {
		return nil, err
	}
	if t.onDemand, t.offered, err = t.try(t.bare, always(price.OnDemand), q.samples); err != nil {
		return nil, err
	}
	held := map[string]bool{}
	q.tranches(t.onDemand, func(tr *occupancy.Tranche, _ span.Span) { held[tr.Lease.Started.SKU] = true })
	if t.skus = slices.Sorted(maps.Keys(held)); len(t.skus) == 0 {
		return nil, nil
	}
	out.List = []Mode{t.mode(OnDemand, t.offered)}
	for _, try := range []func() (Mode, error){t.reserved, t.spot, t.offPeak} {
		m, err := try()
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, m)
	}
	slices.SortStableFunc(out.List, func(a, b Mode) int {
		switch {
		case a.Why == "" && b.Why == "":
			return a.Total.Cmp(b.Total)
		case a.Why == "":
			return -1
		case b.Why == "":
			return 1
		}
		return 0
	})
	return out, nil
}

// with is the base with no commitments but some reservations. Nobody terminates it: its term ends where the base's does.
func (t *trial) with(reserved []contract.Retention) (*contract.Contract, error) {
	return t.base.Vary(contract.Variation{Bare: true, Reserved: reserved, To: t.end})
}

func always(mode string) func(string) string { return func(string) string { return mode } }

// try rates the use of the span under a contract in one mode.
func (t *trial) try(c *contract.Contract, mode func(string) string, samples []meter.UsageMessage) (*rated, *Offer, error) {
	t.tell()
	under := terms{contract: c, mode: mode, bare: true}
	r, err := t.rate(under, samples)
	if err != nil {
		return nil, nil, err
	}
	o, err := t.priced(under, r)
	return r, o, err
}

// tell says that one more bill is begun.
func (t *trial) tell() {
	if t.told != nil {
		t.told(t.done, max(t.of, t.done+1))
	}
	t.done++
}

// mode holds an offer against on demand.
func (t *trial) mode(name ModeName, o *Offer) Mode {
	m := Mode{Name: name, Offer: o}
	m.cost(o.Total, t.offered.Total)
	if !maps.Equal(o.refused, t.offered.refused) || t.offered.Billed == 0 {
		m.Why = OtherTime
	}
	return m
}

func (m *Mode) cost(total, onDemand money.Rounded) {
	m.Total, m.Saving = total, onDemand.Sub(total)
	if !onDemand.IsZero() {
		m.Part = new(big.Rat).Quo(m.Saving.Amount().Rat(), onDemand.Amount().Rat())
	}
}

// cheapest is the reservation of a rate that costs least a day.
func (t *trial) cheapest(rate contract.Rate) (best contract.Reservation, ok bool) {
	at := t.span.Intersect(t.base.Term).From
	var least *big.Rat
	for _, r := range rate.Reserved {
		_, days := price.ReservedDay(t.base, r.Price.Unit, at)
		if perDay := new(big.Rat).Quo(r.Price.Amount, big.NewRat(int64(days), 1)); least == nil || perDay.Cmp(least) < 0 {
			best, least = r, perDay
		}
	}
	return best, least != nil
}

// step is a change of what is held.
type step struct {
	at    span.Second
	milli int64
}

// most is how many GPUs of a SKU were held at once at most, in a region or anywhere.
func (t *trial) most(sku, region string) int64 {
	var steps []step
	t.tranches(t.onDemand, func(tr *occupancy.Tranche, in span.Span) {
		if st := tr.Lease.Started; st.SKU == sku && (region == "" || st.Region == region) {
			steps = append(steps, step{in.From, tr.Milli}, step{in.To, -tr.Milli})
		}
	})
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.milli, b.milli)) })
	var held, most int64
	for _, s := range steps {
		held += s.milli
		most = max(most, held)
	}
	return (most + wholeGPU - 1) / wholeGPU
}
