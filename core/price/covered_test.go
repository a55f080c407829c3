package price_test

import (
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/price"
)

// Design page 3b, Order of prices: covered is 0, a forward's price takes no factors, and neither comes before a refusal.
func TestCovered(t *testing.T) {
	c := parse(t, "USD", "", "on_demand: 36.00/gpu-hour, region: {east: 88%}, dedicated: 125%, "+
		"reserved: [{name: base, quantity: 1, price: 1/gpu-day, from: 2026-02-01, to: open}], forward: [{quantity: 1, price: 0.40/gpu-minute, from: 2026-02-01, to: open}]")
	for commitment, want := range map[string]string{
		"base":    "covered_by base = 0/milli-gpu-second",
		"a week":  "covered_by a week = 0/milli-gpu-second", // a package that an amendment does not sell any more
		"forward": "forward 0.40/gpu-minute = 1/150000/milli-gpu-second",
		"":        "on_demand 36.00/gpu-hour, region east 88%, dedicated 125% = 11/1000000/milli-gpu-second",
	} {
		cond := price.Condition{Region: "east", Dedicated: true}
		cond.Commitment = commitment
		if got := unit(t, c, cond).String(); got != want {
			t.Errorf("%q: %s, want %s", commitment, got, want)
		}
		cond.SKU, cond.PricingMode, cond.Region, cond.At = "a100", price.OnDemand, "west", at(t, "2026-06-15T12:00:00Z")
		if _, refusal := price.Unit(price.Terms{Contract: c}, cond); refusal == nil || refusal.Reason != price.NoRegion {
			t.Errorf("%q without a region: %+v", commitment, refusal)
		}
	}
}

// A fixed fee is whole per unit: its days are those of the month or year it lies in, whatever month rule prices by time have. In months
// of a fixed length a date counts for some of them.
func TestReservedDay(t *testing.T) {
	for _, c := range []struct {
		billing, unit, at string
		days, of          int
	}{
		{"month: 30d", "gpu-month", "2026-03-08T12:00:00Z", 1, 31},
		{"anchor: 20", "gpu-month", "2026-03-08T12:00:00Z", 1, 28},
		{"cycle: weekly", "gpu-month", "2026-04-01T03:59:59Z", 1, 31},
		{"cycle: weekly", "gpu-month", "2026-04-01T04:00:00Z", 1, 30},
		{"fee_month: 30d", "gpu-month", "2026-03-29T12:00:00Z", 1, 30},
		{"fee_month: 30d", "gpu-month", "2026-03-30T12:00:00Z", 0, 30},
		{"fee_month: 30d", "gpu-month", "2026-03-31T12:00:00Z", 1, 30},
		{"fee_month: 30d", "gpu-month", "2026-02-28T12:00:00Z", 3, 30},
		{"fee_month: 30d, anchor: 20", "gpu-month", "2026-03-01T04:59:59Z", 3, 30},
		{"fee_month: 28d", "gpu-month", "2026-02-28T12:00:00Z", 1, 28},
		{"fee_month: 30d", "gpu-year", "2026-03-30T12:00:00Z", 1, 365},
		{"fee_month: 30d", "gpu-week", "2026-02-28T12:00:00Z", 1, 7},
		{"", "gpu-quarter", "2026-04-01T03:59:59Z", 1, 90},
		{"", "gpu-quarter", "2026-04-01T04:00:00Z", 1, 91},
		{"anchor: 15, fee_month: 30d", "gpu-quarter", "2026-06-20T12:00:00Z", 1, 91},
		{"cycle: weekly, anchor: 7", "gpu-quarter", "2026-09-30T12:00:00Z", 1, 92},
		{"", "gpu-year", "2028-01-20T12:00:00Z", 1, 366},
		{"", "gpu-year", "2028-01-14T12:00:00Z", 1, 365},
		{"cycle: yearly, anchor: 20", "gpu-year", "2028-01-19T12:00:00Z", 1, 365},
		{"", "gpu-week", "2026-03-08T12:00:00Z", 1, 7},
		{"", "gpu-day", "2026-03-08T12:00:00Z", 1, 1},
	} {
		parsed := parse(t, "USD", c.billing, "on_demand: 1/gpu-hour, reserved: [{name: base, quantity: 1, price: 1/"+c.unit+", from: 2026-02-01, to: open}]")
		if days, of := price.ReservedDay(parsed, parsed.Rates[0].Reserved[0].Price.Unit, at(t, c.at)); days != c.days || of != c.of {
			t.Errorf("%s %s at %s: %d of %d days, want %d of %d", c.billing, c.unit, c.at, days, of, c.days, c.of)
		}
	}
}

// The year of a fee is a yearly billing period, on the anchor of the bills; a reservation's has the term's anniversaries.
func TestFeeDay(t *testing.T) {
	for _, c := range []struct {
		billing string
		unit    contract.FeeUnit
		at      string
		of      int
	}{
		{"", contract.PerYear, "2028-01-10T12:00:00Z", 366},
		{"anchor: 20", contract.PerYear, "2028-01-19T12:00:00Z", 365},
		{"anchor: 20", contract.PerYear, "2028-01-20T12:00:00Z", 366},
		{"cycle: weekly, anchor: 2", contract.PerYear, "2028-01-01T12:00:00Z", 366},
		{"cycle: quarterly, anchor: 31", contract.PerQuarter, "2026-04-30T12:00:00Z", 92},
		{"cycle: quarterly, anchor: 31", contract.PerMonth, "2026-04-30T12:00:00Z", 30},
		{"fee_month: 30d", contract.PerQuarter, "2026-02-28T12:00:00Z", 90},
		{"", contract.PerWeek, "2026-02-28T12:00:00Z", 7},
		{"", contract.PerDay, "2026-02-28T12:00:00Z", 1},
	} {
		parsed := parse(t, "USD", c.billing, "on_demand: 1/gpu-hour")
		if days, of := price.FeeDay(parsed, c.unit, at(t, c.at)); days != 1 || of != c.of {
			t.Errorf("%s %s at %s: %d of %d days, want 1 of %d", c.billing, c.unit, c.at, days, of, c.of)
		}
	}
}
