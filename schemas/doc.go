// Package schemas owns the published schemas as they are shipped: the JSON Schemas of contract and case files and the
// tables' migrations.
//
// It does not own what reads or writes them (core/contract, the stores).
package schemas
