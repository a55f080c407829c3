// Package usage owns what machines measure: the batch a node sends, the opaque block of bytes per device inside it
// (frozen, docs/format.md), and the minute row that blocks merge into. A second is named by (device, epoch second):
// that name is the only deduplication there is, and it has no time-to-live.
//
// It does not own who sends batches (services/collector), how they travel (platform/codec, platform/bus), nor
// what they mean for a bill (core/meter).
package usage
