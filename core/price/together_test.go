package price_test

import (
	"testing"

	"github.com/gpuhour/gpuhour/core/price"
)

// Design page 3b, Volume tiers: by the GPUs held at once a percentage scales the price after region, tier and dedicated, and an amount
// replaces the SKU's own; a cap on the final price limits what they give. Time of which nothing is counted has none of it.
func TestAtOnce(t *testing.T) {
	const graduated = "method: graduated, tiers: [{upto: 2, price: 100%}, {price: 50%}]"
	for _, c := range []struct {
		rate  string
		milli int64
		want  string
	}{
		{"volume: {by: gpus, " + graduated + "}", 0, "on_demand 36.00/gpu-hour, region east 88% = 11/1250000/milli-gpu-second"},
		{"volume: {by: gpus, " + graduated + "}", 1, "on_demand 36.00/gpu-hour, region east 88%, volume >0 ≤2 gpus at once 100% = 11/1250000/milli-gpu-second"},
		{"volume: {by: gpus, " + graduated + "}", 2500, "on_demand 36.00/gpu-hour, region east 88%, volume 2.5 gpus at once 90% = 99/12500000/milli-gpu-second"},
		{"volume: {by: gpus, " + graduated + "}", 3000, "on_demand 36.00/gpu-hour, region east 88%, volume 3 gpus at once 83.333333333333…% (5/6) = 11/1500000/milli-gpu-second"},
		{
			"volume: {by: gpus, method: volume, tiers: [{upto: 9, price: 100%}, {price: 80%}]}", 9001,
			"on_demand 36.00/gpu-hour, region east 88%, volume >9 gpus at once 80% = 11/1562500/milli-gpu-second",
		},
		{
			"volume: {by: gpus, method: graduated, tiers: [{upto: 2, price: 30.00/gpu-hour}, {price: 20.00/gpu-hour}]}", 3000,
			"volume 3 gpus at once 26.666666666666…/gpu-hour, region east 88% = 11/1687500/milli-gpu-second",
		},
		{
			"cap: {price: 18.00/gpu-hour, on: final}, volume: {by: gpus, method: volume, tiers: [{price: 80%}]}", 1,
			"on_demand 36.00/gpu-hour, region east 88%, volume >0 gpus at once 80%, cap 18.00/gpu-hour = 1/200000/milli-gpu-second",
		},
	} {
		cond := price.Condition{Region: "east"}
		cond.AtOnceMilli = c.milli
		if got := unit(t, parse(t, "USD", "", "on_demand: 36.00/gpu-hour, region: {east: 88%}, "+c.rate), cond).String(); got != c.want {
			t.Errorf("%d of %s:\n%s, want\n%s", c.milli, c.rate, got, c.want)
		}
	}
}

// Design page 3b, Slices: a price per slice is divided by the slice's share, so that each slice costs it; so is a cap per slice.
func TestPerSlice(t *testing.T) {
	for _, c := range []struct {
		rate  string
		milli int64
		want  string
	}{
		{"on_demand: 0.36/slice-hour", 100, "on_demand 0.36/slice-hour = 1/1000000/milli-gpu-second"},
		{"on_demand: 0.36/slice-hour", 143, "on_demand 0.36/slice-hour = 1/1430000/milli-gpu-second"},
		{"on_demand: 36.00/gpu-hour, cap: 0.36/slice-hour", 100, "on_demand 36.00/gpu-hour, cap 0.36/slice-hour = 1/1000000/milli-gpu-second"},
		{"on_demand: 0.36/slice-hour, cap: 1.80/gpu-hour", 100, "on_demand 0.36/slice-hour, cap 1.80/gpu-hour = 1/2000000/milli-gpu-second"},
		{"on_demand: 0.36/slice-hour", 0, "on_demand 0.36/slice-hour = 1/10000000/milli-gpu-second"},
	} {
		var cond price.Condition
		cond.SliceMilli = c.milli
		if got := unit(t, parse(t, "USD", "", c.rate), cond).String(); got != c.want {
			t.Errorf("%d of %s:\n%s, want\n%s", c.milli, c.rate, got, c.want)
		}
	}
}
