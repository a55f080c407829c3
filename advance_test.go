package gpuhour_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
)

// prepaid is two customers who pay in advance. The fee of one is raised in mid-month; the term of the other ends before the month that it
// has paid, as is known some days later.
func prepaid() *world {
	w := &world{until: instant("2026-04-01T05:00:00Z")}
	at := func(text string) span.Second { return instant("2026-" + text + "Z") }
	text := func(id, customer, price, to string) string {
		rate := "  - {sku: h100, on_demand: 35.00/gpu-hour, reserved: [{name: base, quantity: 1, price: " + price + "/gpu-month, from: 2026-02-01, to: " + to + ", pay: advance}]}\n"
		return strings.Replace(document(id, customer, "CNY", "UTC", "cycle: monthly, grace: 3h", rate), "to: 2027-02-01}\nbilling", "to: "+to+"}\nbilling", 1)
	}
	w.know(at("02-01T00:00:00"), "c/acme", signed("acme-1", "acme", text("acme-1", "acme", "2800.00", "2027-02-01")))
	w.know(at("02-10T00:00:00"), "c/acme/2", &fact.ContractAmended{
		Contract: "acme-1", Effective: at("02-15T00:00:00"), Document: text("acme-1", "acme", "3100.00", "2027-02-01"),
	})
	w.know(at("02-03T00:00:00"), "c/nimbus", signed("nimbus-1", "nimbus", text("nimbus-1", "nimbus", "310.00", "2027-02-01")))
	w.know(at("03-05T00:00:00"), "c/nimbus/2", &fact.ContractAmended{
		Contract: "nimbus-1", Effective: at("02-28T00:00:00"), Document: text("nimbus-1", "nimbus", "310.00", "2026-03-01"),
	})
	both := lease("both", "acme", "h100", at("02-20T00:00:00"))
	both.Count, both.ShareMilli = 2, 1000
	w.know(both.At, "l/both", both)
	w.know(at("02-20T02:00:00"), "l/both/stop", &fact.LeaseStopped{Lease: "both", At: at("02-20T02:00:00"), By: fact.ByCustomer})
	w.stops = []span.Second{at("02-25T00:00:00")}
	return w.finish()
}

// TestBilledInAdvance: the services bill in advance and take it off the close as core/replay does, a preview takes it off too, every line
// is explained from the log, and an audit finds nothing.
func TestBilledInAdvance(t *testing.T) {
	w := prepaid()
	b := membus.New(stamp)
	e := gpuhour.OpenOn(b, memstore.New())
	early := *w
	early.until = instant("2026-02-25T00:00:00Z")
	must(t, early.play(t.Context(), e, early.direct(b), nowhere))
	d, _, err := e.Preview(t.Context(), "acme-1", 0)
	must(t, err)
	// 14 of 28 days at 2,800.00 and 14 at 3,100.00, one GPU for two hours beyond the reservation, less the 2,800.00 that are paid.
	if d.Total != "220.00" || len(d.Lines) != 4 || d.Lines[3].Advance != "GH-000001" || d.Lines[3].Amount != "-2800.00" {
		t.Errorf("the preview comes to %s: %+v", d.Total, d.Lines)
	}
	must(t, w.play(t.Context(), e, w.direct(b), nowhere))
	want := w.replayed(t)
	equal(t, "services against core/replay", want, harvest(t, e, want))
	var totals []string
	for _, d := range documentsIn(t, b) {
		totals = append(totals, d.Contract+" "+d.Kind+" "+d.Period.From[:7]+" "+d.Total)
		for i := range d.Lines {
			x, err := gpuhour.Explain(t.Context(), b, gpuhour.DefaultConfig(), d.Invoice, explain.LineName{Number: i + 1}, nil)
			if err != nil {
				t.Fatalf("%s line %d: %v", d.Invoice, i+1, err)
			}
			if x.TakesOff() != (d.Lines[i].Advance != "") || d.Kind == bill.KindAdvance && x.Item == nil {
				t.Errorf("%s line %d: %+v", d.Invoice, i+1, x)
			}
		}
	}
	// nimbus signs on the 3rd and pays at once; its March is given back when it would have been billed.
	wanted := []string{
		"acme-1 advance 2026-02 2800.00", "nimbus-1 advance 2026-02 310.00",
		"acme-1 advance 2026-03 3100.00", "nimbus-1 advance 2026-03 310.00",
		"acme-1 invoice 2026-02 220.00", "nimbus-1 invoice 2026-02 0.00",
		"acme-1 advance 2026-04 3100.00",
		"acme-1 invoice 2026-03 0.00", "nimbus-1 invoice 2026-03 -310.00",
	}
	if diff := cmp.Diff(wanted, totals); diff != "" {
		t.Errorf("documents (-want +got)\n%s", diff)
	}
	report, err := gpuhour.Audit(t.Context(), b, gpuhour.DefaultConfig(), nil)
	must(t, err)
	if len(report.Differences) > 0 || report.Invoices != len(totals) {
		t.Errorf("audit: %+v", report)
	}
}
