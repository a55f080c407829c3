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
		"addons: [{name: support, price: 3000.00/month, prorate: true}, {name: seat, price: 9/month, pay: advance}, {name: suite, price: 3.20/gpu-hour}, "+
		"{name: desk, price: 910/quarter, prorate: true}, {name: setup, price: 0.15/once, pay: advance}]")))
	if err != nil {
		t.Fatal(err)
	}
	want := &contract.Contract{
		Bundles: []contract.Bundle{{With: "storage-ssd", AtLeast: big.NewRat(50000, 1), On: "a100", Off: big.NewRat(1, 20)}},
		Addons: []contract.Addon{
			{Name: "support", Fee: &contract.Fee{Amount: big.NewRat(3000, 1), Unit: contract.PerMonth}, Prorate: true},
			{Name: "seat", Fee: &contract.Fee{Amount: big.NewRat(9, 1), Unit: contract.PerMonth}, Advance: true},
			{Name: "suite", Price: contract.Price{Amount: big.NewRat(16, 5), Unit: contract.GPUHour}},
			{Name: "desk", Fee: &contract.Fee{Amount: big.NewRat(910, 1), Unit: contract.PerQuarter}, Prorate: true},
			{Name: "setup", Fee: &contract.Fee{Amount: big.NewRat(3, 20), Unit: contract.Once}, Advance: true},
		},
		Spend: &contract.Fee{Amount: big.NewRat(500000, 1), Unit: contract.PerMonth},
	}
	if diff := cmp.Diff(want, &contract.Contract{Bundles: c.Bundles, Addons: c.Addons, Spend: c.Spend}, same()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestErrorsOfChargesBesideTime(t *testing.T) {
	const meter = "meters: [{name: m, price: 1/GB}], "
	for _, c := range []struct{ clauses, want string }{
		{"addons: [{price: 1/month}]", "`name:` is missing"},
		{"addons: [{name: s}]", "`price:` is missing; write 3000.00/month, 500.00/once or 3.20/gpu-hour"},
		{"addons: [{name: s, price: 1/fortnight}]", "unknown unit"},
		{"addons: [{name: s, price: 1/hour}]", "unknown unit"},
		{"addons: [{name: s, price: 1/gpu-quarter}]", "unknown unit"},
		{"addons: [{name: s, price: x/quarter}]", "addons[0].price"},
		{"addons: [{name: s, price: -1/month}]", "is negative"},
		{"addons: [{name: s, price: 1/month, prorate: yes}]", "neither true nor false"},
		{"addons: [{name: s, price: 1/gpu-hour, prorate: true}]", "only a fee per day, week, month, quarter or year can be prorated; remove it"},
		{"addons: [{name: s, price: 1/month}, {name: s, price: 2/month}]", `"s" is an add-on already`},
		{"addons: [{name: s, price: 1/month, pay: advanced}]", `addons[0].pay: unknown value "advanced"; write one of arrears, advance`},
		{"addons: [{name: s, price: 1/gpu-hour, pay: advance}]", "only a fee is paid in advance or arrears; time is billed when it is over; remove it"},
		{"billing: {cycle: weekly}, addons: [{name: s, price: 1/month}]", "a whole fee per month needs a monthly cycle, not a weekly one; write prorate: true"},
		{"addons: [{name: s, price: 900.00}]", "addons[0].price: unit is missing; write 900.00/month, 900.00/once or 900.00/gpu-hour"},
		{"addons: [{name: s, price: 1/quater, prorate: true}]", `addons[0].price: unknown unit "quater"; write 1/quarter`},
		{"addons: [{name: s, price: 1/hour}]", `addons[0].price: unknown unit "hour"; write 1/gpu-hour`},
		{"addons: [{name: s, price: -1/monthly}]", "addons[0].price: price \"-1/monthly\" is negative; write 0 or more"},
		{"addons: [{name: s, price: 1/quarter}]", "a whole fee per quarter needs a quarterly cycle, not a monthly one; write prorate: true"},
		{"billing: {cycle: yearly}, addons: [{name: s, price: 1/day, prorate: false}]", "a whole fee per day needs a daily cycle, not a yearly one; write prorate: true"},
		{"addons: [{name: s, price: 1/once, prorate: false}]", "addons[0].prorate: a fee that is due once is whole; remove it"},
		{"billing: {cycle: hourly}, addons: [{name: s, price: 1/quarter, prorate: true}]", "an hourly cycle has no local days to share a quarter by; write a longer cycle"},
		{"billing: {fee_month: 31d}", `billing.fee_month: unknown value "31d"; write one of actual, 30d, 28d`},
		{"billing: {cycle: hourly}, addons: [{name: s, price: 1/month, prorate: true}]", "an hourly cycle has no local days to share a month by; write a longer cycle"},
		{"billing: {cycle: hourly}, commitment: {spend: 1/month, shortfall: bill}", "an hourly cycle has no local days"},
		{"commitment: {shortfall: bill}", "`spend:` is missing; write 500000.00/month"},
		{"commitment: {spend: 1/week, shortfall: bill}", `"1/week" is not per one of month, quarter, year; write 3000.00/month`},
		{"commitment: {spend: 1/once, shortfall: bill}", `"1/once" is not per one of month, quarter, year`},
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

// A cap is held against the most that a commitment can ask for a period: whole units, or the most of their days.
func TestCapBelowACommitment(t *testing.T) {
	for _, c := range []struct{ billing, spend, cap, most string }{
		{"cycle: monthly", "100/month", "99.99/month", "100.00"},
		{"cycle: quarterly", "100/month", "299.99/quarter", "300.00"},
		{"cycle: yearly", "100/quarter", "399.99/year", "400.00"},
		{"cycle: quarterly", "100/quarter", "99.99/quarter", "100.00"},
		{"cycle: monthly", "89/quarter", "30.99/month", "31.00"},
		{"cycle: quarterly", "365/year", "91.99/quarter", "92.00"},
		{"cycle: weekly", "28/month", "6.99/week", "7.00"},
		{"cycle: weekly, fee_month: 28d", "28/month", "6.99/week", "7.00"},
		{"cycle: weekly, fee_month: 30d", "30/month", "8.99/week", "9.00"},
		{"cycle: daily, fee_month: 30d", "30/month", "2.99/day", "3.00"},
		{"cycle: daily, fee_month: 30d", "365/year", "0.99/day", "1.00"},
	} {
		text := func(most string) []byte {
			return []byte(metering("billing: {" + c.billing + "}, commitment: {spend: " + c.spend + ", shortfall: bill}, limits: {spend: " + most + ", action: cap}"))
		}
		_, err := contract.Parse("c1.yaml", text(c.cap))
		if want := "the cap is below the commitment of a period, which can be " + c.most; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v:\n%v\nwant\n%s", c, err, want)
		}
		_, unit, _ := strings.Cut(c.cap, "/")
		if _, err := contract.Parse("c1.yaml", text(c.most+"/"+unit)); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// An amendment keeps what fees are for; it may change what they are, begin others and drop them.
func TestFeesKeepTheirUnit(t *testing.T) {
	parse := func(clauses string) *contract.Contract {
		c, err := contract.Parse("c1.yaml", []byte(metering(clauses)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	addon := func(price string) string { return "addons: [{name: s, price: " + price + "}]" }
	spend := func(price string) string { return "commitment: {spend: " + price + ", shortfall: bill}" }
	for _, c := range []struct{ was, is, want string }{
		{addon("1/month"), addon("2/month, prorate: true, pay: advance"), ""},
		{addon("1/month"), addon("1/once"), "the unit of add-on s"},
		{addon("1/once"), addon("1/gpu-hour"), "the unit of add-on s"},
		{addon("1/month, prorate: true"), addon("3/quarter, prorate: true"), "the unit of add-on s"},
		{addon("1/gpu-hour"), addon("1/gpu-day"), ""},
		{addon("1/month"), spend("1/month"), ""},
		{spend("1/month"), spend("2/month"), ""},
		{spend("1/month"), spend("3/quarter"), "the unit of the commitment"},
	} {
		if got := contract.Unamendable(parse(c.was), parse(c.is)); got != c.want {
			t.Errorf("%s, then %s: %q, want %q", c.was, c.is, got, c.want)
		}
	}
}
