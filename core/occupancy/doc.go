// Package occupancy owns who holds what, and when: it folds lease facts into tranches of devices, finds the starts
// that a minimum is charged for, and lists what it could not take (a stop with no start, a second start ...).
// Order of arrival plays no part: a lease is its facts ordered by (instant, position). It also knows how much of each device may be
// sold at once, by what was declared of it.
//
// It does not own contracts, prices or samples, nor which of two overlapping tranches is refused (core/meter).
package occupancy
