// Package memstore owns the store in memory: for tests, for rating a file without a database, and as the plain
// meaning that the SQL adapter is compared with. It reads by looking at every row.
//
// It does not own durability: what was put is gone with the value.
package memstore
