package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Progress implements store.Store.
func (s *Store) Progress(ctx context.Context, service string) (store.Progress, error) {
	p, found := store.Progress{Service: service}, false
	var tick, ledger string
	err := s.query(ctx, []any{&p.Block, &p.FactsSeq, (*int64)(&p.At), &p.UsageFloor, &tick, &ledger}, func() error {
		found = true
		p.Tick, p.Ledger = fact.Hash([]byte(tick)), fact.Hash([]byte(ledger))
		return nil
	}, `SELECT block, facts_seq, at_second, usage_floor, tick_digest, ledger_digest FROM progress
		WHERE service = {service:String} AND `+counts+`
		ORDER BY block DESC LIMIT 1`, clickhouse.Named("service", service))
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Progress{}, fmt.Errorf("read progress of %q: %w", service, err)
	}
	return p, nil
}

// maxRangeHours bounds one range of Minutes (five years), because a range is looked up hour by hour.
const maxRangeHours = 5 * 366 * 24

// Minutes implements store.Store.
func (s *Store) Minutes(ctx context.Context, ranges []meter.MinuteRange, block uint64) ([]usage.Row, error) {
	wanted := map[meter.Unit][]meter.MinuteRange{} // a node's own under its name, a device under the device alone
	var devices, nodes []nameHour
	for _, r := range ranges {
		if r.To <= r.From {
			continue
		}
		first, last := r.From.Hour(), (r.To - 1).Hour()
		if last-first >= maxRangeHours {
			return nil, fmt.Errorf("read minutes %d to %d of device %q: the range is longer than five years", r.From, r.To, r.Device)
		}
		for hour := first; hour <= last; hour++ {
			if r.Device != "" {
				devices = append(devices, nameHour{r.Device, hour})
			} else {
				nodes = append(nodes, nameHour{r.Node, hour})
			}
		}
		u := minuteUnit(r.Node, r.Device)
		wanted[u] = append(wanted[u], r)
	}
	var rows []usage.Row
	collect := func(row usage.Row) {
		for _, r := range wanted[minuteUnit(row.Node, row.Device)] {
			if r.From <= row.Minute && row.Minute < r.To {
				rows = append(rows, row)
				return
			}
		}
	}
	if err := s.minutes(ctx, "device != '' AND (device, hour)", devices, block, collect); err != nil {
		return nil, fmt.Errorf("read minutes of devices up to block %d: %w", block, err)
	}
	if err := s.minutes(ctx, "device = '' AND (node, hour)", nodes, block, collect); err != nil {
		return nil, fmt.Errorf("read minutes of nodes up to block %d: %w", block, err)
	}
	slices.SortFunc(rows, store.CompareRows)
	return rows, nil
}

func minuteUnit(node, device string) meter.Unit {
	if device != "" {
		return meter.Unit{Device: device}
	}
	return meter.Unit{Node: node}
}

func (s *Store) minutes(ctx context.Context, by string, list []nameHour, block uint64, collect func(usage.Row)) error {
	var r usage.Row
	var data string
	targets := []any{
		&r.Node, &r.Device, (*int64)(&r.Minute), &r.Run, &r.Block, &r.SeqFirst, &r.SeqLast,
		(*uint64)(&r.Spoken), (*uint64)(&r.Seen), &data,
	}
	each := func() error {
		if r.Data = nil; data != "" {
			r.Data = []byte(data)
		}
		collect(r)
		return nil
	}
	for args := range chunks(list) {
		err := s.query(ctx, targets, each, `SELECT DISTINCT node, device, minute, run, block, seq_first, seq_last, spoken, seen, data
			FROM minute WHERE `+by+` IN `+inNameHours+` AND block <= {block:UInt64}`, append(args, clickhouse.Named("block", block))...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Standing implements store.Store.
func (s *Store) Standing(ctx context.Context, units []meter.UnitHour, block uint64) (map[meter.Entry]meter.Amounts, map[meter.DeviceEntry]meter.DeviceSeconds, error) {
	var devices, leases []nameHour
	for _, u := range units {
		if u.Unit.Device == "" {
			leases = append(leases, nameHour{u.Unit.Lease, u.Hour})
			continue
		}
		devices = append(devices, nameHour{u.Unit.Device, u.Hour})
	}
	ledger := map[meter.Entry]meter.Amounts{}
	if err := s.standing(ctx, "device != '' AND (device, hour)", devices, block, ledger); err != nil {
		return nil, nil, fmt.Errorf("read the ledger of devices up to block %d: %w", block, err)
	}
	if err := s.standing(ctx, "device = '' AND (lease, hour)", leases, block, ledger); err != nil {
		return nil, nil, fmt.Errorf("read the ledger of leases up to block %d: %w", block, err)
	}
	seconds, err := s.standingDevices(ctx, devices, block)
	if err != nil {
		return nil, nil, fmt.Errorf("read device hours up to block %d: %w", block, err)
	}
	return ledger, seconds, nil
}

func (s *Store) standing(ctx context.Context, by string, list []nameHour, block uint64, ledger map[meter.Entry]meter.Amounts) error {
	var e meter.Entry
	var a meter.Amounts
	targets := append([]any{&e.Lease, &e.Device, (*int64)(&e.Hour)}, keyTargets(&e.Key)...)
	targets = append(targets, amountTargets(&a)...)
	each := func() error {
		ledger[e] = a
		return nil
	}
	for args := range chunks(list) {
		err := s.query(ctx, targets, each, `SELECT lease, device, hour, `+keyColumns+`, `+sums(amountColumns())+`
			FROM `+once(quantityTable, by+" IN "+inNameHours)+`
			GROUP BY lease, device, hour, `+keyColumns+` HAVING `+anyOf(amountColumns()), append(args, clickhouse.Named("block", block))...)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) standingDevices(ctx context.Context, list []nameHour, block uint64) (map[meter.DeviceEntry]meter.DeviceSeconds, error) {
	seconds := map[meter.DeviceEntry]meter.DeviceSeconds{}
	var e meter.DeviceEntry
	var d meter.DeviceSeconds
	targets := append([]any{&e.Node, &e.Device, (*int64)(&e.Hour)}, secondTargets(&d)...)
	each := func() error {
		seconds[e] = d
		return nil
	}
	for args := range chunks(list) {
		err := s.query(ctx, targets, each, `SELECT node, device, hour, `+sums(secondColumns())+`
			FROM `+once(deviceHourTable, "(device, hour) IN "+inNameHours)+`
			GROUP BY node, device, hour HAVING `+anyOf(secondColumns()), append(args, clickhouse.Named("block", block))...)
		if err != nil {
			return nil, err
		}
	}
	return seconds, nil
}

func amountColumns() []string {
	return []string{"milli_gpu_seconds", "measured_milli_gpu_seconds", "inferred_milli_gpu_seconds", "missing_milli_gpu_seconds"}
}

func amountTargets(a *meter.Amounts) []any {
	return []any{&a.Quantity, &a.Measured, &a.Inferred, &a.Missing}
}

func secondColumns() []string {
	return []string{"seen_leased_seconds", "seen_unleased_seconds", "ghost_seconds", "leak_seconds"}
}

func secondTargets(d *meter.DeviceSeconds) []any {
	return []any{&d.SeenLeased, &d.SeenUnleased, &d.Ghost, &d.Leak}
}

// sums adds in 128 bits, because ClickHouse's sum of Int64 wraps silently; a sum that does not fit 64 bits is an
// error of the statement.
func sums(columns []string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = "accurateCast(sum(toInt128(" + c + ")), 'Int64') AS sum_" + c
	}
	return strings.Join(list, ", ")
}

// anyOf leaves out groups whose sums are all zero.
func anyOf(columns []string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = "sum_" + c + " != 0"
	}
	return strings.Join(list, " OR ")
}

// LastMinutes implements store.Store.
func (s *Store) LastMinutes(ctx context.Context, block uint64) (map[meter.Unit]span.Minute, error) {
	last := map[meter.Unit]span.Minute{}
	var u meter.Unit
	var m span.Minute
	err := s.query(ctx, []any{&u.Node, &u.Device, (*int64)(&m)}, func() error {
		last[u] = m
		return nil
	}, "SELECT node, device, max(minute) FROM minute WHERE block <= {block:UInt64} GROUP BY node, device", clickhouse.Named("block", block))
	if err != nil {
		return nil, fmt.Errorf("read the last minutes up to block %d: %w", block, err)
	}
	return last, nil
}
