// Package smi reads what nvidia-smi prints as CSV: nvidia-smi --query-gpu=... --format=csv, with -l and -lms too. A file becomes
// a recorded.Recording (Read), the output of a running nvidia-smi live hardware (Follow). It owns that format and its broken forms:
// headers in the middle, from loops that were started again; units in cells or in the header, or none; words in place of
// numbers; messages of the driver between rows; CRLF; a last line that was cut.
//
// It does not own when rows are sampled (package live), nor how often nvidia-smi looks.
//
// # Columns
//
// They are found by the header's names, in any order; others are left alone. Without a header (noheader) Options.Columns
// names them.
//
//	uuid                              the device's name; without this column pci.bus_id, else serial, and leases must use the same.
//	                                  index is no name: it may be another GPU after a reboot. Options.ByIndex allows it, as
//	                                  index-0. A GPU that is lost has a word for its UUID: pci.bus_id says which it was
//	timestamp                         local time without a zone: Options.Zone says which, UTC unless stated. A recording needs it.
//	                                  Where a zone's clock goes back, an hour comes twice and its first rows stand
//	utilization.gpu                   percent
//	memory.used                       MiB, or the unit that stands with it
//	power.draw                        watt, or with its unit; else power.draw.instant, else power.draw.average
//	clocks_event_reasons.active       NVML's bit set, hexadecimal; also clocks_throttle_reasons.active
//	ecc.errors.uncorrected.volatile.total, .aggregate.total    an increase is FaultECC; the volatile one when both are there
//	name, serial, pci.bus_id, memory.total, driver_version     the topology
//
// nvidia-smi prints no energy counter and no XID.
//
// # Rules
//
// Of several rows of a device in one second the last one stands: it is what a collector would have read at the second's end.
// A cell that is a word is unknown: N/A and Not Supported are ReasonNotSupported, Not Found and an empty cell ReasonNotAvailable,
// permissions ReasonPermission, GPU is lost ReasonLost and, when it begins, FaultLost with NVML's 15, ERR! and Unknown Error
// ReasonError. A cell that is neither is reported, and unknown; its row stands. A row without a name, time or the header's number of cells
// is reported whole, and so are the driver's messages: nothing was read then. A second without a row was slept through.
//
// Of a stream a row counts in one second, and in the one after it too where each second before had one: that is drift. A loop
// that prints less often is ReasonStale in between, and Sample's error says so, as of lines that are not used (collector.ErrPartly).
package smi
