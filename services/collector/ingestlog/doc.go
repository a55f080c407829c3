// Package ingestlog owns a node's view of the usage stream through an ingest (docs/ingest.md): its batches go out as requests
// and are in the log when the answer says so. The node needs no right but to send on its own subject and to hear the answer.
//
// It does not own the form of requests (services/ingest/wire), the batches' bytes (platform/codec), or what to do about a
// conflict (collector.Publisher). Package buslog is the same log without an ingest.
package ingestlog
