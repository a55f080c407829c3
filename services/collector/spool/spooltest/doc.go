// Package spooltest owns a disk in memory on which a spool can be tested: it knows what was synced, and it can die at every single
// operation, fill up, or hang. It does not own the spool, nor a real folder.
package spooltest
