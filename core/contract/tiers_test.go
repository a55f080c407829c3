package contract_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
)

func rated(volume string) string {
	return "{contract: c1, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: open}, rates: [{sku: a100, on_demand: 10/gpu-hour, volume: " + volume + "}]}"
}

func tiers(t testing.TB, volume string) *contract.Volume {
	t.Helper()
	c, err := contract.Parse("c1.yaml", []byte(rated(volume)))
	if err != nil {
		t.Fatal(err)
	}
	return c.Rates[0].Volume
}

// cost is quantity x average price and the flat fees of the used tiers.
func cost(t *contract.Tiers, quantity *big.Rat) *big.Rat {
	sum := new(big.Rat)
	if quantity.Sign() > 0 {
		sum.Mul(quantity, t.Average(quantity))
	}
	for _, p := range t.Parts(quantity) {
		if p.Flat != nil {
			sum.Add(sum, p.Flat)
		}
	}
	return sum
}

// tier is a tier of the fixtures: an empty bound is the last one's.
type tier struct{ upto, price, flat string }

func table(method string, list ...tier) string {
	text := "{by: gpu-hours, flat: always, method: " + method + ", tiers: ["
	for i, e := range list {
		if i > 0 {
			text += ", "
		}
		text += "{"
		if e.upto != "" {
			text += "upto: " + e.upto + ", "
		}
		if e.flat != "" {
			text += "flat: " + e.flat + ", "
		}
		text += "price: " + e.price + "/gpu-hour}"
	}
	return text + "]}"
}

// TestFixtures are F01 to F33: tables T1 to T9, quantity to cost. Bounds are (lo, hi], and the first flat fee is due without use.
func TestFixtures(t *testing.T) {
	t1 := []tier{{"10", "10", "2"}, {"20", "5", "3"}, {"", "5", "3"}}
	t2 := []tier{{"5", "0", "100"}, {"10", "0", "50"}, {"15", "10", ""}, {"", "5", ""}}
	t3 := []tier{{"5", "0", "100"}, {"10", "0", "50"}, {"15", "5", ""}, {"", "1", ""}}
	t4 := []tier{{"5", "0", ""}, {"10", "2", ""}, {"", "3", ""}}
	t5 := []tier{{"5", "0", "1"}, {"10", "1", "2"}, {"", "2", ""}}
	t6 := []tier{{"1", "10", ""}, {"2", "20", ""}, {"", "30", ""}}
	t7 := []tier{{"10", "50", ""}, {"20", "40", ""}, {"", "30", ""}}
	t8 := []tier{{"100", "2", "10"}, {"200", "1", ""}, {"", "0.5", "50"}}
	t9 := []tier{{"5", "0", "100"}, {"10", "0", "150"}, {"15", "10", ""}, {"", "5", ""}}
	f33 := []tier{{"10000", ".0010", "10"}, {"50000", ".0008", "10"}, {"100000", ".0006", "10"}, {"", ".0004", "10"}}
	for i := range f33 {
		f33[i].price = "0" + f33[i].price
	}
	for _, c := range []struct {
		name, method string
		list         []tier
		costs        string
	}{
		{"F01-F06 T1", "graduated", t1, "0:2 1:12 11:110 12:115 21:163"},
		{"F09-F12 T2", "graduated", t2, "0:100 3:100 5:100 5.001:150 7:150 22:235"},
		{"F13-F14 T3", "graduated", t3, "22:182 12:160"},
		{"F17 T4", "graduated", t4, "3:0 5:0 7:4 10:10 11:13 15:25"},
		{"F18 T5", "graduated", t5, "3:1 7:5 12:12"},
		{"F19 T6", "graduated", t6, "0:0 1:10 2:30 3:60 2.5:45"},
		{"F20 T7", "graduated", t7, "5:250 15:700 25:1050"},
		{"F21", "graduated", []tier{{"1000", "0.01", ""}, {"10000", "0.008", ""}, {"", "0.005", ""}}, "15000:107"},
		{"F22", "graduated", []tier{{"1000", "0.10", ""}, {"10000", "0.05", ""}, {"", "0.01", ""}}, "15000:600"},
		{"F22 volume", "volume", []tier{{"1000", "0.10", ""}, {"10000", "0.05", ""}, {"", "0.01", ""}}, "15000:150"},
		{"F24", "graduated", []tier{{"5", "2", ""}, {"", "1", ""}}, "13:18"},
		{"F28 T8", "volume", t8, "0:10 1:12 100:210 100.5:100.5 101:101 200:200 300:200"},
		{"F30 T9", "volume", t9, "0:100 3:100 5:100 14:140 15:150 16:80 100:500"},
		{"F32 T7 volume", "volume", t7, "5:250 15:600 25:750"},
		{"F33", "volume", f33, "65000:49"},
	} {
		v := tiers(t, table(c.method, c.list...))
		for _, pair := range strings.Fields(c.costs) {
			q, want, _ := strings.Cut(pair, ":")
			quantity, err := money.ParseDecimal(q)
			if err != nil {
				t.Fatal(err)
			}
			if got := money.DecimalText(cost(&v.Tiers, quantity), 0, 12); got != want {
				t.Errorf("%s at %s: %s, want %s", c.name, q, got, want)
			}
		}
	}
}

func TestFlatFeeOfAnUnusedTable(t *testing.T) {
	v := tiers(t, "{by: gpu-hours, per: period, method: graduated, count: [covered, spot], tiers: [{upto: 10, price: 100%, flat: 2}, {price: 90%}]}")
	if parts := v.Parts(new(big.Rat)); parts != nil {
		t.Errorf("nothing used, and %v", parts)
	}
	if !v.Covered || !v.Spot || v.List[0].Interval() != ">0 ≤10" || v.List[1].Interval() != ">10" {
		t.Errorf("%+v", v)
	}
}

func TestVolumeErrors(t *testing.T) {
	for _, c := range []struct{ volume, want string }{
		{"{by: hours, method: graduated, tiers: [{price: 1%}]}", `unknown value "hours"; write one of gpu-hours, gpus`},
		{"{by: gpus, per: period, method: graduated, tiers: [{price: 1%}]}", "rates[0].volume.per: tiers by GPUs held at once price each second by itself, and `per:` speaks of a period; remove it, or write by: gpu-hours"},
		{"{by: gpus, method: graduated, tiers: [{price: 1%}], flat: used}", "rates[0].volume.flat: tiers by GPUs held at once price each second by itself, and `flat:` speaks of a period"},
		{"{by: gpus, method: graduated, tiers: [{upto: 8, price: 1%}, {price: 2%, flat: 3}]}", "rates[0].volume.tiers[1].flat: tiers by GPUs held at once price each second by itself, and a flat fee belongs to a period"},
		{"{by: gpu-hours, per: year, method: graduated, tiers: [{price: 1%}]}", `unknown value "year"; write period`},
		{"{by: gpu-hours, tiers: [{price: 1%}]}", "`method:` is missing; write graduated"},
		{"{by: gpu-hours, method: graduated}", "`tiers:` is missing"},
		{"{by: gpu-hours, method: graduated, tiers: []}", "a list of 1 to 100 tiers is expected, not an empty one"},
		{"{by: gpu-hours, method: graduated, tiers: [{upto: 10, price: 1%}]}", "tiers[0].upto: the last tier has a bound: what is beyond would have no price"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%}, {price: 2%}]}", "`upto:` is missing; only the last tier goes without"},
		{"{by: gpu-hours, method: graduated, tiers: [{upto: 0, price: 1%}, {price: 2%}]}", "the bound is not above 0; let bounds rise"},
		{"{by: gpu-hours, method: graduated, tiers: [{upto: 10, price: 1%}, {upto: 10, price: 1%}, {price: 2%}]}", "the bound is not above 10"},
		{"{by: gpu-hours, method: graduated, tiers: [{upto: -1, price: 1%}, {price: 2%}]}", `"-1" is negative`},
		{"{by: gpu-hours, method: graduated, tiers: [{upto: 1e18, price: 1%}, {price: 2%}]}", "is above 1000000000000000"},
		{"{by: gpu-hours, method: graduated, tiers: [{upto: 1, price: 1%}, {price: 2/gpu-hour}]}", "percentages and amounts stand in one table"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 2/gpu-month}]}", "write a price per gpu-hour or a percentage"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 2}]}", "unit is missing"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%, flat: -2}]}", `"-2" is negative`},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%, flat: $2}]}", "the currency does not belong into an amount"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%}], flat: never}", "write one of used, always"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%}], count: spot}", "a list is expected, not a text"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%}], count: [free]}", "write one of covered, spot"},
		{"{by: gpu-hours, method: graduated, tiers: [{price: 1%, from: 3}]}", `unknown field "from"`},
	} {
		_, err := contract.Parse("c1.yaml", []byte(rated(c.volume)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.volume, err, c.want)
		}
	}
}

// drawTable draws whole bounds and whole prices.
func drawTable(t *rapid.T, method string) (text string, bounds, prices []int64) {
	var list []tier
	bound := int64(0)
	for i := range rapid.IntRange(0, 4).Draw(t, "bounds") {
		bound += rapid.Int64Range(1, 30).Draw(t, fmt.Sprint("width ", i))
		bounds = append(bounds, bound)
	}
	for i := range len(bounds) + 1 {
		prices = append(prices, rapid.Int64Range(0, 50).Draw(t, fmt.Sprint("price ", i)))
		e := tier{price: fmt.Sprint(prices[i])}
		if i < len(bounds) {
			e.upto = fmt.Sprint(bounds[i])
		}
		list = append(list, e)
	}
	return table(method, list...), bounds, prices
}

// TestTiersAreTheSumOfTheirUnits counts unit by unit, each at the price of the tier that holds it.
func TestTiersAreTheSumOfTheirUnits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		method := rapid.SampledFrom([]string{"graduated", "volume"}).Draw(rt, "method")
		text, bounds, prices := drawTable(rt, method)
		quantity := rapid.Int64Range(1, 150).Draw(rt, "quantity")
		priceOf := func(unit int64) int64 {
			for i, b := range bounds {
				if unit <= b {
					return prices[i]
				}
			}
			return prices[len(prices)-1]
		}
		var want int64
		for unit := range quantity {
			if method == "volume" {
				want += priceOf(quantity)
			} else {
				want += priceOf(unit + 1)
			}
		}
		v := tiers(t, text)
		if got := cost(&v.Tiers, big.NewRat(quantity, 1)); got.Cmp(big.NewRat(want, 1)) != 0 {
			rt.Fatalf("%s at %d: %s, want %d", text, quantity, got.RatString(), want)
		}
	})
}

// TestDecidingIsPricedAlike: the number that stands for others is at most each of them, prices as they do and stands for itself; by
// volume a tier has one.
func TestDecidingIsPricedAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		method := rapid.SampledFrom([]string{"graduated", "volume"}).Draw(rt, "method")
		text, bounds, _ := drawTable(rt, method)
		text = strings.Replace(text, "gpu-hours, flat: always", "gpus", 1)
		c, err := contract.Parse("c1.yaml", []byte(rated(text)))
		if err != nil {
			rt.Fatal(err)
		}
		v := c.Rates[0].AtOnce
		deciding := map[int64]bool{}
		for range 50 {
			milli := rapid.Int64Range(0, 150_000).Draw(rt, "milli")
			d := v.Deciding(milli)
			deciding[d] = true
			same := v.Average(big.NewRat(max(milli, 1), 1000)).Cmp(v.Average(big.NewRat(d, 1000))) == 0
			if d < 1 || d > max(milli, 1) || !same || v.Deciding(d) != d {
				rt.Fatalf("%s: %d stands for %d", text, d, milli)
			}
		}
		if method == "volume" && len(deciding) > len(bounds)+1 {
			rt.Fatalf("%s: %v", text, deciding)
		}
	})
}

// TestGraduatedNeverFalls: more costs at least as much, part units included.
func TestGraduatedNeverFalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, _, _ := drawTable(rt, "graduated")
		less := rapid.Int64Range(0, 1000).Draw(rt, "less")
		more := less + rapid.Int64Range(0, 1000).Draw(rt, "more")
		v := tiers(t, text)
		if cost(&v.Tiers, big.NewRat(less, 10)).Cmp(cost(&v.Tiers, big.NewRat(more, 10))) > 0 {
			rt.Fatalf("%s: %d tenths cost more than %d", text, less, more)
		}
	})
}
