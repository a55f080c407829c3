package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/store"
)

// PeriodTotals implements store.Store.
func (s *Store) PeriodTotals(_ context.Context, contract string, periodStart span.Second, block uint64) ([]meter.Total, error) {
	return s.totals(block, func(d *meter.Difference) bool {
		return d.Key.Contract == contract && d.Key.PeriodStart == periodStart
	}), nil
}

// UncontractedTotals implements store.Store.
func (s *Store) UncontractedTotals(_ context.Context, customer string, within span.Span, block uint64) ([]meter.Total, error) {
	return s.totals(block, func(d *meter.Difference) bool {
		return d.Key.Contract == "" && d.Key.Customer == customer && d.Hour.Span().Overlaps(within)
	}), nil
}

func (s *Store) totals(block uint64, wanted func(*meter.Difference) bool) []meter.Total {
	s.mu.Lock()
	defer s.mu.Unlock()
	type cell struct {
		lease, device string
		key           meter.ChargeKey
	}
	sums := map[cell]meter.Amounts{}
	for i := range s.ledger {
		d := &s.ledger[i]
		if d.Block <= block && wanted(d) {
			c := cell{d.Lease, d.Device, d.Key}
			sums[c] = sums[c].Plus(d.Amounts)
		}
	}
	var totals []meter.Total
	for c, a := range sums {
		if !a.IsZero() {
			totals = append(totals, meter.Total{Lease: c.lease, Device: c.device, Key: c.key, Amounts: a})
		}
	}
	slices.SortFunc(totals, store.CompareTotals)
	return totals
}

// ChangedPeriods implements store.Store.
func (s *Store) ChangedPeriods(_ context.Context, after, block uint64) ([]store.Period, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var periods []store.Period
	for _, d := range s.ledger {
		if after < d.Block && d.Block <= block && d.Key.Contract != "" {
			periods = append(periods, store.Period{Contract: d.Key.Contract, PeriodStart: d.Key.PeriodStart})
		}
	}
	slices.SortFunc(periods, store.ComparePeriods)
	return slices.Compact(periods), nil
}

// OpenRefusals implements store.Store.
func (s *Store) OpenRefusals(_ context.Context, block uint64) ([]meter.Refusal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type cause struct{ id, reason, lease string }
	open := map[cause]meter.Refusal{}
	for _, r := range s.refusals {
		if r.Block > block {
			continue
		}
		c := cause{r.ID, r.Reason, r.Lease}
		sum := open[c]
		if r.Delta > 0 && laterThan(r, sum) {
			r.Delta += sum.Delta
			open[c] = r
			continue
		}
		sum.Delta += r.Delta
		open[c] = sum
	}
	var refusals []meter.Refusal
	for _, r := range open {
		if r.Delta > 0 {
			refusals = append(refusals, r)
		}
	}
	slices.SortFunc(refusals, store.CompareRefusals)
	return refusals, nil
}

// laterThan picks the raise that describes an open refusal: the latest, and of one block the greatest text, so that
// the order of rows plays no part.
func laterThan(a, b meter.Refusal) bool {
	return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Detail, b.Detail), cmp.Compare(a.Customer, b.Customer),
		cmp.Compare(a.At, b.At)) >= 0
}

// DeviceTotals implements store.Store.
func (s *Store) DeviceTotals(_ context.Context, within span.Span, block uint64) ([]store.DeviceTotal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type device struct{ node, device string }
	sums := map[device]meter.DeviceSeconds{}
	for _, d := range s.devices {
		if d.Block <= block && within.Contains(d.Hour.Start()) {
			u := device{d.Node, d.Device}
			sums[u] = sums[u].Plus(d.DeviceSeconds)
		}
	}
	var totals []store.DeviceTotal
	for u, sum := range sums {
		if sum != (meter.DeviceSeconds{}) {
			totals = append(totals, store.DeviceTotal{Node: u.node, Device: u.device, DeviceSeconds: sum})
		}
	}
	slices.SortFunc(totals, store.CompareDeviceTotals)
	return totals, nil
}

// SeenSeconds implements store.Store.
func (s *Store) SeenSeconds(_ context.Context, within span.Span, block uint64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type deviceMinute struct {
		device string
		minute span.Minute
	}
	seen := map[deviceMinute]span.SecondMask{}
	for _, r := range s.minutes {
		if r.Block <= block && r.Device != "" {
			seen[deviceMinute{r.Device, r.Minute}] |= r.Seen & span.MaskOf(r.Minute, within)
		}
	}
	var n int64
	for _, mask := range seen {
		n += int64(mask.Count())
	}
	return n, nil
}

// PutInvoice implements store.Store.
func (s *Store) PutInvoice(_ context.Context, row store.Invoice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.invoices {
		if known.Series != row.Series || known.Number != row.Number {
			continue
		}
		if !bytes.Equal(known.Document, row.Document) {
			return fmt.Errorf("put invoice %s %d: %w", row.Series, row.Number, store.ErrOtherInvoice)
		}
		return nil
	}
	s.invoices = append(s.invoices, cloneInvoice(row))
	return nil
}

// Invoices implements store.Store.
func (s *Store) Invoices(context.Context) ([]store.Invoice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var invoices []store.Invoice
	for _, row := range s.invoices {
		invoices = append(invoices, cloneInvoice(row))
	}
	slices.SortFunc(invoices, store.CompareInvoices)
	return invoices, nil
}

func cloneInvoice(row store.Invoice) store.Invoice {
	row.Document, row.Lines = bytes.Clone(row.Document), slices.Clone(row.Lines)
	return row
}

// Close implements store.Store.
func (s *Store) Close() error { return nil }
