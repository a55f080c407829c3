// Package random owns random documents of the contract language: contracts and price books that hold every clause by chance, and
// the same with something broken. Tests and simulations draw from it, so that what nobody thought of is tried too.
//
// It does not own the language (core/contract) or chance: whoever draws brings the chooser, so a seed draws the same for ever.
package random
