// Package recorded owns the collector's source that replays recorded traces, one series per device and the seconds in
// which the recording collector ran, and the format in which a collector records itself. The same trace gives the same
// readings every time.
//
// It does not own traces of others (services/importer, package smi), nor real devices.
//
// # The format
//
// CSV in UTF-8. The first line is FullHeader, or Header for a recording that is written by hand: without the last two columns,
// reasons, lines about the node and lines with #. Then one line for each device and second in which the collector ran:
//
//	second               whole seconds from the recording's begin, which is 0
//	device               its name; empty: a line about the node
//	busy_percent         as it was read, so 101 where a driver said that
//	memory_bytes
//	power_milliwatt
//	energy_millijoule    the device's running counter
//	throttle_reasons     NVML's bit set, as a number
//	faults               kind:code, separated by spaces: xid:79 ecc:2
//
// A cell of a value is a whole number from 0, or ? and why there is none: ?not_supported ?not_available ?permission ?lost ?stale
// ?timeout ?error; an empty cell is ?not_available. A line about the node is ?error in busy_percent when it answered nothing,
// and empty when it answered that it has no device. A device without a line in a second did not exist for the collector then; a
// second without any line was slept through. Lines that begin with # tell of the whole:
//
//	#begin,2026-01-01T00:00:00Z                          the instant of second 0
//	#source,second,source,driver                         a topology from that second on, and its devices behind it
//	#device,name,parent,vendor,model,serial,pci,profile,memory_bytes
//
// A last line without its end was being written when the recording broke off. It is left out, and Notes says so.
//
// # Memory
//
// A writer keeps nothing. A recording that is read is held in memory whole, so that it can begin again at any
// second: some 60 bytes for each device and second, 40 MB for a day of eight devices.
package recorded
