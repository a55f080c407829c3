// Package sim owns the proof of the road: a world drawn from one seed is played through the real services in one goroutine,
// over a log, tables and disks in memory that fail as drawn, and an auditor who shares no arithmetic with them holds every
// invoice against the seconds. First comes safety, with faults; then everything heals and what is owed must be billed.
// Bugs are planted in wrappers around the ports, to show that the auditor would have found them. A seed has six streams of dice:
// what an earlier one draws stays as it was when a later one learns something. The third brings the market: a customer whose
// contract holds every clause of the language by chance and may end before its time, as what it bought may, judged by core/slow.
// The fourth gives some contracts fees by local days, most of them paid in advance; these the auditor counts out himself.
// The fifth declares how much of a device may be sold at once, and crowds such devices with leases, the market's too: the figures say
// how much time was sold or refused because of it.
// The sixth enrols the keys of some nodes; all agents sign, and no bill may differ.
//
// It does not own behaviour of its own: no code of the product imports it. The engines it fails are fakes; what real ones
// do is shown by the conformance suites and the crash tests.
package sim
