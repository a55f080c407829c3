package replay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
)

// purchases draws a contract that sells packages, amendments and price books that move its prices and its end, purchases, and ends of
// them, in vain too.
func purchases(t *rapid.T) *world {
	w := &world{}
	choose := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).IntN // evenly, unlike rapid
	one := func(list ...string) string { return list[choose(len(list))] }
	zone, cycle := one("UTC", "Asia/Kolkata", "America/New_York"), one("monthly", "monthly", "weekly", "daily")
	document := func() string {
		if choose(5) == 0 { // closes a stub
			zone, cycle = one("UTC", "Asia/Kolkata", "America/New_York"), one("monthly", "weekly", "daily")
		}
		rate := one("{sku: a100}", "{sku: a100, on_demand: 0.50/gpu-hour, region: {cn: 50%, eu: 120%}}", "{sku: a100, cap: 1.00/gpu-hour, dedicated: 200%}", "{sku: a100, on_demand: 700/gpu-month}")
		pack := func(rule, unit string) string {
			return fmt.Sprintf("{name: %s, sku: a100, unit: %s, quantity: %d, price: %d, region: cn, early_end: %s}", rule, unit, 1+choose(3), 1+choose(300), rule)
		}
		return fmt.Sprintf("{contract: c0, customer: a, currency: JPY, timezone: %s, term: {from: 2026-02-10, to: %s}, billing: {cycle: %s, grace: 3h}, price_book: list, rates: [%s], packages: [%s, %s, %s]}",
			zone, one("2026-03-01", "2026-05-01", "2026-05-01"), cycle, rate, pack("none", one("day", "week", "month")), pack("prorata", one("day", "week", "month")), pack("clawback", one("week", "month")))
	}
	from, _ := span.Parse("2026-02-08T00:00:00Z")
	w.add(from, "sign/metronome", &fact.ContractSigned{Contract: "metronome", Customer: "metronome", Document: "{contract: metronome, customer: metronome, " +
		"currency: USD, timezone: UTC, term: {from: 2026-02-08, to: open}, billing: {cycle: daily, grace: 0}, rates: [{sku: none, on_demand: 1/gpu-hour}]}"})
	w.add(from, "sign", &fact.ContractSigned{Contract: "c0", Customer: "a", Document: document()})
	within := func(days int) span.Second { return from + span.Second(choose(days*day)) }
	for i := range choose(3) {
		at := within(15)
		w.add(at+span.Second(choose(30*day)), fmt.Sprint("amend/", i), &fact.ContractAmended{Contract: "c0", Effective: at, Document: document()})
	}
	for i := range 1 + choose(3) {
		at := from + span.Second(i*choose(20*day))
		w.add(at+span.Second(choose(2)*choose(40*day)), fmt.Sprint("book/", i), &fact.PriceBookPublished{
			Book: "list", Effective: at, Document: fmt.Sprintf("{book: list, currency: JPY, rates: [{sku: a100, on_demand: 0.%02d/gpu-hour%s}]}", choose(100), one("", ", region: {cn: 90%}", ", region: {eu: 90%}")),
		})
	}
	for i := range 1 + choose(4) {
		at, key := within(16)+day, fmt.Sprint("bought/", i) // of the first day there is no contract yet
		w.add(at+span.Second(choose(2)*choose(20*day)), key, &fact.PackagePurchased{Contract: "c0", Package: one("none", "prorata", "clawback"), At: at, Count: int64(1 + choose(2))})
		for k := range choose(3) {
			end := at + span.Second(choose([]int{day, 9 * day, 40 * day}[choose(3)]))
			by := []fact.EndedBy{fact.ByCustomer, fact.ByCustomer, fact.ByProvider}[choose(3)]
			w.add(end+span.Second(choose(2)*choose(20*day)), fmt.Sprint(key, "/end/", k), &fact.PackageEnded{Contract: "c0", Purchase: key, At: end, By: by})
		}
	}
	slices.SortStableFunc(w.log.Statements, func(a, b replay.Statement) int { return int(a.Known - b.Known) })
	w.log.Until = from + 90*day
	return w
}

// Whatever ends when, however late it is known and whatever it is priced by: what was billed of a period is what the slow rater makes of it.
func TestPackagesEndEarly(t *testing.T) {
	t.Parallel()
	ended := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := purchases(t)
		r, s := run(t, w.log), slowly(w.log)
		if why := s.Unable(); len(why) > 0 {
			t.Skip("an amendment is refused")
		}
		for _, p := range r.Contracts().Purchases("c0") {
			if p.Ended != nil {
				ended[fmt.Sprint(p.EarlyEnd(), " of ", p.Sold.EarlyEnd)]++
			}
		}
		for _, p := range r.Contracts().Problems("c0") {
			ended[p.Reason]++
		}
		billed, reach := sums(r.Invoices), map[string]string{}
		for _, i := range r.Invoices {
			reach[nameOf(i.Document)] = i.Document.Period.To
		}
		for _, p := range s.Periods("c0", w.log.Until) {
			want := rounded(s.Statement("c0", p))
			name := period{"c0", p}.name()
			got, closed := billed[name]
			if to, err := span.Parse(reach[name]); err != nil || to != p.To {
				continue // it reaches further by now, and what is refused blocks its close
			}
			if diff := cmp.Diff(want, got); closed && diff != "" {
				t.Fatalf("billed of %v (-slow +fast)\n%s\n%s", p, diff, w)
			}
		}
	})
	for _, what := range []string{
		"none of none", "prorata of prorata", "clawback of clawback", "prorata of clawback", contract.OutsidePackage, contract.SecondEnd, contract.NoOnDemandPrice, contract.OutsideTerm,
	} {
		if ended[what] == 0 && !testing.Short() { // which draws too few
			t.Errorf("no %s: %v", what, ended)
		}
	}
}
