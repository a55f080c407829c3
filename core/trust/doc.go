// Package trust owns the verdict on a usage batch: which keys a node signs with, as of any position of the facts, and whether a
// batch that came is measured. Every reader of usage asks Keys.Judge, so that all judge alike; docs/adr/0016 says why the rule is as it is.
//
// It also owns the disclosure of one device block, which a customer checks without the log.
//
// It does not own what is signed (core/usage), private keys (services/collector/nodekey), nor repeats of facts: it is told each
// statement once.
package trust
