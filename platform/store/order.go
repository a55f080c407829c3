package store

import (
	"cmp"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/usage"
)

// The orders in which every adapter returns its results: the same rows give the same bytes further on.

// CompareRows orders minute rows by device, node, minute, run, block and sequence.
func CompareRows(a, b usage.Row) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Minute, b.Minute),
		cmp.Compare(a.Run, b.Run), cmp.Compare(a.Block, b.Block), cmp.Compare(a.SeqFirst, b.SeqFirst))
}

// CompareTotals orders ledger sums by lease, device and charge key.
func CompareTotals(a, b meter.Total) int {
	return cmp.Or(cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Device, b.Device), compareKeys(&a.Key, &b.Key))
}

func compareKeys(a, b *meter.ChargeKey) int {
	return cmp.Or(cmp.Compare(a.Customer, b.Customer), cmp.Compare(a.Contract, b.Contract),
		cmp.Compare(a.Version, b.Version), cmp.Compare(a.PeriodStart, b.PeriodStart),
		cmp.Compare(a.LocalDay, b.LocalDay), cmp.Compare(a.SKU, b.SKU), cmp.Compare(a.PricingMode, b.PricingMode),
		cmp.Compare(a.Region, b.Region), cmp.Compare(a.ServiceTier, b.ServiceTier),
		compareBools(a.Dedicated, b.Dedicated), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Standing, b.Standing),
		cmp.Compare(a.Reason, b.Reason), price.CompareConditions(a.Conditions, b.Conditions))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// ComparePeriods orders by contract and start.
func ComparePeriods(a, b Period) int {
	return cmp.Or(cmp.Compare(a.Contract, b.Contract), cmp.Compare(a.PeriodStart, b.PeriodStart))
}

// CompareRefusals orders by id, reason and lease.
func CompareRefusals(a, b meter.Refusal) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Lease, b.Lease))
}

// CompareDeviceTotals orders by node and device.
func CompareDeviceTotals(a, b DeviceTotal) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device, b.Device))
}

// CompareInvoices orders by series and number.
func CompareInvoices(a, b Invoice) int {
	return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Number, b.Number))
}
