// Package live owns the shell of a collector on real hardware: the aligned clock of one tick a second, the workers that ask
// units and may hang, the sessions with a driver, and the goroutines that move batches on to the spool and the log.
//
// It does not own what hardware says (collector.Hardware and the packages behind it), how readings become batches
// (collector.Run), the disk (spool), or what the log is made to agree with (collector.Publisher).
//
// # A second
//
// The tick at wall second S comes as soon after S.000 as the machine lets it, and samples the second that has just ended, S-1: what
// a unit reads then is over the time since the tick before. Every second between the first and the last tick of a run is spoken for
// or in a gap:
//
//	every unit answered in time     spoken for, with what was read
//	a unit did not answer in time   its devices: timeout. It is not asked again before that call returns; a late answer is thrown
//	                                away, but for its faults, which go with the next second
//	the session is lost             the devices known: error, until it is opened again
//	it never was opened             the node: why (permission, not_available, timeout, error)
//	the machine slept               not spoken for, the node: suspended
//	the clock was set forward       not spoken for, the node: clock_stepped
//	no tick came otherwise          not spoken for, the node: stalled
//	too many batches wait for disk  not spoken for, the node: paused
//
// A device exists from the topology that first lists it up to the one that does not. Between the moment that it falls off the bus and
// the scan that sees it go, at most ten seconds, it is expected and does not answer: lost, or timeout where its unit hangs.
//
// # The clock
//
// Three clocks tell what became of seconds without a tick: CLOCK_BOOTTIME ran on and CLOCK_MONOTONIC did not: the machine slept; the wall
// moved and CLOCK_BOOTTIME did not: it was set. What is left is a stall. Where several meet, the missing seconds are given to sleep first,
// then to the step, then to the stall, each rounded up to whole seconds: how long each was is known, in which order they came is
// not. Clocks differ when the difference is over 250 ms. Slewing does not add up to that: the kernel steers all three
// clocks alike, at most 500 ppm, and a smeared leap second is 12 ppm; and less than that moves no second.
//
// After a step back, seconds come again and are sampled again: a step back is often the end of a wrong step forward, and
// then these seconds are in no batch yet, only in a gap. Where they are in one, they count once, with what was measured first: after
// less than a minute's step the value is not said again, after a longer one the reader takes the lower sequence. Waiting until the clock
// has passed its old place would lose an hour after an hour's step for nothing. A
// step back to less than 1.25 s before the last tick, so also a leap second that repeats, makes the second that runs longer, and nothing
// is sampled twice. A clock before 2024 is not set yet: nothing is sampled, and the alarm clock_not_set says so.
//
// # Disk and log
//
// Sampling waits for neither. Closed batches wait in memory for the disk, at most MaxHeld of them; then nothing is sampled (paused). One
// goroutine appends, one sync for a flush of ten seconds; one publishes, with time-outs and a growing wait between attempts. A power loss or kill -9
// takes the open ten seconds and what the disk had not synced yet; the next run says killed or rebooted for them. A stop as it should
// be closes the open batch, records the stop, and gives the log ten seconds; what it does not take then stays in the spool.
//
// The first second of a run, and the first after the clock was set back, are recorded in the spool at once, before their batch is closed:
// so the next run knows of a run that was killed before its first flush. Only while the disk does not take that record is there no trace.
//
// All nodes close a batch in the same second. What is published regularly therefore waits for the node's own place in Spread, which
// follows from its name, so that an ingest meets a fleet over eight seconds and not in one. What waits at the start goes at once, and so does what
// waits at the end. A minute is closed 30 s after its end, so this makes nothing late.
//
// A full disk, a full spool, thinning, a damaged record and an absent broker are alarms: sampling goes on, and each mends itself when its cause goes. Two
// errors end Run, because going on would only pretend: spool.ErrBroken (what the disk holds is unknown: start again, the spool is read anew)
// and collector.ErrCloned (a batch under this name can never be published: a person gives one of the machines another name).
package live
