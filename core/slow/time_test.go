package slow_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
)

func TestWindows(t *testing.T) {
	night := "rates: [{sku: h100, on_demand: 1.00/gpu-hour}], schedule: [{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00], off: 50%}]"
	early := ", rates: [{sku: h100, on_demand: 1.00/gpu-hour}], schedule: [{name: early, for: [on_demand], windows: [daily 01:00-04:00], off: 50%}]"
	newYork := "timezone: America/New_York, billing: {cycle: daily}" + early
	check(t, []bill{
		// January 5, 2026 is a Monday. Friday 20:00 to Saturday 10:00: 2 h, then Friday's night 10 h at 0.50, then 2 h.
		{
			"Friday's night ends on Saturday", night,
			[]fact.Body{start("L", "2026-01-09T20:00:00Z", 1), stop("L", "2026-01-10T10:00:00Z")},
			nil, "",
			[]string{"h100 on_demand night: 10 for 5.00", "h100 on_demand: 4 for 4.00"},
		},
		// Monday 07:00 would be Sunday's night, which there is not.
		{
			"no night before Monday", night,
			[]fact.Body{start("L", "2026-01-05T07:00:00Z", 1), stop("L", "2026-01-05T09:00:00Z")},
			nil, "",
			[]string{"h100 on_demand: 2 for 2.00"},
		},
		// March 8 has 23 hours: 02:00 to 03:00 is skipped. The window has 2 of them, the rest 21.
		{
			"clocks go forward", newYork,
			[]fact.Body{start("L", "2026-03-07T05:00:00Z", 1), stop("L", "2026-03-10T05:00:00Z")},
			nil, "2026-03-08T12:00:00Z",
			[]string{"h100 on_demand early: 2 for 1.00", "h100 on_demand: 21 for 21.00"},
		},
		// November 1 has 25 hours: 01:00 to 02:00 comes twice, both times in the window.
		{
			"clocks go back", newYork,
			[]fact.Body{start("L", "2026-10-30T05:00:00Z", 1), stop("L", "2026-11-03T05:00:00Z")},
			nil, "2026-11-01T12:00:00Z",
			[]string{"h100 on_demand early: 4 for 2.00", "h100 on_demand: 21 for 21.00"},
		},
	})
}

func TestTiers(t *testing.T) {
	tiers := func(by, method, list string) string {
		return fmt.Sprintf("rates: [{sku: h100, on_demand: 1.00/gpu-hour, volume: {by: %s, method: %s, tiers: [%s]}}]", by, method, list)
	}
	sixteen := []fact.Body{start("L", "2026-01-01T00:00:00Z", 2), stop("L", "2026-01-01T08:00:00Z")}
	check(t, []bill{
		// 16 h: 10 x 1.00 + 6 x 0.50.
		{"graduated", tiers("gpu-hours", "graduated", "{upto: 10, price: 100%}, {price: 50%}"), sixteen, nil, "", []string{"h100 on_demand: 16 for 13.00"}},
		// 16 h reach the second tier: all at 50%, and its flat fee.
		{
			"volume", tiers("gpu-hours", "volume", "{upto: 10, price: 100%}, {price: 50%, flat: 3.00}"), sixteen, nil, "",
			[]string{"h100 on_demand: 16 for 8.00", "tier >10 h100: 1 for 3.00"},
		},
		// A bound belongs to its tier.
		{"at the bound", tiers("gpu-hours", "volume", "{upto: 16, price: 100%}, {price: 50%}"), sixteen, nil, "", []string{"h100 on_demand: 16 for 16.00"}},
		// An amount takes the place of 1.00: (10 x 0.90 + 6 x 0.40) / 16 of 16 h.
		{
			"absolute", tiers("gpu-hours", "graduated", "{upto: 10, price: 0.90/gpu-hour}, {price: 0.40/gpu-hour}"), sixteen, nil, "",
			[]string{"h100 on_demand: 16 for 11.40"},
		},
		// 2 GPUs for 4 h at 100%, then 3 for 4 h, all at 80%: 8.00 + 12 x 0.80.
		{
			"at once", tiers("gpus", "volume", "{upto: 2, price: 100%}, {price: 80%}"),
			append([]fact.Body{start("M", "2026-01-01T04:00:00Z", 1), stop("M", "2026-01-01T08:00:00Z")}, sixteen...), nil, "",
			[]string{"h100 on_demand: 20 for 17.60"},
		},
	})
}

func TestOrderOfPrices(t *testing.T) {
	// (1) the price, limited by cap; (2) region x tier x dedicated; (4) the window; a final cap limits what they made of it.
	terms := func(cap string) string {
		return "rates: [{sku: h100, on_demand: 50.00/gpu-hour, region: {west: 50%}, service_tier: {t4: 110%}, dedicated: 200%, cap: " + cap + "}], " +
			"schedule: [{name: first, for: [on_demand], windows: [daily 00:00-24:00], off: 10%}, {name: second, for: [on_demand], windows: [daily 00:00-24:00], off: 99%}]"
	}
	hour := func(region string) []fact.Body {
		return []fact.Body{start("L", "2026-01-01T00:00:00Z", 1, in(region), func(b *fact.LeaseStarted) { b.ServiceTier, b.Dedicated = "t4", true }), stop("L", "2026-01-01T01:00:00Z")}
	}
	book := func(price string) fact.Body {
		return &fact.PriceBookPublished{Book: "list", Effective: at("2026-01-01T00:00:00Z"), Document: "{book: list, currency: USD, rates: [{sku: h100, on_demand: " + price + "/gpu-hour, dedicated: 300%}]}"}
	}
	check(t, []bill{
		{"cap of the list price", terms("40.00/gpu-hour"), hour("west"), nil, "", []string{"h100 west t4 on_demand first: 1 for 39.60"}},                      // 40 x 0.5 x 1.1 x 2 x 0.9
		{"cap of the final price", terms("{price: 45.00/gpu-hour, on: final}"), hour("west"), nil, "", []string{"h100 west t4 on_demand first: 1 for 45.00"}}, // 50 x 0.99 = 49.50
		{"no such region", terms("40.00/gpu-hour"), hour("east"), nil, "", nil},
		// What the contract does not state, the book does: 2.00 x 300%.
		{
			"a book", "price_book: list, rates: [{sku: h100}]", append(hour(""), book("2.00")), nil, "", []string{"h100 t4 on_demand: 1 for 6.00"},
		},
	})
}

func TestStates(t *testing.T) {
	suspended := []fact.Body{
		start("L", "2026-01-01T00:00:00Z", 1), &fact.LeaseStateChanged{Lease: "L", At: at("2026-01-01T01:00:00Z"), State: fact.Suspended}, stop("L", "2026-01-01T03:00:00Z"),
	}
	terms := "rates: [{sku: h100, on_demand: 1.00/gpu-hour}]"
	check(t, []bill{
		{"only running bills", terms, suspended, nil, "", []string{"h100 on_demand: 1 for 1.00"}},
		{"30% when suspended", terms + ", states: {suspended: {gpu: 30%}}", suspended, nil, "", []string{"h100 on_demand: 3 for 1.60"}},
	})
}

func TestObserved(t *testing.T) {
	// The device is seen for the first half of an hour.
	half := watched("d", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z", func(span.Second) (uint8, bool) { return 50, true })
	leased := []fact.Body{start("L", "2026-01-01T00:00:00Z", 1, on("d", 1000)), stop("L", "2026-01-01T01:00:00Z")}
	check(t, []bill{
		{"leased", "rates: [{sku: h100, on_demand: 1.00/gpu-hour}]", leased, half, "", []string{"h100 on_demand: 1 for 1.00"}},
		{"observed", "billing: {bill_by: observed}, rates: [{sku: h100, on_demand: 1.00/gpu-hour}]", leased, half, "", []string{"h100 on_demand: 1/2 for 0.50"}},
	})
}

func TestSpot(t *testing.T) {
	// 0.40 from midnight, 0.90 from 01:30, which max brings to 0.80 of 1.00. The lease runs from 01:10 to 03:10.
	tick := func(when, price string) fact.Body {
		return &fact.SpotPriceChanged{Index: "i", At: at(when), Currency: "USD", Price: price}
	}
	world := func(fields string) bill {
		return bill{fields, "rates: [{sku: h100, on_demand: 1.00/gpu-hour, spot: {index: i, max: 80% of on_demand" + fields + "}}]", []fact.Body{
			tick("2026-01-01T01:30:00Z", "0.90/gpu-hour"), tick("2026-01-01T00:00:00Z", "0.40/gpu-hour"),
			start("L", "2026-01-01T01:10:00Z", 1, spot), stopBy("L", "2026-01-01T03:10:00Z", fact.ByProvider),
		}, nil, "", nil}
	}
	peak := world("")
	peak.name, peak.terms = "max holds again after the window", peak.terms+", schedule: [{name: peak, for: [spot], windows: [daily 00:00-24:00], add: 50%}]"
	with := func(b bill, want ...string) bill {
		b.want = want
		return b
	}
	check(t, []bill{
		with(world(""), "h100 spot: 2 for 1.47"),                            // 1/3 h x 0.40 + 5/3 h x 0.80 = 1.4667
		with(world(", lock: start"), "h100 spot: 2 for 0.80"),               // 2 h x 0.40
		with(world(", lock: hour"), "h100 spot: 2 for 1.20"),                // its own hours: from 01:10 0.40, from 02:10 0.80
		with(world(", reclaimed_free_within: 2h"), "h100 spot: 2 for 1.47"), // after 2 h it is not within 2 h
		with(world(", reclaimed_free_within: 121m")),                        // within: free
		with(peak, "h100 spot peak: 2 for 1.53"),                            // 1/3 h x 0.60 + 5/3 h x 0.80 = 1.5333
	})
}

func TestIdleRun(t *testing.T) {
	// 60.00 an hour are 1.00 a minute. The lease runs for an hour; the device is idle but for minute 10.
	terms := func(bridge string) string {
		return "rates: [{sku: h100, on_demand: 60.00/gpu-hour}], idle_relief: {below: 5%, after: 15m, off: 50%, bridge: " + bridge + "}"
	}
	leased := []fact.Body{start("L", "2026-01-01T00:00:00Z", 1, on("d", 1000)), stop("L", "2026-01-01T01:00:00Z")}
	looks := func(unseen span.Second) func(span.Second) (uint8, bool) { // ten seconds from half past on
		return func(s span.Second) (uint8, bool) {
			from := at("2026-01-01T00:30:00Z")
			if minute := s / 60 % 60; minute == 10 {
				return 50, true
			}
			return 4, s < from || s >= from+unseen
		}
	}
	until := "2026-01-01T01:00:00Z"
	check(t, []bill{
		// From 00:11 on, relief from 00:26: 34 minutes at 0.50; the other 26 in full.
		{
			"a run", terms("0"), leased, watched("d", "2026-01-01T00:00:00Z", until, looks(0)), "",
			[]string{"h100 on_demand idle: 17/30 for 17.00", "h100 on_demand: 13/30 for 26.00"},
		},
		// Ten unknown seconds belong to it with a bridge of ten.
		{
			"bridged", terms("10s"), leased, watched("d", "2026-01-01T00:00:00Z", until, looks(10)), "",
			[]string{"h100 on_demand idle: 17/30 for 17.00", "h100 on_demand: 13/30 for 26.00"},
		},
		// Eleven are too many: 4 minutes of relief until 00:30, then a new run from 00:30:11, relief from 00:45:11: 889 s. 1,129 s of 3,600.
		{
			"not bridged", terms("10s"), leased, watched("d", "2026-01-01T00:00:00Z", until, looks(11)), "",
			[]string{"h100 on_demand idle: 1129/3600 for 9.41", "h100 on_demand: 2471/3600 for 41.18"},
		},
		// What was not seen is not idle.
		{"unseen", terms("60s"), leased, nil, "", []string{"h100 on_demand: 1 for 60.00"}},
	})
}

func TestStarts(t *testing.T) {
	// 36.00 an hour are 0.01 a GPU-second. Two GPUs for 90 s, at least 10 minutes, in whole minutes.
	terms := "billing: {minimum: 10m, granularity: minute}, rates: [{sku: h100, on_demand: 36.00/gpu-hour}]"
	lease := func(by fact.EndedBy) []fact.Body {
		return []fact.Body{start("L", "2026-01-01T00:00:00Z", 2), stopBy("L", "2026-01-01T00:01:30Z", by)}
	}
	again := []fact.Body{&fact.LeaseStateChanged{Lease: "L", At: at("2026-01-01T01:00:00Z"), State: fact.Running}, stop("L", "2026-01-01T01:01:30Z")}
	check(t, []bill{
		{"the minimum", terms, lease(fact.ByCustomer), nil, "", []string{"h100 on_demand: 1/3 for 12.00"}},          // 600 s x 2
		{"not for the provider", terms, lease(fact.ByProvider), nil, "", []string{"h100 on_demand: 1/20 for 1.80"}}, // 90 s x 2
		// After a fault (90 s x 2, no top-up) another 90 s round up to 120 without a minimum: 180 + 240 = 420 GPU-seconds.
		{"after a fault", terms, append(lease(fact.ByFault), again...), nil, "", []string{"h100 on_demand: 7/60 for 4.20"}},
		// A start without length pays the minimum of what it held: 600 s x 2.
		{
			"no length", terms,
			[]fact.Body{start("L", "2026-01-01T00:00:00Z", 2), stop("L", "2026-01-01T00:00:00Z")},
			nil, "",
			[]string{"h100 on_demand: 1/3 for 12.00"},
		},
		// A resize is no start: 1 GPU for 10 minutes, then 3 for 20.
		{
			"a resize", terms,
			[]fact.Body{
				start("L", "2026-01-01T00:00:00Z", 1), &fact.LeaseResized{Lease: "L", At: at("2026-01-01T00:10:00Z"), Count: 3, ShareMilli: 1000},
				stop("L", "2026-01-01T00:30:00Z"),
			},
			nil, "",
			[]string{"h100 on_demand: 7/6 for 42.00"},
		},
	})
}

func TestOverlap(t *testing.T) {
	// Of one device z has 600 milli first, whatever the names; a asks for 700 from 00:30 on and gets 400; 300 of it are refused.
	stated := []fact.Body{
		start("a", "2026-01-01T00:30:00Z", 1, on("d", 700)), start("z", "2026-01-01T00:00:00Z", 1, on("d", 600)),
		stop("z", "2026-01-01T01:00:00Z"), stop("a", "2026-01-01T01:00:00Z"),
	}
	terms := "rates: [{sku: h100, on_demand: 10.00/gpu-hour}]"
	check(t, []bill{{"two leases", terms, stated, nil, "", []string{"h100 on_demand: 4/5 for 8.00"}}}) // 0.6 h + 0.2 h
	w := world(t, terms, nil, stated...)
	got := w.Statement("c", w.Periods("c", at("2026-01-01T00:00:01Z"))[0]).Leased
	want := map[slow.Cell]int64{
		{Lease: "z", Device: "d", Standing: "priced", Coverage: slow.Missing}:                     600 * 3600,
		{Lease: "a", Device: "d", Standing: "priced", Coverage: slow.Missing}:                     400 * 1800,
		{Lease: "a", Device: "d", Standing: "refused", Reason: "overlap", Coverage: slow.Missing}: 300 * 1800,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-by hand +slow)\n%s", diff)
	}
}
