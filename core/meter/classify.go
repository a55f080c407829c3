package meter

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// ReasonOverlap: the device was already given out to an earlier tranche.
const ReasonOverlap = "overlap"

// classifier turns an hour of a unit into quantities. It holds no result: the same world gives the same hour.
type classifier struct {
	book      *occupancy.Book
	contracts *contract.Register
	unpriced  map[priceability]string // reason, "" when a price exists
	tranches  []occupancy.Tranche     // scratch
	edges     []span.Second           // scratch
}

// priceability is what decides whether a price exists: it does not depend on the instant within a version.
type priceability struct {
	version                 uint64
	sku, mode, region, tier string
	dedicated               bool
}

// AssertionFailed is a broken assertion of ours: the unit's hour stays as it stands, the failure is listed, and
// conservation blocks the close of whoever leases the unit. The others go on.
const AssertionFailed = "assertion_failed"

// guarded classifies and turns a failed assertion into a refusal.
func (c *classifier) guarded(uh UnitHour, within span.Span, cov *coverage, out map[Entry]Amounts) (d DeviceSeconds, failure *Refusal) {
	f := must.Catch(func() { d = c.classify(uh, within, cov, out) })
	if f != nil {
		failure = &Refusal{
			ID: fmt.Sprintf("hour/%s%s/%d", uh.Unit.Device, uh.Unit.Lease, uh.Hour), Reason: AssertionFailed, Detail: f.Error(),
			Lease: uh.Unit.Lease, At: uh.Hour.Start(), Delta: 1,
		}
	}
	return d, failure
}

// classify joins spans, contract edges and masks of one unit within part of an hour into ledger amounts and device
// seconds. Every leased milli-second gets exactly one charge key; that is asserted.
func (c *classifier) classify(uh UnitHour, within span.Span, cov *coverage, out map[Entry]Amounts) DeviceSeconds {
	unit := occupancy.Unit{Device: uh.Unit.Device, Lease: uh.Unit.Lease}
	c.tranches = c.book.On(c.tranches[:0], unit, within)
	c.findEdges(within)
	var leased, keyed int64
	for i := 1; i < len(c.edges); i++ {
		keyed += c.segment(uh, span.Span{From: c.edges[i-1], To: c.edges[i]}, cov, out)
	}
	for i := range c.tranches {
		leased += c.tranches[i].Span.Intersect(within).Seconds() * c.tranches[i].Milli
	}
	must.True(leased == keyed, "unit %v hour %d: %d milli-seconds leased, %d keyed", unit, uh.Hour, leased, keyed)
	for _, e := range c.book.Ended(unit, within) {
		c.topUp(uh, e, out)
	}
	return c.deviceSeconds(within, cov)
}

// findEdges collects every instant within the span at which a condition can change, both ends included.
func (c *classifier) findEdges(within span.Span) {
	c.edges = append(c.edges[:0], within.From, within.To)
	for i := range c.tranches {
		tr := &c.tranches[i]
		in := tr.Span.Intersect(within)
		c.edges = append(c.edges, in.From, in.To)
		for _, w := range tr.Lease.Waivers {
			if w = w.Intersect(in); !w.Empty() {
				c.edges = append(c.edges, w.From, w.To)
			}
		}
		c.edges = c.contracts.Edges(c.edges, tr.Lease.Started.Contract, tr.Lease.Started.Customer, in)
	}
	slices.Sort(c.edges)
	c.edges = slices.Compact(c.edges)
}

// segment keys a stretch in which nothing changes, giving the device out in order of tranche, and returns the
// milli-seconds keyed.
func (c *classifier) segment(uh UnitHour, s span.Span, cov *coverage, out map[Entry]Amounts) (keyed int64) {
	room := int64(fact.WholeShareMilli)
	var each Amounts // of one milli
	for i := range c.tranches {
		tr := &c.tranches[i]
		if !tr.Span.Contains(s.From) {
			continue
		}
		if each.Quantity == 0 {
			each = cov.of(s)
		}
		granted := tr.Milli
		if uh.Unit.Device != "" {
			granted = min(granted, room)
			room -= granted
		}
		key := c.keyAt(tr.Lease, s.From, s.From)
		c.add(uh, tr.Lease, key, each.Times(granted), out)
		c.add(uh, tr.Lease, overlapping(key, tr.Lease, s.From), each.Times(tr.Milli-granted), out)
		keyed += each.Quantity * tr.Milli
	}
	return keyed
}

func overlapping(key ChargeKey, l *occupancy.Lease, at span.Second) ChargeKey {
	if key.Standing == Priced {
		key.Standing, key.Reason = refusedOr(l, at), ReasonOverlap
	}
	return key
}

// refusedOr is the standing of a refused second: waived where it was given away.
func refusedOr(l *occupancy.Lease, at span.Second) Standing {
	if slices.ContainsFunc(l.Waivers, func(w span.Span) bool { return w.Contains(at) }) {
		return Waived
	}
	return Refused
}

// keyAt names the conditions of a lease at an instant, and whether they were waived at a second: they are one but for
// the top-up of a start, which takes the version of the stop and belongs to the second before.
func (c *classifier) keyAt(l *occupancy.Lease, at, second span.Second) ChargeKey {
	st := l.Started
	k := ChargeKey{
		Customer: st.Customer, SKU: st.SKU, PricingMode: st.PricingMode, Region: st.Region, ServiceTier: st.ServiceTier,
		Dedicated: st.Dedicated, Kind: Leased, Standing: Priced,
	}
	v, reason := c.contracts.Resolve(st.Contract, st.Customer, at)
	if reason == "" {
		k.Contract, k.Version = v.Contract.ID, v.Seq
		k.PeriodStart = v.Contract.Period(at).Span.From
		k.LocalDay = dayNumber(v.Contract.Zone.DateOf(at))
		reason = c.unpriceable(v, k, at)
	}
	if reason != "" {
		k.Standing, k.Reason = refusedOr(l, second), reason
	}
	return k
}

// dayNumber writes a date as yyyymmdd.
func dayNumber(d calendar.Date) int32 { return int32(d.Year*10000 + int(d.Month)*100 + d.Day) }

// Day reads a local day back.
func (k ChargeKey) Day() calendar.Date {
	n := int(k.LocalDay)
	return calendar.Date{Year: n / 10000, Month: time.Month(n / 100 % 100), Day: n % 100}
}

// unpriceable is why no price exists, or "".
func (c *classifier) unpriceable(v contract.Version, k ChargeKey, at span.Second) string {
	p := priceability{v.Seq, k.SKU, k.PricingMode, k.Region, k.ServiceTier, k.Dedicated}
	reason, known := c.unpriced[p]
	if !known {
		if _, refusal := price.Unit(v.Contract, Condition(k, at)); refusal != nil {
			reason = string(refusal.Reason)
		}
		c.unpriced[p] = reason
	}
	return reason
}

// Condition is the part of a charge key that prices look at; at is an instant in the key's local day.
func Condition(k ChargeKey, at span.Second) price.Condition {
	return price.Condition{SKU: k.SKU, PricingMode: k.PricingMode, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated, At: at}
}

// topUp adds what minimum and granularity charge beyond the elapsed seconds of a start: once, at the conditions of
// its last second, in the version and period of the stop; none when the provider or a fault ended it, and no
// minimum for a restart after a fault (page 3b, Starts). A part of the device that was refused in the last second is
// refused here too: nobody pays for what another holds.
func (c *classifier) topUp(uh UnitHour, e occupancy.EndedStart, out map[Entry]Amounts) {
	if e.Start.EndedBy == fact.ByProvider || e.Start.EndedBy == fact.ByFault {
		return
	}
	last, stop := e.Start.LastSecond(), e.Start.Span.To
	v, reason := c.contracts.Resolve(e.Lease.Started.Contract, e.Lease.Started.Customer, stop)
	if reason != "" { // the contract ended with the lease: its last second still belongs to it
		stop = last
		if v, reason = c.contracts.Resolve(e.Lease.Started.Contract, e.Lease.Started.Customer, stop); reason != "" {
			return // the start's own seconds are refused with this reason already
		}
	}
	elapsed, b := e.Start.Span.Seconds(), v.Contract.Billing
	billable := (elapsed + b.GranularitySeconds - 1) / b.GranularitySeconds * b.GranularitySeconds
	if !e.Start.AfterFault {
		billable = max(billable, b.MinimumSeconds)
	}
	key := c.keyAt(e.Lease, stop, last)
	key.Kind = TopUp
	refused := min(c.refused(uh.Unit, e.Lease, last), e.Milli)
	c.add(uh, e.Lease, key, Amounts{Quantity: (billable - elapsed) * (e.Milli - refused)}, out)
	c.add(uh, e.Lease, overlapping(key, e.Lease, last), Amounts{Quantity: (billable - elapsed) * refused}, out)
}

// refused is the part of a unit that a lease holds at a second and that was given to others before, in milli.
func (c *classifier) refused(u Unit, l *occupancy.Lease, at span.Second) (milli int64) {
	room := int64(fact.WholeShareMilli)
	for i := range c.tranches {
		tr := &c.tranches[i]
		if u.Device == "" || !tr.Span.Contains(at) {
			continue
		}
		granted := min(tr.Milli, room)
		room -= granted
		if tr.Lease == l {
			milli += tr.Milli - granted
		}
	}
	return milli
}

// add puts an amount under its entry.
func (c *classifier) add(uh UnitHour, l *occupancy.Lease, key ChargeKey, a Amounts, out map[Entry]Amounts) {
	if a.IsZero() {
		return
	}
	e := Entry{Lease: l.ID, Device: uh.Unit.Device, Hour: uh.Hour, Key: key}
	out[e] = out[e].Plus(a)
}

// deviceSeconds counts what samples say against what is leased, whoever leases it.
func (c *classifier) deviceSeconds(within span.Span, cov *coverage) DeviceSeconds {
	if cov == nil {
		return DeviceSeconds{}
	}
	var d DeviceSeconds
	for i := 1; i < len(c.edges); i++ {
		s := span.Span{From: c.edges[i-1], To: c.edges[i]}
		held := slices.ContainsFunc(c.tranches, func(t occupancy.Tranche) bool { return t.Span.Contains(s.From) })
		seen := cov.count(&cov.seen, s)
		if held {
			d.SeenLeased += seen
			d.Ghost += cov.count(&cov.unseen, s)
			continue
		}
		d.SeenUnleased += seen
		d.Leak += cov.busy(s)
	}
	return d
}
