package render

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/bill"
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
