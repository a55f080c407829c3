package meter

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// change is that a tranche asks for so many milli from an instant on.
type change struct {
	at      span.Second
	tranche occupancy.Tranche
	milli   int64
}

// allocate shares the supplies of a contract and SKU out in a part of an hour (design page 3b, Reserved, forward, packages): each in
// its order to what the ones before it left, in the order of demand. Only the edges where something changes cost anything, and
// each of them a search in the order, so that an hour of thousands of leases is not a product of all with all.
func (c *classifier) allocate(of allocationOf) *allocation {
	supplies := c.contracts.Supplies(of.contract, of.sku, of.within)
	if len(supplies) == 0 {
		return nil
	}
	changes := c.demands(of)
	a := &allocation{demand: map[occupancy.Tranche]demand{}}
	kinds := map[kind]int{}
	for _, tr := range inOrder(changes) {
		of := kind{tr.Lease.Started.SKU, tr.Lease.Started.Region}
		if _, ok := kinds[of]; !ok {
			kinds[of] = len(kinds)
		}
		a.demand[tr] = demand{len(a.demand), kinds[of]}
	}
	q := queue{kinds: make([]kind, len(kinds)), milli: make([]int64, len(a.demand)), kind: make([]int, len(a.demand)), trees: make([]tree, len(kinds))}
	for of, i := range kinds {
		q.kinds[i] = of
		q.trees[i] = make(tree, len(a.demand)+1)
	}
	for _, d := range a.demand {
		q.kind[d.order] = d.kind
	}
	slices.SortFunc(changes, func(x, y change) int { return cmp.Compare(x.at, y.at) })
	next := 0
	for _, at := range edgesOf(changes, supplies, of.within) {
		for ; next < len(changes) && changes[next].at == at; next++ {
			q.set(a.demand[changes[next].tranche].order, changes[next].milli)
		}
		s := sharing{from: at}
		for i := range supplies {
			if supplies[i].Span.Contains(at) {
				s.supplies = append(s.supplies, &supplies[i])
			}
		}
		s.marks = q.share(s.supplies)
		a.shares = append(a.shares, s)
	}
	a.settle()
	return a
}

// demands lists what the on-demand leases of a contract and SKU, and of its slices, ask for: what their units grant them and has a
// price.
func (c *classifier) demands(of allocationOf) []change {
	bare := *c // its own scratch, and no supply
	bare.allocations, bare.crowds, bare.tranches, bare.edges, bare.held = nil, nil, nil, nil, nil
	var out []change
	units := map[occupancy.Unit]bool{}
	for _, sku := range c.contracts.Pool(of.contract, of.sku) {
		for _, l := range c.book.Holders(occupancy.Group{Customer: c.contracts.Customer(of.contract), SKU: sku}, of.within) {
			for i := range l.Tranches {
				u := l.Tranches[i].Unit
				if l.Tranches[i].Span.Overlaps(of.within) && !units[u] {
					units[u] = true
					out = bare.unitDemands(out, u, of)
				}
			}
		}
	}
	return out
}

// unitDemands appends to dst what a unit grants, from edge to edge.
func (c *classifier) unitDemands(dst []change, u occupancy.Unit, of allocationOf) []change {
	c.tranches = c.book.On(c.tranches[:0], u, of.within)
	c.findEdges(u, of.within)
	last := make([]int64, len(c.tranches))
	for i := 1; i < len(c.edges); i++ {
		at := c.edges[i-1]
		room := c.book.Saleable(u, at)
		for k := range c.tranches {
			tr := &c.tranches[k]
			var asked int64
			if tr.Span.Contains(at) {
				granted := min(tr.Milli, room)
				room -= granted
				if c.draws(tr, at, of) {
					asked = granted
				}
			}
			if asked != last[k] {
				dst = append(dst, change{at, *tr, asked})
				last[k] = asked
			}
		}
	}
	return dst
}

// draws tells whether a tranche's time at an instant may be covered by a contract's commitments for a SKU.
func (c *classifier) draws(tr *occupancy.Tranche, at span.Second, of allocationOf) bool {
	l := tr.Lease
	if c.contracts.Whole(of.contract, l.Started.SKU) != of.sku || l.Started.PricingMode != price.OnDemand {
		return false
	}
	key := c.keyAt(l, tr.State, at, at)
	return drawing(key) && key.Contract == of.contract
}

// inOrder lists the tranches once each in the order of demand: when they began, then by lease. A lease's own that began at once
// stand by device.
func inOrder(changes []change) []occupancy.Tranche {
	out := make([]occupancy.Tranche, len(changes))
	for i := range changes {
		out[i] = changes[i].tranche
	}
	slices.SortFunc(out, func(a, b occupancy.Tranche) int {
		return cmp.Or(
			cmp.Compare(a.Began, b.Began), cmp.Compare(a.Lease.ID, b.Lease.ID), cmp.Compare(a.Unit.Device, b.Unit.Device), cmp.Compare(a.Seq, b.Seq),
			cmp.Compare(a.Span.From, b.Span.From), cmp.Compare(a.Milli, b.Milli),
		)
	})
	return slices.Compact(out)
}

// edgesOf lists the instants at which supply or demand changes, from the beginning on.
func edgesOf(changes []change, supplies []contract.Supply, within span.Span) []span.Second {
	out := []span.Second{within.From}
	for i := range changes {
		out = append(out, changes[i].at)
	}
	for i := range supplies {
		out = append(out, supplies[i].Span.From)
		if supplies[i].Span.To < within.To {
			out = append(out, supplies[i].Span.To)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// settle finds where each supply ends at the lowest and at the highest.
func (a *allocation) settle() {
	first := a.shares[0]
	for i := range a.shares {
		if !slices.Equal(a.shares[i].supplies, first.supplies) {
			return
		}
	}
	for r := range first.marks {
		var ends [][2]int
		for k := range first.supplies {
			low, high := first.marks[r][k].order, first.marks[r][k].order
			for i := range a.shares {
				low, high = min(low, a.shares[i].marks[r][k].order), max(high, a.shares[i].marks[r][k].order)
			}
			ends = append(ends, [2]int{low, high})
		}
		a.settled = append(a.settled, ends)
	}
}

// queue is the demand at an instant: what each tranche asks for, in order, and sums of it by kind.
type queue struct {
	kinds []kind
	milli []int64
	kind  []int
	trees []tree
	draws []int // scratch
}

func (q *queue) set(order int, milli int64) {
	q.trees[q.kind[order]].add(order, milli-q.milli[order])
	q.milli[order] = milli
}

// share gives the supplies out and marks how far each reaches in every kind. What covers a kind takes one behind the other, so what is
// taken of it is always all that stands before a mark.
func (q *queue) share(supplies []*contract.Supply) [][]mark {
	marks := make([][]mark, len(q.trees))
	taken := make([]int64, len(q.trees))
	for _, s := range supplies {
		q.draws = q.draws[:0]
		for r, of := range q.kinds {
			if s.Covers(of.sku, of.region) {
				q.draws = append(q.draws, r)
			}
		}
		if len(q.draws) == 1 {
			r := q.draws[0]
			taken[r] = min(taken[r]+s.Milli, q.trees[r].before(len(q.milli)))
		} else {
			q.among(taken, s.Milli)
		}
		for r := range q.trees {
			marks[r] = append(marks[r], q.trees[r].mark(taken[r]))
		}
	}
	return marks
}

// among takes so many milli in the order of demand from what is left of all kinds that draw.
func (q *queue) among(taken []int64, milli int64) {
	left := func(before int) (sum int64) {
		for _, r := range q.draws {
			sum += max(0, q.trees[r].before(before)-taken[r])
		}
		return sum
	}
	end := sort.Search(len(q.milli), func(i int) bool { return left(i+1) > milli })
	rest := milli - left(end)
	for _, r := range q.draws {
		taken[r] = max(taken[r], q.trees[r].before(end))
	}
	if end < len(q.milli) { // what stands there is of a kind that draws, or nothing would be left of it
		taken[q.kind[end]] += rest
	}
}

// tree holds sums of numbers by index (a Fenwick tree), whose change and whose search take as many steps as the count has digits.
type tree []int64

func (t tree) add(i int, n int64) {
	for i++; i < len(t); i += i & -i {
		t[i] += n
	}
}

// before is the sum of the numbers in front of an index.
func (t tree) before(i int) (sum int64) {
	for ; i > 0; i -= i & -i {
		sum += t[i]
	}
	return sum
}

// mark is where a sum is reached: the last index in front of which no more stands, and what is left for it.
func (t tree) mark(sum int64) mark {
	step := 1
	for step*2 < len(t) {
		step *= 2
	}
	i := 0
	for ; step > 0; step /= 2 {
		if i+step < len(t) && t[i+step] <= sum {
			i += step
			sum -= t[i]
		}
	}
	return mark{i, sum}
}
