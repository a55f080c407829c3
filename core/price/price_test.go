package price_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// parse is a contract in New York, where clocks change, with the given billing and rate.
func parse(t testing.TB, currency, billing, rate string) *contract.Contract {
	t.Helper()
	c, err := contract.Parse("case.yaml", fmt.Appendf(nil,
		"{contract: c1, customer: acme, currency: %s, timezone: America/New_York, term: {from: 2026-01-15, to: open}, billing: {%s}, rates: [{sku: a100, %s}]}",
		currency, billing, rate))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func at(t testing.TB, text string) span.Second {
	t.Helper()
	s, err := span.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unit(t testing.TB, c *contract.Contract, cond price.Condition) price.UnitPrice {
	t.Helper()
	if cond.SKU == "" {
		cond.SKU = "a100"
	}
	if cond.PricingMode == "" {
		cond.PricingMode = price.OnDemand
	}
	if cond.At == 0 {
		cond.At = at(t, "2026-06-15T12:00:00Z")
	}
	u, refusal := price.Unit(price.Terms{Contract: c}, cond)
	if refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	return u
}

// bill is quantity x price, rounded as core/bill does.
func bill(c *contract.Contract, u price.UnitPrice, milliGPUSeconds int64) string {
	exact := new(big.Rat).Mul(u.PerMilliGPUSecond, new(big.Rat).SetInt64(milliGPUSeconds))
	return money.New(exact, c.Currency).Round(c.Billing.Rounding).String()
}

// Cases B45, B51, B57, B70, B71, F66 and the rates of design page 3.
func TestAmounts(t *testing.T) {
	const hour = 3600 * 1000
	for _, c := range []struct {
		name, currency, billing, price string
		milliGPUSeconds                int64
		want                           string
	}{
		{"B45 multiply, then divide", "USD", "", "2.99/gpu-hour", 8 * 720 * hour, "17222.40"},
		{"B51 beyond 32 bits", "USD", "", "3.60/gpu-hour", 2_147_483_648 * 1000, "2147483.65"},
		{"B57 sub-unit rate in yen", "JPY", "", "4.5/gpu-hour", 10_001 * hour, "45005"},
		{"B70 730 h convention, one unit", "USD", "month: 730h", "730/gpu-month", hour, "1.00"},
		{"B70 730 h convention, three", "USD", "month: 730h", "2190/gpu-month", hour, "3.00"},
		{"B71 no GPU", "USD", "", "2.99/gpu-hour", 0, "0.00"},
		{"F66 a hundredth of 20 for a week", "USD", "", "0.54/gpu-hour", 20 * 10 * 168 * 3600, "18.14"},
		{"B41 round once", "USD", "", "3.60/gpu-hour", hour, "3.60"},
		{"per second", "USD", "", "0.001/gpu-second", hour, "3.60"},
		{"per minute", "USD", "", "0.06/gpu-minute", hour, "3.60"},
		{"per day", "USD", "", "86.40/gpu-day", hour, "3.60"},
		{"per week", "USD", "", "604.80/gpu-week", hour, "3.60"},
		{"half a GPU", "CNY", "", "36.00/gpu-hour", hour / 2, "18.00"},
		{"30-day month", "USD", "month: 30d", "2592/gpu-month", hour, "3.60"},
		{"720-hour month", "USD", "month: 720h", "2592/gpu-month", hour, "3.60"},
		{"sub-cent", "USD", "rounding: down", "0.00999/gpu-hour", hour, "0.00"},
	} {
		parsed := parse(t, c.currency, c.billing, "on_demand: "+c.price)
		if got := bill(parsed, unit(t, parsed, price.Condition{}), c.milliGPUSeconds); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Design page 3b, Units: how many seconds a month and a year have.
func TestMonthsAndYears(t *testing.T) {
	for _, c := range []struct {
		name, billing, unit, at string
		seconds                 int64
	}{
		{"billing month from the 20th", "anchor: 20", "gpu-month", "2026-03-08T12:00:00Z", 28*86400 - 3600},
		{"billing month with a 25-hour day", "", "gpu-month", "2026-11-15T12:00:00Z", 30*86400 + 3600},
		{"first month, cut by the term", "", "gpu-month", "2026-01-20T12:00:00Z", 31 * 86400},
		{"calendar month of a weekly cycle", "cycle: weekly, anchor: 7", "gpu-month", "2026-02-03T12:00:00Z", 28 * 86400},
		{"calendar month is local", "cycle: daily", "gpu-month", "2026-03-01T04:59:59Z", 28 * 86400},
		{"anniversary year", "", "gpu-year", "2026-06-01T12:00:00Z", 365 * 86400},
		{"anniversary year with a leap day", "anchor: 31", "gpu-year", "2028-01-20T12:00:00Z", 366 * 86400},
		{"year before it", "", "gpu-year", "2028-01-14T12:00:00Z", 365 * 86400},
		{"yearly billing period", "cycle: yearly, anchor: 20", "gpu-year", "2028-01-19T12:00:00Z", 365 * 86400},
		{"yearly billing period with a leap day", "cycle: yearly, anchor: 20", "gpu-year", "2028-01-21T12:00:00Z", 366 * 86400},
	} {
		parsed := parse(t, "USD", c.billing, "on_demand: 1/"+c.unit)
		got := unit(t, parsed, price.Condition{At: at(t, c.at)}).PerMilliGPUSecond
		if want := big.NewRat(1, c.seconds*1000); got.Cmp(want) != 0 {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}

const factors = "on_demand: 36.00/gpu-hour, region: {cn-east: 100%, cn-west: 88%}, service_tier: {t3: 100%, t4: 108%}, dedicated: 125%"

func TestStepsShowOnTheBill(t *testing.T) {
	c := parse(t, "CNY", "", factors)
	u := unit(t, c, price.Condition{Region: "cn-west", ServiceTier: "t4", Dedicated: true})
	want := "on_demand 36.00/gpu-hour, region cn-west 88%, service_tier t4 108%, dedicated 125% = 297/25000000/milli-gpu-second"
	if u.String() != want || bill(c, u, 3600*1000) != "42.77" { // 36 x 0.88 x 1.08 x 1.25 = 42.768
		t.Errorf("%s bills %s an hour, want %s", u, bill(c, u, 3600*1000), want)
	}
	if u.Steps[0].Factor != nil || u.Steps[1].Factor.Cmp(big.NewRat(88, 100)) != 0 {
		t.Errorf("factors are %v", u.Steps)
	}
	shared := unit(t, c, price.Condition{Region: "cn-east", ServiceTier: "t3"})
	if bill(c, shared, 3600*1000) != "36.00" || len(shared.Steps) != 3 {
		t.Errorf("shared is %s", shared)
	}
	plain := parse(t, "CNY", "", "on_demand: 36.00/gpu-hour")
	anywhere := unit(t, plain, price.Condition{Region: "mars", ServiceTier: "t9", Dedicated: true})
	if anywhere.String() != "on_demand 36.00/gpu-hour = 1/100000/milli-gpu-second" {
		t.Errorf("an absent map is not 1: %s", anywhere)
	}
	// Pricing leaves the contract as it was.
	if rate, _ := c.Rate("a100"); rate.OnDemand.Amount.Cmp(big.NewRat(36, 1)) != 0 || rate.Region["cn-west"].Cmp(big.NewRat(88, 100)) != 0 {
		t.Errorf("the rate became %+v", rate)
	}
}

func TestRefusals(t *testing.T) {
	c := parse(t, "CNY", "", factors)
	inside := at(t, "2026-06-15T12:00:00Z")
	good := price.Condition{SKU: "a100", PricingMode: "on_demand", Region: "cn-east", ServiceTier: "t3", At: inside}
	for _, r := range []struct {
		change func(*price.Condition)
		want   price.Refusal
	}{
		{func(c *price.Condition) { c.SKU = "h100" }, price.Refusal{Reason: price.NoRate, Detail: `contract c1 has no rate for SKU "h100"`}},
		{func(c *price.Condition) { c.Region = "cn-north" }, price.Refusal{Reason: price.NoRegion, Detail: `the rate has no region "cn-north"; it has ["cn-east" "cn-west"]`}},
		{func(c *price.Condition) { c.Region = "" }, price.Refusal{Reason: price.NoRegion, Detail: `the rate has no region ""; it has ["cn-east" "cn-west"]`}},
		{func(c *price.Condition) { c.ServiceTier = "t5" }, price.Refusal{Reason: price.NoServiceTier, Detail: `the rate has no service_tier "t5"; it has ["t3" "t4"]`}},
		{func(c *price.Condition) { c.PricingMode = "burst" }, price.Refusal{Reason: price.UnsupportedMode, Detail: `pricing mode "burst" is not supported by this version`}},
		{func(c *price.Condition) { c.At = 0 }, price.Refusal{Reason: price.OutsideTerm, Detail: "1970-01-01T00:00:00Z lies outside the term [2026-01-15T05:00:00Z, open) of contract c1"}},
	} {
		cond := good
		r.change(&cond)
		u, refusal := price.Unit(price.Terms{Contract: c}, cond)
		if refusal == nil {
			t.Errorf("%+v costs %s", cond, u)
			continue
		}
		if diff := cmp.Diff(r.want, *refusal); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// The slow obvious way: walk the seconds one by one and add whole numbers, dividing once at the end.
func TestUnitPriceIsTheSumOfItsSeconds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cents := rapid.Int64Range(0, 1_000_000).Draw(rt, "cents")
		unitName := rapid.SampledFrom([]string{"second", "minute", "hour", "day", "week"}).Draw(rt, "unit")
		length := map[string]int64{"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}[unitName]
		west := rapid.Int64Range(0, 300).Draw(rt, "region %")
		tier := rapid.Int64Range(0, 300).Draw(rt, "tier %")
		alone := rapid.Int64Range(0, 300).Draw(rt, "dedicated %")
		isAlone := rapid.Bool().Draw(rt, "dedicated")
		c := parse(t, "USD", "", fmt.Sprintf("on_demand: %d.%02d/gpu-%s, region: {w: %d%%}, service_tier: {t: %d%%}, dedicated: %d%%",
			cents/100, cents%100, unitName, west, tier, alone))
		u := unit(t, c, price.Condition{Region: "w", ServiceTier: "t", Dedicated: isAlone})

		percents := west * tier
		if isAlone {
			percents *= alone
		} else {
			percents *= 100
		}
		// One milli-second costs cents x percents / (10^2 x 10^6 x length x 10^3) of the currency.
		milli := rapid.Int64Range(1, 8000).Draw(rt, "milli")
		seconds := rapid.Int64Range(0, 500).Draw(rt, "seconds")
		parts := new(big.Int)
		for range seconds {
			parts.Add(parts, new(big.Int).Mul(big.NewInt(cents*percents), big.NewInt(milli)))
		}
		want := new(big.Rat).SetFrac(parts, new(big.Int).Mul(big.NewInt(100_000_000), big.NewInt(length*1000)))
		got := new(big.Rat).Mul(u.PerMilliGPUSecond, new(big.Rat).SetInt64(milli*seconds))
		if got.Cmp(want) != 0 {
			rt.Fatalf("%d milli for %d s of %s cost %s, want %s", milli, seconds, u, got.FloatString(12), want.FloatString(12))
		}
	})
}
