package clickhouse

import (
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/platform/store"
)

const invoiceColumns = "series, number, customer, contract, closing, currency, total_minor, period_from_second, period_to_second, document, " +
	"line, line_description, line_sku, line_pricing_mode, line_region, line_milli_gpu_seconds, line_amount_minor"

// PutInvoice implements store.Store. It reads before it writes, so that a repeat adds no row that a person would sum.
func (s *Store) PutInvoice(ctx context.Context, row store.Invoice) error {
	what := fmt.Sprintf("put invoice %s %d", row.Series, row.Number)
	s.writing.Lock() // one at a time: the read below must see what another call wrote
	defer s.writing.Unlock()
	found, same := false, false
	var document string
	err := s.query(ctx, []any{&document}, func() error {
		found, same = true, document == string(row.Document)
		return nil
	}, "SELECT document FROM invoice WHERE series = {series:String} AND number = {number:UInt64}",
		clickhouse.Named("series", row.Series), clickhouse.Named("number", row.Number))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case found && !same:
		return fmt.Errorf("%s: %w", what, store.ErrOtherInvoice)
	case found:
		return nil
	}
	if err := s.insert(ctx, table{"invoice", invoiceColumns}, "", [][]any{invoiceRow(row)}); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// lines are the invoice's lines column by column.
type lines struct {
	line, quantity                                []int64
	description, sku, pricingMode, region, amount []string
}

func invoiceRow(row store.Invoice) []any {
	var l lines
	for _, r := range row.Lines {
		l.line, l.quantity = append(l.line, int64(r.Line)), append(l.quantity, r.MilliGPUSeconds)
		l.description, l.sku = append(l.description, r.Description), append(l.sku, r.SKU)
		l.pricingMode, l.region = append(l.pricingMode, r.PricingMode), append(l.region, r.Region)
		l.amount = append(l.amount, r.AmountMinor)
	}
	return []any{
		row.Series, row.Number, row.Customer, row.Contract, row.Closing, row.Currency, row.TotalMinor,
		int64(row.PeriodFrom), int64(row.PeriodTo), string(row.Document),
		l.line, l.description, l.sku, l.pricingMode, l.region, l.quantity, l.amount,
	}
}

// Invoices implements store.Store.
func (s *Store) Invoices(ctx context.Context) ([]store.Invoice, error) {
	var invoices []store.Invoice
	var row store.Invoice
	var l lines
	var document string
	targets := []any{
		&row.Series, &row.Number, &row.Customer, &row.Contract, &row.Closing, &row.Currency, &row.TotalMinor,
		(*int64)(&row.PeriodFrom), (*int64)(&row.PeriodTo), &document,
		&l.line, &l.description, &l.sku, &l.pricingMode, &l.region, &l.quantity, &l.amount,
	}
	err := s.query(ctx, targets, func() error {
		next := row
		if document != "" {
			next.Document = []byte(document)
		}
		for i := range l.line {
			next.Lines = append(next.Lines, store.InvoiceLine{
				Line: int(l.line[i]), Description: l.description[i], SKU: l.sku[i], PricingMode: l.pricingMode[i],
				Region: l.region[i], MilliGPUSeconds: l.quantity[i], AmountMinor: l.amount[i],
			})
		}
		invoices = append(invoices, next)
		return nil
	}, "SELECT "+invoiceColumns+" FROM invoice")
	if err != nil {
		return nil, fmt.Errorf("read invoices: %w", err)
	}
	slices.SortFunc(invoices, store.CompareInvoices)
	return invoices, nil
}
