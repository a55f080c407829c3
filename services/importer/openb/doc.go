// Package openb owns the import of Alibaba's openb trace (2023): its two CSV files, read strictly, become lease facts.
// The files are embedded (trace/, see NOTICE-openb.md), so a demo needs nothing else.
//
// It does not own prices, contracts or the clock: the caller states the start date and publishes the facts.
//
// # Rules
//
// A pod with num_gpu above 0 and a scheduled_time is a lease: it starts at start + scheduled_time and stops at
// start + deletion_time, in seconds. A pod that was never scheduled, or uses no GPU, bills nothing and is counted.
// Each lease is stopped by the customer, whatever the pod's phase: a pod that Failed is the customer's program failing,
// not the provider's machine, and the trace names no machine fault. So a start minimum applies to all of them.
//
// Customers are the four classes of qos: openb-ls, openb-be, openb-burstable, openb-guaranteed. The SKU is openb-gpu
// for all, because the pod file names no model (gpu_spec is empty in it, and is not looked at).
//
// Placement is first-fit over the nodes in file order: on the first node with enough devices that have gpu_milli free
// each, the first num_gpu of them. A pod that fits nowhere at its start is an unplaced lease (count and share) and
// is counted. Pods start in the order of their times, then of the file; at one instant stops come before starts. A pod
// of no length starts and stops at one instant and occupies nothing.
package openb
