// Package bustest is the conformance suite of the log: what every bus.Bus must do.
//
// It owns the behaviour common to all implementations. Durability, configuration and faults of the
// network are tested beside the implementation that has them.
package bustest
