// Package schemas owns the published schemas as they are shipped: the contract file's JSON Schema and the tables'
// migrations.
//
// It does not own what reads or writes them (core/contract, the stores).
package schemas
