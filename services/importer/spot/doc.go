// Package spot owns the import of a spot market's logs: price histories in the form of EC2 (JSON) and a log of polls that says which
// instances were available. They become ticks and lease facts; each entry and line that becomes none is named with its reason.
//
// It does not own prices (core/price), what a reclaim costs (the contract says it) or files: the caller opens them.
//
// # Rules
//
// An entry of a history is a tick of the index of its instance type, in the region of its availability zone, in USD per
// instance-hour, when its price differs from the one before it; only the product Linux/UNIX is read. A history lists the newest
// first, so of two entries in one second the one that stands first in its file counts, and of two files the later by name.
//
// An instance is a spot lease from its "Created" line to its last "running" poll: nobody saw it later. A "not running" poll
// after that means that the provider took it back; else the customer ended it. One that was gone at its first poll has a lease
// of no length. The unit is one instance, whatever its GPUs: the SKU is the instance type, which GPUs and type tell.
//
// The facts stand in order of time; at one instant ticks come before stops and stops before starts. The same files give the
// same bytes.
package spot
