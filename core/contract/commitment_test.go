package contract_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

const committed = `
contract: acme-2026
customer: acme
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-01-01, to: 2027-01-01}
packages:
  - {name: week, sku: h100, unit: week, quantity: 2, price: 4200.00, overrun: on_demand, early_end: none, region: cn-east}
rates:
  - sku: h100
    on_demand: 35.00/gpu-hour
    reserved:
      - {name: late, quantity: 8, price: 500.00/gpu-day, from: 2026-03-01, to: 2026-07-01, region: cn-east, pay: advance}
      - {name: base, quantity: 64, price: 15120.00/gpu-month, from: 2026-01-01, to: 2027-01-01, burst: on_demand, pay: arrears}
    forward: [{quantity: 16, price: 24.00/gpu-hour, from: 2026-03-01, to: 2026-10-01, take_or_pay: true}]
`

func second(t testing.TB, text string) span.Second {
	t.Helper()
	s, err := span.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCommitments(t *testing.T) {
	c, err := contract.Parse("acme.yaml", []byte(committed))
	if err != nil {
		t.Fatal(err)
	}
	march := second(t, "2026-02-28T16:00:00Z")
	rate := contract.Rate{
		SKU: "h100", OnDemand: contract.Price{Amount: big.NewRat(35, 1), Unit: contract.GPUHour},
		Reserved: []contract.Reservation{
			{"late", 8, contract.Price{Amount: big.NewRat(500, 1), Unit: contract.GPUDay}, span.Span{From: march, To: second(t, "2026-06-30T16:00:00Z")}, "cn-east", true, false},
			{"base", 64, contract.Price{Amount: big.NewRat(15120, 1), Unit: contract.GPUMonth}, c.Term, "", false, false},
		},
		Forward: []contract.Forward{{
			Name: "forward", Quantity: 16, Price: contract.Price{Amount: big.NewRat(24, 1), Unit: contract.GPUHour},
			Span: span.Span{From: march, To: second(t, "2026-09-30T16:00:00Z")}, TakeOrPay: true,
		}},
	}
	packages := []contract.Package{{"week", "h100", contract.PackageWeek, 2, big.NewRat(4200, 1), "cn-east", contract.EarlyEndNone}}
	if diff := cmp.Diff([]contract.Rate{rate}, c.Rates, same()); diff != "" {
		t.Errorf("rates (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(packages, c.Packages, same()); diff != "" {
		t.Errorf("packages (-want +got)\n%s", diff)
	}
}

func TestCommitmentRefusals(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"pay: arrears", "pay: later", `rates[0].reserved[1].pay: unknown value "later"; write one of arrears, advance`},
		{"burst: on_demand", "slices: yes", "neither true nor false; write true"},
		{"burst: on_demand", "slices: true", "slices: no rate is a slice of \"h100\"; write slice_of: h100 in the rate of a slice, or remove it"},
		{"burst: on_demand", "burst: refuse", "is not supported by this version; write on_demand"},
		{"overrun: on_demand", "overrun: stop", "is not supported by this version; write on_demand"},
		{"early_end: none", "early_end: maybe", `packages[0].early_end: unknown value "maybe"; write one of none, prorata, clawback`},
		{"quantity: 64", "quantity: 0", `rates[0].reserved[1].quantity: "0" is no number of GPUs from 1 to 1000000; write 8`},
		{"quantity: 64", "quantity: 6.4", `"6.4" is no number of GPUs`},
		{"15120.00/gpu-month", "21.00/gpu-hour", "a reservation is paid by local days; write its price per gpu-day"},
		{"24.00/gpu-hour", "17000/gpu-quarter", "unknown unit \"gpu-quarter\""},
		{"15120.00/gpu-month", "-1/gpu-quarter", `price "-1/gpu-quarter" is negative`},
		{"15120.00/gpu-month", "1/slice-quarter", "is per slice"},
		{"24.00/gpu-hour", "17000/gpu-month", "a forward is paid by the second, and a gpu-month has no fixed length; write 24.00/gpu-hour"},
		{"price: 4200.00", "price: 4200.00/week", "packages[0].price: price"},
		{"price: 4200.00", "price: -1", "is negative; write 0 or more"},
		{"unit: week", "unit: fortnight", `unknown value "fortnight"; write one of day, week, month, year`},
		{"name: late", "name: base", `rates[0].reserved[1].name: "base" is the name of another commitment of the SKU; write another name`},
		{"name: late", "name: forward", `rates[0].forward[0].name: "forward" is the name of another commitment`},
		{"name: week", "name: base", `packages[0].name: "base" is the name of another commitment`},
		{"sku: h100, unit", "sku: h200, unit", `packages[0].sku: no rate has the SKU "h200"; add a rate for it`},
		{"from: 2026-03-01, to: 2026-07-01", "from: 2026-03-01T00:00:00Z, to: 2026-07-01", "is not a local date; write one such as 2026-01-01, because the fee counts local days"},
		{"from: 2026-03-01, to: 2026-07-01", "from: 2026-07-01, to: 2026-07-01", "write a later end"},
		{"from: 2026-03-01, to: 2026-07-01", "from: 2025-03-01, to: 2026-07-01", "it begins before the term"},
		{"from: 2026-03-01, to: 2026-07-01", "from: 2026-03-01, to: open", "it ends after the term"},
		{"take_or_pay: true", "take_or_pay: yes", "neither true nor false; write true"},
		{"    forward: [{", "    forward: []\n    x: [{", "rates[0].forward: a list is expected, not an empty one"},
		{"Asia/Shanghai", "Asia/Nowhere", "unknown timezone"},
	} {
		if !strings.Contains(committed, c.old) {
			t.Fatalf("nothing is %q", c.old)
		}
		_, err := contract.Parse("acme.yaml", []byte(strings.Replace(committed, c.old, c.replacement, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.replacement, err, c.want)
		}
	}
}

// The order of supply: reservations by when they begin, forwards, then packages as bought; an amendment ends what it leaves out, a
// package runs on as it was sold.
func TestSupplies(t *testing.T) {
	r := contract.NewRegister()
	seq := uint64(0)
	apply := func(key string, b fact.Body) {
		seq++
		r.Apply(fact.Fact{Seq: seq, Key: key, Body: b})
	}
	bought := func(name, at string, count int64) {
		apply(name+at, &fact.PackagePurchased{Contract: "acme-2026", Package: name, At: second(t, at), Count: count})
	}
	bought("week", "2026-03-30T10:00:00Z", 3) // stated before its contract
	bought("week", "2026-03-28T10:00:00Z", 1)
	bought("month", "2026-03-28T10:00:00Z", 1)
	bought("week", "2025-12-31T10:00:00Z", 1)
	problems := func() (out []string) {
		for _, p := range r.Problems("acme-2026") {
			out = append(out, p.Key+" "+p.Reason)
		}
		return out
	}
	if diff := cmp.Diff(4, len(problems())); diff != "" {
		t.Errorf("without a contract (-want +got)\n%s", diff)
	}
	apply("signed", &fact.ContractSigned{Contract: "acme-2026", Customer: "acme", Document: committed})
	if diff := cmp.Diff([]string{"month2026-03-28T10:00:00Z unknown_package", "week2025-12-31T10:00:00Z outside_term"}, problems()); diff != "" {
		t.Errorf("problems (-want +got)\n%s", diff)
	}
	less := strings.Replace(committed, "quantity: 64", "quantity: 32", 1)
	less = strings.Replace(less, "quantity: 2, price: 4200.00", "quantity: 5, price: 1.00", 1)
	apply("amended", &fact.ContractAmended{Contract: "acme-2026", Effective: second(t, "2026-04-01T00:00:00Z"), Document: less})
	priced := strings.Replace(committed, "quantity: 16", "name: week, quantity: 16", 1)
	priced = strings.Replace(priced, "{name: week, sku", "{name: other, sku", 1)
	apply("clashes", &fact.ContractAmended{Contract: "acme-2026", Effective: second(t, "2026-04-02T00:00:00Z"), Document: priced})
	if p := r.Problems("acme-2026"); p[0].Reason != contract.UnsupportedAmendment || !strings.Contains(p[0].Detail, "the name week of a forward") {
		t.Errorf("problems are %+v", p)
	}
	var got []string
	for _, s := range r.Supplies("acme-2026", "h100", span.Span{From: second(t, "2026-03-31T00:00:00Z"), To: second(t, "2026-04-05T00:00:00Z")}) {
		got = append(got, fmt.Sprint(s.Name, " ", s.Milli, " ", s.Region, " ", s.Span, " ", s.Priced))
	}
	want := []string{
		"base 64000  [2026-03-31T00:00:00Z, 2026-04-01T00:00:00Z) false",
		"late 8000 cn-east [2026-03-31T00:00:00Z, 2026-04-01T00:00:00Z) false",
		"forward 16000  [2026-03-31T00:00:00Z, 2026-04-01T00:00:00Z) true",
		"base 32000  [2026-04-01T00:00:00Z, 2026-04-05T00:00:00Z) false",
		"late 8000 cn-east [2026-04-01T00:00:00Z, 2026-04-05T00:00:00Z) false",
		"forward 16000  [2026-04-01T00:00:00Z, 2026-04-05T00:00:00Z) true",
		"week 2000 cn-east [2026-03-31T00:00:00Z, 2026-04-04T10:00:00Z) false",
		"week 6000 cn-east [2026-03-31T00:00:00Z, 2026-04-05T00:00:00Z) false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := r.Suppliers(nil, "", "acme", "h100"); len(got) != 1 || len(r.Suppliers(nil, "", "acme", "a100"))+len(r.Suppliers(nil, "other", "acme", "h100")) > 0 {
		t.Errorf("suppliers are %v", got)
	}
	if before := r.Before(5); len(before.Purchases("acme-2026")) != 4 || before.Purchases("acme-2026")[0].Reason != contract.UnknownContract {
		t.Errorf("before the signature: %+v", before.Purchases("acme-2026"))
	}
}
