// Package scenario owns the scenario file: contracts, what happened, which periods close and the expected bill, in one YAML
// text that an accountant can read (design page 3, Scenario files). A file becomes the input of a replay, and the result of
// the replay is held against the file. Rewrite writes the expectations anew from a result.
//
// It does not own the contract language (core/contract), the road from facts to invoices (core/replay) or the files
// themselves (core/cases).
package scenario
