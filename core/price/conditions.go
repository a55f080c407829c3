package price

import (
	"cmp"

	"github.com/gpuhour/gpuhour/core/fact"
)

// Conditions are what decides a price besides what the lease states. The zero value is time without any.
type Conditions struct {
	Window     string // the schedule window that holds, or ""
	Idle       bool   // idle relief is due
	Commitment string // the reservation, forward or package that covers it, or "" for burst
	SpotPrice  string // the spot index's price as its tick states it, or ""
	Book       uint64 // position of the price book fact that prices the SKU, 0 for the contract's own price
	// AtOnceMilli is how many milli-GPUs are held at once, where tiers by that number price the second: the fewest that are priced alike,
	// see contract.Tiers.Deciding; else 0.
	AtOnceMilli int64
	SliceMilli  int64 // share of the slice, where a price is per slice; else 0
	// State is the lease's while it scales the price: "" for time at the whole of it, of a running lease.
	State fact.LeaseState
}

// CompareConditions is the order of conditions in rows, totals and lines.
func CompareConditions(c, o Conditions) int {
	idle := 0
	if c.Idle != o.Idle {
		idle = -1
		if c.Idle {
			idle = 1
		}
	}
	return cmp.Or(
		cmp.Compare(c.Window, o.Window), idle, cmp.Compare(c.Commitment, o.Commitment), cmp.Compare(c.SpotPrice, o.SpotPrice), cmp.Compare(c.Book, o.Book),
		cmp.Compare(c.AtOnceMilli, o.AtOnceMilli), cmp.Compare(c.SliceMilli, o.SliceMilli), cmp.Compare(c.State, o.State),
	)
}
