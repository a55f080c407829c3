// Package obs owns the process's own log, metrics and health: what an operator watches. No amount, customer or device
// id becomes a metric label.
package obs
