package contract_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

func metering(clauses string) string {
	return "{contract: c1, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: 2027-01-01}, rates: [{sku: a100, on_demand: 10/gpu-hour}], " + clauses + "}"
}

func TestMeters(t *testing.T) {
	one := big.NewRat(1, 1)
	for text, want := range map[string]contract.Meter{
		"{name: m, price: 0.80/GB}":                     {Unit: "GB", Price: big.NewRat(4, 5), Size: one},
		"{name: m, price: 0.80/GB, free: 1 TB}":         {Unit: "GB", Price: big.NewRat(4, 5), Size: one, Free: big.NewRat(1000, 1)},
		"{name: m, price: 0.80/TB, free: 5 MB}":         {Unit: "TB", Price: big.NewRat(4, 5), Size: one, Free: big.NewRat(5, 1000000)},
		"{name: m, price: 0.35/GB-month}":               {Unit: "GB-month", PerTime: contract.GPUMonth, Price: big.NewRat(7, 20), Size: one, Aggregate: contract.TimeWeighted},
		"{name: m, price: 1/GB-month, aggregate: sum}":  {Unit: "GB-month", PerTime: contract.GPUMonth, Price: one, Size: one},
		"{name: m, price: 2.00/1000, model: package}":   {Price: big.NewRat(2, 1), Size: big.NewRat(1000, 1), Model: contract.PackageModel},
		"{name: m, price: 2/10 jobs, aggregate: max}":   {Unit: "jobs", Price: big.NewRat(2, 1), Size: big.NewRat(10, 1), Aggregate: contract.Max},
		"{name: m, price: 1/user, aggregate: unique}":   {Unit: "user", Price: one, Size: one, Aggregate: contract.Unique},
		"{name: m, price: 1/token, value: cumulative}":  {Unit: "token", Price: one, Size: one, Cumulative: true},
		"{name: m, price: 1/IP-hour, free: 10 IP-hour}": {Unit: "IP-hour", PerTime: contract.GPUHour, Price: one, Size: one, Aggregate: contract.TimeWeighted, Free: big.NewRat(10, 1)},
		"{name: m, price: 3/100 yuan, model: each}":     {Unit: "yuan", Price: big.NewRat(3, 1), Size: big.NewRat(100, 1), Model: contract.EachModel, Each: &contract.Each{}},
		"{name: m, price: 1/GB-month, model: each, aggregate: sum, value: delta, min: 1, max: 1, flat: 0.5}": {
			Unit: "GB-month", PerTime: contract.GPUMonth, Price: one, Size: one, Model: contract.EachModel, Each: &contract.Each{Flat: big.NewRat(1, 2), Min: one, Max: one},
		},
		"{name: m, model: graduated, tiers: [{price: 1/seat-month}], tiers_by: level}": {
			Unit: "seat-month", PerTime: contract.GPUMonth, Size: one, Model: contract.GraduatedModel, ByLevel: true, Aggregate: contract.TimeWeighted,
			Tiers: &contract.Tiers{Graduated: true, List: []contract.Tier{{Above: new(big.Rat), Price: one}}},
		},
		"{name: m, model: volume, tiers: [{price: 1/GB}], tiers_by: quantity}": {
			Unit: "GB", Size: one, Model: contract.VolumeModel, Tiers: &contract.Tiers{List: []contract.Tier{{Above: new(big.Rat), Price: one}}},
		},
		"{name: m, model: volume, tiers: [{price: 1/GB}]}": {
			Unit: "GB", Size: one, Model: contract.VolumeModel, Tiers: &contract.Tiers{List: []contract.Tier{{Above: new(big.Rat), Price: one}}},
		},
	} {
		c, err := contract.Parse("c1.yaml", []byte(metering("meters: ["+text+"]")))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.Name = "m"
		if diff := cmp.Diff(want, c.Meters[0], same()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

func TestMeterErrors(t *testing.T) {
	for _, c := range []struct{ meters, want string }{
		{"[]", "a list is expected, not an empty one"},
		{"[{price: 1/GB}]", "`name:` is missing"},
		{"[{name: m}]", "meters[0]: `price:` is missing; write price: 0.80/GB"},
		{"[{name: m, price: 1/GB}, {name: m, price: 2/GB}]", `meters[1].name: "m" is a meter already`},
		{"[{name: m, price: 0.80}]", "unit is missing; write 0.80/GB or 0.80/1000"},
		{"[{name: m, price: -1/GB}]", `"-1" is negative`},
		{"[{name: m, price: 1e1000000000/GB}]", "exponent"},
		{"[{name: m, price: 1/0}]", "is a price for nothing"},
		{"[{name: m, price: 1/GB per month}]", "is no unit; write one word"},
		{"[{name: m, price: 1/GB, free: 100}]", `"100" is not in GB; write 100 GB`},
		{"[{name: m, price: 1/GB-month, free: 100 GB}]", `"100 GB" is not in GB-month; write 100 GB-month`},
		{"[{name: m, price: 1/1000, free: 100 GB}]", "the meter counts without a unit; write 100"},
		{"[{name: m, price: 1/GB, free: -1 GB}]", `"-1" is negative`},
		{"[{name: m, price: 1/GB, model: tiered}]", "write one of unit, package, graduated, volume, each"},
		{"[{name: m, price: 1/GB, tiers: [{price: 1%}]}]", "the model has no tiers; write model: graduated"},
		{"[{name: m, price: 1/GB, flat: always}]", "the model has no flat fees; remove it"},
		{"[{name: m, price: 1/GB, model: graduated}]", "`tiers:` is missing"},
		{"[{name: m, model: graduated, tiers: [{price: 1%}]}]", "`price:` is missing"},
		{"[{name: m, price: 1/GB, model: graduated, tiers: [{price: 1/GB}]}]", "the tiers state amounts, and the meter a price; remove one of them"},
		{"[{name: m, model: graduated, tiers: [{upto: 1, price: 1/GB}, {price: 1/TB}]}]", "is not per GB; write one unit for all tiers"},
		{"[{name: m, model: graduated, tiers: [{price: 1/10 GB}]}]", "is for several units; write the price of one"},
		{"[{name: m, price: 1/GB, aggregate: average}]", "write one of sum, max, last, unique, time_weighted"},
		{"[{name: m, price: 1/GB, aggregate: time_weighted}]", "a time-weighted meter needs a unit with time"},
		{"[{name: m, price: 1/GB, aggregate: max, value: cumulative}]", "only the aggregate sum reads additions or a counter; max reads levels"},
		{"[{name: m, price: 1/GB, min: 1}]", "meters[0].min: the model unit has no bounds of a reading's amount; write model: each, or remove it"},
		{"[{name: m, price: 1/GB, model: package, max: 1}]", "meters[0].max: the model package has no bounds of a reading's amount; write model: each, or remove it"},
		{"[{name: m, price: 1/GB, model: each, min: -1}]", `meters[0].min: "-1" is negative`},
		{"[{name: m, price: 1/GB, model: each, flat: always}]", "meters[0].flat: "},
		{"[{name: m, price: 1/GB, model: each, min: 2, max: 1.99}]", "meters[0].max: it is below min, which is 2; write an amount from min on"},
		{"[{name: m, price: 1/GB, model: each, free: 1 GB}]", "meters[0].free: an allowance is of a whole period, and each reading is priced by itself; remove it"},
		{"[{name: m, price: 1/GB, model: each, tiers: [{price: 1%}]}]", "the model has no tiers"},
		{"[{name: m, price: 1/GB, model: each, round: up}]", "only packages are rounded, not the model each"},
		{"[{name: m, price: 1/GB, model: each, aggregate: max}]", "meters[0].aggregate: only readings that are additions can be priced each, and the aggregate is max; write aggregate: sum"},
		{"[{name: m, price: 1/GB-month, model: each}]", "meters[0].aggregate: only readings that are additions can be priced each, and the aggregate is time_weighted; write aggregate: sum"},
		{"[{name: m, price: 1/GB, model: each, value: cumulative}]", "meters[0].value: only readings that are additions can be priced each, and a counter's are none; write value: delta"},
		{"[{name: m, model: each}]", "`price:` is missing"},
		{"[{name: m, price: 1/GB-month, tiers_by: level}]", "meters[0].tiers_by: the model unit has no tiers; write model: graduated, or remove it"},
		{"[{name: m, model: volume, tiers: [{price: 1/GB}], tiers_by: level}]", "meters[0].tiers_by: only a time-weighted meter has a level at each second, and the aggregate is sum"},
		{"[{name: m, model: volume, tiers: [{price: 1/GB-month}], tiers_by: level, aggregate: max}]", "and the aggregate is max; write tiers_by: quantity, or prices per unit and time"},
		{"[{name: m, model: volume, tiers: [{price: 1/GB-month}], tiers_by: level, free: 1 GB-month}]", "meters[0].free: an allowance is a part of the period's quantity"},
		{"[{name: m, model: volume, tiers: [{price: 1/GB-month}], tiers_by: size}]", "write one of quantity, level"},
		{"[{name: m, price: 1/GB, value: gauge}]", "write one of delta, cumulative"},
	} {
		_, err := contract.Parse("c1.yaml", []byte(metering("meters: "+c.meters)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.meters, err, c.want)
		}
	}
}

// TestMetersInOtherWords: what is stated of readings one by one, and of what chooses tiers, is a provision like any other.
func TestMetersInOtherWords(t *testing.T) {
	was, err := contract.Parse("c1", []byte(metering("meters: [{name: a, price: 1/GB, model: each, min: 1, max: 9}, {name: b, model: volume, tiers: [{price: 1/GB-month}]}]")))
	if err != nil {
		t.Fatal(err)
	}
	is, err := contract.Parse("c1", []byte(metering("meters: [{name: a, price: 1/GB, model: each, flat: 0.5, max: 8}, {name: b, model: volume, tiers: [{price: 1/GB-month}], tiers_by: level}]")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]contract.Change{
		{"meters", "a", "min", "1.00", ""}, {"meters", "a", "max", "9.00", "8.00"}, {"meters", "a", "flat", "", "0.50"}, {"meters", "b", "tiers_by", "quantity", "level"},
	}, contract.Compare(was, is)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if why := contract.Unamendable(was, is); why != "" {
		t.Errorf("an amendment must not change %s", why)
	}
}

const manyMeters = "meters: [{name: egress, price: 1/GB}, {name: counter, price: 1/GB, value: cumulative}, {name: users, price: 1/user, aggregate: unique}]"

const january span.Second = 1767225600 // 2026

// reading is a fact of c1's meter, hours after the term begins.
func reading(seq uint64, meter, resource string, hours span.Second, quantity string) fact.Fact {
	return fact.Fact{
		Seq: seq, Key: fmt.Sprint("r", seq),
		Body: &fact.MeterRecorded{Contract: "c1", Meter: meter, Resource: resource, At: january + hours*3600, Quantity: quantity},
	}
}

func signature(seq uint64, document string) fact.Fact {
	return fact.Fact{Seq: seq, Key: "signed", Body: &fact.ContractSigned{Contract: "c1", Customer: "a", Document: document}}
}

func told(r *contract.Register) []string {
	var out []string
	for _, p := range r.Problems("c1") {
		out = append(out, p.Key+" "+p.Reason+": "+p.Detail)
	}
	for _, meter := range []string{"egress", "counter", "users"} {
		for _, series := range r.Series("c1", meter) {
			for _, x := range series {
				out = append(out, meter+" "+x.Resource+" "+x.Value.RatString())
			}
		}
	}
	return out
}

// TestReadingsAreJudged: what cannot be taken is refused with its key and reason, never silent, and again by contracts that come later.
func TestReadingsAreJudged(t *testing.T) {
	facts := []fact.Fact{
		reading(1, "egress", "", 1, "5"), signature(2, metering(manyMeters)),
		reading(3, "egress", "", 2, "-1"), reading(4, "egress", "", 2, "1E1000000000"), reading(5, "ingress", "", 2, "1"),
		reading(6, "egress", "", -1, "1"), reading(7, "users", "", 2, "1"), reading(8, "egress", "", 2, "2e15"),
		reading(9, "counter", "d1", 5, "10"), reading(10, "counter", "d1", 6, "9"), reading(11, "counter", "d1", 7, "12"), reading(12, "counter", "d2", 7, "3"),
	}
	want := []string{
		"r3 bad_quantity: the quantity -1 is negative",
		`r4 bad_quantity: "1E1000000000" has an exponent outside -18 to 18`,
		`r5 unknown_meter: contract c1 has no meter "ingress" at 2026-01-01T02:00:00Z`,
		"r6 outside_term: 2025-12-31T23:00:00Z lies outside the term of contract c1",
		"r7 no_resource: meter users counts resources and the reading names none",
		"r8 bad_quantity: the quantity 2e15 is above 1000000000000000",
		`r10 counter_fell: the counter counter of "d1" falls from 10 to 9`,
		"egress  5", "counter d1 10", "counter d1 12", "counter d2 3",
	}
	r := contract.NewRegister()
	r.Apply(facts[0])
	if got := told(r); !slices.Equal(got, []string{"r1 unknown_contract: no signature of contract c1 is known"}) {
		t.Errorf("before the signature: %q", got)
	}
	for _, f := range facts[1:] {
		r.Apply(f)
	}
	if diff := cmp.Diff(want, told(r)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A reading that becomes known later and lies earlier lets the next one fall.
	r.Apply(reading(13, "counter", "d1", 4, "11"))
	if got := told(r)[6:9]; got[0] != `r9 counter_fell: the counter counter of "d1" falls from 11 to 10` || !strings.HasPrefix(got[1], "r10 ") || got[2] != "egress  5" {
		t.Errorf("after a late reading: %q", got)
	}
	if diff := cmp.Diff(want, told(r.Before(13))); diff != "" {
		t.Errorf("before it (-want +got)\n%s", diff)
	}
}

// TestMeterThatIsAmended: prices may change and a meter may go; what its readings mean may not change.
func TestMeterThatIsAmended(t *testing.T) {
	r := contract.NewRegister()
	r.Apply(signature(1, metering("meters: [{name: egress, price: 1/GB}]")))
	amend := func(seq uint64, hours span.Second, clauses string) {
		r.Apply(fact.Fact{Seq: seq, Key: fmt.Sprint("a", seq), Body: &fact.ContractAmended{Contract: "c1", Effective: january + hours*3600, Document: metering(clauses)}})
	}
	amend(2, 10, "meters: [{name: egress, price: 2/GB}]")
	amend(3, 20, "meters: [{name: other, price: 2/GB}]")
	amend(4, 30, "meters: [{name: egress, price: 2/TB}]")
	r.Apply(reading(5, "egress", "", 5, "1"))
	r.Apply(reading(6, "egress", "", 25, "2"))
	if diff := cmp.Diff([]string{
		"a4 unsupported_amendment: the unit, aggregate or value of meter egress changes; sign a new contract instead",
		`r6 unknown_meter: contract c1 has no meter "egress" at 2026-01-02T01:00:00Z`,
		"egress  1",
	}, told(r)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestReadingsInAnyOrder: what is taken and refused does not depend on the order of arrival, of readings and of the contract.
func TestReadingsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		facts := []fact.Fact{signature(1, metering(manyMeters))}
		for i := range rapid.IntRange(0, 12).Draw(rt, "readings") {
			facts = append(facts, reading(uint64(i+2), rapid.SampledFrom([]string{"egress", "counter", "users", "gone"}).Draw(rt, "meter"),
				rapid.SampledFrom([]string{"", "d1"}).Draw(rt, "resource"), span.Second(rapid.IntRange(-1, 6).Draw(rt, "hour")),
				rapid.SampledFrom([]string{"0", "1", "2", "3", "-1", "x"}).Draw(rt, "quantity")))
		}
		told := func(list []fact.Fact) []string {
			r := contract.NewRegister()
			for _, f := range list {
				r.Apply(f)
			}
			return told(r)
		}
		if diff := cmp.Diff(told(facts), told(rapid.Permutation(facts).Draw(rt, "order"))); diff != "" {
			rt.Fatalf("(-in order +permuted)\n%s", diff)
		}
	})
}
