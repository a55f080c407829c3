// Package nodekey owns a node's private key: its file, its making, and signing a batch on its way into the log.
//
// It does not own what is signed or how a signature is judged (core/usage, core/trust), nor which keys are enrolled: that is
// stated by facts, and this package never looks at the log.
package nodekey
