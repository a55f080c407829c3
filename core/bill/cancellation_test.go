package bill

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
)

// lost states an invoice again as it was given out.
func lost(t *testing.T, number uint64, d *Document) *fact.InvoiceRecovered {
	t.Helper()
	data, err := d.Numbered("INV", number).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return &fact.InvoiceRecovered{Incarnation: 2, Series: "INV", Number: number, Customer: d.Customer, Closing: "lost", Document: data}
}

// cancelled takes the next cancellation, which must be there.
func cancelled(t *testing.T, l *log) *Document {
	t.Helper()
	issued, err := l.Cancel()
	if err != nil || issued == nil {
		t.Fatalf("nothing to cancel, %v", err)
	}
	l.state(issued)
	d, err := ParseDocument(issued.Document)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, issued.Closing, "cancels/"+d.Cancels)
	equal(t, "acme", issued.Customer)
	return d
}

// none expects that nothing is left to cancel.
func none(t *testing.T, l *log) {
	t.Helper()
	if issued, err := l.Cancel(); issued != nil || err != nil {
		t.Fatalf("%+v, %v are to be cancelled", issued, err)
	}
}

// TestRecoveredInvoices: their numbers are used at once; when the incarnation begins each is cancelled once, corrections among
// them too, by the numbers that follow; the period is open as before and closes by the number after those.
func TestRecoveredInvoices(t *testing.T) {
	l := newLog(t, 0)
	l.sign("c1", "")
	first := compute(t, measured("L", "A", key(1, 1), 3*hour))
	now := compute(t, measured("L", "A", key(1, 1), 2*hour))
	l.state(lost(t, 1, NewDocument(first, nil, 1)), lost(t, 2, NewDocument(now, first, 2)))
	number, at := l.Number()
	equal(t, [2]uint64{2, l.seq}, [2]uint64{number, at})
	none(t, l) // more may follow until the log goes on
	l.state(&fact.LogRecovered{Incarnation: 2, By: "ops", Reason: "a disk was lost"})

	bill, correction := cancelled(t, l), cancelled(t, l)
	none(t, l)
	equal(t, "INV-000003 cancellation INV-000001 1 -108.00\n", toldOf(bill))
	equal(t, "INV-000004 cancellation INV-000002 2 36.00\n", toldOf(correction))
	equal(t, int64(-3*hour), bill.Quantity.Coverage.Measured)
	equal(t, "-3.000000000", bill.Lines[0].Quantity.GPUHours)
	equal(t, DocumentLine{
		Line: 1, SKU: "h100", PricingMode: "on_demand", Region: "east", Leases: 1, Devices: 1, Quantity: correction.Quantity, Rows: []DocumentRow{},
		Amount: "36.00",
	}, correction.Lines[0])

	cut, ok := l.cut(april)
	equal(t, true, ok)
	equal(t, "c1 until -28, c1 until 0, c1 until 31", due(l.DueAt(cut))) // February and before were never closed here
	l.close(cut)
	number, _ = l.Number()
	equal(t, uint64(7), number)
	none(t, l)
}

// toldOf is what a cancellation says of itself.
func toldOf(d *Document) string {
	return fmt.Sprintln(d.Invoice, d.Kind, d.Cancels, d.Closing, d.Total)
}

// TestCancelledOnce: a cancellation that is in the log is not issued again, whoever reads it; one of another series cancels too,
// under the number of this one; a recovery that was lost with its cancellations begins anew.
func TestCancelledOnce(t *testing.T) {
	d := NewDocument(compute(t, measured("L", "A", key(1, 1), hour)), nil, 1)
	other := lost(t, 9, d)
	document, err := d.Numbered("OLD", 9).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	other.Series, other.Document = "OLD", document
	facts := []fact.Body{lost(t, 1, d), other, &fact.LogRecovered{Incarnation: 3, By: "ops", Reason: "a disk was lost"}}
	l := newLog(t, 0)
	l.state(facts...)
	one, err := l.Cancel()
	if err != nil {
		t.Fatal(err)
	}
	l.state(one)
	two := cancelled(t, l)
	equal(t, "INV-000003 OLD-000009", two.Invoice+" "+two.Cancels)
	none(t, l)

	reader := newLog(t, 0)
	reader.state(append(facts, one)...)
	equal(t, two, cancelled(t, reader))
	none(t, reader)

	again := newLog(t, 0) // the cancellation was given out, lost and recovered in its turn
	given := &fact.InvoiceRecovered{Incarnation: 3, Series: "INV", Number: 2, Customer: "acme", Closing: one.Closing, Document: one.Document}
	again.state(facts[0], given, facts[2])
	equal(t, "INV-000003 cancellation INV-000001 1 -36.00\n", toldOf(cancelled(t, again)))
	equal(t, "INV-000004 cancellation INV-000002 1 36.00\n", toldOf(cancelled(t, again)))
	none(t, again)
}

// TestCancellationTakesEverythingBack holds drawn invoices and corrections against their cancellation's cancellation.
func TestCancellationTakesEverythingBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, now := compute(t, drawTotals(t)...), compute(t, drawTotals(t)...)
		for _, d := range []*Document{NewDocument(first, nil, 1), NewDocument(now, first, 2)} {
			d = d.Numbered("INV", 7)
			c, err := d.Cancellation()
			if err != nil {
				t.Fatal(err)
			}
			back, err := c.Numbered("INV", 8).Cancellation()
			if err != nil {
				t.Fatal(err)
			}
			if back.Total != d.Total || back.Quantity != d.Quantity || len(back.Lines) != len(d.Lines) || len(c.Unbilled) != 0 {
				t.Fatalf("%s is taken back as %s, and that as %s", d.Total, c.Total, back.Total)
			}
			for i, l := range back.Lines {
				if l.Amount != d.Lines[i].Amount || l.Quantity != d.Lines[i].Quantity || len(c.Lines[i].Rows) != 0 {
					t.Fatalf("line %d is %+v, was %+v", i+1, l, d.Lines[i])
				}
			}
			if sum := rat(t, c.Total); sum.Add(sum, rat(t, d.Total)).Sign() != 0 {
				t.Fatalf("%s and %s do not sum to nothing", c.Total, d.Total)
			}
		}
	})
}

// TestCancellationOfWhatIsNoInvoice names what is wrong with a document that gpuhour did not write.
func TestCancellationOfWhatIsNoInvoice(t *testing.T) {
	for want, spoil := range map[string]func(*Document){
		"its lines sum to 36.00, its total is 37.00": func(d *Document) { d.Total = "37.00" },
		"total: ":  func(d *Document) { d.Total = "much" },
		"line 1: ": func(d *Document) { d.Lines[0].Amount = "36.001" },
		"currency": func(d *Document) { d.Currency = "XXX" },
	} {
		d := NewDocument(compute(t, measured("L", "A", key(1, 1), hour)), nil, 1).Numbered("INV", 1)
		spoil(d)
		if _, err := d.Cancellation(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "cancel invoice INV-000001: ") {
			t.Errorf("%v; want %s", err, want)
		}
	}
	misnamed := newLog(t, 0)
	other := lost(t, 5, NewDocument(compute(t), nil, 1))
	other.Number = 1
	misnamed.state(other, &fact.LogRecovered{Incarnation: 2})
	equal(t, "INV-000001", cancelled(t, misnamed).Cancels)
	none(t, misnamed)
	l := newLog(t, 0)
	l.state(&fact.InvoiceRecovered{Incarnation: 2, Series: "INV", Number: 1, Document: []byte("{}")}, &fact.LogRecovered{Incarnation: 2})
	if issued, err := l.Cancel(); issued != nil || err == nil || !strings.Contains(err.Error(), "cancel invoice INV-000001") {
		t.Errorf("%v, %v", issued, err)
	}
}
