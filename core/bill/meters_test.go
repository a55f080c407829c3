package bill

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

const plainRates = "rates: [{sku: h100, on_demand: 36.00/gpu-hour}], "

// read states a reading of c1's meter m.
func read(r *contract.Register, seq int, resource string, at span.Second, quantity string) {
	r.Apply(fact.Fact{Seq: uint64(seq), Key: fmt.Sprint("r", seq), Body: &fact.MeterRecorded{Contract: "c1", Meter: "m", Resource: resource, At: at, Quantity: quantity}})
}

// items are the lines without GPU time: name, count, steps, exact amount.
func items(s *Statement) []string {
	var out []string
	for _, l := range s.Lines {
		if l.Item != nil {
			out = append(out, fmt.Sprintf("%s %s: %s %s %q = %s", l.Key.Item, l.Key.Name, number(l.Item.Quantity), l.Item.Unit, l.Item.Steps, l.Exact.RatString()))
		}
	}
	return out
}

// TestMeterModels is the arithmetic of each model as a bill shows it; F34, F36, F41.
func TestMeterModels(t *testing.T) {
	for _, c := range []struct{ meter, quantity, want string }{
		{"price: 0.80/GB, free: 100 GB", "512.5", `512.5 GB ["allowance 100" "billed 412.5" "price 0.80/GB"] = 330`},
		{"price: 0.80/GB, free: 100 GB", "40", `40 GB ["allowance 100" "billed 0" "price 0.80/GB"] = 0`},
		{"price: 2.00/1000", "2500", `2500  ["price 2.00/1000"] = 5`},
		{"price: 100/10, model: package", "121", `121  ["packages 13" "price 100.00/10"] = 1300`},
		{"price: 100/10, model: package, free: 10", "121", `121  ["allowance 10" "billed 111" "packages 12" "price 100.00/10"] = 1200`},
		{"price: 100/10, model: package, free: 200", "121", `121  ["allowance 200" "billed 0" "packages 0" "price 100.00/10"] = 0`},
		{"price: 1/100, model: package", "100", `100  ["packages 1" "price 1.00/100"] = 1`},
		{"price: 1/100, model: package", "100.001", `100.001  ["packages 2" "price 1.00/100"] = 2`},
		{
			"model: graduated, tiers: [{upto: 10, price: 0.10/req}, {price: 0.05/req, flat: 2}]", "15",
			`15 req ["tier >0 ≤10: 10 × 0.10/req" "tier >10: 5 × 0.05/req" "flat 2.00"] = 13/4`,
		},
		{"model: volume, tiers: [{upto: 10, price: 0.10/req}, {price: 0.05/req}]", "15", `15 req ["tier >10: 15 × 0.05/req"] = 3/4`},
		{
			"price: 3/100, model: graduated, free: 100, tiers: [{upto: 100, price: 100%}, {price: 50%}]", "400",
			`400  ["allowance 100" "billed 300" "tier >0 ≤100: 100 × 3.00/100" "tier >100: 200 × 1.50/100"] = 6`,
		},
	} {
		r := agreed(t, plainRates+"meters: [{name: m, "+c.meter+"}]")
		read(r, 9, "", march, c.quantity)
		read(r, 10, "", april, "1") // of another period
		equal(t, []string{"meter m: " + c.want}, items(priced(t, r)))
	}
}

// TestAggregates: F41's buckets are resources: the highest of (2, 5, 6, 9) and of (10) is 19.
func TestAggregates(t *testing.T) {
	for aggregate, want := range map[string]string{"sum": "32", "max": "19", "last": "16", "unique": "2"} {
		r := agreed(t, plainRates+"meters: [{name: m, price: 0.10/x, aggregate: "+aggregate+"}]")
		for i, q := range []string{"2", "5", "9", "6"} {
			read(r, 10+i, "a", march+span.Second(i), q)
		}
		read(r, 20, "b", april-1, "10")
		read(r, 21, "c", april-1, "0")
		read(r, 22, "b", april, "999")
		s := priced(t, r)
		equal(t, want, number(s.Lines[0].Item.Quantity))
	}
}

// TestCounters: a counter begins at 0, and its growth over a period's edge belongs to the later reading; B126, B127.
func TestCounters(t *testing.T) {
	r := agreed(t, plainRates+"meters: [{name: m, price: 1/x, value: cumulative}]")
	read(r, 9, "a", march-10, "30")
	for i, q := range []string{"33", "38", "45", "51", "51"} {
		read(r, 10+i, "a", march+span.Second(i), q)
	}
	for i, q := range []string{"8", "9", "13", "19", "19"} {
		read(r, 20+i, "b", march+100+span.Second(i), q)
	}
	equal(t, "40", number(priced(t, r).Lines[0].Item.Quantity))
}

// TestAverageOfLevels is F58: 60 from day 20 on, then 135, 225, 280 and 380 of a month of 31 days.
func TestAverageOfLevels(t *testing.T) {
	r := agreed(t, plainRates+"meters: [{name: m, price: 1/card-month}]")
	for day, level := range map[int]string{20: "60", 21: "135", 22: "225", 23: "280", 26: "380"} {
		read(r, 100+day, "", march+span.Second(day-1)*86400, level)
	}
	equal(t, "114.193548387096…", number(priced(t, r).Lines[0].Item.Quantity))
}

// TestMeterOverAnAmendment: 60 GB at 1.00 and 40 GB at 2.00, 50 GB of the whole being free: 50/100 of each part is billed.
func TestMeterOverAnAmendment(t *testing.T) {
	meter := func(price string) string {
		return plainRates + "meters: [{name: m, price: " + price + "/GB, free: 50 GB}]"
	}
	r := agreed(t, meter("1.00"), meter("2.00"))
	read(r, 9, "", march, "60")
	read(r, 10, "", march+20*86400, "40")
	equal(t, []string{`meter m: 100 GB ["part 60 ÷ 100" "allowance 50" "billed 50" "price 1.00/GB" "part 40 ÷ 100" "allowance 50" "billed 50" "price 2.00/GB"] = 70`},
		items(priced(t, r)))
}

// TestFlatFeeOfAnUnreadMeter: it is due only where the contract says always.
func TestFlatFeeOfAnUnreadMeter(t *testing.T) {
	for flat, want := range map[string][]string{"used": nil, "always": {`meter m: 0 req ["tier >0: 0 × 1.00/req" "flat 7.00"] = 7`}} {
		r := agreed(t, plainRates+"meters: [{name: m, model: graduated, flat: "+flat+", tiers: [{price: 1/req, flat: 7}]}]")
		equal(t, want, items(priced(t, r)))
	}
}

// TestWeighingIsSecondBySecond: the charge of a time-weighted meter is the sum over the hour's seconds of level x price of the
// version in force / the unit's seconds, whatever the order in which levels become known.
func TestWeighingIsSecondBySecond(t *testing.T) {
	hour := span.Span{From: march, To: march + 3600}
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom([]string{"hour", "month"}).Draw(rt, "unit")
		length := map[string]int64{"hour": 3600, "month": 31 * 86400}[unit]
		document := func(price int) string {
			return fmt.Sprintf("contract: c1\ncustomer: acme\ncurrency: CNY\ntimezone: Asia/Shanghai\nterm: {from: 2026-01-01, to: 2027-01-01}\n"+
				"billing: {cycle: hourly}\nrates: [{sku: h100, on_demand: 1/gpu-hour}]\nmeters: [{name: m, price: %d/GB-%s}]\n", price, unit)
		}
		prices := [2]int{rapid.IntRange(0, 9).Draw(rt, "before"), rapid.IntRange(0, 9).Draw(rt, "after")}
		switched := march + span.Second(rapid.IntRange(1, 3599).Draw(rt, "switch"))
		type level struct {
			at       span.Second
			resource string
			value    int64
		}
		var levels []level
		for range rapid.IntRange(0, 8).Draw(rt, "levels") {
			levels = append(levels, level{
				march + span.Second(rapid.IntRange(-3600, 4000).Draw(rt, "at")), rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "resource"),
				rapid.Int64Range(0, 50).Draw(rt, "level"),
			})
		}

		want := new(big.Rat)
		for at := hour.From; at < hour.To; at++ {
			now := map[string]level{} // the last stated of the latest instant
			for _, l := range levels {
				if held, ok := now[l.resource]; l.at <= at && (!ok || held.at <= l.at) {
					now[l.resource] = l
				}
			}
			price := prices[0]
			if at >= switched {
				price = prices[1]
			}
			want.Add(want, big.NewRat((now["a"].value+now["b"].value)*int64(price), 1))
		}
		want.Quo(want, big.NewRat(length, 1))

		facts := []fact.Fact{
			{Seq: 1, Key: "signed", Body: &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: document(prices[0])}},
			{Seq: 2, Key: "amended", Body: &fact.ContractAmended{Contract: "c1", Effective: switched, Document: document(prices[1])}},
		}
		for i, l := range levels {
			facts = append(facts, fact.Fact{Seq: uint64(3 + i), Key: fmt.Sprint(i), Body: &fact.MeterRecorded{
				Contract: "c1", Meter: "m", Resource: l.resource, At: l.at, Quantity: fmt.Sprint(l.value),
			}})
		}
		r := contract.NewRegister()
		for _, f := range rapid.Permutation(facts).Draw(rt, "order") {
			r.Apply(f)
		}
		s, err := Compute(r, "c1", hour, nil)
		if err != nil {
			rt.Fatal(err)
		}
		got := new(big.Rat)
		for _, l := range s.Lines {
			got.Add(got, l.Exact)
		}
		if got.Cmp(want) != 0 {
			rt.Fatalf("%v: %s, want %s", items(s), got, want)
		}
	})
}

// TestEachReading: F40, and that a reading of nothing is one too. The steps add up to the amount.
func TestEachReading(t *testing.T) {
	for words, want := range map[string]string{
		"":                              "10090 yuan [\"readings 3\" \"by_price 3: 10090 × 0.0299/yuan\"] = 301691/1000",
		", min: 1.75, max: 12.00":       "10090 yuan [\"readings 3\" \"at_min 1 × 1.75\" \"by_price 1: 80 × 0.0299/yuan\" \"at_max 1 × 12.00\"] = 8071/500",
		", flat: 2, min: 1.75, max: 12": "10090 yuan [\"readings 3\" \"by_price 2: 90 × 0.0299/yuan + 2 × 2.00\" \"at_max 1 × 12.00\"] = 18691/1000",
		", flat: 0.701, max: 3.093":     "10090 yuan [\"readings 3\" \"by_price 2: 90 × 0.0299/yuan + 2 × 0.701\" \"at_max 1 × 3.093\"] = 3593/500",
		", min: 12, max: 12":            "10090 yuan [\"readings 3\" \"at_min 2 × 12.00\" \"at_max 1 × 12.00\"] = 36",
	} {
		r := agreed(t, plainRates+"meters: [{name: m, price: 0.0299/yuan, model: each"+words+"}]")
		for i, q := range []string{"10", "80", "10000"} {
			read(r, 9+i, "a", march, q)
		}
		equal(t, []string{"meter m: " + want}, items(priced(t, r)))
	}
	r := agreed(t, plainRates+"meters: [{name: m, price: 0.0299/yuan, model: each, flat: 2}]")
	read(r, 9, "a", march, "0")
	equal(t, []string{`meter m: 0 yuan ["readings 1" "by_price 1: 0 × 0.0299/yuan + 1 × 2.00"] = 2`}, items(priced(t, r)))
}

// TestTiersByLevel: each second has the tiers of its own level, whoever makes it up, and a flat fee is due once.
func TestTiersByLevel(t *testing.T) {
	const half, graduated = 31 * 86400 / 2, "model: graduated, tiers: [{upto: 5, price: 10/seat-month, flat: 31}, {price: 4/seat-month, flat: 62}]"
	for meter, want := range map[string]string{
		graduated + ", tiers_by: level": `6 seat-month ["peak 8" "tier >0 ≤5: 4.5 × 10.00/seat-month" "flat 31.00" "tier >5: 1.5 × 4.00/seat-month" "flat 62.00"] = 144`,
		graduated:                       `6 seat-month ["tier >0 ≤5: 5 × 10.00/seat-month" "flat 31.00" "tier >5: 1 × 4.00/seat-month" "flat 62.00"] = 147`,
		strings.Replace(graduated, "graduated", "volume", 1) + ", tiers_by: level": `6 seat-month ["peak 8" "tier >0 ≤5: 2 × 10.00/seat-month" "flat 31.00" "tier >5: 4 × 4.00/seat-month" "flat 62.00"] = 129`,
	} {
		r := agreed(t, plainRates+"meters: [{name: m, "+meter+"}]")
		read(r, 9, "a", march, "4")
		read(r, 10, "b", march+half, "4")
		equal(t, []string{"meter m: " + want}, items(priced(t, r)))
	}
}

// TestTiersByLevelOverAnAmendment: one that changes nothing of the meter changes nothing of its line; of one that changes a fee each
// version charges its own by its part of the quantity.
func TestTiersByLevelOverAnAmendment(t *testing.T) {
	meter := func(flat string) string {
		return plainRates + "meters: [{name: m, tiers_by: level, model: graduated, tiers: [{upto: 5, price: 10/seat-day, flat: 31}, {price: 4/seat-day, flat: " + flat + "}]}]"
	}
	for flat, want := range map[string]string{
		"62": `meter m: 156 seat-day ["peak 7" "tier >0 ≤5: 154 × 10.00/seat-day" "flat 31.00" "tier >5: 2 × 4.00/seat-day" "flat 62.00"] = 1641`,
		"6": `meter m: 156 seat-day ["peak 7" "tier >0 ≤5: 154 × 10.00/seat-day" "flat 31.00" "tier >5: 2 × 4.00/seat-day" "flat 62.00 × 77 ÷ 156" ` +
			`"tier >5: 0 × 4.00/seat-day" "flat 6.00 × 79 ÷ 156"] = 62893/39`,
	} {
		r := agreed(t, meter("62"), meter(flat)) // amended on the 16th day
		read(r, 9, "", march, "5")
		read(r, 10, "", march+86400, "7")
		read(r, 11, "", march+2*86400, "5")
		read(r, 12, "", march+30*86400, "4")
		equal(t, []string{want}, items(priced(t, r)))
	}
}

// TestSplitReadings: readings of a sum may be split and stated in any order; packages and tiers count over the whole period.
func TestSplitReadings(t *testing.T) {
	meters := []string{
		"price: 3/7, model: package, free: 5", "price: 3/7", "model: graduated, tiers: [{upto: 10, price: 5/x, flat: 2}, {upto: 20, price: 4/x}, {price: 3/x}]",
		"model: volume, tiers: [{upto: 10, price: 5/x, flat: 2}, {upto: 20, price: 4/x}, {price: 3/x}]",
	}
	rapid.Check(t, func(rt *rapid.T) {
		document := plainRates + "meters: [{name: m, " + rapid.SampledFrom(meters).Draw(rt, "meter") + "}]"
		quantities := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 8).Draw(rt, "quantities")
		whole, split := agreed(t, document), agreed(t, document)
		var sum int64
		for i, q := range quantities {
			sum += q
			read(split, 10+i, rapid.SampledFrom([]string{"", "a"}).Draw(rt, "resource"), march+span.Second(rapid.IntRange(0, 31*86400-1).Draw(rt, "at")), fmt.Sprint(q))
		}
		read(whole, 10, "", march, fmt.Sprint(sum))
		if a, b := items(priced(rt, whole)), items(priced(rt, split)); fmt.Sprint(a) != fmt.Sprint(b) {
			rt.Fatalf("whole %s, split %s", a, b)
		}
	})
}
