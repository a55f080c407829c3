// Package contract owns the contract language: one YAML document becomes a checked Contract, or a list of errors that
// each name file, line, column and what to write instead. Register holds which version is in force when.
//
// It does not own what a condition costs (core/price) or which period a close is about (core/calendar, core/bill).
//
// This version reads on-demand rates with their units, region, service tier and dedicated factors, and the billing
// rules. Every other clause of the language is refused by name, because leaving one out would change the bill.
//
// Numbers never pass through a float: prices, percentages and durations are read from the text of the scalar.
package contract
