package quote

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// levelsAtOnce is how many reservations of one GPU are rated together: a document holds so many.
const levelsAtOnce = 200

// level is what one more reserved GPU takes over: time that is billed under one key without it, and under another with it.
type level map[takeover]int64 // milli-GPU-seconds

type takeover struct{ from, to *meter.ChargeKey }

// scan bills every quantity of a reservation from none to the most that was held at once.
//
// The order in which time draws coverage does not depend on the quantity, so what n reserved GPUs cover is what n reservations of one
// GPU each cover: those are rated, and tell for each GPU which time it takes over. A bill of each quantity is then made of the same
// totals, with that time under its new keys. Nothing else changes between two quantities but the fee.
func (t *trial) scan(h *Held, r contract.Retention, kept []contract.Retention, without *Offer, under *rated) error {
	levels, err := t.levels(h, r, kept, without, under)
	if err != nil {
		return err
	}
	sums := map[meter.ChargeKey]int64{}
	for _, s := range without.Statements {
		for _, total := range under.totals[periodKey{s.Contract.ID, s.Period.From}] {
			sums[total.Key] += total.Quantity
		}
	}
	h.Costs = []money.Rounded{without.Total}
	for i, l := range levels {
		for k, milliSeconds := range l {
			sums[*k.from] -= milliSeconds
			sums[*k.to] += milliSeconds
		}
		r.Quantity = int64(i + 1)
		c, err := t.with(append(slices.Clone(kept), r))
		if err != nil {
			return err
		}
		t.tell()
		cost, err := t.billed(c, sums, without)
		if err != nil {
			return err
		}
		h.Costs = append(h.Costs, cost)
	}
	return nil
}

// billed is what totals come to under a contract, in the periods of an offer.
func (t *trial) billed(c *contract.Contract, sums map[meter.ChargeKey]int64, of *Offer) (money.Rounded, error) {
	contracts := contract.NewRegister()
	for _, f := range t.log.under(terms{contract: c, bare: true}, t.known) {
		switch b := f.Body.(type) {
		case *fact.PriceBookPublished:
			contracts.Apply(f)
		case *fact.ContractSigned, *fact.MeterRecorded:
			if b.Entity() == c.ID {
				contracts.Apply(f)
			}
		}
	}
	periods := map[span.Second][]meter.Total{}
	for k, milliSeconds := range sums {
		if milliSeconds != 0 {
			periods[k.PeriodStart] = append(periods[k.PeriodStart], meter.Total{Key: k, Amounts: meter.Amounts{Quantity: milliSeconds}})
		}
	}
	sum := money.FromMinor(new(big.Int), t.currency())
	for _, s := range of.Statements {
		again, err := bill.Compute(contracts, c.ID, s.Period, periods[s.Period.From])
		if err != nil {
			return sum, err
		}
		sum = sum.Add(again.Total)
	}
	return sum, nil
}

// unit is where a lease holds something.
type unit struct{ lease, device string }

// keyedSpan is a span of a lease's time on a unit and its key: one second there has one price, whoever holds how much of it.
type keyedSpan struct {
	in  span.Span
	key *meter.ChargeKey
}

// levels lists what each reserved GPU of a SKU takes over, from the first on.
func (t *trial) levels(h *Held, r contract.Retention, kept []contract.Retention, without *Offer, under *rated) ([]level, error) {
	keys := map[meter.ChargeKey]*meter.ChargeKey{}
	intern := func(k meter.ChargeKey) *meter.ChargeKey {
		if keys[k] == nil {
			keys[k] = &k
		}
		return keys[k]
	}
	uncovered := t.uncovered(h, without, under, intern)
	out := make([]level, h.Most)
	for from := int64(0); from < h.Most; from += levelsAtOnce {
		to := min(from+levelsAtOnce, h.Most)
		reserved := slices.Clone(kept)
		if r.Quantity, r.As = from, "#"; from > 0 {
			reserved = append(reserved, r)
		}
		for n := from; n < to; n++ {
			r.Quantity, r.As = 1, fmt.Sprint("#", n)
			reserved = append(reserved, r)
			out[n] = level{}
		}
		c, err := t.with(reserved)
		if err != nil {
			return nil, err
		}
		rated, o, err := t.try(c, always(price.OnDemand), t.samples)
		if err != nil {
			return nil, err
		}
		names := map[string]int64{}
		for n := from; n < to; n++ {
			names[fmt.Sprint("#", n)] = n
		}
		t.trace(o, rated, func(g meter.Segment) {
			n, ours := names[g.Key.Commitment]
			if !ours || g.Key.SKU != h.SKU {
				return
			}
			g.Key.Commitment = h.Reservation.Name
			covered := intern(g.Key)
			list := uncovered[unit{g.Lease, g.Device}]
			i, _ := slices.BinarySearchFunc(list, g.Span.From+1, func(x keyedSpan, at span.Second) int { return cmp.Compare(x.in.To, at) })
			for ; i < len(list) && list[i].in.From < g.Span.To; i++ {
				out[n][takeover{list[i].key, covered}] += list[i].in.Intersect(g.Span).Seconds() * g.Milli
			}
		})
	}
	return out, nil
}

// uncovered lists in order under which keys a SKU's time is billed while no reservation of it is there.
func (t *trial) uncovered(h *Held, o *Offer, r *rated, intern func(meter.ChargeKey) *meter.ChargeKey) map[unit][]keyedSpan {
	out := map[unit][]keyedSpan{}
	t.trace(o, r, func(g meter.Segment) {
		if g.Key.SKU == h.SKU && g.Key.Kind == meter.Leased && g.Key.Reason != meter.ReasonOverlap {
			u := unit{g.Lease, g.Device}
			out[u] = append(out[u], keyedSpan{g.Span, intern(g.Key)})
		}
	})
	for u, list := range out {
		slices.SortFunc(list, func(a, b keyedSpan) int { return cmp.Compare(a.in.From, b.in.From) })
		apart := list[:0]
		for _, x := range list { // two tranches of a lease on one device have the same keys
			if n := len(apart); n > 0 {
				x.in.From = max(x.in.From, apart[n-1].in.To)
			}
			if !x.in.Empty() {
				apart = append(apart, x)
			}
		}
		out[u] = apart
	}
	return out
}

// trace gives f every segment of the offer's periods.
func (t *trial) trace(o *Offer, r *rated, f func(meter.Segment)) {
	for _, s := range o.Statements {
		r.state.Trace(s.Contract.ID, s.Period, r.read, f)
	}
}
