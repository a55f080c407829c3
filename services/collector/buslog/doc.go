// Package buslog owns the collector's view of the usage stream on a bus: one subject per node, batches in the frozen
// wire form.
//
// It does not own the wire (platform/codec), the stream (platform/bus), or what to do about a conflict
// (collector.Publisher).
package buslog
