// Package journal owns the log as services meet it: a Reader that gives whole blocks (usage up to a tick, facts up to its
// F, the time T) and a Writer that states facts and publishes ticks. It holds the clock to its
// declaration, and the log to what was read of it before (ErrRewound).
//
// It does not own bytes (platform/codec), transport (platform/bus) or meaning (core/).
package journal
