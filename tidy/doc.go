// Package tidy holds the rules of STYLE.md that a machine can hold.
//
// It owns the checks over this module's own sources (what core may import and
// name, sizes, globals, package and doc comments, which way imports point) and
// over the documents that name paths and symbols. It is all tests: nothing
// imports it. It does not own anything that needs types, which is left to
// .golangci.yml, and it does not read generated code or other modules.
package tidy
