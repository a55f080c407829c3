package gpuhour_test

import (
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/quote"
	"github.com/gpuhour/gpuhour/core/span"
)

// invoiced is what invoices and corrections of a contract come to, and where their periods lie.
type invoiced struct {
	customer string
	span     span.Span
	periods  map[string]string
}

func invoicedIn(t *testing.T, documents []*bill.Document) map[string]*invoiced {
	t.Helper()
	out := map[string]*invoiced{}
	for _, d := range documents {
		b := out[d.Contract]
		if b == nil {
			b = &invoiced{customer: d.Customer, span: span.Span{From: span.Open}, periods: map[string]string{}}
			out[d.Contract] = b
		}
		from, err := span.Parse(d.Period.From)
		if err != nil {
			t.Fatal(err)
		}
		to, err := span.Parse(d.Period.To)
		if err != nil {
			t.Fatal(err)
		}
		b.span = span.Span{From: min(b.span.From, from), To: max(b.span.To, to)}
		sum, err := money.ParseDecimal(d.Total)
		if err != nil {
			t.Fatal(err)
		}
		currency, err := money.ParseCurrency(d.Currency)
		if err != nil {
			t.Fatal(err)
		}
		if before := b.periods[d.Period.From]; before != "" {
			value, _ := new(big.Rat).SetString(before)
			sum.Add(sum, value)
		}
		b.periods[d.Period.From] = sum.FloatString(currency.Digits())
	}
	return out
}

// TestQuoteOfRecordedHistories: from a log that services wrote, the quote of a customer's own contract is what its invoices and their
// corrections sum to, period by period.
func TestQuoteOfRecordedHistories(t *testing.T) {
	logs, err := filepath.Glob("sim/history/*/*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no recorded history: %v", err)
	}
	quotes := 0
	for _, name := range logs {
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b := loaded(t, string(log))
		for contract, want := range invoicedIn(t, documentsIn(t, b)) {
			var r quote.Request
			r.Customer = want.customer
			for at, into := range map[span.Second]*quote.Bound{want.span.From: &r.From, want.span.To: &r.To} {
				if *into, err = quote.ParseBound(at.String()); err != nil {
					t.Fatal(err)
				}
			}
			got, err := gpuhour.Quote(t.Context(), b, r, nil, nil)
			if err != nil {
				t.Fatalf("%s %s: %v", name, contract, err)
			}
			quotes++
			periods := map[string]string{}
			for _, s := range got.Own.Statements {
				if s.Contract.ID == contract {
					periods[s.Contract.Zone.Text(s.Period.From)] = s.Total.String()
				}
			}
			if diff := cmp.Diff(want.periods, periods); diff != "" {
				t.Errorf("%s %s (-billed +quoted)\n%s", name, contract, diff)
			}
		}
	}
	if quotes < 2 {
		t.Errorf("only %d quotes", quotes)
	}
}
