package quote

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
)

const wholeGPU = fact.WholeShareMilli

// reserved finds the quantity of each SKU's reservation at which the whole bill is lowest: every quantity from none to the most that was
// held at once is billed. Where several SKUs can be reserved one is searched after the other, those before it at their best.
func (t *trial) reserved() (Mode, error) {
	in := t.span.Intersect(t.base.Term)
	zone := t.base.Zone
	first, last := zone.DateOf(in.From), zone.DateOf(in.To-1).AddDays(1)
	var list []Held
	for _, rate := range t.base.Rates {
		r, ok := t.cheapest(rate)
		if most := t.most(rate.SKU, r.Region); ok && most > 0 {
			list = append(list, Held{SKU: rate.SKU, Reservation: r, Most: most})
			t.of += int(most)
		}
	}
	switch {
	case len(list) == 0:
		return Mode{Name: Reserved, Why: NotSold}, nil
	case zone.StartOfDay(first) != in.From || zone.StartOfDay(last) != in.To:
		return Mode{Name: Reserved, Why: NotWholeDays}, nil
	}
	best, under := t.offered, t.onDemand
	var kept []contract.Retention
	for i := range list {
		list[i].Reservation.Span = in
		r := contract.Retention{SKU: list[i].SKU, Name: list[i].Reservation.Name, From: first, To: last}
		var err error
		if best, under, err = t.search(&list[i], r, kept, best, under); err != nil {
			return Mode{}, err
		}
		if r.Quantity = list[i].Reservation.Quantity; r.Quantity > 0 {
			kept = append(kept, r)
		}
	}
	for i := range list {
		list[i].account(t.Quote, best, under)
	}
	m := t.mode(Reserved, best)
	m.Held = list
	return m, nil
}

// search bills every quantity of a reservation and rates the best one. A scan bills them all at once; where it does not come to what the
// log is rated at, as it might under a clause that looks at more than a second's own key, each quantity is rated.
func (t *trial) search(h *Held, r contract.Retention, kept []contract.Retention, without *Offer, under *rated) (*Offer, *rated, error) {
	held := func(n int64) (*Offer, *rated, error) {
		r.Quantity = n
		c, err := t.with(append(slices.Clone(kept), r))
		if err != nil {
			return nil, nil, err
		}
		rated, o, err := t.try(c, always(price.OnDemand), t.samples)
		return o, rated, err
	}
	if err := t.scan(h, r, kept, without, under); err != nil {
		return nil, nil, err
	}
	sure := true
	for _, n := range []int64{1, h.best()} { // with one GPU reserved most is on demand still
		o, _, err := held(n)
		if err != nil {
			return nil, nil, err
		}
		sure = sure && o.Total.Cmp(h.Costs[n]) == 0
	}
	for n := int64(1); !sure && n <= h.Most; n++ {
		o, _, err := held(n)
		if err != nil {
			return nil, nil, err
		}
		h.Costs[n] = o.Total
	}
	h.Reservation.Quantity = h.best()
	return held(h.Reservation.Quantity)
}

// best is the lowest quantity at which the bill is lowest.
func (h *Held) best() (quantity int64) {
	for n, cost := range h.Costs {
		if cost.Cmp(h.Costs[quantity]) < 0 {
			quantity = int64(n)
		}
	}
	return quantity
}

// account finds what the reservation's fee came to, and how much of what it pays for nobody used.
func (h *Held) account(q *Quote, o *Offer, r *rated) {
	h.Fee = money.FromMinor(new(big.Int), q.currency())
	h.Unused = h.Reservation.Quantity * wholeGPU * h.Reservation.Span.Seconds()
	for _, s := range o.Statements {
		for _, l := range s.Lines {
			if l.Key.Item == bill.ItemReserved && l.Key.SKU == h.SKU && l.Key.Name == h.Reservation.Name {
				h.Fee = h.Fee.Add(l.Amount)
			}
		}
		for _, total := range r.totals[periodKey{s.Contract.ID, s.Period.From}] {
			if k := total.Key; k.Commitment == h.Reservation.Name && k.SKU == h.SKU && k.Kind == meter.Leased {
				h.Unused -= total.Quantity
			}
		}
	}
}
