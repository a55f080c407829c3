// Package explain owns why a line of an invoice is what it is: for GPU time the segments (which lease, which device, from when to when,
// under which conditions, at which price), for other charges what they stand on. The segments come from the classification that
// billed, run again over the same log up to the same cut, and that they sum to the line, quantity and exact amount, is asserted.
//
// It does not own quantities (core/meter), prices (core/price, core/bill), the replay that gathers the evidence (core/replay) or the
// words (services/invoicer/render).
package explain
