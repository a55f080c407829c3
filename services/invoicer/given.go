package invoicer

import (
	"bytes"
	"fmt"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Given is the invoice that a fact gives out, one that is stated again included; nil when it gives none.
func Given(f fact.Fact) *fact.InvoiceIssued {
	switch b := f.Body.(type) {
	case *fact.InvoiceIssued:
		return b
	case *fact.InvoiceRecovered:
		return &fact.InvoiceIssued{Series: b.Series, Number: b.Number, Customer: b.Customer, Closing: b.Closing, Document: b.Document}
	default:
		return nil
	}
}

// Lost lists the projected invoices that are not among a log's facts. One that stands there with other bytes is an error: one
// number was given out twice.
func Lost(projected []store.Invoice, facts []fact.Fact) (lost []store.Invoice, err error) {
	type number struct {
		series string
		number uint64
	}
	given := map[number][]byte{}
	for _, f := range facts {
		if b := Given(f); b != nil {
			given[number{b.Series, b.Number}] = b.Document
		}
	}
	for _, row := range projected {
		document, ok := given[number{row.Series, row.Number}]
		switch {
		case !ok:
			lost = append(lost, row)
		case !bytes.Equal(document, row.Document):
			return nil, fmt.Errorf("invoice %s in the log is not the one that was given out, which the tables hold: its number was used twice; "+
				"restore the copy of the log that has the one of the tables", bill.InvoiceName(row.Series, row.Number))
		}
	}
	return lost, nil
}

// checkGiven holds what was given out against the log, before anything is decided on it: a log without an invoice would give
// its number out again.
func checkGiven(projected []store.Invoice, facts []fact.Fact) error {
	lost, err := Lost(projected, facts)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", journal.ErrRewound, err)
	case len(lost) > 0:
		return fmt.Errorf("the log does not hold invoice %s, which was given out: %w", bill.InvoiceName(lost[0].Series, lost[0].Number), journal.ErrRewound)
	default:
		return nil
	}
}

// Advanced is the invoice that billed a contract's period in advance, of those that are projected; nil when none did, or it was cancelled.
func Advanced(projected []store.Invoice, contractID string, periodStart span.Second) (*bill.Document, error) {
	var out *bill.Document
	for _, row := range projected {
		if row.Contract != contractID || row.PeriodFrom != periodStart {
			continue
		}
		d, err := bill.ParseDocument(row.Document)
		switch {
		case err != nil:
			return nil, err
		case d.Kind == bill.KindAdvance:
			out = d
		case out != nil && d.Cancels == out.Invoice:
			out = nil
		}
	}
	return out, nil
}
