package bill

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// The contract's month of March 2026 in Shanghai.
const (
	march span.Second = 1772294400
	april span.Second = 1774972800
)

func period() span.Span { return span.Span{From: march, To: april} }

// terms is a contract document; price is per GPU-hour.
func terms(id, customer, billing, price string) string {
	return fmt.Sprintf(`contract: %s
customer: %s
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-01-01, to: 2027-01-01}
billing: {cycle: monthly%s}
rates:
  - {sku: h100, on_demand: %s/gpu-hour, region: {east: 100%%, west: 88%%}, dedicated: 125%%}
  - {sku: a100, on_demand: 10.00/gpu-hour}
`, id, customer, billing, price)
}

func signed(seq uint64, id, customer, billing, price string) fact.Fact {
	return fact.Fact{Seq: seq, Key: fmt.Sprint("signed/", seq), Body: &fact.ContractSigned{Contract: id, Customer: customer, Document: terms(id, customer, billing, price)}}
}

// register holds c1 at 36.00 (version 1), and at 18.00 from the middle of March on (version 2).
func register() *contract.Register {
	r := contract.NewRegister()
	r.Apply(signed(1, "c1", "acme", "", "36.00"))
	r.Apply(fact.Fact{Seq: 2, Key: "amended", Body: &fact.ContractAmended{Contract: "c1", Effective: march + 15*86400, Document: terms("c1", "acme", "", "18.00")}})
	return r
}

func key(version uint64, day int32) meter.ChargeKey {
	return meter.ChargeKey{
		Customer: "acme", Contract: "c1", Version: version, PeriodStart: march, LocalDay: 20260300 + day, SKU: "h100", PricingMode: "on_demand",
		Region: "east", Kind: meter.Leased, Standing: meter.Priced,
	}
}

// measured is a total of whole milli-GPU-seconds, all of them measured.
func measured(lease, device string, k meter.ChargeKey, milliSeconds int64) meter.Total {
	a := meter.Amounts{Quantity: milliSeconds}
	if k.Kind == meter.Leased {
		a.Measured = milliSeconds
	}
	return meter.Total{Lease: lease, Device: device, Key: k, Amounts: a}
}

func compute(t interface {
	Helper()
	Fatal(args ...any)
}, totals ...meter.Total,
) *Statement {
	t.Helper()
	s, err := Compute(register(), "c1", period(), totals)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

const hour = 3600 * 1000

// told is a statement in one line of text each.
func told(s *Statement) []string {
	var out []string
	for _, l := range s.Lines {
		out = append(out, fmt.Sprintf("%s %s dedicated %v: %s h of %d leases on %d devices in %d rows: %s",
			l.Key.SKU, l.Key.Region, l.Key.Dedicated, GPUHours(l.Quantity), l.Leases, l.Devices, len(l.Rows), l.Amount))
	}
	for _, l := range s.Unbilled {
		out = append(out, fmt.Sprintf("%s %s: %s h", l.Standing, l.Key.Reason, GPUHours(l.Quantity)))
	}
	return append(out, s.Total.String())
}

// TestLinesByKey: neither lease, device, day, version nor unit price makes a line; region, dedicated and SKU do.
func TestLinesByKey(t *testing.T) {
	west, own, other, topUp := key(1, 1), key(1, 1), key(1, 1), key(1, 1)
	west.Region, own.Dedicated, topUp.Kind = "west", true, meter.TopUp
	other.SKU, other.Region = "a100", ""
	waived, refused := key(1, 1), key(1, 1)
	waived.Standing, waived.Reason = meter.Waived, "overlap"
	refused.Standing, refused.Reason = meter.Refused, "overlap"
	got := compute(
		t,
		measured("L", "A", key(1, 1), hour), measured("L", "A", key(1, 2), hour), measured("M", "B", key(2, 20), hour),
		measured("N", "", key(1, 1), hour), measured("M", "B", topUp, hour),
		measured("L", "A", west, hour), measured("L", "A", own, hour), measured("L", "A", other, hour),
		measured("L", "A", waived, hour), measured("M", "A", refused, hour),
	)
	equal(t, []string{
		"a100  dedicated false: 1.000000000 h of 1 leases on 1 devices in 1 rows: 10.00",
		"h100 east dedicated false: 5.000000000 h of 3 leases on 2 devices in 3 rows: 162.00",
		"h100 east dedicated true: 1.000000000 h of 1 leases on 1 devices in 1 rows: 45.00",
		"h100 west dedicated false: 1.000000000 h of 1 leases on 1 devices in 1 rows: 31.68",
		"refused overlap: 1.000000000 h", "waived overlap: 1.000000000 h", "248.68",
	}, told(got))
}

// TestRoundedOnce: a thousand leases of 0.4 cents are 4.00, not 0.00.
func TestRoundedOnce(t *testing.T) {
	var totals []meter.Total
	for i := range 1000 {
		totals = append(totals, measured(fmt.Sprint("L", i), "A", key(1, 1), 400)) // 0.4 s at one cent a second
	}
	equal(t, "4.00", compute(t, totals...).Total.String())
	equal(t, "0.00", compute(t, totals[0]).Total.String())
	equal(t, "0.01", compute(t, totals[0], totals[1]).Total.String()) // 0.8 cents
}

// TestOrderOfTotalsDoesNotMatter: the same bytes from any order of rows.
func TestOrderOfTotalsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		totals := drawTotals(t)
		want, err := NewDocument(compute(t, totals...), nil, 1).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		got, err := NewDocument(compute(t, rapid.Permutation(totals).Draw(t, "order")...), nil, 1).Bytes()
		if err != nil || string(want) != string(got) {
			t.Fatalf("%v\n%s\n%s", err, want, got)
		}
	})
}

func drawTotals(t *rapid.T) []meter.Total {
	var out []meter.Total
	for i := range rapid.IntRange(0, 6).Draw(t, "totals") {
		k := key(1, rapid.Int32Range(1, 14).Draw(t, "day"))
		if rapid.Bool().Draw(t, "later") {
			k = key(2, rapid.Int32Range(17, 31).Draw(t, "day"))
		}
		k.Region = rapid.SampledFrom([]string{"east", "west"}).Draw(t, "region")
		k.Dedicated = rapid.Bool().Draw(t, "dedicated")
		k.Kind = rapid.SampledFrom([]meter.Kind{meter.Leased, meter.TopUp}).Draw(t, "kind")
		k.Standing = rapid.SampledFrom([]meter.Standing{meter.Priced, meter.Priced, meter.Refused}).Draw(t, "standing")
		if k.Standing == meter.Refused {
			k.Reason = "overlap"
		}
		out = append(out, measured(fmt.Sprint("L", i), "A", k, rapid.Int64Range(1, 10*hour).Draw(t, "quantity")))
	}
	return out
}

// TestCorrectionsSumToTheLatest: closing n bills f(n) - f(n-1), line by line, so the chain is f(latest), in money and in time.
func TestCorrectionsSumToTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := new(big.Rat)
		lines := map[string]*big.Rat{}
		quantities := map[string]int64{}
		var before *Statement
		for n := 1; n <= rapid.IntRange(1, 5).Draw(t, "closings"); n++ {
			now := compute(t, drawTotals(t)...)
			d := NewDocument(now, before, n)
			own := new(big.Rat)
			for _, l := range d.Lines {
				name := fmt.Sprint(l.SKU, l.Region, l.Dedicated)
				if lines[name] == nil {
					lines[name] = new(big.Rat)
				}
				lines[name].Add(lines[name], rat(t, l.Amount))
				own.Add(own, rat(t, l.Amount))
				quantities[name] += l.Quantity.MilliGPUSeconds
			}
			if own.Cmp(rat(t, d.Total)) != 0 {
				t.Fatalf("closing %d: lines are %s, the total %s", n, own.FloatString(2), d.Total)
			}
			sum.Add(sum, own)
			before = now
		}
		for _, l := range before.Lines {
			name := fmt.Sprint(l.Key.SKU, l.Key.Region, l.Key.Dedicated)
			if rat(t, l.Amount.String()).Cmp(lines[name]) != 0 || quantities[name] != l.Quantity {
				t.Fatalf("line %s: billed %s for %d, known %s for %d", name, lines[name].FloatString(2), quantities[name], l.Amount, l.Quantity)
			}
		}
		if sum.Cmp(rat(t, before.Total.String())) != 0 {
			t.Fatalf("billed %s, known %s", sum.FloatString(2), before.Total)
		}
	})
}

func rat(t *rapid.T, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return r
}

// TestDocumentBytes holds the frozen bytes (docs/format.md). GOLDEN=rewrite writes them anew, for review as a diff.
func TestDocumentBytes(t *testing.T) {
	topUp, refused := key(1, 3), key(1, 4)
	topUp.Kind, refused.Standing, refused.Reason = meter.TopUp, meter.Refused, "overlap"
	first := measured("L", "A", key(1, 3), 10*hour/3)
	first.Inferred, first.Missing, first.Measured = 1000, 3000, first.Measured-4000
	refusedTopUp := refused
	refusedTopUp.Kind = meter.TopUp
	gone := key(1, 5)
	gone.Region = "west"
	billed := compute(t, first, measured("L", "A", topUp, 30_000), measured("M", "B", refused, hour), measured("M", "B", refusedTopUp, 7), measured("M", "B", gone, hour))
	known := compute(t, first, measured("L", "A", key(2, 20), 1))
	for name, d := range map[string]*Document{
		"preview": NewDocument(billed, nil, 0), "invoice": NewDocument(billed, nil, 1).Numbered("INV", 7), "correction": NewDocument(known, billed, 2).Numbered("INV", 1234567),
	} {
		golden(t, name, d)
	}
}

// golden holds a document against its file, and reads it back.
func golden(t *testing.T, name string, d *Document) {
	t.Helper()
	data, err := d.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".golden.json")
	if os.Getenv("GOLDEN") == "rewrite" {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with GOLDEN=rewrite", err)
	}
	equal(t, string(want), string(data))
	again, err := ParseDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, d, again)
}

func TestParseDocumentKnowsItsFormat(t *testing.T) {
	if _, err := ParseDocument([]byte(`{"format":"gpuhour.invoice.v2"}`)); err == nil {
		t.Error("another format was read")
	}
	if _, err := ParseDocument([]byte(`{`)); err == nil {
		t.Error("half a document was read")
	}
}

// TestTermCutShort: a period that was billed can be corrected after its contract's term was cut to end before it.
func TestTermCutShort(t *testing.T) {
	r := register()
	short := "contract: c1\ncustomer: acme\ncurrency: CNY\ntimezone: Asia/Shanghai\nterm: {from: 2026-01-01, to: 2026-03-20}\n" +
		"billing: {cycle: monthly}\nrates: [{sku: h100, on_demand: 36.00/gpu-hour}]\n"
	r.Apply(fact.Fact{Seq: 3, Key: "short", Body: &fact.ContractAmended{Contract: "c1", Effective: march + 18*86400, Document: short}})
	s, err := Compute(r, "c1", period(), []meter.Total{measured("L", "A", key(1, 3), hour)})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "36.00", s.Total.String())
	if _, err := Compute(r, "c9", period(), nil); err == nil {
		t.Error("a contract that is not known was priced")
	}
}
