// Package codec owns the frozen form of every message in the log (docs/format.md): subjects, the CloudEvents headers
// and protobuf bodies of facts, usage batches and ticks. Its functions are pure: the same value gives the same bytes,
// and what was received is judged by itself alone.
//
// It does not own delivery (platform/bus), what a message means next to others (core/meter, services/), nor the
// device block's bytes inside a batch (core/usage).
package codec
