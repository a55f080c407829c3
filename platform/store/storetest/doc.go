// Package storetest owns the conformance suite of store.Store: what every adapter must do, the same for the one in
// memory and for real engines.
//
// It does not own what only one adapter has: migrations, deduplication, an engine that is killed.
package storetest
