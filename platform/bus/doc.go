// Package bus is the port to the log: two append-only streams, one of facts and one of usage.
//
// It owns what every log must promise: one sequence per stream without holes, expectations on the
// last message of a subject, atomic batches, reads by position, and Claim, the one way to settle a
// publication whose outcome is not known.
//
// It does not own what a message means (codec), who may publish it (the server's permissions), or
// blocks and ticks (the log reader). Implementations: membus for tests, natsbus for JetStream; both
// pass bustest.
package bus
