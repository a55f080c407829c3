package bill

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// TestAddons: a prorated fee counts local days and gives the switch day to the new version, a whole one does not; a price per
// GPU-hour is on leased time of every mode, not on top-ups and waived time.
func TestAddons(t *testing.T) {
	addons := func(support, suite string) string {
		return plainRates + "addons: [{name: support, price: " + support + "/month, prorate: true}, {name: seat, price: 9/month}, {name: suite, price: " + suite + "/gpu-hour}]"
	}
	topUp, waived := plainKey(1, 1), plainKey(1, 1)
	topUp.Kind = meter.TopUp
	waived.Standing, waived.Reason = meter.Waived, "overlap"
	s := priced(t, agreed(t, addons("3100", "3.20"), addons("6200", "1.60")),
		measured("L", "A", plainKey(1, 1), 10*hour), measured("L", "A", topUp, hour), measured("L", "A", waived, hour), measured("M", "B", plainKey(2, 20), 5*hour))
	equal(t, []string{
		`addon seat: 1 month ["price 9.00/month"] = 9`,
		`addon suite: 15 gpu-hour ["part 5 ÷ 15" "price 1.60/gpu-hour" "part 10 ÷ 15" "price 3.20/gpu-hour"] = 40`,
		`addon support: 1 month ["price 3100.00/month" "days 15 of 31" "price 6200.00/month" "days 16 of 31"] = 4700`,
	}, items(s))
}

// TestAddonsThatComeAndGo: a whole fee is due in a period in which a version has the add-on; a prorated one for its days.
func TestAddonsThatComeAndGo(t *testing.T) {
	with := plainRates + "addons: [{name: support, price: 3100/month, prorate: true}, {name: seat, price: 9/month}]"
	equal(t, []string{`addon seat: 1 month ["price 9.00/month"] = 9`, `addon support: 15/31 month ["price 3100.00/month" "days 15 of 31"] = 1500`},
		exactCounts(priced(t, agreed(t, with, strings.TrimSuffix(plainRates, ", ")))))
	equal(t, []string{`addon seat: 1 month ["price 9.00/month"] = 9`, `addon support: 16/31 month ["price 3100.00/month" "days 16 of 31"] = 1600`},
		exactCounts(priced(t, agreed(t, strings.TrimSuffix(plainRates, ", "), with))))
}

// exactCounts are items with their quantities as fractions.
func exactCounts(s *Statement) []string {
	out := items(s)
	for i, l := range s.Lines {
		out[i] = strings.Replace(out[i], number(l.Item.Quantity), l.Item.Quantity.RatString(), 1)
	}
	return out
}

// TestBundle lowers the SKU where the period holds enough of the meter, each version by its own words.
func TestBundle(t *testing.T) {
	bundle := func(off string) string {
		return "rates: [{sku: h100, on_demand: 10.00/gpu-hour}, {sku: a100, on_demand: 10.00/gpu-hour}], meters: [{name: m, price: 0/GB-month}], " +
			"bundles: [{with: m, at_least: 50 TB-month, on: h100, off: " + off + "}]"
	}
	other := plainKey(1, 1)
	other.SKU = "a100"
	totals := []meter.Total{measured("L", "A", plainKey(1, 1), 10*hour), measured("M", "B", plainKey(2, 20), 10*hour), measured("N", "C", other, 10*hour)}
	for level, want := range map[string]string{"49999.999": "300.00", "50000": "275.00"} { // 100 x 0.95 + 100 x 0.8 + 100
		r := agreed(t, bundle("5%"), bundle("20%"))
		read(r, 9, "v", march, level)
		s := priced(t, r, totals...)
		equal(t, want, s.Total.String())
		if steps := NewDocument(s, nil, 1).Lines[1].Rows[0].Steps; want == "275.00" {
			equal(t, []string{"on_demand 10.00/gpu-hour", "bundle m 95%"}, steps)
		}
	}
}

const committed = plainRates + "commitment: {spend: 500000.00/month, shortfall: bill}, meters: [{name: m, price: 1/x}]"

// TestShortfall: 480,000 of charges and 20,000 of shortfall; 10,000 of late use change lines and not the total; a preview keeps the
// shortfall outside its total.
func TestShortfall(t *testing.T) {
	billed, known, above := agreed(t, committed), agreed(t, committed), agreed(t, committed)
	read(billed, 9, "", march, "480000")
	read(known, 9, "", march, "490000")
	read(above, 9, "", march, "500000.01")
	before, now := priced(t, billed), priced(t, known)
	equal(t, []string{
		`commitment commitment: 1 month ["spend 500000.00/month" "days 31 of 31" "charges 480000.00"] = 20000`, `meter m: 480000 x ["price 1.00/x"] = 480000`,
	}, items(before))
	equal(t, "500000.00", before.Total.String())
	correction := NewDocument(now, before, 2)
	equal(t, []string{"0.00", "-10000.00", "10000.00"}, []string{correction.Total, correction.Lines[0].Amount, correction.Lines[1].Amount})
	equal(t, []string{`meter m: 500000.01 x ["price 1.00/x"] = 50000001/100`}, items(priced(t, above)))

	preview := NewDocument(before, nil, 0)
	equal(t, []string{"480000.00", "20000.00"}, []string{preview.Total, preview.Projected[0].Amount})
	equal(t, 1, len(preview.Lines))
	if d := NewDocument(before, nil, 1); d.Total != "500000.00" || d.Projected != nil {
		t.Errorf("the invoice says %+v", d)
	}
}

// TestShortfallIsOfRoundedCharges: C is what the customer sees, so three lines of 0.333 are 0.99, not 1.00.
func TestShortfallIsOfRoundedCharges(t *testing.T) {
	r := agreed(t, plainRates+"commitment: {spend: 2/month, shortfall: bill}, meters: [{name: m, price: 0.333/x}, {name: n, price: 0.333/x}, {name: o, price: 0.333/x}]")
	for i, m := range []string{"m", "n", "o"} {
		r.Apply(fact.Fact{Seq: uint64(9 + i), Key: m, Body: &fact.MeterRecorded{Contract: "c1", Meter: m, At: march, Quantity: "1"}})
	}
	s := priced(t, r)
	equal(t, "1.01", s.Lines[0].Amount.String())
	equal(t, "2.00", s.Total.String())
}

// TestShareOfMonth: fees of a term that begins and ends inside months, over all its periods of any cycle, are the sum of its local
// days, each a part of its own month; nothing is lost or charged twice at the edges.
func TestShareOfMonth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cycle := rapid.SampledFrom([]string{"daily", "weekly", "monthly", "quarterly", "yearly"}).Draw(rt, "cycle")
		from, days := rapid.IntRange(0, 80).Draw(rt, "from"), rapid.IntRange(1, 120).Draw(rt, "days")
		r := contract.NewRegister()
		zone := "America/New_York"
		document := func(price int) string {
			return fmt.Sprintf("{contract: c1, customer: acme, currency: USD, timezone: %s, term: {from: %s, to: %s}, billing: {cycle: %s}, %saddons: [{name: s, price: %d/month, prorate: true}]}",
				zone, localDay(from), localDay(from+days), cycle, plainRates, price)
		}
		r.Apply(fact.Fact{Seq: 1, Key: "c", Body: &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: document(1)}})
		c := r.Latest()[0].Contract
		switched := rapid.IntRange(0, days).Draw(rt, "switched")
		r.Apply(fact.Fact{Seq: 2, Key: "d", Body: &fact.ContractAmended{
			Contract: "c1", Effective: c.Zone.StartOfDay(c.Zone.DateOf(c.Term.From).AddDays(switched)) + 3600, Document: document(3),
		}})

		want := new(big.Rat)
		for d := range days {
			date := c.Zone.DateOf(c.Term.From).AddDays(d)
			length := date.AddDays(32 - date.Day)
			inMonth := int64(32 - length.Day) // day 32 of a month of 30 days is the 2nd
			price := int64(1)
			if d >= switched {
				price = 3
			}
			want.Add(want, big.NewRat(price, inMonth))
		}
		got := new(big.Rat)
		for at := c.Term.From; at < c.Term.To; {
			p := c.Period(at).Span
			s, err := Compute(r, "c1", p, nil)
			if err != nil {
				rt.Fatal(err)
			}
			for _, l := range s.Lines {
				got.Add(got, l.Exact)
			}
			at = p.To
		}
		if got.Cmp(want) != 0 {
			rt.Fatalf("%s, want %s", got, want)
		}
	})
}

// localDay is a local date so many days after 2026-01-01.
func localDay(n int) string {
	return (span.Second(1767225600) + span.Second(n)*86400).String()[:10]
}

// TestMoreUseNeverCostsLess: under a commitment the total is max(commitment, charges).
func TestMoreUseNeverCostsLess(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := agreed(t, committed)
		quantity := rapid.Int64Range(0, 900_000).Draw(rt, "quantity")
		read(r, 9, "", march, fmt.Sprint(quantity))
		if want := fmt.Sprintf("%d.00", max(500_000, quantity)); priced(rt, r).Total.String() != want {
			rt.Fatalf("%d: %s", quantity, priced(rt, r).Total)
		}
	})
}
