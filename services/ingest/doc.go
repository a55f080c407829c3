// Package ingest owns the road of many nodes' usage batches into the log: it takes requests, commits those of many nodes as one
// atomic batch, and answers each node after the commit. It is the pump for fleets that are too large for every node to publish,
// and sync, by itself.
//
// It does not own what a node sends or does with an answer (services/collector, ingestlog), the form of requests (wire), or the
// order of a node's batches: each request names the message that it follows, and the log refuses it when another one stands
// there. So the ingest holds nothing that matters: it may be killed at any moment, and any number of them may serve at once.
//
// What may become of a request:
//
//	it is malformed                      refused with the reason, never stored
//	the queue is full, or the node has
//	another request under way here       busy: nothing was stored, the node's spool keeps it
//	the log takes it                     stored, with the position of its last batch
//	the log holds exactly it already     stored: an earlier answer was lost
//	the log holds something else         conflict: the node reads what stands
//	the log refuses the whole commit     failed, with the reason
//	the log does not answer              unknown: the node reads what stands
package ingest
