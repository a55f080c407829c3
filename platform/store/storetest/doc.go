// Package storetest owns the conformance suite of store.Store: what every adapter must do, the same for the one in
// memory and for real engines.
//
// It does not own what only one adapter has: migrations, deduplication, an engine that is killed.
//
// Where the port leaves room, the suite decides:
//   - A range of minutes holds From and not To; rows come once, in the order of store.CompareRows.
//   - Minutes of a device, its ledger and its device hours are found by the device alone, whatever node it was on. The
//     ledger of a unit without a device is that of the lease's entries without a device.
//   - LastMinutes has one entry for each node and device, and one for each node.
//   - Sums of zero are left out everywhere. Time without a contract belongs to no period.
//   - A refusal is counted by id, reason and lease; the latest that raised it describes it, and Delta is the sum.
//   - Trim leaves progress alone: it is called with it.
//   - An invoice that is put again with another document is store.ErrOtherInvoice.
package storetest
