package slow

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// endPackage ends a purchase that runs and that nobody ended before, if all the time of the contract from the purchase to its end can be
// told: where it is to be taken back, an on-demand price.
func (w *World) endPackage(b *fact.PackageEnded) {
	for i := range w.purchases[b.Contract] {
		p := &w.purchases[b.Contract][i]
		if p.key != b.Purchase || p.end != nil || !p.runs.Contains(b.At) {
			continue
		}
		if _, known := w.onDemand(b.Contract, p.sold.SKU, p.sold.Region, span.Span{From: p.At, To: b.At}, p.rule(b) == "clawback"); known {
			p.end = b
		}
	}
}

// rule is what an end does to the fee: a provider takes no discount back.
func (p *purchase) rule(end *fact.PackageEnded) string {
	rule := map[contract.EarlyEnd]string{contract.EarlyEndProrata: "prorata", contract.EarlyEndClawback: "clawback"}[p.sold.EarlyEnd]
	if rule == "clawback" && end.By == fact.ByProvider {
		return "prorata"
	}
	return rule
}

// covers tells whether a purchase covers anything at a second.
func (p *purchase) covers(at span.Second) bool {
	return p.runs.Contains(at) && (p.end == nil || at < p.end.At)
}

// fee is what one package costs: all of it; by local days, the day of the end being the customer's own again; or on demand and at most
// all of it.
func (r *rater) fee(p *purchase) *big.Rat {
	if p.end == nil {
		return p.sold.Price
	}
	zone := r.inForce(r.id, p.At).Zone
	switch p.rule(p.end) {
	case "prorata":
		used, all := 0, 0
		for d, last := zone.DateOf(p.At), zone.DateOf(p.runs.To); d != last; d = d.AddDays(1) {
			all++
			if calendar.DaysBetween(d, zone.DateOf(p.end.At)) > 0 {
				used++
			}
		}
		return times(p.sold.Price, big.NewRat(int64(used), int64(all)))
	case "clawback":
		one, _ := r.onDemand(r.id, p.sold.SKU, p.sold.Region, span.Span{From: p.At, To: p.end.At}, true)
		return least(p.sold.Price, times(one, big.NewRat(p.sold.Quantity, 1)))
	default:
		return p.sold.Price
	}
}

// onDemand is what a GPU of a SKU in a region costs on demand for a span, each second by (1) and (2) of "Order of prices" without tier
// and dedicated; nothing while the contract is not in force. It is unknown where it has to be listed and has no price.
func (w *World) onDemand(id, sku, region string, s span.Span, listed bool) (amount *big.Rat, known bool) {
	seconds := map[sale]int64{}
	for _, part := range w.steady(id, s) {
		v := w.inForce(id, part.From)
		if listed && v != nil {
			seconds[sale{version: v, book: w.bookOf(v, part.From), sku: sku, region: region, lengths: v.lengthsAt(part.From)}] += part.Seconds()
		}
	}
	amount = new(big.Rat)
	for one, n := range seconds {
		price := one.list()
		if price == nil {
			return nil, false
		}
		amount.Add(amount, times(price, big.NewRat(n*1000, 1)))
	}
	return amount, true
}

// steady cuts a span at everything that can change a list price: versions, price books, local days.
func (w *World) steady(id string, s span.Span) []span.Span {
	if s.Empty() || len(w.versions[id]) == 0 {
		return nil
	}
	cuts := []span.Second{s.To}
	note := func(at span.Second) {
		if s.Contains(at) {
			cuts = append(cuts, at)
		}
	}
	for _, v := range w.versions[id] {
		eachDay(v, s, func(day span.Span) { cuts = append(cuts, max(day.From, s.From)) })
		note(v.from)
		note(v.Term.From)
		note(v.Term.To)
		for _, b := range w.books[v.PriceBook] {
			note(b.from)
		}
	}
	for _, v := range w.versions[id] { // what a reservation is
		for _, rate := range v.Rates {
			for _, x := range rate.Reserved {
				note(x.Span.From)
				note(x.Span.To)
			}
		}
	}
	slices.Sort(cuts)
	var out []span.Span
	for i := 1; i < len(cuts); i++ {
		if cuts[i-1] < cuts[i] {
			out = append(out, span.Span{From: cuts[i-1], To: cuts[i]})
		}
	}
	return out
}

// list is (1) and (2) of "Order of prices" for a second of a milli-GPU on demand, without tier and dedicated; nil where there is no price,
// or only one of a slice.
func (s *sale) list() *big.Rat {
	rate, _ := s.rate()
	if rate.OnDemand.Amount == nil || s.perSlice() {
		return nil
	}
	price := s.perSecond(rate.OnDemand)
	if c := rate.Cap; c != nil && !c.Final {
		price = least(price, s.perSecond(c.Price))
	}
	if rate.Region == nil {
		return price
	}
	factor, ok := rate.Region[s.region]
	if !ok {
		return nil
	}
	return times(price, factor)
}
