package bill

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
)

// agreed is a register that holds c1 with more root clauses and the rate of h100; each further document amends it.
func agreed(t testing.TB, documents ...string) *contract.Register {
	t.Helper()
	r := contract.NewRegister()
	for i, d := range documents {
		text := "{contract: c1, customer: acme, currency: CNY, timezone: Asia/Shanghai, term: {from: 2026-01-01, to: 2027-01-01}, " + d + "}"
		var body fact.Body = &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: text}
		if i > 0 {
			body = &fact.ContractAmended{Contract: "c1", Effective: march + 15*86400, Document: text}
		}
		r.Apply(fact.Fact{Seq: uint64(i + 1), Key: fmt.Sprint("c", i), Body: body})
	}
	if p := r.Problems("c1"); len(p) > 0 {
		t.Fatalf("%+v", p)
	}
	return r
}

func ofRate(rate string) string { return "rates: [{sku: h100, on_demand: " + rate + "}]" }

func priced(t interface {
	Helper()
	Fatal(args ...any)
}, r *contract.Register, totals ...meter.Total,
) *Statement {
	t.Helper()
	s, err := Compute(r, "c1", period(), totals)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func plainKey(version uint64, day int32) meter.ChargeKey {
	k := key(version, day)
	k.Region = ""
	return k
}

// TestVolumeShowsItsFactor: 600 h at 35 and 600 h at 21, 90 % beyond 1,000: f = (1000 + 200 x 0.9) / 1200 = 59/60, and
// (21,000 + 12,600) x 59/60 = 33,040 (page 3b, Volume tiers).
func TestVolumeShowsItsFactor(t *testing.T) {
	rate := "35.00/gpu-hour, region: {east: 100%, west: 60%}, volume: {by: gpu-hours, method: graduated, tiers: [{upto: 1000, price: 100%}, {price: 90%}]}"
	east, west := key(1, 1), key(1, 2)
	west.Region = "west"
	s := priced(t, agreed(t, ofRate(rate)), measured("L", "A", east, 600*hour), measured("M", "B", west, 600*hour))
	d := NewDocument(s, nil, 1)
	equal(t, "33040.00", d.Total)
	equal(t, []string{"on_demand 35.00/gpu-hour", "region west 60%", "volume 1200 gpu-hours 98.333333333333…% (59/60)"}, d.Lines[1].Rows[0].Steps)
	equal(t, "20.65", d.Lines[1].Rows[0].PerGPUHour)
	equal(t, "12390.00", d.Lines[1].Amount)
}

// TestAbsoluteTiersReplaceTheFirstStep: 30.00 up to 1,000 h and 20.00 beyond: the mean of 1,200 h is 28.33…, then 60 % in the west.
func TestAbsoluteTiersReplaceTheFirstStep(t *testing.T) {
	rate := "35.00/gpu-hour, region: {east: 100%, west: 60%}, volume: {by: gpu-hours, method: METHOD, tiers: [{upto: 1000, price: 30.00/gpu-hour}, {price: 20.00/gpu-hour}]}"
	for method, want := range map[string][]string{
		"graduated": {"volume (1000 × 30.00 + 200 × 20.00) ÷ 1200 = 28.333333333333…/gpu-hour", "region west 60%", "20400.00"},
		"volume":    {"volume 20.00/gpu-hour", "region west 60%", "14400.00"},
	} {
		k := key(1, 1)
		k.Region = "west"
		d := NewDocument(priced(t, agreed(t, ofRate(strings.ReplaceAll(rate, "METHOD", method))), measured("L", "A", k, 1200*hour)), nil, 1)
		equal(t, want, append(d.Lines[0].Rows[0].Steps, d.Total))
	}
}

// TestWhatVolumeCounts: covered, spot and waived time count only where the contract says so, and keep their prices.
func TestWhatVolumeCounts(t *testing.T) {
	covered, spot := LineKey{SKU: "h100", PricingMode: "on_demand", Commitment: "base"}, LineKey{SKU: "h100", PricingMode: "spot"}
	c := &pricing{Statement: &Statement{Lines: []Line{
		{Key: LineKey{SKU: "h100", PricingMode: "on_demand"}, Amounts: meter.Amounts{Quantity: hour}},
		{Key: covered, Amounts: meter.Amounts{Quantity: 2 * hour}},
		{Key: spot, Amounts: meter.Amounts{Quantity: 4 * hour}},
		{Key: LineKey{SKU: "a100", PricingMode: "on_demand"}, Amounts: meter.Amounts{Quantity: 8 * hour}},
	}}}
	used := c.volumes()["h100"]
	for _, w := range []struct {
		table contract.Volume
		want  string
	}{
		{contract.Volume{}, "1"}, {contract.Volume{Covered: true}, "3"}, {contract.Volume{Spot: true}, "5"}, {contract.Volume{Covered: true, Spot: true}, "7"},
	} {
		equal(t, w.want, used.counted(&w.table).RatString())
	}
	if onDemand(covered) || onDemand(spot) {
		t.Error("time with another price is scaled")
	}
}

// TestVolumeRunsOnOverAnAmendment: 50 h under 10 % off beyond 60 and 50 h under 30 % off beyond 60, at 36 and 18: both tables
// are read at 100 h, f1 = (60 + 40 x 0.9)/100 = 0.96 and f2 = (60 + 40 x 0.7)/100 = 0.88: 1728 + 792 = 2520.
func TestVolumeRunsOnOverAnAmendment(t *testing.T) {
	rate := func(price, beyond string) string {
		return ofRate(price + "/gpu-hour, volume: {by: gpu-hours, method: graduated, tiers: [{upto: 60, price: 100%}, {price: " + beyond + "%}]}")
	}
	totals := []meter.Total{measured("L", "A", plainKey(1, 1), 50*hour), measured("L", "A", plainKey(2, 20), 50*hour)}
	equal(t, "2520.00", priced(t, agreed(t, rate("36.00", "90"), rate("18.00", "70")), totals...).Total.String())
	// The price alone does not tell versions apart: 36 x 50 x 0.96 + 36 x 50 x 0.88 = 3312.
	equal(t, "3312.00", priced(t, agreed(t, rate("36.00", "90"), rate("36.00", "70")), totals...).Total.String())
	// The amendment brings the tiers in: the hours before keep their price, 1800 + 1800 x 0.88 = 3384.
	equal(t, "3384.00", priced(t, agreed(t, ofRate("36.00/gpu-hour"), rate("36.00", "70")), totals...).Total.String())
}

// TestVolumeIsFreeOfOrder: however hours are split over leases, devices, days and kinds, and in whatever order they come, the
// bill is the same, and with one price it is what hour by hour gives.
func TestVolumeIsFreeOfOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bound := rapid.Int64Range(1, 60).Draw(rt, "bound")
		below, beyond := rapid.Int64Range(0, 150).Draw(rt, "below"), rapid.Int64Range(0, 150).Draw(rt, "beyond")
		graduated := rapid.Bool().Draw(rt, "graduated")
		method := map[bool]string{true: "graduated", false: "volume"}[graduated]
		r := agreed(t, ofRate(fmt.Sprintf("36.00/gpu-hour, volume: {by: gpu-hours, method: %s, tiers: [{upto: %d, price: %d%%}, {price: %d%%}]}",
			method, bound, below, beyond)))
		hours := rapid.Int64Range(1, 100).Draw(rt, "hours")
		whole := priced(rt, r, measured("L", "A", plainKey(1, 1), hours*hour))

		var cents int64 // hour by hour: 36.00 x percent
		for h := range hours {
			at := h + 1
			if !graduated {
				at = hours
			}
			if at <= bound {
				cents += 36 * below
			} else {
				cents += 36 * beyond
			}
		}
		if want := big.NewRat(cents, 100).FloatString(2); whole.Total.String() != want {
			rt.Fatalf("%d h: %s, want %s", hours, whole.Total, want)
		}

		var pieces []meter.Total
		for left := hours * hour; left > 0; {
			part := rapid.Int64Range(1, left).Draw(rt, "part")
			if len(pieces) > 20 {
				part = left
			}
			left -= part
			k := plainKey(1, int32(rapid.IntRange(1, 31).Draw(rt, "day")))
			if rapid.Bool().Draw(rt, "top-up") {
				k.Kind = meter.TopUp
			}
			pieces = append(pieces, measured(fmt.Sprint("L", len(pieces)%3), fmt.Sprint("D", len(pieces)%5), k, part))
		}
		split := priced(rt, r, rapid.Permutation(pieces).Draw(rt, "order")...)
		if len(split.Lines) != 1 || split.Lines[0].Exact.Cmp(whole.Lines[0].Exact) != 0 {
			rt.Fatalf("split: %s, whole: %s", split.Lines[0].Exact, whole.Lines[0].Exact)
		}
	})
}
