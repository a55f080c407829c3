package slow

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Standings of leased time, as a bill names them.
const (
	billed     = "priced"
	refused    = "refused"
	waived     = "waived"
	free       = "free"
	unobserved = "unobserved"
)

// Cell is leased time of one device under one lease.
type Cell struct{ Lease, Device, Standing, Reason, Coverage string }

// rater is one period of one contract on its way to a statement.
type rater struct {
	*World
	id      string
	period  span.Span
	known   span.Span       // the part of the period that is known
	seconds map[sale]int64  // milli-GPU-seconds that are sold
	taken   map[taken]int64 // milli-GPU-seconds that forwards covered, billed or not
	out     *Statement
}

type taken struct {
	*version
	sku, forward string
}

// time is (a) of "Order of closing": one second after the other, then what the minimum of ended starts adds.
func (r *rater) time() {
	for at := max(r.known.From, r.from); at < r.known.To; at++ {
		if grants := r.at(at); len(grants) > 0 {
			r.second(at, grants)
		}
	}
	for _, e := range r.ended {
		r.topUp(e)
	}
}

// second bills what is held in one second.
func (r *rater) second(at span.Second, grants []grant) {
	type demand struct {
		*grant
		sale
		reason string
	}
	var demands []demand
	for i := range grants {
		g := &grants[i]
		v := r.of(g.lease, at)
		if v == nil || v.ID != r.id {
			continue
		}
		s, standing, reason := r.sale(v, g.lease, g.state, at, at)
		if standing == billed {
			r.put(g, at, g.lease.refusedOr(at), "overlap", g.milli-g.granted)
		} else {
			r.put(g, at, standing, reason, g.milli-g.granted)
		}
		if s.mode == "on_demand" && (standing == billed || reason == contract.NoHolidayCalendar) {
			demands = append(demands, demand{g, s, reason})
		} else {
			r.sell(g, at, s, standing, reason, g.granted)
		}
	}
	slices.SortStableFunc(demands, func(a, b demand) int { // order of demand
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.lease.id, b.lease.id), cmp.Compare(a.device, b.device))
	})
	supplies := map[string][]supply{} // by SKU
	for _, d := range demands {
		if _, known := supplies[d.sku]; !known {
			supplies[d.sku] = r.supplies(d.version, d.sku, at)
		}
		want := d.granted
		for i := range supplies[d.sku] {
			p := &supplies[d.sku][i]
			if p.region == "" || p.region == d.region {
				take := min(want, p.milli)
				p.milli -= take
				want -= take
				r.sellCovered(d.grant, at, d.sale, p, take)
			}
		}
		standing := billed
		if d.reason != "" {
			standing = d.lease.refusedOr(at)
		}
		r.sell(d.grant, at, d.sale, standing, d.reason, want)
	}
}

// refusedOr is the standing of refused time: waived where it was given away.
func (l *lease) refusedOr(at span.Second) string {
	for _, s := range l.waived {
		if s.Contains(at) {
			return waived
		}
	}
	return refused
}

// sale is what a second of a lease is sold as before any coverage, by the version in force at an instant, which is another second
// only for a top-up.
func (r *rater) sale(v *version, l *lease, state fact.LeaseState, at, second span.Second) (s sale, standing, reason string) {
	s = sale{
		version: v, book: r.bookOf(v, at), sku: l.SKU, region: l.Region, tier: l.ServiceTier, dedicated: l.Dedicated, mode: l.PricingMode,
		state: state, lengths: v.lengthsAt(at),
	}
	if rate, _ := v.Rate(l.SKU); s.mode == "spot" && rate.Spot != nil {
		if l.reclaimed.Contains(second) && l.reclaimed.Seconds() < rate.Spot.ReclaimedFreeSeconds {
			return s, free, "reclaimed_free"
		}
		at := second
		switch rate.Spot.Lock {
		case contract.LockStart:
			at = l.At
		case contract.LockHour:
			at = second - (second-l.At)%3600
		case contract.LockNone:
		}
		s.tick = r.tickOf(rate.Spot.Index, l.Region, at, v.Currency)
	}
	if reason = r.price(s, nil).refusal; reason == "" {
		window, known := v.windowAt(s.mode, second)
		if s.window = window; !known {
			reason = contract.NoHolidayCalendar
		}
	}
	if reason != "" {
		return s, l.refusedOr(second), reason
	}
	return s, billed, ""
}

// supply is what is left of a reservation, forward or package in a second.
type supply struct {
	name, region string
	milli        int64
	forward      *contract.Forward
}

// supplies stand in the order of supply: reservations by `from` then file order, forwards, packages.
func (r *rater) supplies(v *version, sku string, at span.Second) []supply {
	var out []supply
	rate, _ := v.Rate(sku)
	reserved := slices.Clone(rate.Reserved)
	slices.SortStableFunc(reserved, func(a, b contract.Reservation) int { return cmp.Compare(a.Span.From, b.Span.From) })
	for _, x := range reserved {
		if x.Span.Contains(at) {
			out = append(out, supply{x.Name, x.Region, 1000 * x.Quantity, nil})
		}
	}
	var forwards []*contract.Forward
	for i := range rate.Forward {
		forwards = append(forwards, &rate.Forward[i])
	}
	slices.SortStableFunc(forwards, func(a, b *contract.Forward) int { return cmp.Compare(a.Span.From, b.Span.From) })
	for _, x := range forwards {
		if x.Span.Contains(at) {
			out = append(out, supply{x.Name, x.Region, 1000 * x.Quantity, x})
		}
	}
	bought := slices.Clone(r.purchases[v.ID])
	slices.SortStableFunc(bought, func(a, b purchase) int { return cmp.Compare(a.At, b.At) })
	for _, x := range bought {
		if x.sold.SKU == sku && x.runs.Contains(at) {
			out = append(out, supply{x.sold.Name, x.sold.Region, 1000 * x.sold.Quantity * x.Count, nil})
		}
	}
	return out
}

// sellCovered sells what a commitment covers. Only a forward has a price that a window could change.
func (r *rater) sellCovered(g *grant, at span.Second, s sale, p *supply, milli int64) {
	s.covered, s.forward, s.window = p.name, p.forward, nil
	if p.forward == nil {
		r.sell(g, at, s, billed, "", milli)
		return
	}
	r.taken[taken{s.version, s.sku, p.name}] += milli
	window, known := s.windowAt("forward", at)
	if s.window = window; !known {
		r.sell(g, at, s, g.lease.refusedOr(at), contract.NoHolidayCalendar, milli)
		return
	}
	r.sell(g, at, s, billed, "", milli)
}

// sell bills so many milli of a second, with idle relief where it is due, unless only what was seen bills.
func (r *rater) sell(g *grant, at span.Second, s sale, standing, reason string, milli int64) {
	if milli == 0 {
		return
	}
	if standing == billed {
		feePays := s.covered != "" && s.forward == nil
		s.idle = s.Idle != nil && g.device != "" && !feePays && r.relieved(reliefOf{g.lease, g.device, s.Idle}, at)
		switch {
		case s.Billing.Observed && r.slowSource(g.device, at):
			standing, reason = g.lease.refusedOr(at), "slow_source"
		case s.Billing.Observed && r.coverage(g.device, at) != Measured:
			standing, reason = unobserved, "not_seen"
		}
	}
	r.put(g, at, standing, reason, milli)
	if standing == billed {
		r.seconds[s] += milli
	}
}

// put notes leased time of a second.
func (r *rater) put(g *grant, at span.Second, standing, reason string, milli int64) {
	if milli != 0 {
		r.out.Leased[Cell{g.lease.id, g.device, standing, reason, r.coverage(g.device, at)}] += milli
	}
}

// topUp is "Starts": billable = max(minimum, elapsed rounded up), the difference at the conditions of the last second, in the period
// and version of the stop. None when the provider or a fault ended it; no minimum on the restart after a fault.
func (r *rater) topUp(e *ended) {
	last, stop := max(e.span.From, e.span.To-1), e.span.To
	v := r.of(e.lease, stop)
	if v == nil || e.state != fact.Running && (v.States == nil || v.States.GPU[e.state].Sign() == 0) { // what billed ended with the lease
		stop = last
		v = r.of(e.lease, stop)
	}
	if e.by == fact.ByProvider || e.by == fact.ByFault || v == nil || v.ID != r.id || !r.period.Contains(stop) {
		return
	}
	elapsed := e.span.Seconds()
	billable := elapsed
	for billable%v.Billing.GranularitySeconds != 0 {
		billable++
	}
	if !e.afterFault {
		billable = max(billable, v.Billing.MinimumSeconds)
	}
	s, standing, _ := r.sale(v, e.lease, e.state, stop, last)
	if s.topUp = true; standing != billed {
		return
	}
	for _, h := range e.last {
		r.seconds[s] += (billable - elapsed) * (h.milli - r.refusedIn(e, h, last))
	}
}

// refusedIn is how much of what an ended start held was given to others in its last second. A start without length comes behind
// those that began before it.
func (r *rater) refusedIn(e *ended, h share, last span.Second) (milli int64) {
	if h.device == "" {
		return 0
	}
	room := int64(1000)
	for _, g := range r.at(last) {
		switch earlier := g.began < last || g.position < e.position; {
		case g.device != h.device:
		case g.lease == e.lease:
			milli += g.milli - g.granted
		case e.span.Empty() && earlier:
			room -= g.granted
		}
	}
	if e.span.Empty() {
		return max(0, h.milli-room)
	}
	return min(milli, h.milli)
}

// counted is a sum of milli-GPU-seconds as GPU-hours.
func counted(milli int64) *big.Rat { return big.NewRat(milli, 3600*1000) }
