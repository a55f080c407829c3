package meter

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
)

// drawSpot gives a document other spot terms, or none.
func drawSpot(t *rapid.T, document string) string {
	lock := rapid.SampledFrom(contract.SpotLockNames()).Draw(t, "lock")
	free := rapid.SampledFrom([]string{"0", "10m", "20m", "1h"}).Draw(t, "free")
	index := rapid.SampledFrom([]string{"h100", "h100", "other"}).Draw(t, "index")
	terms := fmt.Sprintf(", spot: {index: %s, lock: %s, reclaimed_free_within: %s}", index, lock, free)
	if rapid.IntRange(0, 5).Draw(t, "no spot") == 0 {
		terms = ""
	}
	return strings.Replace(document, ", spot: {index: h100, max: 90% of on_demand}", terms, 1)
}

// drawTicks are prices of two indexes in two regions, some in one second, some long before the world, some that cannot be read.
func drawTicks(t *rapid.T) []fact.Body {
	var out []fact.Body
	for range rapid.IntRange(0, 12).Draw(t, "ticks") {
		b := &fact.SpotPriceChanged{
			Index: rapid.SampledFrom([]string{"h100", "h100", "other"}).Draw(t, "index"), Region: rapid.SampledFrom([]string{"in", "in", "elsewhere"}).Draw(t, "region"),
			At: drawInstant(t, "tick"), Currency: rapid.SampledFrom([]string{"INR", "INR", "INR", "USD", "?"}).Draw(t, "currency"),
			Price: fmt.Sprintf("%d.%d0/gpu-hour", rapid.IntRange(0, 2).Draw(t, "whole"), rapid.IntRange(0, 9).Draw(t, "tenth")),
		}
		if rapid.IntRange(0, 3).Draw(t, "early") == 0 {
			b.At = worldFrom - 600
		}
		out = append(out, b)
	}
	return out
}

// spotPrice looks at every tick.
func (o *oracle) spotPrice(l *occupancy.Lease, v contract.Version, second span.Second) string {
	rate, _ := v.Contract.Rate(l.Started.SKU)
	if rate.Spot == nil || l.Started.PricingMode != "spot" {
		return ""
	}
	at := second
	if rate.Spot.Lock != contract.LockNone {
		at = l.Started.At
	}
	for rate.Spot.Lock == contract.LockHour && at+3600 <= second {
		at += 3600
	}
	var last fact.Fact
	for _, f := range o.ticks {
		b := f.Body.(*fact.SpotPriceChanged)
		if b.Index != rate.Spot.Index || b.Region != l.Started.Region || b.At > at || b.Currency == "?" {
			continue
		}
		if last.Body == nil || b.At > last.Body.(*fact.SpotPriceChanged).At || b.At == last.Body.(*fact.SpotPriceChanged).At && f.Seq > last.Seq {
			last = f
		}
	}
	if b, ok := last.Body.(*fact.SpotPriceChanged); ok && b.Currency == v.Contract.Currency.String() {
		return b.Price
	}
	return ""
}

// free asks whether the lease was taken back too soon, and whether the second belongs to what was.
func (o *oracle) free(l *occupancy.Lease, v contract.Version, second span.Second) bool {
	rate, _ := v.Contract.Rate(l.Started.SKU)
	if rate.Spot == nil || l.Started.PricingMode != "spot" || len(l.Starts) == 0 {
		return false
	}
	last := l.Starts[len(l.Starts)-1]
	return last.EndedBy == fact.ByProvider && int64(last.Span.To-last.Span.From) < rate.Spot.ReclaimedFreeSeconds && second >= last.Span.From && second < last.Span.To
}

func spotLease(id string, at span.Second) *fact.LeaseStarted {
	b := lease(id, at)
	b.PricingMode = "spot"
	return b
}

func priceTick(at span.Second, price string) *fact.SpotPriceChanged {
	return &fact.SpotPriceChanged{Index: "h100", Region: "in", At: at, Currency: "INR", Price: price}
}

// TestLateTickMovesOnlyItsSeconds: a tick that arrives after the hours are classified re-keys the seconds from its instant to the
// next tick, and puts no row for any other.
func TestLateTickMovesOnlyItsSeconds(t *testing.T) {
	x, s := newTables(), NewState()
	start := midnight - 1800 // 18:00 UTC
	x.play(s, Block{Seq: 1, At: start + 4*3600, Facts: numbered(1, signed("c1", document("c1", "daily", "", "3.60")), spotLease("L", start),
		priceTick(start-60, "1.00/gpu-hour"), priceTick(start+2*3600, "2.0/gpu-hour"), &fact.LeaseStopped{Lease: "L", At: start + 9000, By: fact.ByCustomer})})
	out := x.play(s, Block{Seq: 2, At: start + 5*3600, Facts: numbered(6, priceTick(start+3600+7, "1.50000/gpu-hour"))})
	got := map[string]int64{}
	for _, d := range out.Ledger {
		got[fmt.Sprintf("hour +%d: %s", d.Hour-start.Hour(), d.Key.SpotPrice)] += d.Quantity / 1000
	}
	want := map[string]int64{"hour +1: 1.00/gpu-hour": -3593, "hour +1: 1.50/gpu-hour": 3593}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if out := x.play(s, Block{Seq: 3, At: start + 6*3600, Facts: numbered(7, priceTick(start+3600+7, "1.5/gpu-hour"))}); len(out.Ledger) != 0 {
		t.Fatalf("the same price again put %v", out.Ledger)
	}
}

// TestTickThatCannotBeReadIsARefusal: it is listed, and the tick before it stands.
func TestTickThatCannotBeReadIsARefusal(t *testing.T) {
	x, s := newTables(), NewState()
	out := x.play(s, Block{Seq: 1, At: midnight + 7200, Facts: numbered(1, signed("c1", document("c1", "daily", "", "3.60")), spotLease("L", midnight),
		priceTick(midnight, "1.00/gpu-hour"), priceTick(midnight+60, "1.20"), &fact.LeaseStopped{Lease: "L", At: midnight + 600, By: fact.ByCustomer})})
	want := []Refusal{{
		ID: "spot.price_changed.v1/4", Reason: BadSpotPrice, Detail: "unit is missing; write 1.20/gpu-hour", At: midnight + 60, Block: 1, Delta: 1,
	}}
	if diff := gocmp.Diff(want, out.Refusals); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if n := x.quantity(func(e Entry) bool { return e.Key.SpotPrice == "1.00/gpu-hour" && e.Key.Standing == Priced }); n != 600_000 {
		t.Fatalf("%d milli-seconds at the tick before", n)
	}
}
