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
	ahead   bool            // only fees that are paid in advance are charged
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

// deal is a part of what a lease is granted in a second, and what it is sold as: billed unless it has a reason.
type deal struct {
	*grant
	sale
	standing, reason string
	milli            int64
}

// second bills what is held in one second.
func (r *rater) second(at span.Second, grants []grant) {
	all := r.deals(at, grants)
	for _, d := range all {
		if d.forward != nil {
			r.taken[taken{d.version, d.sku, d.covered}] += d.milli
		}
		if rate, _ := d.Rate(d.sku); rate.AtOnce != nil && d.standing == billed && d.covered == "" && d.mode == "on_demand" {
			d.atOnce = atOnce(all, d.sku, rate.AtOnce)
		}
		if d.perSlice() {
			d.slice = d.each
		}
		r.sell(d.grant, at, d.sale, d.standing, d.reason, d.milli)
	}
}

// atOnce is how many milli-GPUs of a SKU are held in a second: of what is billed, whether it was seen or not, those that a table counts.
func atOnce(all []deal, sku string, table *contract.Volume) (milli int64) {
	for _, d := range all {
		burst := d.covered == "" && d.mode == "on_demand"
		if d.standing == billed && d.sku == sku && (burst || d.covered != "" && table.Covered || d.mode == "spot" && table.Spot) {
			milli += d.milli
		}
	}
	return milli
}

// deals are what the contract sells in one second.
func (r *rater) deals(at span.Second, grants []grant) (all []deal) {
	sold := func(g *grant, s sale, standing, reason string, milli int64) {
		if milli != 0 {
			all = append(all, deal{g, s, standing, reason, milli})
		}
	}
	var demands []deal
	for i := range grants {
		g := &grants[i]
		v := r.of(g.lease, at)
		if v == nil || v.ID != r.id {
			continue
		}
		s, standing, reason := r.sale(v, g.lease, g.state, at, at)
		if standing == billed {
			sold(g, s, g.lease.refusedOr(at), "overlap", g.milli-g.granted)
		} else {
			sold(g, s, standing, reason, g.milli-g.granted)
		}
		if s.mode == "on_demand" && (standing == billed || reason == contract.NoHolidayCalendar) {
			demands = append(demands, deal{g, s, standing, reason, g.granted})
		} else {
			sold(g, s, standing, reason, g.granted)
		}
	}
	slices.SortStableFunc(demands, func(a, b deal) int { // order of demand
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.lease.id, b.lease.id), cmp.Compare(a.device, b.device))
	})
	var supplies []supply
	for i, d := range demands {
		if i == 0 {
			supplies = r.supplies(d.version, at) // one version is in force
		}
		want := d.milli
		rate, _ := d.Rate(d.sku)
		for i := range supplies {
			p := &supplies[i]
			if own := p.sku == d.sku || p.slices && p.sku == rate.SliceOf; own && (p.region == "" || p.region == d.region) {
				take := min(want, p.milli)
				p.milli -= take
				want -= take
				s, standing, reason := coveredBy(d, at, p)
				sold(d.grant, s, standing, reason, take)
			}
		}
		sold(d.grant, d.sale, d.standing, d.reason, want)
	}
	return all
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
	if r.free(v.ID, at) {
		return s, free, "trial"
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
	name, sku, region string
	milli             int64
	from              span.Second
	slices            bool // of the SKU are covered too
	forward           *contract.Forward
}

// supplies stand in the order of supply: reservations by `from` then file order, forwards, packages.
func (r *rater) supplies(v *version, at span.Second) []supply {
	var reserved, forward, packages []supply
	add := func(to *[]supply, s supply, in span.Span) {
		if s.from = in.From; in.Contains(at) {
			*to = append(*to, s)
		}
	}
	for _, rate := range v.Rates {
		for _, x := range rate.Reserved {
			add(&reserved, supply{name: x.Name, sku: rate.SKU, region: x.Region, milli: 1000 * x.Quantity, slices: x.Slices}, x.Span)
		}
	}
	for i := range v.Rates {
		for k := range v.Rates[i].Forward {
			x := &v.Rates[i].Forward[k]
			add(&forward, supply{name: x.Name, sku: v.Rates[i].SKU, region: x.Region, milli: 1000 * x.Quantity, forward: x}, x.Span)
		}
	}
	for _, x := range r.purchases[v.ID] {
		if x.covers(at) {
			add(&packages, supply{name: x.sold.Name, sku: x.sold.SKU, region: x.sold.Region, milli: 1000 * x.sold.Quantity * x.Count}, x.runs)
		}
	}
	for _, list := range [][]supply{reserved, forward, packages} {
		slices.SortStableFunc(list, func(a, b supply) int { return cmp.Compare(a.from, b.from) })
	}
	return slices.Concat(reserved, forward, packages)
}

// coveredBy is what is sold of what a commitment covers. Only a forward has a price that a window could change.
func coveredBy(d deal, at span.Second, p *supply) (s sale, standing, reason string) {
	s = d.sale
	s.covered, s.forward, s.window = p.name, p.forward, nil
	if p.forward == nil {
		return s, billed, ""
	}
	window, known := s.windowAt("forward", at)
	if s.window = window; !known {
		return s, d.lease.refusedOr(at), contract.NoHolidayCalendar
	}
	return s, billed, ""
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
	if rate, _ := v.Rate(s.sku); rate.AtOnce != nil && s.mode == "on_demand" {
		s.atOnce = max(1, atOnce(r.deals(last, r.at(last)), s.sku, rate.AtOnce)) // of none the first tier
	}
	for _, h := range e.last {
		if s.perSlice() {
			s.slice = h.each
		}
		r.seconds[s] += (billable - elapsed) * (h.milli - r.refusedIn(e, h, last))
	}
}

// refusedIn is how much of what an ended start held was given to others in its last second. A start without length comes behind
// those that began before it.
func (r *rater) refusedIn(e *ended, h share, last span.Second) (milli int64) {
	if h.device == "" {
		return 0
	}
	room := r.saleable(h.device, last)
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
