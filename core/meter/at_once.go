package meter

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// counted are the milli-GPUs of a contract and SKU that are held in a second and have a price, by what pays for them. Whether samples
// prove the second does not matter: held is held.
type counted struct{ onDemand, covered, spot int64 }

// by is what a table counts of them: the same as tiers by GPU-hours do (design page 3b, Volume tiers).
func (n counted) by(table *contract.Volume) int64 {
	milli := n.onDemand
	if table.Covered {
		milli += n.covered
	}
	if table.Spot {
		milli += n.spot
	}
	return milli
}

func (n counted) plus(o counted) counted {
	return counted{n.onDemand + o.onDemand, n.covered + o.covered, n.spot + o.spot}
}

func (n counted) minus(o counted) counted {
	return counted{n.onDemand - o.onDemand, n.covered - o.covered, n.spot - o.spot}
}

// crowd is what leases of a contract and SKU hold at once in the part of an hour that is at hand. Like an allocation it follows from
// facts alone, and is worked out once for all units of the hour.
type crowd struct {
	held  []heldFrom
	edges []span.Second // at which another number prices
}

// heldFrom is what is held from an instant on.
type heldFrom struct {
	at span.Second
	counted
}

// at is what is held in a second.
func (x *crowd) at(t span.Second) counted {
	i, found := slices.BinarySearchFunc(x.held, t, func(h heldFrom, t span.Second) int { return cmp.Compare(h.at, t) })
	if !found {
		i--
	}
	if i < 0 {
		return counted{}
	}
	return x.held[i].counted
}

// atOnce completes the key of time that is priced on demand with the number of GPUs held at once, where the version in force has
// tiers by it. Of a top-up it is the number of its second. The key names the fewest that are priced alike, so that leases which come
// and go within a tier change no key; a tier is reached by the sum, whichever lease came first.
func (c *classifier) atOnce(key ChargeKey, second span.Second) ChargeKey {
	if c.crowds == nil || key.Standing != Priced || key.PricingMode != price.OnDemand || !c.contracts.Counts(key.Contract, key.SKU) {
		return key
	}
	if v, ok := c.contracts.Version(key.Version); ok {
		if rate, _ := v.Contract.Rate(key.SKU); rate.AtOnce != nil {
			key.AtOnceMilli = rate.AtOnce.Deciding(c.crowd(key.Contract, key.SKU).at(second).by(rate.AtOnce))
		}
	}
	return key
}

// atOnceEdges appends to dst the instants within s at which another number of GPUs held at once prices a lease.
func (c *classifier) atOnceEdges(dst []span.Second, l *occupancy.Lease, s span.Span) []span.Second {
	if c.crowds == nil || l.Started.PricingMode != price.OnDemand {
		return dst
	}
	c.counting = c.contracts.Counting(c.counting[:0], l.Started.Contract, l.Started.Customer, l.Started.SKU)
	for _, id := range c.counting {
		for _, at := range c.crowd(id, l.Started.SKU).edges {
			if s.From < at && at < s.To {
				dst = append(dst, at)
			}
		}
	}
	return dst
}

func (c *classifier) crowd(id, sku string) *crowd {
	of := allocationOf{id, sku, c.within}
	x, known := c.crowds[of]
	if !known {
		x = c.count(of)
		c.crowds[of] = x
	}
	return x
}

// count adds up what all units of the hour hold.
func (c *classifier) count(of allocationOf) *crowd {
	bare := *c // its own scratch, and no numbers while they are worked out
	bare.crowds, bare.tranches, bare.edges, bare.held, bare.parts, bare.suppliers = nil, nil, nil, nil, nil, nil
	var changes []heldFrom
	units := map[occupancy.Unit]bool{}
	for _, l := range c.book.Holders(occupancy.Group{Customer: c.contracts.Customer(of.contract), SKU: of.sku}, of.within) {
		for i := range l.Tranches {
			if u := l.Tranches[i].Unit; l.Tranches[i].Span.Overlaps(of.within) && !units[u] {
				units[u] = true
				changes = bare.unitCounts(changes, u, of)
			}
		}
	}
	slices.SortFunc(changes, func(x, y heldFrom) int { return cmp.Compare(x.at, y.at) })
	x := &crowd{}
	var sum counted
	for i := range changes {
		sum = sum.plus(changes[i].counted)
		if i+1 == len(changes) || changes[i+1].at != changes[i].at {
			x.held = append(x.held, heldFrom{changes[i].at, sum})
		}
	}
	x.edges = c.decidingEdges(of, x.held)
	return x
}

// unitCounts appends to dst by how much what a unit holds changes, from edge to edge.
func (c *classifier) unitCounts(dst []heldFrom, u occupancy.Unit, of allocationOf) []heldFrom {
	c.tranches = c.book.On(c.tranches[:0], u, of.within)
	c.findEdges(u, of.within)
	var last counted
	for i := 1; i < len(c.edges); i++ {
		s := span.Span{From: c.edges[i-1], To: c.edges[i]}
		if now := c.countedOn(u, s, of); now != last {
			dst = append(dst, heldFrom{s.From, now.minus(last)})
			last = now
		}
	}
	return dst
}

// countedOn is what a unit holds of a contract and SKU in a stretch.
func (c *classifier) countedOn(u occupancy.Unit, s span.Span, of allocationOf) (n counted) {
	room := c.book.Saleable(u, s.From)
	for i := range c.tranches {
		tr := &c.tranches[i]
		if !tr.Span.Contains(s.From) {
			continue
		}
		granted := min(tr.Milli, room)
		room -= granted
		key := c.keyAt(tr.Lease, tr.State, s.From, s.From)
		if key.Contract != of.contract || key.SKU != of.sku {
			continue
		}
		for _, p := range c.supply(key, tr, s, granted) {
			switch {
			case p.key.Standing != Priced:
			case p.key.Commitment != "":
				n.covered += p.milli
			case p.key.PricingMode == price.OnDemand:
				n.onDemand += p.milli
			default:
				n.spot += p.milli
			}
		}
	}
	return n
}

// decidingEdges are the instants at which what is held prices otherwise than in the second before, by the version in force. Where the
// version changes there is an edge anyway.
func (c *classifier) decidingEdges(of allocationOf, held []heldFrom) []span.Second {
	var out []span.Second
	for i := range held {
		v, ok := c.contracts.InForce(of.contract, held[i].at)
		if !ok {
			continue
		}
		rate, _ := v.Contract.Rate(of.sku)
		var before counted
		if i > 0 {
			before = held[i-1].counted
		}
		if table := rate.AtOnce; table != nil && table.Deciding(before.by(table)) != table.Deciding(held[i].by(table)) {
			out = append(out, held[i].at)
		}
	}
	return out
}
