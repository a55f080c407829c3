package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Store holds the rows in the order they were put. Use New.
type Store struct {
	mu       sync.Mutex
	minutes  []usage.Row
	ledger   []meter.Difference
	devices  []meter.DeviceDifference
	refusals []meter.Refusal
	progress map[string]store.Progress
	invoices []store.Invoice
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return &Store{progress: map[string]store.Progress{}} }

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, p store.Put) error {
	if err := p.Check(); err != nil {
		return fmt.Errorf("put rows of %s up to block %d: %w", p.Progress.Service, p.Progress.Block, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put rows of %s up to block %d: %w", p.Progress.Service, p.Progress.Block, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range p.Outcomes {
		for _, r := range o.Rows {
			r.Data = bytes.Clone(r.Data)
			s.minutes = append(s.minutes, r)
		}
		s.ledger = append(s.ledger, o.Ledger...)
		s.devices = append(s.devices, o.Devices...)
		s.refusals = append(s.refusals, o.Refusals...)
	}
	if last, ok := s.progress[p.Progress.Service]; !ok || p.Progress.Block >= last.Block {
		s.progress[p.Progress.Service] = p.Progress
	}
	return nil
}

// Progress implements store.Store.
func (s *Store) Progress(_ context.Context, service string) (store.Progress, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.progress[service]
	if !ok {
		return store.Progress{}, fmt.Errorf("read progress of %q: %w", service, store.ErrNotFound)
	}
	return p, nil
}

// Trim implements store.Store.
func (s *Store) Trim(_ context.Context, block uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minutes = slices.DeleteFunc(s.minutes, func(r usage.Row) bool { return r.Block > block })
	s.ledger = slices.DeleteFunc(s.ledger, func(d meter.Difference) bool { return d.Block > block })
	s.devices = slices.DeleteFunc(s.devices, func(d meter.DeviceDifference) bool { return d.Block > block })
	s.refusals = slices.DeleteFunc(s.refusals, func(r meter.Refusal) bool { return r.Block > block })
	return nil
}

// Minutes implements store.Store.
func (s *Store) Minutes(_ context.Context, ranges []meter.MinuteRange, block uint64) ([]usage.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type unit struct{ node, device string }
	byUnit := map[unit][]meter.MinuteRange{}
	for _, r := range ranges {
		u := unit{device: r.Device}
		if r.Device == "" {
			u.node = r.Node
		}
		byUnit[u] = append(byUnit[u], r)
	}
	var rows []usage.Row
	for _, row := range s.minutes {
		u := unit{device: row.Device}
		if row.Device == "" {
			u.node = row.Node
		}
		wanted := slices.ContainsFunc(byUnit[u], func(r meter.MinuteRange) bool { return r.From <= row.Minute && row.Minute < r.To })
		if row.Block <= block && wanted {
			row.Data = bytes.Clone(row.Data)
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, store.CompareRows)
	return rows, nil
}

// Standing implements store.Store.
func (s *Store) Standing(_ context.Context, units []meter.UnitHour, block uint64) (map[meter.Entry]meter.Amounts, map[meter.DeviceEntry]meter.DeviceSeconds, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[meter.UnitHour]bool{}
	for _, u := range units {
		if u.Unit.Device == "" {
			wanted[meter.UnitHour{Unit: meter.Unit{Lease: u.Unit.Lease}, Hour: u.Hour}] = true
			continue
		}
		wanted[meter.UnitHour{Unit: meter.Unit{Device: u.Unit.Device}, Hour: u.Hour}] = true
	}
	ledger := map[meter.Entry]meter.Amounts{}
	for _, d := range s.ledger {
		unit := meter.Unit{Device: d.Device}
		if d.Device == "" {
			unit = meter.Unit{Lease: d.Lease}
		}
		if d.Block <= block && wanted[meter.UnitHour{Unit: unit, Hour: d.Hour}] {
			ledger[d.Entry] = ledger[d.Entry].Plus(d.Amounts)
		}
	}
	devices := map[meter.DeviceEntry]meter.DeviceSeconds{}
	for _, d := range s.devices {
		if d.Block <= block && wanted[meter.UnitHour{Unit: meter.Unit{Device: d.Device}, Hour: d.Hour}] {
			devices[d.DeviceEntry] = devices[d.DeviceEntry].Plus(d.DeviceSeconds)
		}
	}
	maps.DeleteFunc(ledger, func(_ meter.Entry, a meter.Amounts) bool { return a.IsZero() })
	maps.DeleteFunc(devices, func(_ meter.DeviceEntry, d meter.DeviceSeconds) bool { return d == meter.DeviceSeconds{} })
	return ledger, devices, nil
}

// LastMinutes implements store.Store.
func (s *Store) LastMinutes(_ context.Context, block uint64) (map[meter.Unit]span.Minute, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := map[meter.Unit]span.Minute{}
	for _, r := range s.minutes {
		if r.Block > block {
			continue
		}
		unit := meter.Unit{Node: r.Node, Device: r.Device}
		if m, ok := last[unit]; !ok || r.Minute > m {
			last[unit] = r.Minute
		}
	}
	return last, nil
}
