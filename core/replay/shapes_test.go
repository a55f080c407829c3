package replay_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
)

// everyLine are the lines of all periods of a deal on the ledger at the end of a replay.
func (w *world) everyLine(t *rapid.T, r *replay.Result, d *deal) map[string]map[slow.Key]string {
	out := map[string]map[slow.Key]string{}
	for _, p := range w.periods(r, d) {
		out[p.name()] = ofFast(compute(t, r, p))
	}
	return out
}

// total is the exact sum of all lines of a deal.
func (w *world) total(t *rapid.T, r *replay.Result, d *deal) *big.Rat {
	sum := new(big.Rat)
	for _, p := range w.periods(r, d) {
		for _, l := range compute(t, r, p).Lines {
			sum.Add(sum, l.Exact)
		}
	}
	return sum
}

// levelsFollow tells whether what stands on a meter counts by what a lease does.
func levelsFollow(c *contract.Contract) bool { return c.States != nil && len(c.States.Meters) > 0 }

// bySecond: what a start costs is the sum of its seconds, and nothing but time and its conditions decides about one.
func bySecond(c *contract.Contract) bool {
	committed := slices.ContainsFunc(c.Rates, func(r contract.Rate) bool { return len(r.Reserved)+len(r.Forward) > 0 })
	return c.Billing.MinimumSeconds == 0 && c.Billing.GranularitySeconds == 1 && len(c.Packages) == 0 && !committed && !levelsFollow(c)
}

// A lease that is stopped and goes on as another in the same second costs what it would have.
func TestSplittingChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{unplaced: true, fit: bySecond})
		d := w.deals[0]
		want := w.everyLine(t, run(t, w.log), d)
		lease := fmt.Sprintf("%s-L%d", d.id, rapid.IntRange(0, d.leases-1).Draw(t, "lease"))
		if at, ok := w.splitAt(t, lease); ok {
			w.split(lease, at)
		}
		if diff := gocmp.Diff(want, w.everyLine(t, run(t, w.log), d)); diff != "" {
			t.Fatalf("(-whole +split)\n%s\n%s", diff, w)
		}
	})
}

// splitAt is an instant between two facts of a lease at which it runs. A spot lease is left whole where its start decides a price.
func (w *world) splitAt(t *rapid.T, lease string) (span.Second, bool) {
	var from, to span.Second
	running := false
	for _, s := range w.ordered(lease) {
		switch b := s.Fact.Body.(type) {
		case *fact.LeaseStarted:
			if b.PricingMode != "on_demand" {
				return 0, false
			}
			from, running = b.At, true
		case *fact.LeaseStateChanged:
			if from, running = b.At, b.State == fact.Running; !running && b.At > from+1 {
				return 0, false
			}
		case *fact.LeaseResized:
			if running && b.At > from+1 {
				to = b.At
			}
		case *fact.LeaseStopped:
			to = b.At
		}
		if to > from+1 && running {
			return from + span.Second(rapid.Int64Range(1, int64(to-from)-1).Draw(t, "split")), true
		}
	}
	return 0, false
}

// ordered are the facts of a lease in order of their instants, its start first.
func (w *world) ordered(lease string) []*replay.Statement {
	var out []*replay.Statement
	for i := range w.log.Statements {
		if s := &w.log.Statements[i]; s.Fact.Body.Entity() == lease {
			out = append(out, s)
		}
	}
	rank := func(s *replay.Statement) int {
		if _, ok := s.Fact.Body.(*fact.LeaseStarted); ok {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *replay.Statement) int {
		return cmp.Or(cmp.Compare(instant(a.Fact.Body), instant(b.Fact.Body)), cmp.Compare(rank(a), rank(b)))
	})
	return out
}

func instant(b fact.Body) span.Second {
	switch f := b.(type) {
	case *fact.LeaseStarted:
		return f.At
	case *fact.LeaseResized:
		return f.At
	case *fact.LeaseStateChanged:
		return f.At
	case *fact.LeaseStopped:
		return f.At
	}
	return 0
}

// split stops a lease at an instant; another goes on with what it held.
func (w *world) split(lease string, at span.Second) {
	var next fact.LeaseStarted
	second := lease + "-second"
	known, own := w.log.Statements, w.ordered(lease)
	w.log.Statements = nil
	for _, s := range known {
		if s.Fact.Body.Entity() != lease {
			w.log.Statements = append(w.log.Statements, s)
		}
	}
	for _, s := range own {
		body := s.Fact.Body
		late := instant(body) > at
		switch b := body.(type) {
		case *fact.LeaseStarted:
			next = *b
			next.Lease, next.At = second, at
		case *fact.LeaseResized:
			if !late {
				next.Count, next.ShareMilli = b.Count, b.ShareMilli
			} else {
				body = &fact.LeaseResized{Lease: second, At: b.At, Count: b.Count, ShareMilli: b.ShareMilli}
			}
		case *fact.LeaseStateChanged:
			if late {
				body = &fact.LeaseStateChanged{Lease: second, At: b.At, State: b.State}
			}
		case *fact.LeaseStopped:
			body = &fact.LeaseStopped{Lease: second, At: b.At, By: b.By}
		case *fact.RefusalWaived:
			w.add(s.Known, s.Fact.Key+"/second", &fact.RefusalWaived{Lease: second, From: b.From, To: b.To, By: b.By})
		}
		w.add(s.Known, s.Fact.Key, body)
	}
	w.add(at, lease+"/split", &fact.LeaseStopped{Lease: lease, At: at, By: fact.ByCustomer})
	w.add(at, second, &next)
	slices.SortStableFunc(w.log.Statements, func(a, b replay.Statement) int { return cmp.Compare(a.Known, b.Known) })
}

// More time never costs less, where no second changes the price of another and none replaces what would be paid for anyway.
func TestMoreTimeNeverCostsLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{unplaced: true, fit: func(c *contract.Contract) bool {
			apart := func(r contract.Rate) bool { return r.Volume == nil && r.AtOnce == nil && len(r.Forward) == 0 }
			steady := c.Billing.MinimumSeconds == 0 && c.Billing.GranularitySeconds == 1
			uncapped := c.Limit == nil || c.Limit.Action != contract.LimitCap // what is beyond is measured in rounded lines
			return steady && uncapped && !levelsFollow(c) && c.Spend == nil && len(c.Bundles) == 0 && !slices.ContainsFunc(c.Rates, func(r contract.Rate) bool { return !apart(r) })
		}})
		d := w.deals[0]
		less := w.total(t, run(t, w.log), d)
		more := span.Second(rapid.Int64Range(1, 5000).Draw(t, "more"))
		for _, s := range w.ordered(fmt.Sprintf("%s-L%d", d.id, rapid.IntRange(0, d.leases-1).Draw(t, "lease"))) {
			if b, ok := s.Fact.Body.(*fact.LeaseStopped); ok {
				s.Fact.Body = &fact.LeaseStopped{Lease: b.Lease, At: b.At + more, By: b.By}
			}
		}
		if total := w.total(t, run(t, w.log), d); total.Cmp(less) < 0 {
			t.Fatalf("%d seconds more cost %s, without them %s\n%s", more, total.FloatString(6), less.FloatString(6), w)
		}
	})
}

// What a preview shows at the end of a period is what is billed, when nothing more comes to be known.
func TestPreviewAtThePeriodsEndIsTheBill(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{})
		d := w.deals[0]
		periods := w.periods(run(t, w.log), d)
		p := periods[rapid.IntRange(0, len(periods)-1).Draw(t, "period")]
		known := w.log
		known.Until = p.To
		known.Statements = slices.DeleteFunc(slices.Clone(known.Statements), func(s replay.Statement) bool { return s.Known > p.To })
		// Seconds behind a period that ends in mid-hour would tell whether the hour's source is a slow one.
		known.Measurements = slices.DeleteFunc(slices.Clone(known.Measurements), func(m replay.Measurement) bool { return m.Known > p.To })
		final := known
		cut := &fact.CutRequested{Cut: "preview", At: p.To}
		known.Statements = append(slices.Clone(known.Statements), replay.Statement{Known: p.To, Fact: fact.Fact{Key: "preview", Hash: fact.HashJSON(cut), Body: cut}})
		preview := amounts(compute(t, run(t, known), p))
		final.Until = p.To + span.Second(d.versions[len(d.versions)-1].Billing.GraceSeconds) + 4*day
		billed, closed := sums(run(t, final).Invoices)[p.name()]
		if closed {
			if diff := gocmp.Diff(billed, preview); diff != "" {
				t.Fatalf("%v (-billed +preview)\n%s\n%s", p, diff, w)
			}
		}
	})
}

// Tiers know no order: two leases of one length cost the same whichever comes first.
func TestTiersAreFreeOfOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(t, what) }
		percents := rapid.SampledFrom([]string{"graduated", "volume"}).Draw(t, "method")
		tiers := fmt.Sprintf("{upto: %d, price: 100%%}, {upto: %d, price: %d%%}, {price: %d%%}", draw(1, 5, "first"), draw(6, 20, "second"), draw(0, 120, "%"), draw(0, 120, "%"))
		document := fmt.Sprintf("{contract: c0, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: 2026-01-03}, billing: {cycle: daily, grace: 0}, "+
			"rates: [{sku: a100, on_demand: %d.%02d/gpu-hour, region: {east: 100%%, west: %d%%}, volume: {by: gpu-hours, method: %s, tiers: [%s]}}]}",
			draw(0, 90, "price"), draw(0, 99, "cents"), draw(0, 300, "west"), percents, tiers)
		from, _ := span.Parse("2026-01-01T00:00:00Z")
		length, count := span.Second(draw(1, 11*hour, "length")), [2]int64{int64(draw(1, 5, "count")), int64(draw(1, 5, "count"))}
		bill := func(first int) []string {
			w := &world{}
			w.add(from, "sign", &fact.ContractSigned{Contract: "c0", Customer: "a", Document: document})
			for i, region := range []string{"east", "west"} {
				at := from + span.Second((i+first)%2)*length
				w.add(from, region, &fact.LeaseStarted{
					Lease: region, Customer: "a", SKU: "a100", PricingMode: "on_demand", Region: region, At: at, Count: count[i], ShareMilli: 1000,
				})
				w.add(from, region+"/stop", &fact.LeaseStopped{Lease: region, At: at + length, By: fact.ByCustomer})
			}
			w.log.Until = from + 2*day
			return bytes(t, run(t, w.log))
		}
		if diff := gocmp.Diff(bill(0), bill(1)); diff != "" {
			t.Fatalf("%s\n%s", document, diff)
		}
	})
}
