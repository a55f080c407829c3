// Package wire owns what a node and the ingest say to each other (docs/ingest.md): subjects, requests and answers.
//
// It does not own the batches inside a request, which stand there with the bytes that they have in the log (platform/codec),
// nor delivery (platform/bus/natsbus), nor what is answered (services/ingest).
package wire
