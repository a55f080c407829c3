package quote

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// Market is what would have happened to the leases on the spot market, as far as the log tells.
//
// A lease is hit when the tick of its index and region rises above the contract's max while it holds GPUs, or is above it when it
// starts: once for each stretch of time above. It is also hit when the log states that the provider took a spot lease of its SKU and
// region back, whoever's, while it goes on. How long GPUs stay away then is not in the log: no time is counted for it.
type Market struct {
	SKUs, Kept  []string // on the spot market; without spot terms, and so on demand still
	Above       int      // hits by a price above the max
	Taken       int      // hits by a reclaim that the log states
	Interrupted int64    // what the leases held while the price stood above the max, in milli-GPU-seconds
	Unknown     int64    // what they held while there was no price, or no on-demand price for the max to be a part of
	Unlimited   []string // SKUs whose spot terms have no max: no price reclaims them
}

// spot bills every lease of a SKU with spot terms as spot.
func (t *trial) spot() (Mode, error) {
	m := &Market{}
	for _, sku := range t.skus {
		rate, _ := t.base.Rate(sku)
		switch {
		case rate.Spot == nil:
			m.Kept = append(m.Kept, sku)
			continue
		case rate.Spot.Max == nil:
			m.Unlimited = append(m.Unlimited, sku)
		}
		m.SKUs = append(m.SKUs, sku)
	}
	if len(m.SKUs) == 0 {
		return Mode{Name: Spot, Why: NotSold}, nil
	}
	r, o, err := t.try(t.bare, func(sku string) string {
		if slices.Contains(m.SKUs, sku) {
			return price.Spot
		}
		return price.OnDemand
	}, t.samples)
	if err != nil {
		return Mode{}, err
	}
	m.watch(t.Quote, r)
	mode := t.mode(Spot, o)
	mode.Market = m
	return mode, nil
}

// watch counts what hits the leases.
func (m *Market) watch(q *Quote, r *rated) {
	held, above := map[*occupancy.Lease][]span.Span{}, map[*occupancy.Lease][]span.Span{}
	ticks := map[place][]tick{}
	q.tranches(r, func(tr *occupancy.Tranche, in span.Span) {
		l := tr.Lease
		if l.Started.PricingMode != price.Spot {
			return
		}
		held[l] = append(held[l], in)
		c, ok := r.state.Contracts().Last(l.Started.Contract)
		if !ok {
			return
		}
		rate, _ := c.Contract.Rate(l.Started.SKU)
		if rate.Spot == nil || rate.Spot.Max == nil {
			return
		}
		at := place{rate.Spot.Index, l.Started.Region}
		if _, known := ticks[at]; !known {
			ticks[at] = q.ticks(at)
		}
		w := watcher{r.state.Contracts(), c, l.Started, rate.Spot.Max, ticks[at]}
		for _, part := range w.parts(in.Intersect(c.Contract.Term)) {
			switch over, known := w.over(part.From); {
			case !known:
				m.Unknown += part.Seconds() * tr.Milli
			case over:
				above[l] = append(above[l], part)
				m.Interrupted += part.Seconds() * tr.Milli
			}
		}
	})
	for l, spans := range held {
		m.Above += len(merged(above[l]))
		m.Taken += q.taken(l, merged(spans))
	}
}

// taken counts the reclaims of a lease's market that the log states while the lease goes on, or that ended it.
func (q *Quote) taken(l *occupancy.Lease, held []span.Span) int {
	hits := map[span.Second]bool{}
	for _, x := range q.log.reclaimed(l.Started.SKU, l.Started.Region) {
		for _, s := range held {
			if s.Contains(x.At-1) && (s.Contains(x.At) || x.Lease == l.ID) {
				hits[x.At] = true
			}
		}
	}
	return len(hits)
}

// place is where a spot index has a price of its own.
type place struct{ index, region string }

// tick is a spot price from an instant until the next.
type tick struct {
	at       span.Second
	seq      uint64
	price    contract.Price
	currency money.Currency
}

// ticks are the prices of an index in order; of two in one second the last one holds.
func (q *Quote) ticks(of place) []tick {
	var out []tick
	for _, f := range q.log.facts {
		if b, ok := f.Body.(*fact.SpotPriceChanged); ok && b.Index == of.index && b.Region == of.region {
			if p, currency, err := contract.SpotPrice(b); err == nil {
				out = append(out, tick{b.At, f.Seq, p, currency})
			}
		}
	}
	slices.SortFunc(out, func(a, b tick) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	return out
}

// watcher holds the ticks against what a lease's spot price is limited to.
type watcher struct {
	contracts *contract.Register
	version   contract.Version
	lease     *fact.LeaseStarted
	max       *big.Rat
	ticks     []tick
}

// parts cuts a span wherever the tick or the on-demand price can change.
func (w *watcher) parts(in span.Span) []span.Span {
	if in.Empty() {
		return nil
	}
	edges := w.contracts.Edges([]span.Second{in.From, in.To}, w.lease.Contract, w.lease.Customer, in)
	for _, t := range w.ticks {
		if in.Contains(t.at) {
			edges = append(edges, t.at)
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	out := make([]span.Span, len(edges)-1)
	for i := range out {
		out[i] = span.Span{From: edges[i], To: edges[i+1]}
	}
	return out
}

// over tells whether the tick at an instant lies above the max, or that it is not known.
func (w *watcher) over(at span.Second) (over, known bool) {
	i, _ := slices.BinarySearchFunc(w.ticks, at+1, func(t tick, at span.Second) int { return cmp.Compare(t.at, at) })
	c := w.version.Contract
	if i == 0 || w.ticks[i-1].currency != c.Currency {
		return false, false
	}
	unit, refusal := price.Unit(price.Terms{Contract: c, Book: w.contracts.Book(w.contracts.BookAt(c, at))}, price.Condition{
		SKU: w.lease.SKU, PricingMode: price.OnDemand, Region: w.lease.Region, ServiceTier: w.lease.ServiceTier, Dedicated: w.lease.Dedicated, At: at,
	})
	if refusal != nil {
		return false, false
	}
	limit := new(big.Rat).Mul(unit.PerMilliGPUSecond, w.max)
	return price.OfTime(c, w.ticks[i-1].price, at, 1).Cmp(limit) > 0, true
}

// merged joins spans that touch or overlap.
func merged(list []span.Span) []span.Span {
	slices.SortFunc(list, func(a, b span.Span) int { return cmp.Compare(a.From, b.From) })
	var out []span.Span
	for _, s := range list {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}
