// Package collector owns the road from a node's devices to the log: it samples a source once a second, closes a
// batch every ten seconds of sample time, puts it in the spool before anything else sees it, and publishes what the
// spool holds, one writer per node.
//
// It does not own the devices' interfaces (packages below it, behind Source), the disk format (spool), the wire
// (platform/codec, platform/bus behind Log), nor what a second is worth (core/meter).
//
// What may happen to one second:
//
//	the source answered           spoken for; seen for every device in which any metric answered
//	the source failed             spoken for, seen for no device
//	the collector slept           not spoken for
//	the spool is full             see package spool, Thinning
package collector
