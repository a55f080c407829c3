package contract

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
)

// Holds tells whether a lease holds its GPUs in a state at an instant: a running one does, and one in a state of which the contract in
// force then bills a part. Where no contract is in force nothing but a running lease does.
func (r *Register) Holds(l *fact.LeaseStarted, state fact.LeaseState, at span.Second) bool {
	if state == fact.Running {
		return true
	}
	v, reason := r.Resolve(l, at)
	return reason == "" && v.Contract.GPUIn(state).Sign() > 0
}

// applyLife takes what a fact says of a lease's states, and tells which contracts have a meter that reads the lease.
func (r *Register) applyLife(f fact.Fact, at span.Second) []Changed {
	lease := f.Body.Entity()
	r.lives[lease] = append(r.lives[lease], f)
	if !r.byState {
		return nil
	}
	r.last = max(r.last, f.Seq)
	i := slices.IndexFunc(r.lives[lease], func(x fact.Fact) bool { return x.Body.Type() == fact.TypeLeaseStarted })
	if i < 0 {
		return nil // it is in no state yet
	}
	start, _ := r.lives[lease][i].Body.(*fact.LeaseStarted)
	var out []Changed
	for _, a := range r.customers[start.Customer] {
		if a.meters(r.readings[a.id], lease) {
			out = append(out, Changed{Contract: a.id, Customer: a.customer, From: at})
		}
	}
	return out
}

// meters tells whether a meter that bills by state in some version was read of a lease.
func (a *agreement) meters(read *readings, lease string) bool {
	if read == nil {
		return false
	}
	return slices.ContainsFunc(a.versions, func(v Version) bool {
		if v.Contract.States == nil {
			return false
		}
		for name := range v.Contract.States.Meters {
			if read.series[[2]string{name, lease}] != nil {
				return true
			}
		}
		return false
	})
}

// Portion is a stretch of which one part of a meter's level bills.
type Portion struct {
	span.Span
	State fact.LeaseState // of the lease; "" outside its life
	Part  *big.Rat        // nil: all of it
}

// Portions cuts a span where the part of a meter's level changes that bills by the state of the lease which is the meter's resource. A
// meter that bills the same in all states is one portion; so is one whose resource is no lease of the customer.
func (r *Register) Portions(c *Contract, meter, resource string, s span.Span) []Portion {
	if _, by := c.MeterIn(meter, fact.Running); !by {
		return []Portion{{Span: s}}
	}
	known := r.lives[resource]
	if r.before != 0 {
		known = slices.DeleteFunc(slices.Clone(known), func(f fact.Fact) bool { return f.Seq >= r.before })
	}
	var out []Portion
	from := s.From
	for _, p := range occupancy.StatesOf(c.Customer, known) {
		in := p.Span.Intersect(s)
		if in.Empty() {
			continue
		}
		if from < in.From {
			out = append(out, Portion{Span: span.Span{From: from, To: in.From}})
		}
		part, _ := c.MeterIn(meter, p.State)
		out = append(out, Portion{in, p.State, part})
		from = in.To
	}
	if from < s.To {
		out = append(out, Portion{Span: span.Span{From: from, To: s.To}})
	}
	return out
}
