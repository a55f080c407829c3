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

const leaving = `contract: c1
customer: acme
currency: USD
timezone: UTC
term: {from: 2026-01-01, to: 2026-07-01}
rates:
  - {sku: h100, on_demand: 2.00/gpu-hour, reserved: [{name: base, quantity: 1, price: 10.00/gpu-day, from: 2026-01-01, to: 2026-07-01}]}
termination: {refund: prorata, clawback: on_demand_difference, fee: 5%}
`

func TestTermination(t *testing.T) {
	c, err := contract.Parse("c", []byte(leaving))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&contract.Termination{Refund: contract.RefundProrata, Clawback: true, Fee: big.NewRat(1, 20)}, c.Termination, same()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, x := range [][3]string{
		{"refund: prorata, ", "", "c:8:14: termination: `refund:` is missing; write prorata"},
		{"refund: prorata", "refund: all", `c:8:23: termination.refund: unknown value "all"; write one of none, prorata`},
		{"on_demand_difference", "all", `termination.clawback: unknown value "all"; write one of none, on_demand_difference`},
		{"fee: 5%", "fee: 101%", `termination.fee: "101%" is more than the whole; write 100% or less`},
		{"fee: 5%", "fine: 5%", `unknown field "fine"`},
		{"to: 2026-07-01}]", "to: open}]", "termination.fee: the fee is a part of what is still to come, and that has no end"},
		{"on_demand: 2.00/gpu-hour", "spot: {index: i}", `termination.clawback: it charges time on demand, and "h100" has no on-demand price`},
		{"on_demand: 2.00/gpu-hour", "on_demand: 2.00/gpu-hour, region: {cn: 90%}", `termination.clawback: it charges time on demand, and "h100" has no price in region ""`},
		{"on_demand: 2.00/gpu-hour", "on_demand: 2.00/slice-hour", `termination.clawback: it charges the capacity of GPUs on demand, and "h100" has a price per slice`},
	} {
		text := strings.Replace(leaving, x[0], x[1], 1)
		if x[1] == "to: open}]" {
			text = strings.Replace(text, "to: 2026-07-01}\n", "to: open}\n", 1)
		}
		if _, err := contract.Parse("c", []byte(text)); err == nil || !strings.Contains(err.Error(), x[2]) {
			t.Errorf("%s: %v; want %s", x[1], err, x[2])
		}
	}
}

// registered applies facts in order.
func registered(t *testing.T) (r *contract.Register, apply func(fact.Body), problems func() []string) {
	r = contract.NewRegister()
	seq := uint64(0)
	return r, func(b fact.Body) {
			seq++
			r.Apply(fact.Fact{Seq: seq, Key: fmt.Sprint(seq), Body: b})
		}, func() (out []string) {
			for _, p := range r.Problems("c1") {
				out = append(out, p.Key+" "+p.Reason)
			}
			return out
		}
}

// The term ends for everything that asks the register, also when that was not known yet; amendments behind it may not undo it.
func TestTerminationEndsTheTerm(t *testing.T) {
	at := second(t, "2026-03-11T15:00:00Z")
	r, apply, problems := registered(t)
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: leaving})
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2026-04-01T00:00:00Z"), Document: leaving}) // 2: lapses
	apply(&fact.ContractTerminated{Contract: "c1", At: at, By: fact.ByCustomer})
	apply(&fact.ContractAmended{Contract: "c1", Effective: at, Document: leaving})                                                                 // 4: too late
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2026-02-01T00:00:00Z"), Document: strings.Split(leaving, "termination")[0]}) // 5: undoes it
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2026-02-01T00:00:00Z"), Document: strings.Replace(leaving, "2.00", "3.00", 1)})
	apply(&fact.ContractTerminated{Contract: "c1", At: at - 5, By: fact.ByProvider})
	if diff := cmp.Diff([]string{"4 unsupported_amendment", "5 unsupported_amendment", "7 second_termination"}, problems()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if v, ok := r.InForce("c1", at-1); !ok || v.Seq != 3 || v.Contract.Rates[0].OnDemand.Amount.Cmp(big.NewRat(3, 1)) != 0 || v.From != second(t, "2026-03-01T00:00:00Z") {
		t.Errorf("at its end version %d from %v is in force: %v", v.Seq, v.From, ok)
	}
	if _, ok := r.InForce("c1", at); ok {
		t.Error("it is in force at its end")
	}
	if p := r.Latest()[0].Contract.Period(at - 1).Span; p.To != at {
		t.Errorf("its last period is %v", p)
	}
	ended := r.Terminated("c1")
	if want := (span.Span{From: at, To: second(t, "2026-04-01T00:00:00Z")}); ended == nil || ended.Rest() != want || ended.Agreed.Term.To != second(t, "2026-07-01T00:00:00Z") {
		t.Errorf("terminated: %+v", ended)
	}
	before := r.Before(6)
	if v, _ := before.Version(3); v.Contract.Rates[0].OnDemand.Amount.Cmp(big.NewRat(2, 1)) != 0 {
		t.Errorf("before the last amendment an hour cost %v", v.Contract.Rates[0].OnDemand.Amount)
	}
	if v, _ := r.Version(3); v.Contract.Rates[0].OnDemand.Amount.Cmp(big.NewRat(3, 1)) != 0 {
		t.Errorf("looking back changed the version: an hour costs %v", v.Contract.Rates[0].OnDemand.Amount)
	}
	if r.Before(3).Terminated("c1") != nil {
		t.Error("it was terminated before anybody said so")
	}
}

// TestKeptBeforeStays: the words of a version that a termination cuts change with an amendment behind it; what was kept does not.
func TestKeptBeforeStays(t *testing.T) {
	at := second(t, "2026-03-11T15:00:00Z")
	r, apply, _ := registered(t)
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: leaving})
	apply(&fact.ContractTerminated{Contract: "c1", At: at, By: fact.ByCustomer})
	kept := r.KeptBefore(3)
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2026-02-01T00:00:00Z"), Document: strings.Replace(leaving, "2.00", "3.00", 1)})
	for _, x := range []struct {
		r    *contract.Register
		want int64
	}{{r, 3}, {kept, 2}, {r.KeptBefore(3), 2}} {
		byName, ok := x.r.InForce("c1", at-1)
		byPosition, known := x.r.Version(2)
		if !ok || !known || byName.Contract.Rates[0].OnDemand.Amount.Cmp(big.NewRat(x.want, 1)) != 0 || byPosition.Contract.Rates[0].OnDemand.Amount.Cmp(big.NewRat(x.want, 1)) != 0 {
			t.Errorf("the cut version costs %v and %v, want %d", byName.Contract.Rates[0].OnDemand.Amount, byPosition.Contract.Rates[0].OnDemand.Amount, x.want)
		}
	}
}

func TestTerminationOfNoContract(t *testing.T) {
	_, apply, problems := registered(t)
	apply(&fact.ContractTerminated{Contract: "c1", At: second(t, "2026-03-11T15:00:00Z"), By: fact.ByCustomer})
	if diff := cmp.Diff([]string{"1 unknown_contract"}, problems()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: leaving})
	if diff := cmp.Diff([]string{"1 unknown_contract"}, problems()); diff != "" {
		t.Errorf("it counts by what was stated before it (-want +got)\n%s", diff)
	}
}

// Whether what is taken back has a price may hang on a price book that comes later.
func TestTakenBackNeedsAPrice(t *testing.T) {
	r, apply, problems := registered(t)
	text := strings.Replace(leaving, "on_demand: 2.00/gpu-hour, ", "", 1) + "packages: [{name: week, sku: h100, unit: week, quantity: 1, price: 70.00, early_end: clawback}]\nprice_book: list\n"
	at := second(t, "2026-03-11T00:00:00Z")
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: text})
	apply(&fact.PackagePurchased{Contract: "c1", Package: "week", At: at - 86400, Count: 1})
	apply(&fact.PackageEnded{Contract: "c1", Purchase: "2", At: at - 3600, By: fact.ByCustomer})
	apply(&fact.ContractTerminated{Contract: "c1", At: at, By: fact.ByCustomer})
	if diff := cmp.Diff([]string{"4 no_on_demand_price", "3 no_on_demand_price"}, problems()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	book := func(from string) fact.Body {
		return &fact.PriceBookPublished{Book: "list", Effective: second(t, from), Document: "{book: list, currency: USD, rates: [{sku: h100, on_demand: 3.00/gpu-hour}]}"}
	}
	apply(book("2026-03-05T00:00:00Z"))
	if diff := cmp.Diff([]string{"4 no_on_demand_price"}, problems()); diff != "" || r.Terminated("c1") != nil {
		t.Errorf("with a price for the package (-want +got)\n%s", diff)
	}
	apply(book("2026-01-01T00:00:00Z"))
	if p := problems(); len(p) > 0 || r.Terminated("c1") == nil || r.Purchases("c1")[0].EarlyEnd() != contract.EarlyEndClawback {
		t.Errorf("with a price for all of it: %v", p)
	}
	if before := r.Before(6); before.Terminated("c1") != nil || before.Purchases("c1")[0].Ended == nil {
		t.Error("looking back knows a later price")
	}
}

// An amendment behind a termination may wait for its price book too, whatever books the versions in force name, and looking back comes to
// the same.
func TestAmendmentBehindATerminationWaitsForItsBook(t *testing.T) {
	r, apply, problems := registered(t)
	at := second(t, "2026-03-11T00:00:00Z")
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: leaving})
	apply(&fact.ContractTerminated{Contract: "c1", At: at, By: fact.ByCustomer})
	apply(&fact.ContractAmended{
		Contract: "c1", Effective: second(t, "2026-02-01T00:00:00Z"), Document: strings.Replace(leaving, "on_demand: 2.00/gpu-hour, ", "", 1) + "price_book: list\n",
	})
	if diff := cmp.Diff([]string{"3 unsupported_amendment"}, problems()); diff != "" {
		t.Errorf("without a price (-want +got)\n%s", diff)
	}
	apply(&fact.PriceBookPublished{
		Book: "list", Effective: second(t, "2026-01-01T00:00:00Z"), Document: "{book: list, currency: USD, rates: [{sku: h100, on_demand: 3.00/gpu-hour}]}",
	})
	apply(&fact.PackagePurchased{Contract: "c2"})
	for _, known := range []*contract.Register{r, r.Before(5)} {
		if v, _ := known.InForce("c1", at-1); v.Contract.PriceBook != "list" || len(known.Problems("c1")) > 0 {
			t.Errorf("with a price: book %q, problems %v", v.Contract.PriceBook, known.Problems("c1"))
		}
	}
	if v, _ := r.Before(4).InForce("c1", at-1); v.Contract.PriceBook != "" {
		t.Error("looking back knows a later price")
	}
}

// Thousands of packages and their ends, be they stated before or after the purchase, are taken one by one.
func TestManyPackagesEnd(t *testing.T) {
	r, apply, problems := registered(t)
	apply(&fact.ContractSigned{
		Contract: "c1", Customer: "acme", Document: leaving + "packages: [{name: day, sku: h100, unit: day, quantity: 1, price: 40.00, early_end: clawback}]\n",
	})
	at := second(t, "2026-01-01T00:00:00Z")
	const pairs = 4000
	for i := range pairs {
		bought := &fact.PackagePurchased{Contract: "c1", Package: "day", At: at + span.Second(i), Count: 1}
		end := &fact.PackageEnded{Contract: "c1", At: bought.At + 3600, By: fact.ByCustomer}
		if i%2 == 0 {
			end.Purchase = fmt.Sprint(2*i + 2)
			apply(bought)
			apply(end)
		} else {
			end.Purchase = fmt.Sprint(2*i + 3)
			apply(end)
			apply(bought)
		}
	}
	apply(&fact.PackageEnded{Contract: "c1", Purchase: "2", At: at + 60, By: fact.ByCustomer})
	for _, known := range []*contract.Register{r, r.Before(2*pairs + 2)} {
		for i, p := range known.Purchases("c1") {
			if p.Ended == nil || p.Runs != (span.Span{From: at + span.Second(i), To: at + span.Second(i) + 3600}) {
				t.Fatalf("purchase %d runs %v", i, p.Runs)
			}
		}
	}
	if diff := cmp.Diff([]string{fmt.Sprint(2*pairs+2, " second_end")}, problems()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
