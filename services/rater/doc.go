// Package rater owns the pump from the log to the ledger: fetch, decode, plan, read, apply, put, progress stand under
// each other in Step. On any error the rater is thrown away and boots from its progress: one recovery path.
//
// It does not own what is computed (core/meter), nor money (core/bill, services/invoicer).
package rater
