//go:build !linux || !cgo

package main

// hasNVML tells that this build can load the driver's library: it cannot, and says so before it begins.
const hasNVML = false
