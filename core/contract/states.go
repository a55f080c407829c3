package contract

import (
	"math/big"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/internal/nearest"
	"github.com/gpuhour/gpuhour/core/money"
)

// States are what bills in which lease state (design page 3, states): parts of the price of GPU time, and of the levels of the
// meters that are named, whose readings name a lease as their resource. Every state has every part: a running lease is whole and the
// other states are nothing unless the contract says otherwise.
type States struct {
	GPU    map[fact.LeaseState]*big.Rat
	Meters map[string]map[fact.LeaseState]*big.Rat // by name
}

// LeaseStates lists the states of a lease in the order in which a contract is shown.
func LeaseStates() []fact.LeaseState {
	return []fact.LeaseState{fact.Running, fact.Suspended, fact.Halted}
}

// gpuPart is how the clause names GPU time among meters.
const gpuPart = "gpu"

// GPUIn is the part of a GPU's price that bills in a state: 1 or 0 for a contract that does not speak of states. A lease holds its GPUs
// in a state of which some part bills, and in no other.
func (c *Contract) GPUIn(state fact.LeaseState) *big.Rat {
	if c.States != nil {
		return c.States.GPU[state]
	}
	return unlessStated(state)
}

// MeterIn is the part of a meter's level that bills while the lease that it is of is in a state; false for a meter that bills the same
// in all of them.
func (c *Contract) MeterIn(meter string, state fact.LeaseState) (*big.Rat, bool) {
	if c.States == nil || c.States.Meters[meter] == nil {
		return nil, false
	}
	return c.States.Meters[meter][state], true
}

// unlessStated is the part that bills in a state which a contract leaves out.
func unlessStated(state fact.LeaseState) *big.Rat {
	if state == fact.Running {
		return big.NewRat(1, 1)
	}
	return new(big.Rat)
}

func allUnlessStated() map[fact.LeaseState]*big.Rat {
	out := map[fact.LeaseState]*big.Rat{}
	for _, s := range LeaseStates() {
		out[s] = unlessStated(s)
	}
	return out
}

func stateNames() []string {
	var names []string
	for _, s := range LeaseStates() {
		names = append(names, string(s))
	}
	return names
}

func (r *reader) states(s section, c *Contract) {
	f, ok := r.section(s.values["states"], "states", stateNames(), nil)
	if !ok {
		return
	}
	if m, is := f.node.(*ast.MappingNode); is && len(m.Values) == 0 {
		r.failf(f.node, f.field, "write {suspended: {gpu: 30%}} or remove it", "it states nothing")
	}
	if _, clash := c.Meter(gpuPart); clash {
		r.failf(f.node, f.field, "give the meter another name", "`gpu` means GPU time here, and a meter is called so")
	}
	c.States = &States{GPU: allUnlessStated(), Meters: map[string]map[fact.LeaseState]*big.Rat{}}
	for _, state := range LeaseStates() {
		if n, stated := f.values[string(state)]; stated {
			r.state(n, join(f.field, string(state)), state, c)
		}
	}
}

// state reads the parts that bill in one state.
func (r *reader) state(n ast.Node, field string, state fact.LeaseState, c *Contract) {
	entries, ok := r.entries(n, field)
	if !ok {
		return
	}
	for _, e := range entries {
		of := c.States.GPU
		if e.key != gpuPart {
			if !r.byState(e, field, c) {
				continue
			}
			if c.States.Meters[e.key] == nil {
				c.States.Meters[e.key] = allUnlessStated()
			}
			of = c.States.Meters[e.key]
		}
		part, ok := read(r, e.value, join(field, e.key), "write 100%", parseFactor)
		if !ok {
			continue
		}
		if of[state] = part; state == fact.Running && e.key == gpuPart && part.Sign() == 0 {
			r.failf(e.value, join(field, e.key), "write 100%, or a price of 0 in the rate", "a running lease would bill nothing and hold no GPU")
		}
	}
}

// byState tells whether a meter can bill by the state of a lease: only what is counted by time is cut where a state ends.
func (r *reader) byState(e entry, field string, c *Contract) bool {
	m, ok := c.Meter(e.key)
	if ok && m.Aggregate != TimeWeighted {
		r.fail(e.keyAt, join(field, e.key), "the meter's aggregate is "+m.Aggregate.String()+", and only a time_weighted one can be weighted by state",
			"remove it here, or price the meter per GB-month or GB-hour")
	}
	if ok {
		return m.Aggregate == TimeWeighted
	}
	names := []string{gpuPart}
	for _, m := range c.Meters {
		if m.Aggregate == TimeWeighted {
			names = append(names, m.Name)
		}
	}
	remedy := "write gpu, or name a time-weighted meter of the contract"
	if near, found := nearest.Of(e.key, names); found {
		remedy = "did you mean " + near + "?"
	} else if len(names) > 1 {
		remedy = "write one of " + quotedList(names)
	}
	r.fail(e.keyAt, join(field, e.key), "the contract has no meter of this name", remedy)
	return false
}

// namesMeters tells whether a meter of the contract bills by state.
func (c *Contract) namesMeters() bool { return c.States != nil && len(c.States.Meters) > 0 }

func (p *provisions) states() {
	states := p.contract.States
	if states == nil {
		return
	}
	names := []string{gpuPart}
	for _, m := range p.contract.Meters {
		if states.Meters[m.Name] != nil {
			names = append(names, m.Name)
		}
	}
	for _, state := range LeaseStates() {
		p.about("states", string(state))
		for _, name := range names {
			part := states.GPU[state]
			if name != gpuPart {
				part = states.Meters[name][state]
			}
			p.may(name, money.PercentText(part), join(join("states", string(state)), name))
		}
	}
}
