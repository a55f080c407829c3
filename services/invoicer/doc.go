// Package invoicer owns the pump from cuts to invoices: it asks for a cut when a period is due, and when the rater says
// the cut is done it prices, closes and issues in one atomic batch. What blocks a close is shown, never skipped.
//
// It does not own what is decided (core/bill) or how an invoice looks (services/invoicer/render).
package invoicer
