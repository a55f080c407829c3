package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// What the second stream of dice draws, by the names of the figures.
const (
	wallClock   = "wall clock"
	secondRater = "second rater"
	newRounding = "another rounding"
	shorterTerm = "shorter term"
	longerTerm  = "longer term"
	newTiers    = "service tiers"
	noises      = "usage that nobody can read"
)

// noise is a usage message that must be quarantined for a reason.
type noise struct {
	known int64
	bus.Publication
	reason usage.QuarantineReason
}

// stranger is a node that no collector speaks for, so that its messages are nobody's conflict.
const stranger = "stranger"

// writeMore draws what came into the game later, from dice of its own: what the first stream draws of a seed stays as it was.
func (a *author) writeMore(seed uint64) {
	a.dice = rand.New(rand.NewPCG(seed, 4))
	a.wall, a.raters = a.one(8), 1
	if a.one(5) {
		a.raters = 2
	}
	for i := range a.contracts {
		a.moreTerms(a.signed[i])
	}
	if a.one(6) {
		id := fmt.Sprintf("customer%d", a.dice.IntN(3))
		a.state(a.from+a.dice.Int64N(a.to-a.from+4*hour), "halt of "+id, "halt of "+id, &fact.CustomerHalted{Customer: id, Reason: "a check failed", Block: 1}, nil)
	}
	if a.one(4) {
		for range 1 + a.dice.IntN(4) {
			a.noise()
		}
		a.drawn[noises]++
	}
	if a.one(4) {
		a.tiers()
	}
}

// tally counts what was drawn, by the names of the figures.
func (s *story) tally() map[string]int {
	out := maps.Clone(s.drawn)
	add := func(what string, is bool) {
		if is {
			out[what]++
		}
	}
	add(wallClock, s.wall)
	add(secondRater, s.raters > 1)
	add(aRestore, s.restore)
	add(aRebuild, s.rebuild)
	for _, e := range s.events {
		add("fact stated again", e.repeat)
		add("fact contradicted", e.twin)
		add(string(e.body.Type()), !e.repeat && !e.twin)
		if b, ok := e.body.(*fact.DeviceDeclared); ok {
			add(afterwards, !e.repeat && !e.twin && e.known > int64(b.At)+hour)
		}
		if start, ok := e.body.(*fact.LeaseStarted); ok {
			part := func(share fact.Share) bool { return share.ShareMilli < 1000 }
			add("lease of a fraction", slices.ContainsFunc(start.Devices, part) || len(start.Devices) == 0 && start.ShareMilli < 1000)
			add("lease without a place", len(start.Devices) == 0)
		}
	}
	for _, t := range s.terms {
		add("terms with a minimum", t.minimum > 0)
		add("terms with coarse granularity", t.granularity > 1)
		add("terms with prices by region", slices.ContainsFunc(t.rates, func(r rate) bool { return r.region != nil }))
		add("terms with prices for dedicated machines", slices.ContainsFunc(t.rates, func(r rate) bool { return r.dedicated > 0 }))
	}
	return out
}

// moreTerms amends a contract: other rounding, often when it was closed already; a term that ends sooner or later. No amendment
// comes into force after its own term when terms differ: periods of an older version that reach beyond the latest would not be due.
func (a *author) moreTerms(t *terms) {
	latest := a.lastAmendment(t)
	if a.one(3) {
		next := *t
		for next.rounding == t.rounding {
			next.rounding = pick(a.dice, "half_away_from_zero", "half_even", "up", "down")
		}
		effective := min(a.from+a.dice.Int64N(a.to-a.from), t.to-1)
		a.amendment(&next, "rounding", effective, pick(a.dice, -a.dice.Int64N(hour), a.dice.Int64N(day)))
		a.drawn[newRounding]++
	}
	if a.one(4) && latest < t.to {
		next := *t
		effective := t.from + a.dice.Int64N(t.to-t.from)
		next.to = effective + 1 + a.dice.Int64N(t.to-effective) // the end is never in front of the amendment
		a.drawn[shorterTerm]++
		if a.one(2) {
			next.to = t.to + 1 + a.dice.Int64N(5*hour)
			a.drawn[shorterTerm]--
			a.drawn[longerTerm]++
		}
		a.amendment(&next, "term", effective, pick(a.dice, -a.dice.Int64N(hour), a.dice.Int64N(3*hour)))
	}
}

// lastAmendment is when the last version of a contract comes into force.
func (a *author) lastAmendment(t *terms) int64 {
	latest := t.from
	for _, e := range a.events {
		if b, ok := e.body.(*fact.ContractAmended); ok && b.Contract == t.id {
			latest = max(latest, int64(b.Effective))
		}
	}
	return latest
}

// amendment states terms that hold from an instant on, so much later than that.
func (a *author) amendment(next *terms, what string, effective, later int64) {
	a.terms[next.document()] = next
	name := fmt.Sprintf("amendment %s/%s", next.id, what)
	a.state(effective+later, name, name, &fact.ContractAmended{Contract: next.id, Effective: span.Second(effective), Document: next.document()}, nil)
}

// tiers sells leases by tier, and amends the contracts to price two of three.
func (a *author) tiers() {
	a.drawn[newTiers]++
	for _, e := range a.events {
		if start, ok := e.body.(*fact.LeaseStarted); ok && !e.repeat && !e.twin {
			start.ServiceTier = pick(a.dice, "", "gold", "silver", "silver", "wood")
		}
	}
	for _, t := range a.signed[:a.contracts] {
		next := *t
		next.rates = slices.Clone(t.rates)
		next.rates[a.dice.IntN(2)].tier = map[string]int64{"gold": 101 + a.dice.Int64N(99), "silver": 1 + a.dice.Int64N(99)}
		a.amendment(&next, "tiers", max(t.from, a.from-hour), -a.dice.Int64N(hour))
	}
}

// noise draws a message of one of four kinds. The batch inside would be seconds of a node, and would contradict it.
func (a *author) noise() {
	at := a.from + a.dice.Int64N(a.to-a.from)
	n := noise{known: at + a.dice.Int64N(hour), reason: usage.Undecodable}
	node := pick(a.dice, stranger, a.nodes[0].name)
	block := usage.Block{Device: node + "/gpu0", Seen: 1}
	block.Busy[0] = 100
	batch := usage.Batch{
		Node: node, Boot: "sim", Run: 1, Seq: 1, Minute: span.Minute(at / 60), Spoken: 1,
		Clock: usage.ClockEvidence{State: usage.ClockScripted}, Blocks: [][]byte{block.Append(nil)},
	}
	p, err := codec.EncodeBatch(&batch)
	if err != nil {
		panic(err)
	}
	n.Publication = bus.Publication{Subject: codec.UsageSubject(stranger), Data: p.Data}
	switch kind := a.dice.IntN(4); {
	case kind == 0:
		n.Data = slices.Repeat([]byte{0xff}, 1+a.dice.IntN(40))
	case kind == 1:
		n.Data = n.Data[:len(n.Data)-1] // blocks come last
	case kind == 2 || node == stranger:
		n.Data = append(n.Data, 0xf8, 0x07, 1) // field 127
	default:
		n.reason = usage.WrongPartition
	}
	a.noisy = append(a.noisy, n)
}
