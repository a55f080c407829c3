package invoicer

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Project turns an issued invoice into its row and lines for SQL users. The document stays the truth.
func Project(f *fact.InvoiceIssued) (store.Invoice, error) {
	d, err := bill.ParseDocument(f.Document)
	if err != nil {
		return store.Invoice{}, err
	}
	row := store.Invoice{
		Series: f.Series, Number: f.Number, Customer: d.Customer, Contract: d.Contract, Closing: f.Closing, Currency: d.Currency, Document: f.Document,
	}
	minor := func(text string) string {
		var r money.Rounded
		if err == nil {
			r, err = money.ParseRounded(text, money.Currency(d.Currency))
		}
		if err != nil {
			return ""
		}
		return r.Minor().String()
	}
	row.TotalMinor = minor(d.Total)
	for _, l := range d.Lines {
		row.Lines = append(row.Lines, store.InvoiceLine{
			Line: l.Line, SKU: l.SKU, PricingMode: l.PricingMode, Region: l.Region,
			MilliGPUSeconds: l.Quantity.MilliGPUSeconds, AmountMinor: minor(l.Amount),
		})
	}
	for _, edge := range [2]struct {
		text string
		into *span.Second
	}{{d.Period.From, &row.PeriodFrom}, {d.Period.To, &row.PeriodTo}} {
		if err == nil {
			*edge.into, err = span.Parse(edge.text)
		}
	}
	if err != nil {
		return store.Invoice{}, fmt.Errorf("project invoice %s: %w", d.Invoice, err)
	}
	return row, nil
}
