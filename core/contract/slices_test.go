package contract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// slicing is a contract with the given rates.
func slicing(rates string) string {
	return "{contract: c1, customer: acme, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: open}, rates: [" + rates + "]}"
}

const reservedForSlices = "reserved: [{name: base, quantity: 1, price: 1/gpu-day, from: 2026-01-01, to: open, slices: true}]"

func TestSliceErrors(t *testing.T) {
	const whole = "{sku: a100, on_demand: 1/gpu-hour, " + reservedForSlices + "}, "
	for _, c := range []struct{ rates, want string }{
		{"{sku: mig, on_demand: 1/gpu-hour, slice_of: mig}", `c.yaml:1:150: rates[0].slice_of: "mig" is no slice of itself; name the SKU of the whole GPU`},
		{"{sku: a, slice_of: b, on_demand: 1/gpu-hour}, {sku: b, slice_of: c, on_demand: 1/gpu-hour}", `rates[0].slice_of: "b" is itself a slice; name the SKU of the whole GPU, c`},
		{whole[:len(whole)-2], `rates[0].reserved[0].slices: no rate is a slice of "a100"; write slice_of: a100 in the rate of a slice, or remove it`},
		{
			whole + "{sku: mig, slice_of: a100, on_demand: 1/gpu-hour, forward: [{name: base, quantity: 1, price: 1/gpu-hour, from: 2026-01-01, to: open}]}",
			`rates[0].reserved[0].name: "base" is the name of a commitment of its slice mig; write another name`,
		},
		{
			whole + "{sku: mig, slice_of: a100, on_demand: 1/gpu-hour}], packages: [{name: base, sku: mig, unit: day, quantity: 1, price: 1}",
			`packages[0].name: "base" is the name of another commitment of the SKU; write another name`,
		},
		{"{sku: mig, on_demand: 1/slices-hour}", `unknown unit "slices-hour"; write 1/gpu-hour`},
		{"{sku: mig, on_demand: 1/gpu-hour, forward: [{quantity: 1, price: 1/slice-hour, from: 2026-01-01, to: open}]}", "forward[0].price: price \"1/slice-hour\" is per slice, which only `on_demand:` and `cap:` of a rate can be; write it per gpu-hour"},
		{"{sku: mig, on_demand: 1/slice-hour, volume: {by: gpus, method: volume, tiers: [{price: 1/slice-hour}]}}", `is per slice`},
		{"{sku: mig, on_demand: 1/gpu-hour}], addons: [{name: a, price: 1/slice-hour}", `is per slice`},
	} {
		_, err := contract.Parse("c.yaml", []byte(slicing(c.rates)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.rates, err, c.want)
		}
	}
	if c := parsed(t, slicing("{sku: mig, on_demand: 0.55/slice-hour, cap: {price: 400/slice-month, on: final}}")); !c.Rates[0].PerSlice() ||
		c.Rates[0].OnDemand.Text(c.Currency) != "0.55/slice-hour" || c.Rates[0].Cap.Price.Text(c.Currency) != "400.00/slice-month" {
		t.Errorf("%+v", c.Rates[0])
	}
}

// Supplies of whole GPUs and of their slices stand in one order; those for slices name them as the version in force does.
func TestSuppliesOfSlices(t *testing.T) {
	const day = 86400
	at, _ := span.Parse("2026-01-10T00:00:00Z")
	r := contract.NewRegister()
	apply := func(key string, body fact.Body) { r.Apply(fact.Fact{Seq: uint64(len(key)), Key: key, Body: body}) }
	mig := func(of string) string {
		return "{sku: mig, on_demand: 1/slice-hour, " + of + "reserved: [{name: own, quantity: 2, price: 1/gpu-day, from: 2026-01-05, to: open}]}"
	}
	whole := "{sku: a100, on_demand: 1/gpu-hour, reserved: [{name: late, quantity: 3, price: 1/gpu-day, from: 2026-01-06, to: open, slices: true}, " +
		"{name: base, quantity: 1, price: 1/gpu-day, from: 2026-01-01, to: open, region: east}], forward: [{quantity: 4, price: 1/gpu-hour, from: 2026-01-01, to: open}]}"
	apply("a", &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: slicing(mig("slice_of: a100, ") + ", " + whole)})
	apply("bb", &fact.ContractAmended{Contract: "c1", Effective: at + day, Document: slicing(mig(""))})
	apply("ccc", &fact.ContractAmended{Contract: "c1", Effective: at + day, Document: slicing(mig("slice_of: h100, "))})
	apply("dddd", &fact.ContractAmended{Contract: "c1", Effective: at + day, Document: slicing("{sku: a100, slice_of: dgx, on_demand: 1/gpu-hour}")})
	var got []string
	for _, s := range r.Supplies("c1", "mig", span.Span{From: at, To: at + 2*day}) {
		got = append(got, fmt.Sprint(s.Name, " ", s.SKU, s.Slices, " ", s.Milli, " ", s.Span.Seconds()/day, " ", s.Covers("mig", "west"), s.Covers("mig", "east"), s.Covers("a100", "east")))
	}
	want := "base a100[] 1000 1 false false true; own mig[] 2000 1 true true false; late a100[mig] 3000 1 true true true; " +
		"forward a100[] 4000 1 false false true; own mig[] 2000 1 true true false"
	if strings.Join(got, "; ") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "; "), want)
	}
	var refused []string
	for _, p := range r.Problems("c1") {
		refused = append(refused, p.Key+" "+p.Reason+": "+p.Detail)
	}
	if len(refused) != 2 || !strings.HasPrefix(refused[0], "ccc unsupported_amendment: of which SKU mig is a slice") || !strings.HasPrefix(refused[1], "dddd unsupported_amendment: of which SKU a100 is a slice") {
		t.Errorf("%q", refused)
	}
	if pool := r.Pool("c1", "mig"); len(pool) != 2 || pool[0] != "a100" || pool[1] != "mig" || r.Whole("c1", "a100") != "a100" || len(r.Pool("c2", "mig")) != 1 {
		t.Errorf("pool %v", pool)
	}
}
