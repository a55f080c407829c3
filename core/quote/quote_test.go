package quote

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/scenario"
)

// May has 31 days, 744 hours. acme holds 2 GPUs all of it, and 4 more from the 11th to the 21st, ten days of 24 hours; bolt holds a
// spot lease that the provider takes back on the 15th.
const may = `story: what-if
contracts:
  - {contract: acme-2026, customer: acme, currency: CNY, timezone: Asia/Shanghai, term: {from: 2026-01-01, to: 2027-01-01},
     rates: [{sku: h100, on_demand: 30.00/gpu-hour}]}
  - {contract: bolt-2026, customer: bolt, currency: CNY, timezone: Asia/Shanghai, term: {from: 2026-01-01, to: 2027-01-01},
     rates: [{sku: h100, on_demand: 30.00/gpu-hour, spot: {index: h100}}]}
events:
  - {at: 2026-04-30T16:00:00Z, spot_price_changed: {index: h100, currency: CNY, price: 12.00/gpu-hour}}
  - {at: 2026-05-12T00:00:00Z, spot_price_changed: {index: h100, currency: CNY, price: 25.00/gpu-hour}}
  - {at: 2026-05-12T06:00:00Z, spot_price_changed: {index: h100, currency: CNY, price: 12.00/gpu-hour}}
  - {at: 2026-04-30T16:00:00Z, lease_started: {lease: base, customer: acme, contract: acme-2026, sku: h100, pricing_mode: on_demand, count: 2, share_milli: 1000}}
  - {at: 2026-05-31T16:00:00Z, lease_stopped: {lease: base, by: customer}}
  - {at: 2026-05-10T16:00:00Z, lease_started: {lease: more, customer: acme, sku: h100, pricing_mode: on_demand, count: 4, share_milli: 1000}}
  - {at: 2026-05-20T16:00:00Z, lease_stopped: {lease: more, by: customer}}
  - {at: 2026-05-10T16:00:00Z, lease_started: {lease: other, customer: bolt, sku: h100, pricing_mode: spot, count: 1, share_milli: 1000}}
  - {at: 2026-05-15T00:00:00Z, lease_stopped: {lease: other, by: provider}}
close: [{contract: acme-2026, period: 2026-05}]
`

// other reserves, sells spot and is cheaper at night: eight hours of every day.
const other = `contract: other
customer: whoever
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-01-01, to: 2027-01-01}
rates:
  - sku: h100
    on_demand: 32.00/gpu-hour
    reserved: [{name: base, quantity: 64, price: 12000.00/gpu-month, from: 2026-01-01, to: 2027-01-01}]
    spot: {index: h100, max: 70% of on_demand}
schedule: [{name: night, for: [on_demand], windows: [daily 22:00-06:00], off: 50%}]
`

func parsed(t *testing.T, text string) *contract.Contract {
	t.Helper()
	c, err := contract.Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asked gives a quote what a scenario knows.
func asked(t *testing.T, text, customer, from, to string, contracts ...*contract.Contract) (*Quote, error) {
	t.Helper()
	s, err := scenario.Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Customer: customer, Contracts: contracts}
	for text, b := range map[string]*Bound{from: &r.From, to: &r.To} {
		if *b, err = ParseBound(text); err != nil {
			t.Fatal(err)
		}
	}
	q := New(r)
	log := s.Log()
	b := meter.Block{At: log.Until}
	for i, x := range log.Statements {
		x.Fact.Seq = uint64(i + 1)
		b.Facts = append(b.Facts, x.Fact)
	}
	for i, m := range log.Measurements {
		b.Usage = append(b.Usage, meter.UsageMessage{Seq: uint64(i + 1), Batch: m.Batch})
	}
	q.Facts(b)
	if err := q.Resolve(); err != nil {
		return nil, err
	}
	q.Samples(b)
	return q, nil
}

func priced(t *testing.T, text, customer, from, to string, contracts ...*contract.Contract) *Result {
	t.Helper()
	q, err := asked(t, text, customer, from, to, contracts...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Result(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func texts(list []money.Rounded) (out []string) {
	for _, m := range list {
		out = append(out, m.String())
	}
	return out
}

// modeOf is one mode of a quote.
func modeOf(t *testing.T, r *Result, name ModeName) Mode {
	t.Helper()
	for _, m := range r.Modes.List {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no mode %s", name)
	return Mode{}
}

// TestModesByHand: base 2 x 744 = 1,488 GPU-hours, more 4 x 240 = 960; 2,448 in all.
//
// Own: 2,448 x 30 = 73,440. Other: eight of 24 hours at half price: 64 reserved cover everything, 64 x 12,000 = 768,000.
// On demand: 2,448 x (16 x 32 + 8 x 16) / 24 = 2,448 x 26.6666... = 65,280.
// Reserved: a GPU all month on demand is 744 x 26.6666... = 19,840, of ten days 6,400; its fee is 12,000. So two pay: 24,000 + 960 x
// 26.6666... = 25,600, in all 49,600, and each more costs 12,000 - 6,400 = 5,600 more.
// Spot: at 12 all but six hours of the 12th, in which 6 GPUs run at the max, 22.40 of 25: (2,448 - 36) x 12 + 36 x 22.40 = 29,750.40.
// Off-peak: all at night would be 2,448 x 16 = 39,168. A third is in the night: 816 h x 16 = 13,056 in place of 26,112.
func TestModesByHand(t *testing.T) {
	r := priced(t, may, "acme", "2026-05-01", "2026-06-01", parsed(t, other))
	got := []string{r.Own.Total.String(), r.Others[0].Total.String(), bill.GPUHours(r.Own.Billed)}
	for _, m := range r.Modes.List {
		got = append(got, fmt.Sprint(m.Name, " ", m.Total, " ", m.Saving, " ", m.Part.RatString(), m.Why))
	}
	want := []string{
		"73440.00", "768000.00", "2448.000000000",
		"spot 29750.40 35529.60 3701/6800",
		"off_peak 39168.00 26112.00 2/5", "reserved 49600.00 15680.00 49/204", "on_demand 65280.00 0.00 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	held := modeOf(t, r, Reserved).Held
	if len(held) != 1 || held[0].Reservation.Quantity != 2 || held[0].Most != 6 || held[0].Fee.String() != "24000.00" || held[0].Unused != 0 {
		t.Errorf("held %+v", held)
	}
	if diff := cmp.Diff([]string{"65280.00", "57440.00", "49600.00", "55200.00", "60800.00", "66400.00", "72000.00"}, texts(held[0].Costs)); diff != "" {
		t.Errorf("costs by quantity (-want +got)\n%s", diff)
	}
	w := modeOf(t, r, OffPeak).Windows
	if w.Best != "night" || w.Inside != 816*3600_000 || w.Outside != 1632*3600_000 || w.Cost.RatString() != "13056" || w.WithoutWindows.RatString() != "26112" {
		t.Errorf("windows %+v", w)
	}
	// One stretch above 22.40 hits both leases: 6 x 6 GPU-hours. bolt's spot lease is taken while both run.
	if diff := cmp.Diff(&Market{SKUs: []string{"h100"}, Above: 2, Taken: 2, Interrupted: 36 * 3600_000}, modeOf(t, r, Spot).Market); diff != "" {
		t.Errorf("market (-want +got)\n%s", diff)
	}
}

// TestManyGPUs: 210 held all month and 240 more for ten days of it, in more than one turn of the search. As above a GPU costs 19,840 on
// demand, 6,400 for ten days, and 12,000 reserved.
func TestManyGPUs(t *testing.T) {
	text := strings.NewReplacer("count: 2,", "count: 210,", "count: 4,", "count: 240,").Replace(may)
	h := modeOf(t, priced(t, text, "acme", "2026-05-01", "2026-06-01", parsed(t, other)), Reserved).Held[0]
	if h.Reservation.Quantity != 210 || h.Most != 450 || len(h.Costs) != 451 {
		t.Fatalf("%d of %d reserved, %d costs", h.Reservation.Quantity, h.Most, len(h.Costs))
	}
	for n, cost := range h.Costs {
		want := 12000*n + 19840*max(0, 210-n) + 6400*min(240, 450-n)
		if got := cost.String(); got != fmt.Sprint(want)+".00" {
			t.Fatalf("%d reserved: %s, want %d", n, got, want)
		}
	}
}

// TestSearchRatesWhatAScanDoesNotFind: a scan that starts from other totals than the rated ones is not believed.
func TestSearchRatesWhatAScanDoesNotFind(t *testing.T) {
	q, err := asked(t, may, "acme", "2026-05-01", "2026-06-01", parsed(t, other))
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Result(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := modeOf(t, r, Reserved).Held[0]
	x := &trial{Quote: q, base: q.quoted[0]}
	x.bare, err = x.base.Vary(contract.Variation{Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	under, without, err := x.try(x.bare, always("on_demand"), nil)
	if err != nil {
		t.Fatal(err)
	}
	under.totals = nil
	h := Held{SKU: "h100", Reservation: x.base.Rates[0].Reserved[0], Most: 6}
	zone := x.base.Zone
	keep := contract.Retention{SKU: "h100", Name: "base", From: zone.DateOf(q.span.From), To: zone.DateOf(q.span.To)}
	best, _, err := x.search(&h, keep, nil, without, under)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(want.Costs), texts(h.Costs)); diff != "" || best.Total.String() != "49600.00" || h.Reservation.Quantity != 2 {
		t.Errorf("%d for %s (-want +got)\n%s", h.Reservation.Quantity, best.Total, diff)
	}
}

// TestWhatAContractCannotPrice is shown, by reason, and changes no other amount.
func TestWhatAContractCannotPrice(t *testing.T) {
	const meters = `
  - {at: 2026-05-05T00:00:00Z, meter_recorded: {contract: acme-2026, meter: egress, quantity: "7"}}
  - {at: 2026-05-05T00:00:00Z, package_purchased: {contract: acme-2026, package: week, count: 1}}
  - {at: 2026-05-06T00:00:00Z, lease_started: {lease: a, customer: acme, sku: a100, pricing_mode: on_demand, count: 1, share_milli: 500}}
  - {at: 2026-05-06T03:00:00Z, lease_stopped: {lease: a, by: customer}}
close:`
	text := strings.Replace(may, "\nclose:", meters, 1)
	half := strings.Replace(other, "to: 2027-01-01}\nrates", "to: 2026-05-16}\nrates", 1)
	half = strings.ReplaceAll(half, "to: 2027-01-01}]", "to: 2026-05-16}]")
	metered := strings.Replace(strings.Replace(other, "other", "metered", 1), "rates:", "meters: [{name: egress, price: 1.50/GB}]\nrates:", 1)
	r := priced(t, text, "acme", "2026-05-01", "2026-06-01", parsed(t, half), parsed(t, metered))
	hour := int64(3600_000)
	// From the 16th on acme holds 2 x 384 h and 4 x 120 h that half does not cover. The 64 reserved are charged for 15 of 31 days.
	want := []Unpriced{{meter.Refused, "no_rate", 3 * hour / 2}, {meter.Refused, "outside_term", (768 + 480) * hour}}
	if diff := cmp.Diff(want, r.Others[0].Unpriced); diff != "" {
		t.Errorf("half (-want +got)\n%s", diff)
	}
	if got := r.Others[0].Total.String(); got != "371612.90" { // 64 x 12,000 x 15 / 31
		t.Errorf("half costs %s", got)
	}
	if diff := cmp.Diff(want[:1], r.Own.Unpriced); diff != "" {
		t.Errorf("own (-want +got)\n%s", diff)
	}
	if got := r.Others[1].Total.String(); got != "768010.50" || r.Own.Total.String() != "73440.00" {
		t.Errorf("metered costs %s, own %s", got, r.Own.Total)
	}
	reasons := func(o *Offer) (out []string) {
		for _, p := range o.Problems {
			out = append(out, p.Reason)
		}
		return out
	}
	if diff := cmp.Diff([][]string{{"unknown_meter", "unknown_package"}, {"unknown_meter", "unknown_package"}, {"unknown_package"}},
		[][]string{sorted(reasons(r.Own)), sorted(reasons(r.Others[0])), sorted(reasons(r.Others[1]))}); diff != "" {
		t.Errorf("problems (-want +got)\n%s", diff)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestModesThatAreNotSold: a contract without terms for a mode does not rank it, and one whose spot price is not known ranks no spot.
func TestModesThatAreNotSold(t *testing.T) {
	r := priced(t, may, "acme", "2026-05-01", "2026-06-01")
	var got []string
	for _, m := range r.Modes.List {
		got = append(got, fmt.Sprint(m.Name, " ", m.Why))
	}
	if diff := cmp.Diff([]string{"on_demand ", "reserved not_sold", "spot not_sold", "off_peak not_sold"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	unknown := parsed(t, strings.Replace(other, "index: h100", "index: elsewhere", 1))
	m := modeOf(t, priced(t, may, "acme", "2026-05-01", "2026-06-01", unknown), Spot)
	if m.Why != OtherTime || m.Offer.Refused() != 2448*3600_000 || m.Market.Unknown != 2448*3600_000 || m.Market.Above != 0 {
		t.Errorf("%+v, %+v", m, m.Market)
	}
}

// TestNoUse: without a GPU there are fees to compare and no modes to rank.
func TestNoUse(t *testing.T) {
	text := strings.ReplaceAll(strings.ReplaceAll(may, "customer: acme, sku", "customer: bolt, sku"), "customer: acme, contract: acme-2026", "customer: bolt")
	r := priced(t, text, "acme", "2026-05-01", "2026-06-01", parsed(t, other))
	if r.Modes != nil || r.Own.Total.String() != "0.00" || r.Others[0].Total.String() != "768000.00" || len(r.Others[0].Unpriced) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestOwnContractsThatOverlap: time of leases that name neither is refused under both, and priced under the one that is asked for.
func TestOwnContractsThatOverlap(t *testing.T) {
	second := "  - {contract: acme-b, customer: acme, currency: CNY, timezone: Asia/Shanghai, term: {from: 2026-05-01, to: 2027-01-01},\n" +
		"     rates: [{sku: h100, on_demand: 29.00/gpu-hour}]}\nevents:"
	r := priced(t, strings.Replace(may, "events:", second, 1), "acme", "2026-05-01", "2026-06-01", parsed(t, other))
	if diff := cmp.Diff([]Unpriced{{meter.Refused, "ambiguous_contract", 960 * 3600_000}}, r.Own.Unpriced); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(r.Own.Names) != 2 || r.Own.Total.String() != "44640.00" || len(r.Others[0].Unpriced) > 0 || r.Modes == nil {
		t.Errorf("own %+v, others %+v", r.Own, r.Others[0])
	}
	if r := priced(t, strings.Replace(may, "events:", second, 1), "acme", "2026-05-01", "2026-06-01"); r.Modes != nil {
		t.Errorf("modes under two contracts: %+v", r.Modes)
	}
}

// TestRefusals: each error says what is wrong and what to ask for instead.
func TestRefusals(t *testing.T) {
	in := func(was, is string) *contract.Contract { return parsed(t, strings.ReplaceAll(other, was, is)) }
	for _, c := range []struct {
		customer, from, to string
		contracts          []*contract.Contract
		want               []string
	}{
		{"acmee", "2026-05-01", "2026-06-01", nil, []string{`customer "acmee" has neither`, "one of: acme, bolt"}},
		{"acme", "2026-05-02", "2026-06-01", nil, []string{"cuts a period of contract acme-2026, which is billed monthly (Asia/Shanghai)", "2026-05-01T00:00:00+08:00 to 2026-06-01T00:00:00+08:00"}},
		{"acme", "2026-05-01T00:00:00Z", "2026-06-01", nil, []string{"cuts a period of contract acme-2026"}},
		{"acme", "2026-06-01", "2026-05-01", nil, []string{"the span ends at 2026-05-01T00:00:00+08:00"}},
		{"acme", "2026-05-01", "2027-05-01", nil, []string{"the log reaches to", "name an earlier --to"}},
		{"acme", "2025-05-01", "2025-06-01", nil, []string{"no contract of acme was in force", "--contract"}},
		{"acme", "2026-05-01", "2026-06-01", []*contract.Contract{in("CNY", "USD")}, []string{"contract other is in USD, contract acme-2026 in CNY: nothing here converts currencies"}},
		{"acme", "2026-05-01", "2026-06-01", []*contract.Contract{parsed(t, other), parsed(t, other)}, []string{"contract other is asked for twice"}},
		{"acme", "2026-05-01", "2026-06-01", []*contract.Contract{in("2026-01-01", "2026-06-01")}, []string{"contract other is in force from 2026-06-01 to 2027-01-01", "another `term:`"}},
		{"acme", "2026-04-30T16:00:00Z", "2026-05-31T16:00:00Z", []*contract.Contract{in("Asia/Shanghai", "UTC")}, []string{"cuts a period of contract other", "2026-04-01T00:00:00Z to 2026-06-01T00:00:00Z"}},
		{"acme", "2026-05-01", "2026-06-01", []*contract.Contract{in("rates:", "billing: {cycle: weekly}\nrates:")}, []string{"which is billed weekly"}},
	} {
		_, err := asked(t, may, c.customer, c.from, c.to, c.contracts...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s to %s: %v does not say %q", c.customer, c.from, c.to, err, want)
			}
		}
	}
	for _, text := range []string{"May", "2026-05", "2026-05-01T00:00", "2026-13-01", ""} {
		if _, err := ParseBound(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestOfATerminatedContract: acme leaves on May 11. Own: 2 x 240 h x 30 = 14,400, and support, of which nothing is given back, 310: 14,710;
// the 2 x 504 + 4 x 240 h behind the end find no contract. Another contract knows nothing of the end. On demand until the end: 14,400 and
// 10 of 31 days of support, 100: 14,500.
func TestOfATerminatedContract(t *testing.T) {
	left := strings.Replace(may, "30.00/gpu-hour}]}\n", "30.00/gpu-hour}], addons: [{name: support, price: 310.00/month, prorate: true}], termination: {refund: none}}\n", 1)
	left = strings.Replace(left, "events:\n", "events:\n  - {at: 2026-05-10T16:00:00Z, contract_terminated: {contract: acme-2026, by: customer}}\n", 1)
	r := priced(t, left, "acme", "2026-05-01", "2026-06-01", parsed(t, other))
	if r.Own.Total.String() != "14710.00" || bill.GPUHours(r.Own.Refused()) != "1968.000000000" || r.Others[0].Total.String() != "768000.00" {
		t.Errorf("own %s, %s h refused, other %s", r.Own.Total, bill.GPUHours(r.Own.Refused()), r.Others[0].Total)
	}
	r = priced(t, left, "acme", "2026-05-01", "2026-05-11")
	if m := modeOf(t, r, OnDemand); r.Own.Total.String() != "14710.00" || m.Total.String() != "14500.00" {
		t.Errorf("own %s, on demand %s", r.Own.Total, m.Total)
	}
}
