package price_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/price"
)

// A window multiplies what region, tier and dedicated made, exactly, and shows what it takes off or adds.
func TestWindow(t *testing.T) {
	c, err := contract.Parse("case.yaml", fmt.Appendf(nil, `{contract: c1, customer: acme, currency: CNY, timezone: UTC, term: {from: 2026-01-01, to: open},
		rates: [{sku: a100, %s, spot: {index: a100, max: 50%% of on_demand}}],
		schedule: [{name: night, for: [on_demand], windows: [daily 22:00-06:00], off: 40%%}, {name: 早高峰, for: [spot], windows: [daily 09:00-11:00], add: 12.5%%}]}`, factors))
	if err != nil {
		t.Fatal(err)
	}
	cond := price.Condition{Region: "cn-west", ServiceTier: "t4", Dedicated: true}
	for window, want := range map[string]string{
		"":      "on_demand 36.00/gpu-hour, region cn-west 88%, service_tier t4 108%, dedicated 125% = 297/25000000/milli-gpu-second",
		"night": "on_demand 36.00/gpu-hour, region cn-west 88%, service_tier t4 108%, dedicated 125%, window night 40% off = 891/125000000/milli-gpu-second",
		"早高峰":   "on_demand 36.00/gpu-hour, region cn-west 88%, service_tier t4 108%, dedicated 125%, window 早高峰 12.5% more = 2673/200000000/milli-gpu-second",
	} {
		cond.Window = window
		if got := unit(t, c, cond).String(); got != want {
			t.Errorf("%q: %s, want %s", window, got, want)
		}
	}
	// Half of the on-demand price of 42.768 is 21.384: a tick of 20.00 is below it, and 12.5 % more than 20.00 is above.
	spot := price.Condition{PricingMode: price.Spot, Region: "cn-west", ServiceTier: "t4", Dedicated: true}
	for window, want := range map[string]string{"": "20.00", "早高峰": "21.38"} {
		spot.Window, spot.SpotPrice = window, "20.00/gpu-hour"
		if got := bill(c, unit(t, c, spot), 3600*1000); got != want {
			t.Errorf("spot in %q costs %s, want %s", window, got, want)
		}
	}
	if f := c.Schedule.Window("night").Factor; f.Cmp(big.NewRat(60, 100)) != 0 {
		t.Errorf("pricing changed the contract: the factor is %s", f)
	}
}

// A ledger key can name no window that its contract does not have.
func TestUnknownWindow(t *testing.T) {
	c := parse(t, "CNY", "", "on_demand: 36.00/gpu-hour")
	if must.Catch(func() { unit(t, c, price.Condition{Conditions: price.Conditions{Window: "night"}}) }) == nil {
		t.Error("a window that the contract does not have was priced")
	}
}
