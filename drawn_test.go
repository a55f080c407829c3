package gpuhour_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// newMonth is an hour's, a day's and a period's edge in UTC: 2026-03-01T00:00:00Z. Drawn worlds lie around it.
const newMonth span.Second = 1772323200

// draw gives a small random world: some leases of two customers on three devices, facts and samples that come late.
func draw(rt *rapid.T) *world {
	w := &world{until: newMonth + rapid.SampledFrom([]span.Second{2, 2, 2, 40}).Draw(rt, "days")*86400}
	for _, customer := range []string{"acme", "nimbus"} {
		id := customer + "-1"
		zone := rapid.SampledFrom([]string{"UTC", "UTC", "UTC", "Asia/Kolkata"}).Draw(rt, "zone")
		billing := rapid.SampledFrom([]string{
			"cycle: monthly, grace: 0", "cycle: monthly, grace: 2h, minimum: 10m, granularity: minute", "cycle: monthly, anchor: 31, minimum: 90s",
		}).Draw(rt, "billing")
		fee := func() string {
			return rapid.SampledFrom([]string{
				"", "addons: [{name: s, price: 280.00/month, prorate: true, pay: advance}]\n", "addons: [{name: s, price: 93.01/month, prorate: true, pay: advance}]\n",
			}).Draw(rt, "fee")
		}
		body := signed(id, customer, document(id, customer, "CNY", zone, billing, "  - {sku: h100, on_demand: 35.00/gpu-hour}\n")+fee())
		known := rapid.SampledFrom([]span.Second{newMonth - 20*86400, newMonth + 3000, newMonth + 86400}).Draw(rt, "signed")
		w.know(known, "c/"+id, body)
		for n := range rapid.IntRange(0, 2).Draw(rt, "amendments") {
			changed := document(id, customer, "CNY", zone, billing+rapid.SampledFrom([]string{
				", rounding: half_even", ", rounding: down", ", month: 730h",
			}).Draw(rt, "change"), "  - {sku: h100, on_demand: 36.01/gpu-hour}\n  - {sku: a100, on_demand: 0.001/gpu-second}\n")
			changed += fee()
			changed = strings.Replace(changed, "to: 2027-02-01", rapid.SampledFrom([]string{"to: 2027-02-01", "to: 2026-03-02", "to: 2026-02-27"}).Draw(rt, "term"), 1)
			w.know(known+rapid.SampledFrom([]span.Second{0, 500, 9000, 20*86400 + 9000}).Draw(rt, "amended"), fmt.Sprintf("c/%s/%d", id, n), &fact.ContractAmended{
				Contract: id, Effective: rapid.SampledFrom([]span.Second{newMonth - 28*86400, newMonth - 3000, newMonth + 5000}).Draw(rt, "effective"), Document: changed,
			})
		}
	}
	for i := range rapid.IntRange(1, 5).Draw(rt, "leases") {
		w.drawLease(rt, fmt.Sprintf("l%d", i))
	}
	for n := range rapid.IntRange(0, 2).Draw(rt, "nodes") {
		from := newMonth + span.Second(rapid.IntRange(-30, 20).Draw(rt, "from"))*10
		s := sampled{fmt.Sprintf("n%d", n), recording(fmt.Sprintf("n%d", n), span.Span{From: from, To: from + span.Second(rapid.IntRange(1, 20).Draw(rt, "length"))*10}), 0}
		s.delay = span.Second(rapid.SampledFrom([]int{0, 60, 400, 4000, 90_000}).Draw(rt, "delay"))
		w.nodes = append(w.nodes, s)
	}
	for range rapid.IntRange(0, 12).Draw(rt, "stops") {
		w.stops = append(w.stops, newMonth+span.Second(rapid.IntRange(-60, 800).Draw(rt, "stop"))*10)
	}
	return w.finish()
}

func (w *world) drawLease(rt *rapid.T, id string) {
	at := newMonth + span.Second(rapid.IntRange(-5000, 5000).Draw(rt, "at"))
	devices := func() (out []fact.Share) {
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 2, rapid.ID).Draw(rt, "devices") {
			out = append(out, share(fmt.Sprintf("n%d", k/2), k%2, rapid.SampledFrom([]int64{250, 500, 1000}).Draw(rt, "milli")))
		}
		return out
	}
	later := func() span.Second { return rapid.SampledFrom([]span.Second{0, 0, 50, 4000, 100_000}).Draw(rt, "later") }
	b := lease(id, rapid.SampledFrom([]string{"acme", "nimbus"}).Draw(rt, "customer"), rapid.SampledFrom([]string{"h100", "h100", "h100", "a100"}).Draw(rt, "sku"), at, devices()...)
	if len(b.Devices) == 0 {
		b.Count, b.ShareMilli = 3, 333
	}
	w.know(at+later(), id, b)
	for i := range rapid.IntRange(0, 3).Draw(rt, "changes") {
		at += span.Second(rapid.IntRange(0, 4000).Draw(rt, "after"))
		var body fact.Body
		switch held := devices(); {
		case rapid.Bool().Draw(rt, "resize") && len(held) > 0:
			body = &fact.LeaseResized{Lease: id, At: at, Devices: held}
		default:
			body = &fact.LeaseStateChanged{Lease: id, At: at, State: rapid.SampledFrom([]fact.LeaseState{fact.Running, fact.Suspended}).Draw(rt, "state")}
		}
		w.know(at+later(), fmt.Sprintf("%s/%d", id, i), body)
	}
	if rapid.Bool().Draw(rt, "stops") {
		at += span.Second(rapid.IntRange(0, 9000).Draw(rt, "until"))
		by := rapid.SampledFrom([]fact.EndedBy{fact.ByCustomer, fact.ByFault}).Draw(rt, "by")
		w.know(at+later(), id+"/stop", &fact.LeaseStopped{Lease: id, At: at, By: by})
	}
	for _, contract := range []string{"acme-1", "nimbus-1"} {
		if rapid.IntRange(0, 5).Draw(rt, "carry") == 0 && !slices.ContainsFunc(w.statements, has("carry/"+contract)) {
			w.know(newMonth, "carry/"+contract, &fact.RefusalCarried{Contract: contract, PeriodStart: newMonth - 28*86400, By: "ops"})
		}
	}
}
