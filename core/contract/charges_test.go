package contract_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/contract"
)

func TestChargesBesideTime(t *testing.T) {
	c, err := contract.Parse("c1.yaml", []byte(metering("commitment: {spend: 500000.00/month, shortfall: bill}, "+
		"bundles: [{with: storage-ssd, at_least: 50 TB-month, on: a100, off: 5%}], meters: [{name: storage-ssd, price: 0.35/GB-month}], "+
		"addons: [{name: support, price: 3000.00/month, prorate: true}, {name: seat, price: 9/month, pay: advance}, {name: suite, price: 3.20/gpu-hour}]")))
	if err != nil {
		t.Fatal(err)
	}
	want := &contract.Contract{
		Bundles: []contract.Bundle{{With: "storage-ssd", AtLeast: big.NewRat(50000, 1), On: "a100", Off: big.NewRat(1, 20)}},
		Addons: []contract.Addon{
			{Name: "support", Monthly: big.NewRat(3000, 1), Prorate: true},
			{Name: "seat", Monthly: big.NewRat(9, 1), Advance: true},
			{Name: "suite", Price: contract.Price{Amount: big.NewRat(16, 5), Unit: contract.GPUHour}},
		},
		Spend: &contract.Spend{Monthly: big.NewRat(500000, 1)},
	}
	if diff := cmp.Diff(want, &contract.Contract{Bundles: c.Bundles, Addons: c.Addons, Spend: c.Spend}, same()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestErrorsOfChargesBesideTime(t *testing.T) {
	const meter = "meters: [{name: m, price: 1/GB}], "
	for _, c := range []struct{ clauses, want string }{
		{"addons: [{price: 1/month}]", "`name:` is missing"},
		{"addons: [{name: s}]", "`price:` is missing; write 3000.00/month or 3.20/gpu-hour"},
		{"addons: [{name: s, price: 1/year}]", "unknown unit"},
		{"addons: [{name: s, price: -1/month}]", "is negative"},
		{"addons: [{name: s, price: 1/month, prorate: yes}]", "neither true nor false"},
		{"addons: [{name: s, price: 1/gpu-hour, prorate: true}]", "only a fee per month can be prorated; remove it"},
		{"addons: [{name: s, price: 1/month}, {name: s, price: 2/month}]", `"s" is an add-on already`},
		{"addons: [{name: s, price: 1/month, pay: advanced}]", `addons[0].pay: unknown value "advanced"; write one of arrears, advance`},
		{"addons: [{name: s, price: 1/gpu-hour, pay: advance}]", "only a fee per month is paid in advance or arrears; time is billed when it is over; remove it"},
		{"billing: {cycle: weekly}, addons: [{name: s, price: 1/month}]", "a whole fee per month needs a monthly cycle, not a weekly one; write prorate: true"},
		{"billing: {cycle: hourly}, addons: [{name: s, price: 1/month, prorate: true}]", "an hourly cycle has no local days to share a month by; write a longer cycle"},
		{"billing: {cycle: hourly}, commitment: {spend: 1/month, shortfall: bill}", "an hourly cycle has no local days"},
		{"commitment: {shortfall: bill}", "`spend:` is missing; write 500000.00/month"},
		{"commitment: {spend: 1/year, shortfall: bill}", `"1/year" is not per month`},
		{"commitment: {spend: 1/month}", "`shortfall:` is missing; write bill"},
		{"commitment: {spend: 1/month, shortfall: waive}", `unknown value "waive"; write bill`},
		{meter + "bundles: [{with: x, at_least: 1 GB, on: a100, off: 5%}]", `the contract has no meter "x"; name one of its meters`},
		{meter + "bundles: [{with: m, at_least: 1 GB-month, on: a100, off: 5%}]", `"1 GB-month" is not in GB`},
		{meter + "bundles: [{with: m, at_least: 1 GB, on: h100, off: 5%}]", `the contract has no rate for "h100"`},
		{meter + "bundles: [{with: m, at_least: 1 GB, on: a100, off: 101%}]", "is more than the whole"},
		{meter + "bundles: [{with: m, at_least: 1 GB, on: a100, off: 1%}, {with: m, at_least: 2 GB, on: a100, off: 2%}]", `"a100" is bundled with "m" already`},
		{meter + "bundles: [{with: m, on: a100}]", "`at_least:` is missing"},
	} {
		_, err := contract.Parse("c1.yaml", []byte(metering(c.clauses)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.clauses, err, c.want)
		}
	}
}
