// Package replay owns the road without a bus: it drives the rater's fold and the invoicer's decisions over a list of facts
// and batches, keeping the ledger in memory, and gives the same invoices as the services do. It is what `gpuhour rate`
// and the scenario files run on.
//
// It does not own the folds themselves (core/meter, core/bill).
package replay
