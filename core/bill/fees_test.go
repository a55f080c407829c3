package bill

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// feesOf is a contract of c1 from some days after 2026-01-01 for so many days, with what bills it and its add-ons.
func feesOf(from, days int, billing, addons string) string {
	return fmt.Sprintf("{contract: c1, customer: acme, currency: USD, timezone: Asia/Shanghai, term: {from: %s, to: %s}, billing: {%s}, %saddons: [%s]}",
		localDay(from), localDay(from+days), billing, plainRates, addons)
}

func agreedOn(document string) *contract.Register {
	r := contract.NewRegister()
	r.Apply(fact.Fact{Seq: 1, Key: "1", Body: &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: document}})
	return r
}

func amended(r *contract.Register, seq uint64, at span.Second, document string) {
	r.Apply(fact.Fact{Seq: seq, Key: fmt.Sprint(seq), Body: &fact.ContractAmended{Contract: "c1", Effective: at, Document: document}})
}

// inTerm computes every period of c1.
func inTerm(t interface{ Fatal(...any) }, r *contract.Register) []*Statement {
	var out []*Statement
	for p := range r.Periods("c1").From(0) {
		s, err := Compute(r, "c1", p, nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// A fee that is due once stands on the bill of the period in which the contract first states it, at the price stated then.
func TestOnceIsDueOnce(t *testing.T) {
	setup := func(price string) string { return feesOf(0, 120, "", "{name: setup, price: "+price+"/once}") }
	none := feesOf(0, 120, "", "{name: other, price: 1/day, prorate: true}")
	start := span.Second(1767225600 - 8*3600) // the year in Shanghai
	charged := func(r *contract.Register) (out []string) {
		for i, s := range inTerm(t, r) {
			for _, l := range s.Lines {
				if l.Key.Name == "setup" {
					out = append(out, fmt.Sprint(i, " ", l.Amount, " ", l.Item.Quantity.RatString(), " ", l.Item.Steps))
				}
			}
		}
		return out
	}
	r := agreedOn(setup("0.15"))
	equal(t, []string{"0 0.15 1 [price 0.15/once]"}, charged(r))
	amended(r, 2, start+40*day, setup("0.30")) // after it was due
	amended(r, 3, start+60*day, none)
	amended(r, 4, start+80*day, setup("0.45")) // comes back
	equal(t, []string{"0 0.15 1 [price 0.15/once]"}, charged(r))
	amended(r, 5, 0, none) // in the place of the first version
	equal(t, []string{"1 0.30 1 [price 0.30/once]"}, charged(r))
	amended(r, 6, start+31*day-1, setup("0.60")) // January's last second
	equal(t, []string{"0 0.60 1 [price 0.60/once]"}, charged(r))
	amended(r, 7, start+31*day-1, none)
	amended(r, 8, start+31*day, setup("0.60"))
	equal(t, []string{"1 0.60 1 [price 0.60/once]"}, charged(r))

	r = agreedOn(setup("0.15"))
	s, err := Explain(r, "c1", inTerm(t, r)[0].Period, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := s.Line(LineKey{Item: ItemAddon, Name: "setup"}).Item.Inputs
	equal(t, 1, len(in))
	equal(t, InputOnce, in[0].Kind)
	equal(t, start, in[0].Span.From)
}

// However amendments cut the months of fixed length, add-ons, reservations and the commitment of a term of whole months cost whole
// months, and each date counts once: for every anchor and rule.
func TestFixedMonthsSumUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rule, anchor := rapid.SampledFrom([]string{"30d", "28d"}).Draw(rt, "rule"), rapid.IntRange(1, 31).Draw(rt, "anchor")
		c, err := contract.Parse("c", []byte(feesOf(0, 400, fmt.Sprintf("anchor: %d", anchor), "{name: s, price: 1/day, prorate: true}")))
		if err != nil {
			rt.Fatal(err)
		}
		skip, months := rapid.IntRange(0, 6).Draw(rt, "skip"), rapid.IntRange(1, 5).Draw(rt, "months")
		from := c.Period(c.Term.From).Full.To
		for range skip {
			from = c.Period(from).Full.To
		}
		to := from
		for range months {
			to = c.Period(to).Full.To
		}
		days := func(at span.Second) int { return int((at - c.Term.From) / day) } // no clock changes in Shanghai
		document := func(seq int) string {
			return fmt.Sprintf("{contract: c1, customer: acme, currency: USD, timezone: Asia/Shanghai, term: {from: %[1]s, to: %[2]s}, billing: {anchor: %[3]d, fee_month: %[4]s, minimum: %[5]ds}, "+
				"rates: [{sku: h100, on_demand: 1/gpu-hour, reserved: [{name: base, quantity: 2, price: 3.5/gpu-month, from: %[1]s, to: %[2]s}]}], "+
				"addons: [{name: s, price: 7/month, prorate: true}], commitment: {spend: 100000/month, shortfall: bill}}",
				localDay(days(from)), localDay(days(to)), anchor, rule, seq)
		}
		r := agreedOn(document(1))
		for seq := range rapid.IntRange(0, 6).Draw(rt, "amendments") {
			at := from + span.Second(rapid.IntRange(0, int(to-from)-1).Draw(rt, "at"))
			amended(r, uint64(seq+2), at, document(seq+2))
		}
		got := map[ItemKind]*big.Rat{}
		for _, s := range inTerm(rt, r) {
			for _, l := range s.Lines {
				if got[l.Key.Item] == nil {
					got[l.Key.Item] = new(big.Rat)
				}
				got[l.Key.Item].Add(got[l.Key.Item], l.Exact)
			}
		}
		want := big.NewRat(7*int64(months), 1)
		due := big.NewRat((100000-14)*int64(months), 1)
		if got[ItemAddon].Cmp(want) != 0 || got[ItemReserved].Cmp(want) != 0 || got[ItemCommitment].Cmp(due) != 0 {
			rt.Fatalf("%d months from %v: %v, want %s, %s and %s\n%v", months, from, got, want, want, due, r.Problems("c1"))
		}
	})
}
