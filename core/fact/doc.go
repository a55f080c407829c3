// Package fact owns the statements that people and services make: their Go types, names, keys and limits, and
// their form as JSON lines. The set is closed: something unknown stops a reader.
//
// It does not own the wire (platform/codec), nor what a fact means to money (core/occupancy, core/meter, core/bill).
package fact
