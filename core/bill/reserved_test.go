package bill

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// withRates is a register of one contract of the year 2026 with a rate's clauses.
func withRates(t interface{ Fatal(args ...any) }, zone, cycle, rate string, amended map[span.Second]string) *contract.Register {
	document := func(rate string) string {
		return fmt.Sprintf("{contract: c1, customer: acme, currency: CNY, timezone: %s, term: {from: 2026-01-01, to: 2027-01-01}, billing: {cycle: %s}, rates: [{sku: h100, on_demand: 1/gpu-hour, %s}]}",
			zone, cycle, rate)
	}
	r := contract.NewRegister()
	r.Apply(fact.Fact{Seq: 1, Key: "signed", Body: &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: document(rate)}})
	seq := uint64(1)
	for at, rate := range amended {
		seq++
		r.Apply(fact.Fact{Seq: seq, Key: fmt.Sprint(seq), Body: &fact.ContractAmended{Contract: "c1", Effective: at, Document: document(rate)}})
	}
	if p := r.Problems("c1"); len(p) > 0 || len(r.Latest()) == 0 {
		t.Fatal(p)
	}
	return r
}

func base(quantity int64, price string) string {
	return fmt.Sprintf("reserved: [{name: base, quantity: %d, price: %s, from: 2026-01-01, to: 2027-01-01}]", quantity, price)
}

// exactItems adds up the items of a kind over all periods of the term.
func exactItems(t interface{ Fatal(args ...any) }, r *contract.Register, kind ItemKind) *big.Rat {
	sum := new(big.Rat)
	c := r.Latest()[0].Contract
	for at := c.Term.From; at < c.Term.To; {
		p := c.Period(at).Span
		s, err := Compute(r, "c1", p, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range s.Lines {
			if l.Key.Item == kind {
				sum.Add(sum, l.Exact)
			}
		}
		at = p.To
	}
	return sum
}

// However a year is billed, its fees are the same to the last digit: twelve months, and each day under an amendment's price once.
func TestFeesOfAYearAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"}).Draw(t, "zone")
		cycle := rapid.SampledFrom([]string{"daily", "weekly", "monthly", "quarterly", "yearly"}).Draw(t, "cycle")
		quantity, after := rapid.Int64Range(1, 100).Draw(t, "quantity"), rapid.Int64Range(1, 100).Draw(t, "after")
		if total := exactItems(t, withRates(t, zone, cycle, base(quantity, "310.00/gpu-month"), nil), ItemReserved); total.Cmp(big.NewRat(12*310*quantity, 1)) != 0 {
			t.Fatalf("%d GPUs for 12 months cost %s", quantity, total.FloatString(6))
		}
		// 2026 from March 10 on, at any time of that day: 68 days before, 297 from it.
		day := withRates(t, zone, cycle, "dedicated: 1%", nil).Latest()[0].Contract.Zone
		at := day.StartOfDay(day.DateOf(march).AddDays(9)) + span.Second(rapid.IntRange(0, 82_000).Draw(t, "at"))
		date := day.DateOf(at)
		r := withRates(t, zone, cycle, base(quantity, "10.00/gpu-day"), map[span.Second]string{at: base(after, "7.00/gpu-day")})
		before := int64(0)
		for d := day.DateOf(r.Latest()[0].Contract.Term.From); d != date; d = d.AddDays(1) {
			before++
		}
		want := big.NewRat(10*quantity*before+7*after*(365-before), 1)
		if total := exactItems(t, r, ItemReserved); total.Cmp(want) != 0 {
			t.Fatalf("amended at %v: %s, want %s", at, total.FloatString(6), want.FloatString(6))
		}
	})
}

// What is not taken of a forward is known up to the instant that a preview knows, and at the period's end it is the invoice's.
func TestUntakenOfAPreview(t *testing.T) {
	r := withRates(t, "Asia/Shanghai", "monthly", "forward: [{quantity: 2, price: 5.00/gpu-hour, from: 2026-03-02, to: 2026-03-04, take_or_pay: true}]", nil)
	k := meter.ChargeKey{
		Customer: "acme", Contract: "c1", Version: 1, PeriodStart: march, LocalDay: 20260302, SKU: "h100", PricingMode: "on_demand", Kind: meter.Leased, Standing: meter.Priced,
	}
	k.Commitment = "forward"
	top := k
	top.Kind = meter.TopUp // of something else called so: it took nothing
	taken := []meter.Total{measured("L", "", k, 7*milliGPUSecondsPerHour), measured("L", "", top, milliGPUSecondsPerHour)}
	for _, c := range []struct {
		until span.Second
		hours int64 // that were to take
	}{
		{march + 86400 + 4*3600, 8}, {march + 2*86400, 48}, {march + 10*86400, 96}, {april, 96}, {april + 86400, 96},
	} {
		s, err := ComputeUntil(r, "c1", period(), c.until, taken)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range s.Lines {
			if l.Key.Item != "" {
				got = append(got, fmt.Sprint(l.Key.Item, " ", l.Key.Name, " ", l.Item.Quantity.RatString(), " ", l.Item.Unit, " ", l.Item.Steps, " ", l.Amount))
			}
		}
		rest := c.hours - 7
		equal(t, []string{fmt.Sprintf("take_or_pay forward %d gpu-hour [price 5.00/gpu-hour untaken %d] %d.00", rest, rest, 5*rest)}, got)
	}
}

// A whole period taken leaves no line.
func TestAllTaken(t *testing.T) {
	r := withRates(t, "Asia/Shanghai", "monthly", "forward: [{quantity: 1, price: 5.00/gpu-hour, from: 2026-03-02, to: 2026-03-03, take_or_pay: true}]", nil)
	k := meter.ChargeKey{
		Customer: "acme", Contract: "c1", Version: 1, PeriodStart: march, LocalDay: 20260302, SKU: "h100", PricingMode: "on_demand", Kind: meter.Leased, Standing: meter.Priced,
	}
	k.Commitment = "forward"
	s, err := Compute(r, "c1", period(), []meter.Total{measured("L", "", k, 24*milliGPUSecondsPerHour)})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Lines) != 1 || s.Total.String() != "120.00" {
		t.Errorf("%d lines, total %s", len(s.Lines), s.Total)
	}
}
