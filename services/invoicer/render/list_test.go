package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
)

func TestDates(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"2026-02-01T00:00:00+08:00", "2026-03-01T00:00:00+08:00", "2026-02"},
		{"2026-03-01T00:00:00-05:00", "2026-04-01T00:00:00-04:00", "2026-03"},
		{"2026-02-05T00:00:00Z", "2026-03-05T00:00:00Z", "2026-02-05 to 2026-03-04"},
		{"2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2026-01-01 to 2026-12-31"},
		{"2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z", "2026-02-28"},
		{"2026-02-28T23:00:00Z", "2026-03-01T00:00:00Z", "2026-02-28 23:00 to 2026-03-01 00:00"},
		{"2026-02-28T13:00:00Z", "2026-02-28T14:00:00Z", "2026-02-28 13:00 to 14:00"},
		{"soon", "later", "soon to later"},
	} {
		if got := (Options{}).dates(bill.DocumentPeriod{From: c.from, To: c.to}); got != c.want {
			t.Errorf("%s to %s: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// Currencies never mix, previews never count as issued, and a total that cannot be read makes its sum unknown, not less.
func TestSums(t *testing.T) {
	doc := func(kind, currency, total string) *bill.Document {
		return &bill.Document{Kind: kind, Currency: currency, Total: total, Quantity: bill.Quantity{MilliGPUSeconds: 1800 * 1000}}
	}
	text := List([]*bill.Document{
		doc(bill.KindInvoice, "CNY", "999.50"), doc(bill.KindCorrection, "CNY", "1000.50"), doc(bill.KindPreview, "CNY", "7.00"),
		doc(bill.KindInvoice, "JPY", "5"), doc(bill.KindInvoice, "USD", "1.00"), doc(bill.KindInvoice, "USD", "?"), doc(bill.KindInvoice, "USD", "2.00"),
	}, Options{})
	for _, want := range []string{
		"issued: 2 1.000 2,000.00 CNY", "issued: 1 0.500 5 JPY", "issued: 3 1.500 unknown USD", "previews: 1 0.500 7.00 CNY",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// A zone that is UTC is said once; leases that name no device held some all the same.
func TestPeriodAndDevices(t *testing.T) {
	d := &bill.Document{Timezone: "UTC", Period: bill.DocumentPeriod{From: "2026-01-01T00:00:00Z", To: "2026-02-01T00:00:00Z"}}
	if got, want := strings.ReplaceAll((Options{}).period(d), string(glue), " "), "2026-01-01 00:00 to 2026-02-01 00:00 (UTC)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := devices(0) + devices(12); got != "–12" {
		t.Errorf("no device and twelve: %q", got)
	}
}

// TestUncontracted: time under no contract is summed by customer and reason, in their order; time under one is not there.
func TestUncontracted(t *testing.T) {
	total := func(customer, contract, lease, reason string, hours int64) meter.Total {
		return meter.Total{Lease: lease, Key: meter.ChargeKey{Customer: customer, Contract: contract, Reason: reason}, Amounts: meter.Amounts{Quantity: hours * 3600 * 1000}}
	}
	got := Uncontracted([]meter.Total{
		total("bolt", "", "L3", "no_contract", 1), total("acme", "", "L1", "no_contract", 2), total("acme", "", "L1", "no_contract", 3),
		total("acme", "", "L2", "no_contract", 4), total("acme", "", "L2", "outside_term", 5), total("cato", "c1", "L4", "", 6), total("dora", "", "L5", "no_contract", 0),
	}, Options{})
	var rows []string
	for line := range strings.Lines(got) {
		if f := strings.Fields(line); len(f) == 3 {
			rows = append(rows, strings.Join(f, " "))
		}
	}
	want := []string{"Customer Leases GPU-hours", "acme 2 9.000000000", "acme 1 5.000000000", "bolt 1 1.000000000"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, got)
	}
	if got := Uncontracted([]meter.Total{total("cato", "c1", "L4", "", 6)}, Options{}); got != "" {
		t.Errorf("nothing is without a contract: %q", got)
	}
}
