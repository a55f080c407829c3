package price_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/price"
)

const spotRate = "on_demand: 36.00/gpu-hour, region: {east: 100%, west: 88%}, service_tier: {t4: 110%}, dedicated: 125%, " +
	"spot: {index: a100, max: 70% of on_demand}"

// The tick takes no factors; the max is a part of the on-demand price with all of them: 36 x 88 % x 110 % x 125 % = 43.56,
// and 70 % of that 30.492.
func TestSpotIsTheTickAndAtMostTheMax(t *testing.T) {
	c := parse(t, "CNY", "", spotRate)
	for tick, want := range map[string]string{
		"30.492/gpu-hour": "spot 30.492/gpu-hour = 847/100000000/milli-gpu-second",
		"0.00/gpu-hour":   "spot 0.00/gpu-hour = 0/milli-gpu-second",
		"0.25/gpu-minute": "spot 0.25/gpu-minute = 1/240000/milli-gpu-second",
		"30.50/gpu-hour": "on_demand 36.00/gpu-hour, region west 88%, service_tier t4 110%, dedicated 125%, " +
			"spot_max 70% = 847/100000000/milli-gpu-second",
	} {
		u := unit(t, c, price.Condition{
			PricingMode: price.Spot, Region: "west", ServiceTier: "t4", Dedicated: true, Conditions: price.Conditions{SpotPrice: tick},
		})
		if u.String() != want {
			t.Errorf("%s: %s\nwant %s", tick, u, want)
		}
	}
}

func TestSpotWithoutAnOnDemandPrice(t *testing.T) {
	c := parse(t, "CNY", "", "region: {east: 90%}, spot: {index: a100}")
	u := unit(t, c, price.Condition{PricingMode: price.Spot, Region: "east", Conditions: price.Conditions{SpotPrice: "99.00/gpu-hour"}})
	if want := "spot 99.00/gpu-hour = 11/400000/milli-gpu-second"; u.String() != want {
		t.Errorf("%s, want %s", u, want)
	}
}

func TestSpotRefusals(t *testing.T) {
	only, none := "spot: {index: a100}", "on_demand: 36.00/gpu-hour"
	for _, r := range []struct {
		rate string
		cond price.Condition
		want price.Refusal
	}{
		{only, price.Condition{PricingMode: price.OnDemand}, price.Refusal{Reason: price.NoRate, Detail: `contract c1 has no on_demand price for SKU "a100"`}},
		{none, price.Condition{PricingMode: price.Spot}, price.Refusal{Reason: price.NoRate, Detail: `contract c1 has no spot price for SKU "a100"`}},
		{only, price.Condition{PricingMode: price.Spot, Region: "x"}, price.Refusal{
			Reason: price.NoSpotPrice, Detail: `index "a100" has no price in CNY for region "x" at or before this second`,
		}},
		{
			spotRate,
			price.Condition{PricingMode: price.Spot, Region: "x", Conditions: price.Conditions{SpotPrice: "1.00/gpu-hour"}},
			price.Refusal{Reason: price.NoRegion, Detail: `the rate has no region "x"; it has ["east" "west"]`},
		},
	} {
		r.cond.SKU, r.cond.At = "a100", at(t, "2026-06-15T12:00:00Z")
		u, refusal := price.Unit(price.Terms{Contract: parse(t, "CNY", "", r.rate)}, r.cond)
		if refusal == nil {
			t.Errorf("%+v costs %s", r.cond, u)
			continue
		}
		if diff := cmp.Diff(r.want, *refusal); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestSpotAgainstTheRuleInWords works the price out again: what the index says, at most the max, changed by the window, at most the max.
func TestSpotAgainstTheRuleInWords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(label string, from, to int64) int64 { return rapid.Int64Range(from, to).Draw(rt, label) }
		tick, onDemand, region, dedicated, limit := draw("tick", 0, 100_000), draw("on demand", 0, 100_000), draw("region", 0, 200), draw("dedicated", 0, 200), draw("max", 0, 150)
		change := draw("window", 1, 99)
		kind, factor := "off", 100-change
		if rapid.Bool().Draw(rt, "add") {
			kind, factor = "add", 100+change
		}
		c := parse(t, "CNY", "", fmt.Sprintf("on_demand: %d.%04d/gpu-hour, region: {east: %d%%}, dedicated: %d%%, spot: {index: a100, max: %d%% of on_demand}}], "+
			"schedule: [{name: w, for: [spot], windows: [daily 00:00-24:00], %s: %d%%", onDemand/10_000, onDemand%10_000, region, dedicated, limit, kind, change))
		cond := price.Condition{
			PricingMode: price.Spot, Region: "east", Dedicated: true, Conditions: price.Conditions{SpotPrice: fmt.Sprintf("%d.%04d/gpu-hour", tick/10_000, tick%10_000)},
		}
		// In units of 10,000 x 100 x 100 x 100 x 100 per gpu-hour.
		spot, most := tick*100*100*100*100, onDemand*region*dedicated*limit*100
		spot = min(spot, most)
		for _, window := range []string{"", "w"} {
			if cond.Window = window; window != "" {
				spot = min(spot*factor/100, most) // spot is a multiple of 100 in these units
			}
			want := new(big.Rat).Quo(big.NewRat(spot, 10_000*100*100*100*100), big.NewRat(3600*1000, 1))
			if u := unit(t, c, cond); u.PerMilliGPUSecond.Cmp(want) != 0 {
				rt.Fatalf("window %q: %s, want %s", window, u, want.RatString())
			}
		}
	})
}
