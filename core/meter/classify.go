package meter

import (
	"fmt"
	"math/big"
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

// Reasons of time that has a contract.
const (
	ReasonOverlap = "overlap" // what is saleable of the device was already given out to earlier tranches
	ReasonTrial   = "trial"   // nothing is charged for use in the contract's trial
)

// classifier turns an hour of a unit into quantities. It holds no result: the same world gives the same hour.
type classifier struct {
	book      *occupancy.Book
	contracts *contract.Register
	spot      spotIndexes
	unpriced  map[priceability]string // reason, "" when a price exists
	tranches  []occupancy.Tranche     // scratch
	edges     []span.Second           // scratch
	cov       coverage                // scratch
	relief    []relief                // of the unit hour at hand
	held      []occupancy.Tranche     // scratch
	within    span.Span               // of the unit hour at hand
	// allocations are those of the block at hand; nil while one is worked out.
	allocations map[allocationOf]*allocation
	// crowds are those of the block at hand; nil while one is worked out.
	crowds    map[allocationOf]*crowd
	suppliers []string      // scratch
	counting  []string      // scratch
	parts     []part        // scratch
	stretched []stretch     // scratch
	cells     []cell        // of the unit hour at hand
	day       day           // that was asked for last
	sink      func(Segment) // is given every segment, see State.Trace; nil else
}

// priceability is what decides whether a price exists: it does not depend on the instant within a version.
type priceability struct {
	version                 uint64
	sku, mode, region, tier string
	dedicated               bool
	conditions              price.Conditions
}

// AssertionFailed is a broken assertion of ours: the unit's hour stays as it stands, the failure is listed, and
// conservation blocks the close of whoever leases the unit. The others go on.
const AssertionFailed = "assertion_failed"

// guarded classifies and turns a failed assertion into a refusal.
func (c *classifier) guarded(uh UnitHour, within span.Span, cov *coverage) (d DeviceSeconds, failure *Refusal) {
	f := must.Catch(func() { d = c.classify(uh, within, cov) })
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
func (c *classifier) classify(uh UnitHour, within span.Span, cov *coverage) DeviceSeconds {
	unit := uh.Unit.held()
	if c.within != within {
		c.within = within
		c.forget() // hours come one behind the other
	}
	c.tranches = c.book.On(c.tranches[:0], unit, within)
	c.findEdges(unit, within)
	c.relief, c.cells = c.relief[:0], c.cells[:0]
	var leased, keyed int64
	for i := 1; i < len(c.edges); i++ {
		keyed += c.segment(uh, span.Span{From: c.edges[i-1], To: c.edges[i]}, cov)
	}
	for i := range c.tranches {
		leased += c.tranches[i].Span.Intersect(within).Seconds() * c.tranches[i].Milli
	}
	if leased != keyed {
		must.Never("unit %v hour %d: %d milli-seconds leased, %d keyed", unit, uh.Hour, leased, keyed)
	}
	for _, e := range c.book.Ended(unit, within) {
		c.topUp(uh, e)
	}
	return c.deviceSeconds(within, cov)
}

// forget drops what was worked out for all units of an hour.
func (c *classifier) forget() {
	clear(c.allocations)
	clear(c.crowds)
}

// findEdges collects every instant within the span at which a condition can change, both ends included.
func (c *classifier) findEdges(u occupancy.Unit, within span.Span) {
	c.edges = c.book.SaleableEdges(append(c.edges[:0], within.From, within.To), u, within)
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
		c.edges = c.spotEdges(c.edges, tr.Lease, in)
		c.edges = c.supplyEdges(c.edges, tr, in)
		c.edges = c.atOnceEdges(c.edges, tr.Lease, in)
	}
	slices.Sort(c.edges)
	c.edges = slices.Compact(c.edges)
}

// segment keys a stretch in which nothing changes, giving the device out in order of tranche, and returns the
// milli-seconds keyed.
func (c *classifier) segment(uh UnitHour, s span.Span, cov *coverage) (keyed int64) {
	room := c.book.Saleable(uh.Unit.held(), s.From)
	var each Amounts // of one milli
	for i := range c.tranches {
		tr := &c.tranches[i]
		if !tr.Span.Contains(s.From) {
			continue
		}
		if each.Quantity == 0 {
			each = cov.of(s)
		}
		granted := min(tr.Milli, room)
		room -= granted
		key := c.keyAt(tr.Lease, tr.State, s.From, s.From)
		for _, part := range c.supply(key, tr, s, granted) {
			for _, st := range c.stretches(uh, part, tr.Lease, s, each, cov) {
				c.add(uh, tr.Lease, st.key, st.each.Times(part.milli))
				keyed += st.each.Quantity * part.milli
			}
			c.trace(uh, tr.Lease, part, s, cov)
		}
		refused := part{key: overlapping(key, tr.Lease, s.From), milli: tr.Milli - granted}
		c.add(uh, tr.Lease, refused.key, each.Times(refused.milli))
		c.trace(uh, tr.Lease, refused, s, cov)
		keyed += each.Quantity * refused.milli
	}
	return keyed
}

func overlapping(key ChargeKey, l *occupancy.Lease, at span.Second) ChargeKey {
	if key.Standing == Priced {
		key.Standing, key.Reason = refusedOr(l, at), ReasonOverlap
		key.Window, key.SpotPrice, key.AtOnceMilli, key.SliceMilli, key.State = "", "", 0, 0, "" // it has no price
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

// keyAt names the conditions of a lease in a state at an instant, and whether they were waived at a second: they are one but for
// the top-up of a start, which takes the version of the stop and belongs to the second before.
func (c *classifier) keyAt(l *occupancy.Lease, state fact.LeaseState, at, second span.Second) ChargeKey {
	st := l.Started
	k := ChargeKey{
		Customer: st.Customer, SKU: st.SKU, PricingMode: st.PricingMode, Region: st.Region, ServiceTier: st.ServiceTier,
		Dedicated: st.Dedicated, Kind: Leased, Standing: Priced,
	}
	v, reason := c.contracts.Resolve(st, at)
	if reason == "" {
		k.Contract, k.Version = v.Contract.ID, v.Seq
		d := c.dayOf(v.Contract, at)
		k.PeriodStart, k.LocalDay = d.period, d.number
		if v.Contract.InTrial(at) {
			k.Standing, k.Reason = Free, ReasonTrial
			return k
		}
		if terms := spotOf(v, l); terms != nil {
			if reclaimedFree(terms, l, second) {
				k.Standing, k.Reason = Free, ReasonReclaimedFree
				return k
			}
			k.SpotPrice = c.spot.at(place{terms.Index, st.Region}, terms.At(st.At, second), v.Contract.Currency)
		}
		k.Book, k.State = c.contracts.BookAt(v.Contract, at), scaled(v.Contract, state)
		if reason = c.unpriceable(v, k, at); reason == "" {
			k.Window, reason = v.Contract.Schedule.At(k.PricingMode, v.Contract.Zone, second)
		}
	}
	if reason != "" {
		k.Standing, k.Reason, k.SpotPrice, k.Book, k.State = refusedOr(l, second), reason, "", 0, ""
	}
	return k
}

// scaled is the state where a bill has to name it: any but running, and that too where a part other than the whole of it bills.
func scaled(c *contract.Contract, state fact.LeaseState) fact.LeaseState {
	if state == fact.Running && (c.States == nil || c.GPUIn(state).Cmp(big.NewRat(1, 1)) == 0) {
		return ""
	}
	return state
}

// day is a local day of a contract, or the part of it that lies in one period.
type day struct {
	contract *contract.Contract
	within   span.Span
	period   span.Second // the billing period's first second
	number   int32       // yyyymmdd
}

// dayOf is the local day and period of an instant at which a version is in force. One day holds for many hours, so the last one is
// kept until a contract changes.
func (c *classifier) dayOf(of *contract.Contract, at span.Second) day {
	if c.day.contract != of || !c.day.within.Contains(at) {
		date, end := of.Zone.Day(at)
		period, ok := c.contracts.Periods(of.ID).At(at)
		if !ok { // the arguments are on the heap only then
			must.True(false, "contract %s has no period at %v", of.ID, at)
		}
		within := span.Span{From: of.Zone.StartOfDay(date), To: end}.Intersect(period.Span)
		c.day = day{of, within, period.Span.From, dayNumber(date)}
	}
	return c.day
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
	p := priceability{v.Seq, k.SKU, k.PricingMode, k.Region, k.ServiceTier, k.Dedicated, k.Conditions}
	reason, known := c.unpriced[p]
	if !known {
		if _, refusal := price.Unit(Terms(c.contracts, v, k), Condition(k, at)); refusal != nil {
			reason = string(refusal.Reason)
		}
		c.unpriced[p] = reason
	}
	return reason
}

// Terms are what prices a key: the version it names and the price book.
func Terms(contracts *contract.Register, v contract.Version, k ChargeKey) price.Terms {
	return price.Terms{Contract: v.Contract, Book: contracts.Book(k.Book)}
}

// Condition is the part of a charge key that prices look at; at is an instant in the key's local day.
func Condition(k ChargeKey, at span.Second) price.Condition {
	return price.Condition{
		SKU: k.SKU, PricingMode: k.PricingMode, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated, Conditions: k.Conditions, At: at,
	}
}

// topUp adds what minimum and granularity charge beyond the elapsed seconds of a start: once, at the conditions of
// its last second, in the version and period of the stop; none when the provider or a fault ended it, and no
// minimum for a restart after a fault (page 3b, Starts). A part of the device that was refused in the last second is
// refused here too: nobody pays for what another holds.
func (c *classifier) topUp(uh UnitHour, e occupancy.EndedStart) {
	if e.Start.EndedBy == fact.ByProvider || e.Start.EndedBy == fact.ByFault {
		return
	}
	last, stop := e.Start.LastSecond(), e.Start.Span.To
	v, reason := c.contracts.Resolve(e.Lease.Started, stop)
	if reason != "" || v.Contract.GPUIn(e.Start.State).Sign() == 0 { // what billed ended with the lease: its last second still belongs to it
		stop = last
		if v, reason = c.contracts.Resolve(e.Lease.Started, stop); reason != "" {
			return // the start's own seconds are refused with this reason already
		}
	}
	elapsed, b := e.Start.Span.Seconds(), v.Contract.Billing
	billable := (elapsed + b.GranularitySeconds - 1) / b.GranularitySeconds * b.GranularitySeconds
	if !e.Start.AfterFault {
		billable = max(billable, b.MinimumSeconds)
	}
	key := c.sliced(c.atOnce(c.keyAt(e.Lease, e.Start.State, stop, last), last), e.Each)
	key.Kind = TopUp
	refused := c.refused(uh.Unit.held(), e, last)
	for _, p := range []part{{key: key, milli: e.Milli - refused}, {key: overlapping(key, e.Lease, last), milli: refused}} {
		a := Amounts{Quantity: (billable - elapsed) * p.milli}
		c.add(uh, e.Lease, p.key, a)
		c.keep(Segment{Lease: e.Lease.ID, Device: uh.Unit.Device, Span: e.Start.Span, Milli: p.milli, Key: p.key, Amounts: a})
	}
}

// refused is the part of what an ended start held of a unit in its last second that was given to others before, in milli. A start
// without length holds no second: it comes behind those that hold the second of its instant and began before it.
func (c *classifier) refused(u occupancy.Unit, e occupancy.EndedStart, last span.Second) (milli int64) {
	room, empty := c.book.Saleable(u, last), e.Start.Span.Empty()
	for i := range c.tranches {
		tr := &c.tranches[i]
		later := tr.Began == e.Start.Span.From && tr.Seq > e.Start.Seq
		if !tr.Span.Contains(last) || empty && (later || tr.Lease == e.Lease) {
			continue
		}
		granted := min(tr.Milli, room)
		room -= granted
		if tr.Lease == e.Lease {
			milli += tr.Milli - granted
		}
	}
	if empty {
		return max(0, e.Milli-room)
	}
	return min(milli, e.Milli)
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
