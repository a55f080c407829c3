package occupancy

import (
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// InState is how long a lease is in one state.
type InState struct {
	Span  span.Span // To is span.Open while it lasts
	State fact.LeaseState
}

// StatesOf lists what states a lease of a customer is in, in order of time, from its facts in any order. After a stop it is in none, and
// a lease without a start or of somebody else never is in any.
func StatesOf(customer string, facts []fact.Fact) []InState {
	t := timeline{lease: &Lease{Started: firstStart(facts)}, began: map[Unit][]int{}}
	if s := t.lease.Started; s == nil || s.Customer != customer {
		return nil
	}
	t.fold(facts)
	return t.states
}

// note keeps that the lease is in its state from an instant on.
func (t *timeline) note(at span.Second) {
	if n := len(t.states); n > 0 && t.states[n-1].Span.To == span.Open {
		if t.states[n-1].Span.To = at; t.states[n-1].Span.Empty() {
			t.states = t.states[:n-1]
		}
	}
	if t.state != "" {
		t.states = append(t.states, InState{span.Span{From: at, To: span.Open}, t.state})
	}
}
