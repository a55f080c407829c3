package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
)

// crowded are rates of one SKU with tiers by the GPUs held at once, spot, and maybe a package to buy.
func crowded(choose random.Chooser) string {
	one := func(list ...string) string { return list[choose(len(list))] }
	table := one("{upto: 1, price: 100%}, {upto: 3, price: 90%}, {price: 70%}", "{upto: 0.5, price: 40.00/gpu-hour}, {price: 31.00/gpu-hour}", "{upto: 2.143, price: 100%}, {price: 80%}")
	packages := one("", "", fmt.Sprintf("packages: [{name: p, sku: a100, unit: day, quantity: %d, price: 1}]\n", 1+choose(2)))
	return fmt.Sprintf("rates: [{sku: a100, on_demand: 36.00/gpu-hour, region: {east: 100%%, west: 88%%}, spot: {index: h100-80g, reclaimed_free_within: 1h}, "+
		"volume: {by: gpus, method: %s, tiers: [%s], count: [%s]}}]\n",
		one("graduated", "volume"), table, one("", "covered", "spot", "covered, spot")) + packages
}

// Leases that are priced by what is held together: the raters agree whatever becomes known when, and every priced second names how many
// are held.
func TestRatersAgreeOnGPUsHeldAtOnce(t *testing.T) {
	t.Parallel()
	several, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: 2 * day, rates: crowded})
		r := agree(t, w)
		drawn++
		seen := map[int64]bool{}
		for _, total := range r.Totals {
			k := total.Key
			if seen[k.AtOnceMilli] = true; k.Standing == meter.Priced && k.PricingMode == "on_demand" && k.Commitment == "" && k.AtOnceMilli == 0 && counts(w, k.Version) {
				t.Fatalf("%+v\n%s", k, w)
			}
		}
		if len(seen) > 2 {
			several++
		}
	})
	if drawn >= 100 && several < drawn/10 {
		t.Errorf("in %d worlds of %d more than one tier prices", several, drawn)
	}
}

// cut are rates of whole GPUs and of slices at a price per slice, with reservations that begin with the term and cover both.
func cut(choose random.Chooser) string {
	one := func(list ...string) string { return list[choose(len(list))] }
	reserved := func(name string, slices string) string {
		return fmt.Sprintf("{name: %s, quantity: %d, price: 1/gpu-day, from: FROM, to: TO%s%s}", name, 1+choose(2), one("", ", region: east"), slices)
	}
	whole := "reserved: [" + reserved("base", ", slices: true")
	if choose(2) == 0 {
		whole += ", " + reserved("more", one("", ", slices: true"))
	}
	whole += "]" + one("", ", forward: [{name: ahead, quantity: 1, price: 9.00/gpu-hour, from: FROM, to: TO}]")
	if choose(4) == 0 {
		whole = "dedicated: 110%"
	}
	own := one("", ", reserved: ["+reserved("own", "")+"]", ", forward: [{quantity: 1, price: 7.00/gpu-hour, from: FROM, to: TO}]", ", cap: {price: 5.00/slice-hour, on: final}")
	return fmt.Sprintf("rates: [{sku: a100, on_demand: 36.00/gpu-hour, region: {east: 100%%, west: 88%%}, %s}, {sku: mig, slice_of: a100, on_demand: %s, region: {east: 100%%, west: 88%%}%s%s}]\n",
		whole, one("6.00/slice-hour", "0.11/slice-minute", "40.00/gpu-hour"), own,
		one("", ", volume: {by: gpus, method: graduated, tiers: [{upto: 0.3, price: 100%}, {price: 50%}]}"))
}

// Slices and whole GPUs compete for what covers both: the raters agree whatever becomes known when.
func TestRatersAgreeOnSlices(t *testing.T) {
	t.Parallel()
	covered, priced, drawn := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: 2 * day, rates: cut})
		drawn++
		isCovered, isPriced := false, false
		for _, total := range agree(t, w).Totals {
			isCovered = isCovered || total.Key.SKU == "mig" && total.Key.Commitment == "base"
			isPriced = isPriced || total.Key.SliceMilli > 0
		}
		if isCovered {
			covered++
		}
		if isPriced {
			priced++
		}
	})
	if drawn >= 100 && (covered < drawn/20 || priced < drawn/10) {
		t.Errorf("of %d worlds slices are covered in %d and priced in %d", drawn, covered, priced)
	}
}

// Leases that share devices of which more or less than one is saleable: the raters agree whatever becomes known when, and declarations
// decide about time.
func TestRatersAgreeOnOversoldDevices(t *testing.T) {
	decided, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: 2 * day, pool: true, contracts: 2})
		drawn++
		with, plain := agree(t, w), w.log
		plain.Statements = slices.DeleteFunc(slices.Clone(plain.Statements), func(s replay.Statement) bool {
			return s.Fact.Body.Type() == fact.TypeDeviceDeclared
		})
		if gocmp.Diff(cells(with.Totals), cells(run(t, plain).Totals)) != "" {
			decided++
		}
	})
	if drawn >= 100 && decided < drawn/5 {
		t.Errorf("declarations decide about time in %d worlds of %d", decided, drawn)
	}
}

// counts tells whether the document at a position counts GPUs held at once.
func counts(w *world, seq uint64) bool {
	return seq > 0 && strings.Contains(w.deals[0].text, "by: gpus") && len(w.deals[0].versions) == 1
}

// One customer's contracts: a lease that names none is billed by the only one in force, or the only one that prices its SKU; which one that
// is can change with every version, term and price book, and with it who is covered by a reservation.
func TestRatersAgreeOnContractsOfOneCustomer(t *testing.T) {
	t.Parallel()
	chosen, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 2 + chooser(t)(2), late: 2 * day, together: true})
		r := agree(t, w)
		drawn++
		unnamed := map[string]bool{}
		for _, s := range w.log.Statements {
			if b, ok := s.Fact.Body.(*fact.LeaseStarted); ok && b.Contract == "" {
				unnamed[b.Lease] = true
			}
		}
		if slices.ContainsFunc(r.Totals, func(x meter.Total) bool { return unnamed[x.Lease] && x.Key.Standing == meter.Priced }) {
			chosen++
		}
	})
	if drawn >= 100 && chosen < drawn/10 {
		t.Errorf("in %d worlds of %d an unnamed contract prices", chosen, drawn)
	}
}
