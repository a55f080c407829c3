// Package render owns how an invoice looks to a person at a terminal: the document with its arithmetic, the list of
// invoices, what blocks a close and what was refused, in English and Chinese, and the table they are all set in. It
// prints what the document says: the only sums it makes are those that no document holds, and it never rounds money.
//
// Widths are those of a terminal: East Asian wide letters and emoji take two columns, ambiguous ones (─ × …) take one.
// Text from outside is made harmless first: what has no shape of its own is written as <U+202E>.
//
// It does not own amounts, coverage or reasons (core/bill, core/meter), nor input and output: every function returns text.
package render
