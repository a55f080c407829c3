// Package meter owns the way from seconds to quantities: it joins who holds what (core/occupancy) with what was seen
// (core/usage) into integer milli-GPU-seconds per charge key, as a ledger of differences. State is the rater's fold.
//
// It does not own prices or rounding (core/price, core/bill), and it never reads a clock: ticks in the log are time.
package meter
