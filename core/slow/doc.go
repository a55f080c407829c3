// Package slow owns the slow obvious rater: the bill of one contract's period straight from facts and samples, in exact
// rationals, one second at a time. It knows no ledger, hours, edges or differences. It is written from the rules on prices and
// closing and not from the fast raters (core/meter, core/price, core/bill), so that where the two disagree one of them is wrong.
//
// It does not own the contract language: it takes parsed documents (core/contract). What it cannot judge it says by name, see
// World.Unable.
package slow
