// Package nearest owns "did you mean": the known name closest to one that is not known.
//
// It does not own any list of names.
package nearest
