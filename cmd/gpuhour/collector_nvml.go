//go:build linux && cgo

package main

// hasNVML tells that this build can load the driver's library.
const hasNVML = true
