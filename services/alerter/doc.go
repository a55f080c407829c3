// Package alerter owns the pump from the log to alerts: it evaluates the under-utilisation rule over the same blocks that
// bill, and states every transition as a fact.
//
// It does not own the rule (core/alert) or delivery.
package alerter
