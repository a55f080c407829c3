// Package must owns assertions about our own code: a broken one panics with a *Failure that a pump can catch, so that
// one customer halts and keeps its input while the others go on.
//
// It does not own errors of the world (bad input, lost connections) or refusals: those are values, never panics.
package must
