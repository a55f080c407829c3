// Package bill owns the way from ledger totals to an invoice: lines by line key, one exact amount per line rounded
// once by name, the closing chain (closing n bills what is known now less all billed before; closing 0 bills fees in
// advance), conservation, the cancellation of what a lost log had billed, and the invoice document whose bytes are frozen
// (docs/format.md). State is the invoicer's fold.
//
// It does not own unit prices (core/price), quantities (core/meter) or how an invoice is shown (package render in
// services/invoicer).
package bill
