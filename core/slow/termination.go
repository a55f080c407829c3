package slow

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// terminated is a term that was ended before its time.
type terminated struct {
	at     span.Second
	by     fact.EndedBy
	agreed *version // as it would have gone on
}

// terminate ends a term in which the contract, as stated before, is in force and says what is due for that; the first end stands.
func (w *World) terminate(b *fact.ContractTerminated) {
	v := w.inForce(b.Contract, b.At-1)
	if w.ends[b.Contract] != nil || v == nil || !v.Term.Contains(b.At) || v.Termination == nil {
		return
	}
	t := &terminated{b.At, b.By, v}
	if _, known := w.takenBack(t); known {
		w.ends[b.Contract] = t
	}
}

// amendsEnded tells whether a version that was stated behind the end may change what held until then.
func (w *World) amendsEnded(v *version, t *terminated) bool {
	if v.from >= t.at || v.Termination == nil || v.Term.To <= t.at {
		return false
	}
	_, known := w.takenBack(&terminated{t.at, t.by, w.inForce(v.ID, t.at-1)})
	return known
}

// cut ends the term. What would come into force later never does.
func (w *World) cut(id string) {
	t := w.ends[id]
	v := w.inForce(id, t.at-1)
	t.agreed = v
	var kept []*version
	for _, x := range w.versions[id] {
		if x.from < t.at {
			kept = append(kept, x)
		}
	}
	c := *v.Contract
	c.Term.To = t.at
	kept[len(kept)-1] = &version{v.from, &c, map[span.Second][2]int64{}, t}
	w.versions[id] = kept
}

// reservation names capacity across versions.
type reservation struct{ sku, name string }

// takenBack is what a GPU-second of every reservation that the end cuts costs on demand, times what was reserved, since it began; known
// is false where it has no price. A customer who stays has nothing taken back.
func (w *World) takenBack(t *terminated) (costs map[reservation]*big.Rat, known bool) {
	costs = map[reservation]*big.Rat{}
	if t.by != fact.ByCustomer || !t.agreed.Termination.Clawback {
		return costs, true
	}
	for _, rate := range t.agreed.Rates {
		for _, x := range rate.Reserved {
			if x.Span.To <= t.at || x.Span.From >= t.at {
				continue
			}
			k := reservation{rate.SKU, x.Name}
			seconds := map[sale]int64{} // GPU-seconds
			w.reservedTime(t, k, x.Span.From, func(v *version, y contract.Reservation, at span.Second, n int64) {
				seconds[sale{version: v, book: w.bookOf(v, at), sku: rate.SKU, region: y.Region, lengths: v.lengthsAt(at)}] += n
			})
			costs[k] = new(big.Rat)
			for one, n := range seconds {
				price := one.list()
				if price == nil {
					return nil, false
				}
				costs[k].Add(costs[k], times(price, big.NewRat(n*1000, 1)))
			}
		}
	}
	return costs, true
}

// end is the termination that ends the term in this period, or nil.
func (r *rater) end() *terminated {
	for _, v := range r.versions[r.id] {
		if v.ended != nil && r.period.Contains(v.ended.at-1) {
			return v.ended
		}
	}
	return nil
}

// rest is what the period that the end cuts would have been behind it.
func (t *terminated) rest() span.Span {
	return span.Span{From: t.at, To: min(t.agreed.boundary(t.at-1), t.agreed.Term.To)}
}

// whole is the period as fees see it: without a refund, as it would have run.
func (r *rater) whole() span.Span {
	out := r.period
	if t := r.end(); t != nil && t.agreed.Termination.Refund == contract.RefundNone {
		out.To = max(out.To, t.rest().To)
	}
	return out
}

// feesAt is the version that charges fees at a second: one that was ended, for the rest of its period where nothing is given back.
func (r *rater) feesAt(at span.Second, t *terminated) *version {
	if v := r.inForce(r.id, at); v != nil {
		return v
	}
	if t != nil && t.agreed.Termination.Refund == contract.RefundNone && t.rest().Contains(at) {
		return t.agreed
	}
	return nil
}

// feeDay is the first and the last second of a day in which the contract charges fees; first is behind last where there is none.
func (r *rater) feeDay(day span.Span, t *terminated) (first, last span.Second) {
	first, last = span.Open, -1
	for _, p := range r.pieces(r.id, day) {
		first, last = min(first, p.From), max(last, p.To-1)
	}
	if t != nil && r.feesAt(t.at, t) != nil {
		if rest := t.rest().Intersect(day); !rest.Empty() {
			first, last = min(first, rest.From), max(last, rest.To-1)
		}
	}
	return first, last
}

// settled charges a customer who left: max(0, elapsed capacity on demand - its fees) of every reservation that is cut, and a part of the
// fees and the committed spend still to come. It is no use: no commitment, cap or limit counts it.
func (r *rater) settled(v *version) {
	t := r.end()
	if t == nil || t.by != fact.ByCustomer || r.free(r.id, r.period.From) {
		return
	}
	costs, _ := r.takenBack(t)
	for k, cost := range costs {
		rate, _ := t.agreed.Rate(k.sku)
		fees := new(big.Rat)
		for _, x := range rate.Reserved {
			if x.Name != k.name {
				continue
			}
			for _, day := range r.feeDaysOf(span.Span{From: x.Span.From, To: t.at}) {
				last := r.pieces(r.id, day)
				if len(last) == 0 {
					continue
				}
				p := last[len(last)-1]
				of, _ := p.Rate(k.sku)
				for _, y := range of.Reserved {
					if y.Name == k.name {
						fees.Add(fees, p.dayFee(y, p.To-1))
					}
				}
			}
		}
		if more := new(big.Rat).Sub(cost, fees); more.Sign() > 0 {
			r.late(v, Key{Item: "clawback", Name: k.name, SKU: k.sku}, r.elapsed(t, k), more)
		}
	}
	if t.agreed.Termination.Fee == nil {
		return
	}
	sum, charged := new(big.Rat), t.at
	if t.agreed.Termination.Refund == contract.RefundNone {
		charged = t.rest().To
	}
	for _, rate := range t.agreed.Rates {
		for _, x := range rate.Reserved {
			for _, day := range r.comingDays(t, x.Span.To, charged) {
				sum.Add(sum, t.agreed.dayFee(x, min(day.To, t.agreed.Term.To)-1))
			}
		}
	}
	if t.agreed.Spend != nil {
		for _, day := range r.comingDays(t, t.agreed.Term.To, t.at) {
			last := min(day.To, t.agreed.Term.To) - 1
			sum.Add(sum, times(t.agreed.Spend.Amount, big.NewRat(t.agreed.feeDay(t.agreed.Spend.Unit, last))))
		}
	}
	if fee := times(sum, t.agreed.Termination.Fee); fee.Sign() > 0 {
		r.late(v, Key{Item: "termination", Name: "termination"}, sum, fee)
	}
}

// feeDaysOf are the local days of all periods until the end that have a part in some time.
func (r *rater) feeDaysOf(time span.Span) (out []span.Span) {
	for _, days := range r.feeDays(r.Periods(r.id, time.To)) {
		for _, day := range days {
			if day.Overlaps(time) {
				out = append(out, day)
			}
		}
	}
	return out
}

// comingDays are the local days of the agreed term that begin at or after an instant that is charged already, up to an end.
func (r *rater) comingDays(t *terminated, end, charged span.Second) []span.Span {
	periods := r.Periods(r.id, t.at)
	last := &periods[len(periods)-1]
	last.To = max(last.To, min(end, t.agreed.Term.To))
	return slices.DeleteFunc(r.feeDays(periods)[last.From], func(day span.Span) bool { return day.From < max(charged, t.at) })
}

// reservedTime gives the GPU-seconds of a reservation from its beginning to the end of the term, but for the trial, as the versions in
// force state it.
func (w *World) reservedTime(t *terminated, k reservation, from span.Second, f func(*version, contract.Reservation, span.Second, int64)) {
	if w.free(t.agreed.ID, from) {
		from = w.versions[t.agreed.ID][0].trialEnd()
	}
	for _, part := range w.steady(t.agreed.ID, span.Span{From: from, To: t.at}) {
		v := w.inForce(t.agreed.ID, part.From)
		if v == nil {
			continue
		}
		of, _ := v.Rate(k.sku)
		for _, y := range of.Reserved {
			if y.Name == k.name && y.Span.Contains(part.From) {
				f(v, y, part.From, y.Quantity*part.Seconds())
			}
		}
	}
}

// elapsed is how many GPU-hours of a reservation went by until the end.
func (r *rater) elapsed(t *terminated, k reservation) *big.Rat {
	var seconds int64
	rate, _ := t.agreed.Rate(k.sku)
	for _, x := range rate.Reserved {
		if x.Name == k.name {
			r.reservedTime(t, k, x.Span.From, func(_ *version, _ contract.Reservation, _ span.Second, n int64) { seconds += n })
		}
	}
	return big.NewRat(seconds, 3600)
}

// late adds a line that is rounded behind the others.
func (r *rater) late(v *version, k Key, quantity, exact *big.Rat) {
	r.add(k, quantity, exact)
	l := r.out.Lines[k]
	l.Rounded = round(exact, v.Currency.Digits(), v.Billing.Rounding)
	r.out.Total.Add(r.out.Total, l.Rounded)
}
