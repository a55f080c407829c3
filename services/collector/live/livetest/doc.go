// Package livetest owns the stand-ins with which a live collector is tested without hardware, clock or broker, in the virtual time of
// testing/synctest: a node whose GPUs do as they are told, a machine's clock that can be set, a log that can fail; and Measure, which tells what a
// live collector costs in real time.
//
// It does not own what is tested (package live), nor a stand-in for a driver's library or a disk (package spooltest).
package livetest
