// Package nodes owns the reading of what the log says of a node: the keys that are stated, the last batch, the topology, the gaps, and
// any batch by its name. It reads bounded parts of the log and says how far it looked.
//
// It does not own the verdict on a batch (core/trust), how things are shown (cmd/gpuhour), nor any table: it trusts none.
package nodes
