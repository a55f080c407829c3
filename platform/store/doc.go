// Package store owns the port to the tables: what the rater puts and reads back, and what a close, a preview and a
// person read. Rows are only appended, reads are bounded by block, and progress is written last: rows above it do
// not count and are deleted at boot. Adapters: memstore (memory) and clickhouse (embedded or by address).
//
// It does not own meaning: rows are built by core/meter and core/bill.
package store
