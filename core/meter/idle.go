package meter

import (
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// ReasonNotSeen: no sample proves the second, and the contract bills what was observed.
const ReasonNotSeen = "not_seen"

// ReasonSlowSource: the contract bills what was observed, and what observed the hour looks less often than once a second (page 3b, bill_by:
// observed): unseen seconds are no proof that nobody used the device.
const ReasonSlowSource = "slow_source"

// stretch is a part of a stretch under one key: the seconds of one milli.
type stretch struct {
	key  ChargeKey
	each Amounts
}

// stretches splits the seconds of s, which are each, by what only samples tell: idle relief, and seconds that nobody saw where
// only seen ones bill.
func (c *classifier) stretches(uh UnitHour, p part, l *occupancy.Lease, s span.Span, each Amounts, cov *coverage) []stretch {
	key := p.key
	c.stretched = append(c.stretched[:0], stretch{key, each})
	v, ok := c.contracts.Version(key.Version)
	if !ok || key.Standing != Priced {
		return c.stretched
	}
	if v.Contract.Billing.Observed && cov != nil && cov.slow() {
		c.stretched[0].key.Standing, c.stretched[0].key.Reason = refusedOr(l, s.From), ReasonSlowSource
		return c.stretched
	}
	if rule := v.Contract.Idle; rule != nil && cov != nil && uh.Unit.Device != "" {
		if idle := cov.within(s, c.relieved(uh, l, v, cov)); idle.Quantity > 0 {
			c.stretched[0].each = each.Minus(idle)
			key.Idle = !p.free
			c.stretched = append(c.stretched, stretch{key, idle})
		}
	}
	if v.Contract.Billing.Observed {
		c.stretched = observed(c.stretched)
	}
	return c.stretched
}

// observed keeps what was measured and puts the rest aside.
func observed(list []stretch) []stretch {
	rest := stretch{key: list[0].key}
	rest.key.Standing, rest.key.Reason = Unobserved, ReasonNotSeen
	for i := range list {
		seen := Amounts{Quantity: list[i].each.Measured, Measured: list[i].each.Measured}
		rest.each = rest.each.Plus(list[i].each.Minus(seen))
		list[i].each = seen
	}
	return append(list, rest)
}

// relief is what a version's rule gives a lease in the hour at hand.
type relief struct {
	lease   *occupancy.Lease
	version uint64
	seconds reliefMask
}

// reliefMask are the relieved seconds of an hour.
type reliefMask [60]span.SecondMask

// relieved are the seconds of an hour in which a lease's idle run on the device has lasted for the rule's time. A run begins when
// the lease takes the device, or later; it survives a resize, and ends when the lease does not hold the device, when a second
// is busy, or in a gap of unknown seconds that is longer than the bridge. A second in which several leases hold the device is
// unknown: its utilisation belongs to none of them.
func (c *classifier) relieved(uh UnitHour, l *occupancy.Lease, v contract.Version, cov *coverage) *reliefMask {
	for i := range c.relief {
		if r := &c.relief[i]; r.lease == l && r.version == v.Seq {
			return &r.seconds
		}
	}
	rule := v.Contract.Idle
	r := idleRun{hour: uh.Hour, after: span.Second(rule.AfterSeconds), bridge: span.Second(rule.BridgeSeconds), began: -1}
	whole := uh.Hour.Span()
	reach := span.Span{From: whole.From - r.after - r.bridge, To: whole.To + r.bridge}
	if !cov.anyBelow(uint8(rule.BelowPercent), span.Span{From: whole.From, To: reach.To}) { // no run reaches into the hour or over it
		c.relief = append(c.relief, relief{lease: l, version: v.Seq})
		return &c.relief[len(c.relief)-1].seconds
	}
	c.held = c.book.On(c.held[:0], occupancy.Unit{Device: uh.Unit.Device}, reach)
	for h := reach.From.Hour(); h.Start() < reach.To; h++ {
		hour := cov.around(h)
		for m := max(h.FirstMinute(), reach.From.Minute()); m < h.FirstMinute()+60 && m.Start() < reach.To; m++ {
			in := span.MaskOf(m, reach)
			own, shared := holding(c.held, l, m, in)
			var minute *usage.Minute
			if hour != nil {
				minute = &hour[m-h.FirstMinute()]
			}
			idle, busy := idleness(minute, rule.BelowPercent, own&^shared)
			r.minute(m, idle, busy|in&^own)
		}
	}
	c.relief = append(c.relief, relief{l, v.Seq, r.relieved})
	return &c.relief[len(c.relief)-1].seconds
}

// holding are the seconds of a minute in which the lease holds the device, and those in which another one does.
func holding(held []occupancy.Tranche, l *occupancy.Lease, m span.Minute, in span.SecondMask) (own, others span.SecondMask) {
	for i := range held {
		mask := span.MaskOf(m, held[i].Span) & in
		if held[i].Lease == l {
			own |= mask
		} else {
			others |= mask
		}
	}
	return own, others
}

// idleness splits the seconds of a minute whose utilisation is known into idle and busy ones.
func idleness(minute *usage.Minute, below int64, in span.SecondMask) (idle, busy span.SecondMask) {
	if minute == nil {
		return 0, 0
	}
	known := minute.BusyKnown() & in
	idle = minute.BusyBelow(uint8(below)) & known
	return idle, known &^ idle
}

// idleRun walks over seconds and marks those that are relieved.
type idleRun struct {
	hour          span.Hour
	after, bridge span.Second
	began         span.Second // of the run, -1 outside one
	last          span.Second // idle second of the run
	relieved      reliefMask
}

// minute takes the idle seconds of a minute and those that end a run; the others are unknown.
func (r *idleRun) minute(m span.Minute, idle, ends span.SecondMask) {
	for rest := idle | ends; rest != 0; {
		from, of := rest.First(), ends
		isIdle := idle.Has(from)
		if isIdle {
			of = idle
		}
		length := (^(of >> from)).First()
		if isIdle {
			r.idle(m.Start()+span.Second(from), span.Second(length))
		} else {
			r.began = -1
		}
		rest &^= (span.Bit(length) - 1) << from
	}
}

// idle takes a stretch of idle seconds.
func (r *idleRun) idle(at, length span.Second) {
	from := at
	switch {
	case r.began < 0 || at-1-r.last > r.bridge:
		r.began = at
	default:
		from = r.last + 1 // the gap belongs to the run
	}
	r.last = at + length - 1
	in := span.Span{From: max(from, r.began+r.after), To: at + length}.Intersect(r.hour.Span())
	for m := in.From.Minute(); m.Start() < in.To; m++ {
		r.relieved[m-r.hour.FirstMinute()] |= span.MaskOf(m, in)
	}
}
