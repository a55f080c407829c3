// Package demo owns the demonstration: five months of a real GPU cluster's leases, two days of per-second samples, through
// every component, with a scripted clock. It prints what it did and checks it against the trace's own arithmetic.
//
// It does not own any component: it drives the public API of package gpuhour or, where other processes do the work, samples,
// tells the time and watches the log and the tables.
package demo
