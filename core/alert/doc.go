// Package alert owns the under-utilisation rule: average utilisation below 60 % over 30 minutes, per lease and per
// customer, as a fold over the same blocks that bill. It decides transitions; they become facts.
//
// It does not own delivery, nor any other rule. Missing data neither raises nor resolves: unknown is not zero.
package alert
