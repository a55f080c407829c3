// Package membus is a log in memory for tests: it behaves as JetStream does when nothing fails.
//
// It owns nothing that survives Close. It does not inject faults; a test wraps it for that.
package membus
