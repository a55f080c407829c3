// Package calendar owns local time: zones from an embedded tz database, local dates and the instants they begin at, what a
// local clock shows, the billing periods of a contract, and holiday calendars.
//
// It does not own prices, windows or what is billed in a period. It reads no clock: every instant comes from the caller.
//
// A day is [StartOfDay(d), StartOfDay(d+1)), and a day begins at the first instant whose local clock has reached its
// midnight. So a midnight that a zone skips begins at the first instant after it, a midnight that happens twice counts
// the first time, and a date that a zone skips (Apia 2011-12-30) is an empty day. Days therefore tile time.
package calendar
