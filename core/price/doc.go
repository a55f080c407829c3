// Package price owns the unit price of one condition: a pipeline of steps, one per file, each of which sees only the
// contract, the condition and the line so far. The result is one exact rational per milli-GPU-second, with the steps that
// made it, or a refusal with its reason.
//
// It does not own quantities (core/meter), amounts, rounding or lines (core/bill): an amount is quantity x price, exact,
// and is rounded there.
package price
