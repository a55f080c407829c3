// Package natsbus is the log on NATS JetStream: Start runs a server inside this process, Connect
// dials one by address, and both give the same Bus.
//
// It owns the two streams' configuration, the meaning of the server's refusals, and the lock that
// keeps a second process out of an embedded server's directory (the server itself would open it
// twice and destroy it).
//
// It does not own durability of a server it did not start: a message is acknowledged once it is
// synced only when that server runs with "sync_interval: always", which a client cannot see. Start
// always sets it. It does not own clustering, users or TLS of such a server either (deploy/nats
// has settings for one that nodes reach); of this side's keys and certificates it owns the reading (Access).
//
// Reads go through consumers, because direct gets take twice the processor time, but return only what
// the stream's leader says is settled: a consumer alone also delivers messages that are not synced
// yet, and the beginning of an atomic batch before its end.
package natsbus
