package price_test

import (
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/price"
)

// The part that bills in a state comes after the factors of step 2: a cap on the list price stands before it and one on the final price
// behind it; spot's max has it; a tick and a forward's price, which take no other factor, have it too; what a fee pays for stays 0.
func TestState(t *testing.T) {
	states := func(rate string) *contract.Contract {
		return parse(t, "USD", "}, states: {running: {gpu: 90%}, suspended: {gpu: 30%}, stopped: {gpu: 200%}", rate)
	}
	plain := states("on_demand: 36.00/gpu-hour, region: {east: 50%}, spot: {index: a, max: 50% of on_demand}, " +
		"reserved: [{name: base, quantity: 1, price: 1/gpu-day, from: 2026-02-01, to: open}], forward: [{quantity: 1, price: 20.00/gpu-hour, from: 2026-02-01, to: open}]")
	for _, c := range []struct {
		contract         *contract.Contract
		mode, commitment string
		state            fact.LeaseState
		want             string
	}{
		{plain, price.OnDemand, "", "", "on_demand 36.00/gpu-hour, region east 50% = 1/200000/milli-gpu-second"},
		{plain, price.OnDemand, "", fact.Running, "on_demand 36.00/gpu-hour, region east 50%, state running 90% = 9/2000000/milli-gpu-second"},
		{plain, price.OnDemand, "", fact.Suspended, "on_demand 36.00/gpu-hour, region east 50%, state suspended 30% = 3/2000000/milli-gpu-second"},
		{plain, price.OnDemand, "forward", fact.Suspended, "forward 20.00/gpu-hour, state suspended 30% = 1/600000/milli-gpu-second"},
		{plain, price.OnDemand, "base", fact.Suspended, "covered_by base = 0/milli-gpu-second"},
		{plain, price.Spot, "", fact.Suspended, "spot 7.20/gpu-hour, state suspended 30% = 3/5000000/milli-gpu-second"},
		{plain, price.Spot, "", fact.Halted, "spot 7.20/gpu-hour, state stopped 200% = 1/250000/milli-gpu-second"},
		{
			states("on_demand: 36.00/gpu-hour, cap: 18.00/gpu-hour, region: {east: 100%}"), price.OnDemand, "", fact.Halted,
			"on_demand 36.00/gpu-hour, cap 18.00/gpu-hour, region east 100%, state stopped 200% = 1/100000/milli-gpu-second",
		},
		{
			states("on_demand: 36.00/gpu-hour, cap: {price: 36.00/gpu-hour, on: final}, region: {east: 100%}"), price.OnDemand, "", fact.Halted,
			"on_demand 36.00/gpu-hour, region east 100%, state stopped 200%, cap 36.00/gpu-hour = 1/100000/milli-gpu-second",
		},
	} {
		cond := price.Condition{PricingMode: c.mode, Region: "east"}
		cond.Commitment, cond.State = c.commitment, c.state
		if c.mode == price.Spot {
			cond.SpotPrice = "7.20/gpu-hour"
		}
		if got := unit(t, c.contract, cond).String(); got != c.want {
			t.Errorf("%s %q %s: %s, want %s", c.mode, c.commitment, c.state, got, c.want)
		}
	}
}
