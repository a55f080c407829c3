package slow_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
)

func TestReservations(t *testing.T) {
	// On January 2 the reservation that began first supplies first, whatever the file says; the lease that began first demands first,
	// whatever its name. West costs twice as much, so it shows whose GPU is beyond.
	terms := "billing: {cycle: daily}, rates: [{sku: h100, on_demand: 1.00/gpu-hour, region: {east: 100%, west: 200%}, reserved: [" +
		"{name: later, quantity: 1, price: 20.00/gpu-day, from: 2026-01-02, to: 2026-02-01}, {name: earlier, quantity: 1, price: 10.00/gpu-day, from: 2026-01-01, to: 2026-02-01}]}]"
	hourly := strings.Replace(terms, "daily", "hourly", 1)
	check(t, []bill{
		// z: 2 h of earlier. a: from 11:00 1 h of later, and 1 h at 2.00.
		{
			"supply and demand", terms,
			[]fact.Body{
				start("z", "2026-01-02T10:00:00Z", 1, in("east")), start("a", "2026-01-02T11:00:00Z", 2, in("west")),
				stop("z", "2026-01-02T12:00:00Z"), stop("a", "2026-01-02T12:00:00Z"),
			},
			nil, "2026-01-02T00:00:00Z",
			[]string{
				"h100 east on_demand earlier: 2 for 0.00", "h100 west on_demand later: 1 for 0.00", "h100 west on_demand: 1 for 2.00",
				"reserved earlier h100: 1 for 10.00", "reserved later h100: 1 for 20.00",
			},
		},
		{"not used", terms, nil, nil, "2026-01-01T00:00:00Z", []string{"reserved earlier h100: 1 for 10.00"}},
		// A day's fee stands on the bill of its first hour.
		{"the first hour", hourly, nil, nil, "2026-01-02T00:00:00Z", []string{"reserved earlier h100: 1 for 10.00", "reserved later h100: 1 for 20.00"}},
		{"the second hour", hourly, nil, nil, "2026-01-02T01:00:00Z", nil},
	})
}

func TestForward(t *testing.T) {
	// 2 GPUs for a day are 48 h. 3 GPUs for an hour take 2 of them at 0.50, the third is on demand; 46 h are not taken.
	terms := func(fields string) string {
		return "billing: {cycle: daily}, rates: [{sku: h100, on_demand: 1.00/gpu-hour, forward: [{name: f, quantity: 2, price: 0.50/gpu-hour, from: 2026-01-01, to: 2026-01-03" + fields + "}]}]"
	}
	used := []fact.Body{start("L", "2026-01-01T00:00:00Z", 3), stop("L", "2026-01-01T01:00:00Z")}
	check(t, []bill{
		{"paid when used", terms(""), used, nil, "", []string{"h100 on_demand f: 2 for 1.00", "h100 on_demand: 1 for 1.00"}},
		{
			"take or pay", terms(", take_or_pay: true"), used, nil, "",
			[]string{"h100 on_demand f: 2 for 1.00", "h100 on_demand: 1 for 1.00", "take_or_pay f h100: 46 for 23.00"},
		},
	})
}

func TestPackages(t *testing.T) {
	// One GPU for a week, bought on January 5 at 10:00. 2 GPUs are held from 09:00 to 12:00: 2 h before, then 2 h covered and 2 h beyond.
	terms := func(rule string) string {
		return "rates: [{sku: h100, on_demand: 1.00/gpu-hour}], packages: [{name: p, sku: h100, unit: week, quantity: 1, price: 42.00, early_end: " + rule + "}]"
	}
	bought := []fact.Body{
		&fact.PackagePurchased{Contract: "c", Package: "p", At: at("2026-01-05T10:00:00Z"), Count: 1},
		start("L", "2026-01-05T09:00:00Z", 2), stop("L", "2026-01-05T12:00:00Z"),
	}
	ended := func(when string, by fact.EndedBy) []fact.Body {
		return append([]fact.Body{bought[0], bought[1], bought[2]}, &fact.PackageEnded{Contract: "c", Purchase: "k0", At: at(when), By: by})
	}
	covered := []string{"h100 on_demand p: 2 for 0.00", "h100 on_demand: 4 for 4.00"}
	fee := func(text string) []string {
		return append([]string{covered[0], covered[1]}, "package p h100: 1 for "+text)
	}
	check(t, []bill{
		{"a week", terms("none"), bought, nil, "", fee("42.00")},
		// January 5 to 7 are 3 of 7 days; the 8th is the customer's own again.
		{"by days", terms("prorata"), ended("2026-01-08T23:00:00Z", fact.ByCustomer), nil, "", fee("18.00")},
		{"kept", terms("none"), ended("2026-01-08T23:00:00Z", fact.ByCustomer), nil, "", fee("42.00")},
		{"30 hours on demand", terms("clawback"), ended("2026-01-06T16:00:00Z", fact.ByCustomer), nil, "", fee("30.00")},
		{"at most the fee", terms("clawback"), ended("2026-01-08T16:00:00Z", fact.ByCustomer), nil, "", fee("42.00")},
		// By days where the provider ends it: 1 of 7.
		{"by the provider", terms("clawback"), ended("2026-01-06T16:00:00Z", fact.ByProvider), nil, "", fee("6.00")},
		// From 11:00 on nothing is covered: 1 h, and 5 h on demand. It lasted no day.
		{
			"nothing more is covered", terms("prorata"), ended("2026-01-05T11:00:00Z", fact.ByCustomer), nil, "",
			[]string{"h100 on_demand p: 1 for 0.00", "h100 on_demand: 5 for 5.00", "package p h100: 1 for 0.00"},
		},
		// The end of what it bought, and one before the purchase, are none.
		{"in vain", terms("prorata"), ended("2026-01-12T10:00:00Z", fact.ByCustomer), nil, "", fee("42.00")},
		{"before it was bought", terms("prorata"), ended("2026-01-05T09:59:59Z", fact.ByCustomer), nil, "", fee("42.00")},
	})
}

// fees are those of a month with 31 days, of which a day costs so many whole dollars.
func fees(dollars int) string {
	return fmt.Sprintf("rates: [{sku: h100, on_demand: 1.00/gpu-hour, reserved: [{name: base, quantity: 2, price: %d.00/gpu-month, from: 2026-01-01, to: 2026-03-01, pay: advance}]}], "+
		"addons: [{name: care, price: %d.00/month, prorate: true}]", 31*dollars, 31*dollars)
}

func TestFeesByDays(t *testing.T) {
	amended := []fact.Body{amend("2026-01-11T12:00:00Z", fees(3))}
	check(t, []bill{
		{"a month", fees(1), nil, nil, "", []string{"addon care: 1 for 31.00", "reserved base h100: 62 for 62.00"}},
		// January 1 to 10 at 1.00, the day of the switch and the 20 behind it at 3.00: 10 + 63 = 73; twice for 2 GPUs.
		{"amended at noon", fees(1), amended, nil, "", []string{"addon care: 1 for 73.00", "reserved base h100: 62 for 146.00"}},
		// February has 28 days: a whole month is a whole price.
		{"February", fees(1), amended, nil, "2026-02-01T00:00:00Z", []string{"addon care: 1 for 93.00", "reserved base h100: 56 for 186.00"}},
	})
	w := world(t, fees(1), nil)
	ahead := w.Advance("c", w.Periods("c", at("2026-01-01T00:00:01Z"))[0])
	if diff := gocmp.Diff([]string{"reserved base h100: 62 for 62.00"}, lines(ahead)); diff != "" {
		t.Errorf("in advance (-by hand +slow)\n%s", diff)
	}
}

func TestTermination(t *testing.T) {
	end := func(by fact.EndedBy) []fact.Body {
		return []fact.Body{&fact.ContractTerminated{Contract: "c", At: at("2026-01-10T12:00:00Z"), By: by}}
	}
	with := func(clause string) string { return fees(1) + ", termination: {" + clause + "}" }
	paid, kept := []string{"addon care: 10/31 for 10.00", "reserved base h100: 20 for 20.00"}, []string{"addon care: 1 for 31.00", "reserved base h100: 62 for 62.00"}
	check(t, []bill{
		{"by days, the last one whole", with("refund: prorata"), end(fact.ByCustomer), nil, "", paid},
		{"nothing back", with("refund: none"), end(fact.ByCustomer), nil, "", kept},
		// 9.5 days are 228 h of 2 GPUs at 1.00 = 456.00, less the fees of 20.00.
		{
			"taken back", with("refund: prorata, clawback: on_demand_difference"), end(fact.ByCustomer), nil, "",
			[]string{paid[0], "clawback base h100: 456 for 436.00", paid[1]},
		},
		// 21 days of January at 2.00 and February, 62.00, were still to come: 10% of 104.00.
		{"a fee", with("refund: prorata, fee: 10%"), end(fact.ByCustomer), nil, "", append(paid[:2:2], "termination termination: 104 for 10.40")},
		// January is paid: 10% of February.
		{"a fee beside what is kept", with("refund: none, fee: 10%"), end(fact.ByCustomer), nil, "", append(kept[:2:2], "termination termination: 62 for 6.20")},
		{"the provider", with("refund: prorata, clawback: on_demand_difference, fee: 10%"), end(fact.ByProvider), nil, "", paid},
		{"without the clause", fees(1), end(fact.ByCustomer), nil, "", kept},
	})
	w := world(t, with("refund: prorata"), nil, end(fact.ByCustomer)...)
	if got := w.Periods("c", at("2026-12-01T00:00:00Z")); len(got) != 1 || got[0].To != at("2026-01-10T12:00:00Z") {
		t.Errorf("the periods are %v", got)
	}
}

func TestSpendAndCap(t *testing.T) {
	used := []fact.Body{start("L", "2026-01-01T00:00:00Z", 1), stop("L", "2026-01-01T10:00:00Z")}
	terms := "rates: [{sku: h100, on_demand: 1.00/gpu-hour}], "
	check(t, []bill{
		{"a shortfall", terms + "commitment: {spend: 25.00/month, shortfall: bill}", used, nil, "", []string{"commitment commitment: 1 for 15.00", "h100 on_demand: 10 for 10.00"}},
		{"none", terms + "commitment: {spend: 9.00/month, shortfall: bill}", used, nil, "", []string{"h100 on_demand: 10 for 10.00"}},
		{"a cap", terms + "limits: {spend: 6.00/month, action: cap}", used, nil, "", []string{"cap cap: 1 for -4.00", "h100 on_demand: 10 for 10.00"}},
	})
}

func TestMeters(t *testing.T) {
	read := func(resource, when, quantity string) fact.Body {
		return &fact.MeterRecorded{Contract: "c", Meter: "m", Resource: resource, At: at(when), Quantity: quantity}
	}
	terms := func(fields string) string {
		return "rates: [{sku: h100, on_demand: 1.00/gpu-hour}], meters: [{name: m, price: " + fields + "}]"
	}
	readings := []fact.Body{read("a", "2026-01-01T00:00:00Z", "4"), read("a", "2026-01-16T12:00:00Z", "10"), read("b", "2026-01-02T00:00:00Z", "5")}
	check(t, []bill{
		{"a sum", terms("2.00/GB, free: 9 GB"), readings, nil, "", []string{"meter m: 19 for 20.00"}},
		{"a counter", terms("2.00/GB, value: cumulative"), readings, nil, "", []string{"meter m: 15 for 30.00"}},
		{"the highest", terms("2.00/GB, aggregate: max"), readings[:2], nil, "", []string{"meter m: 10 for 20.00"}},
		{"who was there", terms("2.00/user, aggregate: unique"), readings, nil, "", []string{"meter m: 2 for 4.00"}},
		{"whole packages", terms("1.00/10, model: package"), readings, nil, "", []string{"meter m: 19 for 2.00"}},
		// 4 for half of the month and 10 for the other half.
		{"a level", terms("2.00/GB-month"), readings[:2], nil, "", []string{"meter m: 7 for 14.00"}},
	})
}

func TestRounding(t *testing.T) {
	// Half a cent, and one and a half.
	for rule, want := range map[string][2]string{"half_away_from_zero": {"0.01", "0.02"}, "half_even": {"0.00", "0.02"}, "up": {"0.01", "0.02"}, "down": {"0.00", "0.01"}} {
		for i, hours := range []string{"01", "03"} {
			check(t, []bill{{
				rule + " of " + hours, "billing: {rounding: " + rule + "}, rates: [{sku: h100, on_demand: 0.005/gpu-hour}]",
				[]fact.Body{start("L", "2026-01-01T00:00:00Z", 1), stop("L", "2026-01-01T"+hours+":00:00Z")},
				nil, "",
				[]string{"h100 on_demand: " + strings.TrimLeft(hours, "0") + " for " + want[i]},
			}})
		}
	}
}

func TestPeriods(t *testing.T) {
	// Monthly until Wednesday, March 18, then weeks from Monday on: a stub, a short week, a week.
	w := world(t, "rates: [{sku: h100, on_demand: 1.00/gpu-hour}]", nil,
		amend("2026-03-18T00:00:00Z", "billing: {cycle: weekly}, rates: [{sku: h100, on_demand: 1.00/gpu-hour}]"))
	day := func(date string) span.Second { return at(date + "T00:00:00Z") }
	want := []span.Span{
		{From: day("2026-01-01"), To: day("2026-02-01")},
		{From: day("2026-02-01"), To: day("2026-03-01")},
		{From: day("2026-03-01"), To: day("2026-03-18")},
		{From: day("2026-03-18"), To: day("2026-03-23")},
		{From: day("2026-03-23"), To: day("2026-03-30")},
	}
	if diff := gocmp.Diff(want, w.Periods("c", day("2026-03-24"))); diff != "" {
		t.Errorf("(-by hand +slow)\n%s", diff)
	}
}

func TestUnable(t *testing.T) {
	// Another customer's document is no amendment of this contract: what cannot be judged is named.
	other := strings.Replace(document("rates: [{sku: h100, on_demand: 1.00/gpu-hour}]"), "customer: a", "customer: b", 1)
	w := slow.New([]fact.Fact{
		{Seq: 1, Key: "sign", Body: &fact.ContractSigned{Contract: "c", Customer: "a", Document: document("rates: [{sku: h100, on_demand: 1.00/gpu-hour}]")}},
		{Seq: 2, Key: "amend", Body: &fact.ContractAmended{Contract: "c", Effective: at("2026-02-01T00:00:00Z"), Document: other}},
	}, nil, at("2027-01-01T00:00:00Z"))
	if diff := gocmp.Diff([]string{"amend: it has to be refused"}, w.Unable()); diff != "" {
		t.Errorf("(-by hand +slow)\n%s", diff)
	}
}
