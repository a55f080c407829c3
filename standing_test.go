package gpuhour_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
)

// TestInvoiceStanding: who looks on from outside finds what the invoicer itself could not close, and changes nothing.
func TestInvoiceStanding(t *testing.T) {
	e := open(t, gpuhour.DefaultConfig(), gpuhour.Options{Memory: true, Logger: quiet().Logger})
	must(t, e.Declare(t.Context(), fact.Scripted))
	text := document("c1", "acme", "USD", "UTC", "cycle: monthly", "  - {sku: a100, on_demand: 3.60/gpu-hour}\n")
	from := instant("2026-03-01T00:00:00Z")
	must(t, e.State(t.Context(),
		fact.Fact{Key: "c", Body: signed("c1", "acme", text)},
		fact.Fact{Key: "l", Body: lease("l", "acme", "b200", from, share("n", 0, 1000))}))
	must(t, e.Advance(t.Context(), instant("2026-04-02T00:00:00Z")))
	got, err := e.InvoiceStanding(t.Context())
	must(t, err)
	if len(got.Blocked) != 1 || got.Due != 1 || got.Issued != 1 {
		t.Fatalf("February is billed, March waits: %+v", got)
	}
	if diff := gocmp.Diff(e.Blocked(), got.Blocked); diff != "" {
		t.Errorf("the invoicer and who looks on (-invoicer +looker):\n%s", diff)
	}
	again, err := e.InvoiceStanding(t.Context())
	must(t, err)
	if diff := gocmp.Diff(got, again); diff != "" {
		t.Errorf("looking changed it:\n%s", diff)
	}
}
