// Package run owns how a service's Step is repeated: again at once while there is work, then when the log moves, and after
// an error with growing patience. Crash-only: a Step that failed boots anew by itself. A broken assertion is no error of the
// world: its service stands still.
package run
