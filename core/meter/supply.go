package meter

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// part is what one commitment, or none, covers of a tranche.
type part struct {
	key   ChargeKey
	milli int64
	free  bool // a fee pays for it: it has no price that a window or relief could change
}

// supply splits the milli that a tranche was granted in a stretch by what covers them: reservations, forwards and packages in
// the order of page 3b, then burst. Only on-demand time that has a price draws coverage; refused time and top-ups do not.
func (c *classifier) supply(key ChargeKey, tr *occupancy.Tranche, s span.Span, granted int64) []part {
	c.parts = c.parts[:0]
	if a := c.allocation(key.Contract, tr.Lease); a != nil && drawing(key) {
		granted = c.draw(a, key, tr, s.From, granted)
	}
	c.parts = append(c.parts, part{key: c.sliced(c.atOnce(key, s.From), tr.Each), milli: granted})
	return c.parts
}

// draw adds the parts that are covered, and returns what is left.
func (c *classifier) draw(a *allocation, key ChargeKey, tr *occupancy.Tranche, at span.Second, granted int64) int64 {
	return a.parts(tr, at, granted, func(by *contract.Supply, milli int64) {
		c.parts = append(c.parts, part{c.coveredKey(key, by, tr, at), milli, !by.Priced})
	})
}

// drawing tells whether time draws coverage: it has a price before windows. Whether a window holds is a question for burst.
func drawing(k ChargeKey) bool {
	return k.Contract != "" && (k.Standing == Priced || k.Reason == contract.NoHolidayCalendar)
}

// coveredKey is the key of a covered part. A schedule's windows for forwards and the lease's state change a forward's price, and nothing
// changes what a fee pays for.
func (c *classifier) coveredKey(key ChargeKey, by *contract.Supply, tr *occupancy.Tranche, at span.Second) ChargeKey {
	key.Commitment, key.Standing, key.Reason, key.Window = by.Name, Priced, "", ""
	v, ok := c.contracts.Version(key.Version)
	if !ok {
		return key
	}
	key.Book, key.State = c.contracts.BookAt(v.Contract, at), "" // time refused for its window named none
	if by.Priced {
		key.State = scaled(v.Contract, tr.State)
		if key.Window, key.Reason = v.Contract.Schedule.At("forward", v.Contract.Zone, at); key.Reason != "" {
			key.Standing, key.Book, key.State = refusedOr(tr.Lease, at), 0, ""
		}
		key = c.sliced(key, tr.Each)
	}
	return key
}

// supplyEdges appends to dst the instants within s at which another part of a tranche is covered.
func (c *classifier) supplyEdges(dst []span.Second, tr *occupancy.Tranche, s span.Span) []span.Second {
	if c.allocations == nil {
		return dst
	}
	l := tr.Lease
	c.suppliers = c.contracts.Suppliers(c.suppliers[:0], l.Started.Contract, l.Started.Customer, l.Started.SKU)
	for _, id := range c.suppliers {
		if a := c.allocation(id, l); a != nil {
			dst = a.edges(dst, tr, s)
		}
	}
	return dst
}

// allocation is what a contract's commitments cover of the leases of a SKU in the part of an hour that is at hand, or nil when
// they cover none like this one. It follows from facts alone, so it is worked out once for all units of the hour.
func (c *classifier) allocation(id string, l *occupancy.Lease) *allocation {
	if !c.contracts.Supplied(id, l.Started.SKU) || l.Started.PricingMode != price.OnDemand {
		return nil
	}
	of := allocationOf{id, c.contracts.Whole(id, l.Started.SKU), c.within}
	a, known := c.allocations[of]
	if !known {
		a = c.allocate(of)
		c.allocations[of] = a
	}
	return a
}

// allocationOf names an allocation, by the SKU of the whole GPU where slices of it may be covered too, and a crowd.
type allocationOf struct {
	contract, sku string
	within        span.Span
}

// allocation is who is covered by what, from edge to edge.
type allocation struct {
	demand map[occupancy.Tranche]demand
	shares []sharing
	// settled[r][k] are the lowest and highest tranche that supply k ever ends at among those of kind r, while the same supplies are there
	// all the time; nil when they change. Between two of them nothing changes in the hour, however many leases come and go.
	settled [][][2]int
}

// demand is a tranche's place in the order of demand, and the number of its kind.
type demand struct{ order, kind int }

// kind is what decides which supplies cover a tranche.
type kind struct{ sku, region string }

// sharing is how the supplies are shared out from an instant on.
type sharing struct {
	from     span.Second
	supplies []*contract.Supply // that are there, in their order
	marks    [][]mark           // by kind, by supply: how far it and those before it reach
}

// mark is a place in the order of demand: all tranches before order, and so many milli of that one.
type mark struct {
	order int
	milli int64
}

// reached is how much of a tranche lies before the mark.
func (m mark) reached(order int, milli int64) int64 {
	switch {
	case order < m.order:
		return milli
	case order == m.order:
		return m.milli
	default:
		return 0
	}
}

// at is the index of the share that holds at an instant.
func (a *allocation) at(t span.Second) int {
	i, found := slices.BinarySearchFunc(a.shares, t, func(s sharing, t span.Second) int { return int(s.from - t) })
	if !found {
		i--
	}
	return i
}

// parts calls f for what each supply covers of a tranche at an instant, and returns what is left.
func (a *allocation) parts(tr *occupancy.Tranche, at span.Second, granted int64, f func(*contract.Supply, int64)) int64 {
	d, ok := a.demand[*tr]
	if !ok {
		return granted
	}
	s := &a.shares[a.at(at)]
	var before int64
	for k, by := range s.supplies {
		reached := s.marks[d.kind][k].reached(d.order, granted)
		if reached > before {
			f(by, reached-before)
		}
		before = reached
	}
	return granted - before
}

// edges appends to dst the instants within s at which the parts of a tranche change.
func (a *allocation) edges(dst []span.Second, tr *occupancy.Tranche, s span.Span) []span.Second {
	d, ok := a.demand[*tr]
	if !ok || a.constant(d) {
		return dst
	}
	for i := a.at(s.From) + 1; i < len(a.shares) && a.shares[i].from < s.To; i++ {
		if !a.shares[i-1].alike(&a.shares[i], d) {
			dst = append(dst, a.shares[i].from)
		}
	}
	return dst
}

// constant tells whether no supply ever ends at this tranche, nor passes it.
func (a *allocation) constant(d demand) bool {
	if a.settled == nil {
		return false
	}
	for _, ends := range a.settled[d.kind] {
		if ends[0] <= d.order && d.order <= ends[1] {
			return false
		}
	}
	return true
}

// alike tells whether two shares cover a tranche alike.
func (s *sharing) alike(o *sharing, d demand) bool {
	if !slices.Equal(s.supplies, o.supplies) {
		return false
	}
	const whole = 1 << 40 // more than any tranche: tells one that is covered whole from one that is split
	for k := range s.supplies {
		if s.marks[d.kind][k].reached(d.order, whole) != o.marks[d.kind][k].reached(d.order, whole) {
			return false
		}
	}
	return true
}
