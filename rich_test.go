package gpuhour_test

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
)

// document is a contract's text.
func document(id, customer, currency, zone, billing, rates string) string {
	return fmt.Sprintf("contract: %s\ncustomer: %s\ncurrency: %s\ntimezone: %s\nterm: {from: 2026-02-01, to: 2027-02-01}\nbilling: {%s}\nrates:\n%s",
		id, customer, currency, zone, billing, rates)
}

const (
	acmeBilling = "cycle: monthly, anchor: 1, grace: 3h, granularity: second, minimum: 60s, rounding: half_away_from_zero"
	acmeRates   = "  - {sku: h100, on_demand: 35.00/gpu-hour, region: {cn-east: 100%, cn-west: 88%}, dedicated: 125%}\n  - {sku: a100, on_demand: 0.005/gpu-second}\n"
	newRates    = acmeRates + "  - {sku: b200, on_demand: 61.10/gpu-hour}\n"
)

// signed is a contract's first fact.
func signed(id, customer, text string) *fact.ContractSigned {
	return &fact.ContractSigned{Contract: id, Customer: customer, Document: text}
}

// rich is a month and a half of three customers in three zones with everything that makes bills hard, small enough for a test.
func rich() *world {
	w := &world{until: instant("2026-04-05T00:00:00Z")}
	at := func(text string) span.Second { return instant("2026-" + text + "Z") }
	w.acme(at)
	w.nimbus(at)
	w.orbit(at)
	w.sample(at)
	return w.finish()
}

// lease is a start on demand; a lease without devices is unplaced.
func lease(id, customer, sku string, at span.Second, devices ...fact.Share) *fact.LeaseStarted {
	return &fact.LeaseStarted{Lease: id, Customer: customer, SKU: sku, PricingMode: "on_demand", At: at, Devices: devices}
}

func share(node string, gpu int, milli int64) fact.Share {
	return fact.Share{Node: node, Device: fmt.Sprintf("%s/gpu-%d", node, gpu), ShareMilli: milli}
}

// acme: fractions, a resize, a factor per region, minimum top-ups, a fact that comes after the close, and a SKU without a
// price that is carried, priced by an amendment and corrected.
func (w *world) acme(at func(string) span.Second) {
	w.know(at("02-01T00:00:00"), "c/acme", signed("acme-2026", "acme", document("acme-2026", "acme", "CNY", "Asia/Shanghai", acmeBilling, acmeRates)))
	train := lease("train", "acme", "h100", at("02-10T09:00:01"), share("n-a", 0, 1000), share("n-a", 1, 500))
	train.Contract, train.Region = "acme-2026", "cn-west"
	w.know(at("02-10T09:00:01"), "l/train", train)
	w.know(at("02-20T10:10:10"), "l/train/2", &fact.LeaseResized{
		Lease: "train", At: at("02-20T10:10:10"), Devices: []fact.Share{share("n-a", 0, 1000), share("n-a", 1, 250), share("n-c", 0, 1000)},
	})
	w.know(at("03-05T11:00:00"), "l/train/stop", &fact.LeaseStopped{Lease: "train", At: at("03-05T11:00:00"), By: fact.ByCustomer})
	half := lease("half", "acme", "h100", at("02-21T00:00:00"), share("n-a", 1, 500))
	half.Region, half.Dedicated = "cn-east", true
	w.know(at("02-21T00:00:00"), "l/half", half)
	for i, length := range []span.Second{0, 1, 59, 61} {
		short := lease(fmt.Sprintf("short-%d", i), "acme", "a100", at("02-27T08:00:00"))
		short.Count, short.ShareMilli = 2, 333
		w.know(short.At, "l/"+short.Lease, short)
		w.know(short.At+length, "l/"+short.Lease+"/stop", &fact.LeaseStopped{Lease: short.Lease, At: short.At + length, By: fact.ByCustomer})
	}
	w.know(at("02-25T00:00:00"), "l/early", lease("early", "acme", "a100", at("02-25T00:00:00"), share("n-b", 1, 1000)))
	w.know(at("03-02T12:00:00"), "l/early/stop", &fact.LeaseStopped{Lease: "early", At: at("02-26T06:30:00"), By: fact.ByProvider})
	w.know(at("02-26T07:00:00"), "l/new", lease("new", "acme", "b200", at("02-26T07:00:00"), share("n-b", 1, 1000)))
	w.know(at("03-04T07:00:00"), "l/new/stop", &fact.LeaseStopped{Lease: "new", At: at("03-04T07:00:00"), By: fact.ByFault})
	w.know(at("02-28T16:30:00"), "carry/acme", &fact.RefusalCarried{Contract: "acme-2026", PeriodStart: at("01-31T16:00:00"), By: "ops", Note: "b200 is being agreed"})
	w.know(at("03-03T00:00:00"), "c/acme/2", &fact.ContractAmended{
		Contract: "acme-2026", Effective: at("01-31T16:00:00"), Document: document("acme-2026", "acme", "CNY", "Asia/Shanghai", acmeBilling, newRates),
	})
}

// nimbus: suspended and resumed, an overlap that is waived, a key used twice, granularity and minimum of a fault.
func (w *world) nimbus(at func(string) span.Second) {
	billing := "cycle: monthly, anchor: 1, grace: 0, granularity: minute, minimum: 10m, rounding: half_even"
	w.know(at("02-01T00:00:00"), "c/nimbus", signed("nimbus-2026", "nimbus",
		document("nimbus-2026", "nimbus", "USD", "America/New_York", billing, "  - {sku: h100, on_demand: 2.10/gpu-hour}\n")))
	w.know(at("02-14T00:00:00"), "l/serve", lease("serve", "nimbus", "h100", at("02-14T00:00:07"), share("n-b", 0, 1000)))
	for i, s := range []struct {
		at    string
		state fact.LeaseState
	}{{"02-18T01:02:03", fact.Suspended}, {"02-19T04:05:06", fact.Running}, {"03-01T03:59:30", fact.Suspended}, {"03-01T04:03:00", fact.Running}} {
		w.know(at(s.at), fmt.Sprintf("l/serve/%d", i), &fact.LeaseStateChanged{Lease: "serve", At: at(s.at), State: s.state})
	}
	w.know(at("02-22T00:00:00"), "l/twice", lease("twice", "nimbus", "h100", at("02-22T00:00:00"), share("n-b", 0, 500)))
	w.know(at("02-22T05:00:00"), "l/twice/stop", &fact.LeaseStopped{Lease: "twice", At: at("02-22T05:00:00"), By: fact.ByCustomer})
	w.know(at("02-23T00:00:00"), "l/twice/waive", &fact.RefusalWaived{
		Lease: "twice", From: at("02-22T00:00:00"), To: at("02-22T05:00:00"), By: "ops", Note: "placed twice by us",
	})
	w.know(at("02-23T00:00:00"), "l/serve", lease("other", "nimbus", "h100", at("02-23T00:00:00"), share("n-b", 0, 1000)))
	w.know(at("03-20T00:00:00"), "l/serve/stop", &fact.LeaseStopped{Lease: "serve", At: at("03-20T00:00:00"), By: fact.ByCustomer})
}

// orbit signs its contract after its first period was over.
func (w *world) orbit(at func(string) span.Second) {
	for i, from := range []string{"02-12T00:00:00", "03-12T00:00:00"} {
		l := lease(fmt.Sprintf("probe-%d", i), "orbit", "h100", at(from), share("n-c", 1, 1000))
		w.know(l.At, "l/"+l.Lease, l)
		w.know(l.At+90_061, "l/"+l.Lease+"/stop", &fact.LeaseStopped{Lease: l.Lease, At: l.At + 90_061, By: fact.ByCustomer})
	}
	w.know(at("03-10T10:00:00"), "c/orbit", signed("orbit-2026", "orbit",
		document("orbit-2026", "orbit", "EUR", "Europe/Berlin", "cycle: monthly, grace: 0", "  - {sku: h100, on_demand: 1.99/gpu-hour}\n")))
}

// sample: three nodes for forty minutes across an hour's edge that is also a period's end in Shanghai; one node's samples
// come two hours late, and ten minutes of another come after its period was closed in New York.
func (w *world) sample(at func(string) span.Second) {
	window := span.Span{From: at("02-28T15:40:00"), To: at("02-28T16:20:00")}
	for _, n := range []struct {
		name  string
		delay span.Second
	}{{"n-a", 0}, {"n-b", 0}, {"n-c", 7200}} {
		w.nodes = append(w.nodes, sampled{n.name, recording(n.name, window), n.delay})
	}
	w.nodes = append(w.nodes, sampled{"n-b2", recording("n-b", span.Span{From: at("03-01T02:00:00"), To: at("03-01T02:10:00")}), 6 * 3600})
	for s := window.From; s <= window.To+7200; s += 600 {
		w.stops = append(w.stops, s)
	}
	w.stops = append(w.stops, at("03-01T02:10:00"), at("03-01T08:10:00"), at("03-02T12:00:00"))
}

// recording is a node of two devices: seconds that were slept through, failed or not seen, one device that is away.
func recording(node string, window span.Span) *recorded.Source {
	since := func(at span.Second) int64 { return int64(at - window.From) }
	s := &recorded.Source{
		Window: window,
		Slept:  func(at span.Second) bool { k := since(at) % 700; return 303 <= k && k < 309 || 403 <= k && k < 433 },
		Failed: func(at span.Second) bool { k := since(at) % 500; return 211 <= k && k < 216 },
	}
	for gpu := range 2 {
		s.Devices = append(s.Devices, device{fmt.Sprintf("%s/gpu-%d", node, gpu), func(at span.Second) (int64, bool) {
			k := since(at)
			away := gpu == 1 && k%1300 > 1200 || gpu == 0 && k%97 < 4
			return (k*7+int64(gpu)*31)%60 + 5, !away
		}})
	}
	return s
}

// device says how busy it is, or that it is away.
type device struct {
	name string
	busy func(span.Second) (percent int64, here bool)
}

// At implements recorded.Series.
func (d device) At(at span.Second, r *collector.Reading) bool {
	percent, here := d.busy(at)
	*r = collector.Reading{
		Device: d.name, Busy: collector.Known(percent), Memory: collector.Known(1 << 30), Power: collector.Known(300_000 + percent),
		Energy: collector.Known(int64(at) % 1_000_000 * 300_000), Throttle: collector.Known(0),
	}
	return here
}
