// Package cases owns the case files: scenarios with the bill that is right, each with its story and its hand computation.
// A dispute becomes a case first; the fix turns it right. The names of files begin with the public bug report or fixture
// they restate, where there is one; INDEX.md lists them by it, with what the language cannot say yet.
//
// It does not own the language they are written in (core/scenario).
package cases
