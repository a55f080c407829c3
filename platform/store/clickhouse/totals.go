package clickhouse

import (
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/store"
)

// PeriodTotals implements store.Store.
func (s *Store) PeriodTotals(ctx context.Context, contract string, periodStart span.Second, block uint64) ([]meter.Total, error) {
	totals, err := s.totals(ctx, "contract = {contract:String} AND period_start_second = {start:Int64}",
		clickhouse.Named("contract", contract), clickhouse.Named("start", int64(periodStart)), clickhouse.Named("block", block))
	if err != nil {
		return nil, fmt.Errorf("sum the period %s of contract %q up to block %d: %w", periodStart, contract, block, err)
	}
	return totals, nil
}

// UncontractedTotals implements store.Store.
func (s *Store) UncontractedTotals(ctx context.Context, customer string, within span.Span, block uint64) ([]meter.Total, error) {
	if within.Empty() {
		return nil, nil
	}
	first, last := int64(within.From.Hour()), int64((within.To - 1).Hour())
	totals, err := s.totals(ctx, "contract = '' AND customer = {customer:String} AND hour BETWEEN {first:Int64} AND {last:Int64}",
		clickhouse.Named("customer", customer), clickhouse.Named("first", first),
		clickhouse.Named("last", last), clickhouse.Named("block", block))
	if err != nil {
		return nil, fmt.Errorf("sum the hours of customer %q without a contract up to block %d: %w", customer, block, err)
	}
	return totals, nil
}

func (s *Store) totals(ctx context.Context, where string, args ...any) ([]meter.Total, error) {
	var totals []meter.Total
	var t meter.Total
	targets := append([]any{&t.Lease, &t.Device}, keyTargets(&t.Key)...)
	err := s.query(ctx, append(targets, amountTargets(&t.Amounts)...), func() error {
		totals = append(totals, t)
		return nil
	}, `SELECT lease, device, `+keyColumns+`, `+sums(amountColumns())+` FROM `+once(quantityTable, where)+`
		GROUP BY lease, device, `+keyColumns+` HAVING `+anyOf(amountColumns()), args...)
	slices.SortFunc(totals, store.CompareTotals)
	return totals, err
}

// ChangedPeriods implements store.Store.
func (s *Store) ChangedPeriods(ctx context.Context, after, block uint64) ([]store.Period, error) {
	var periods []store.Period
	var p store.Period
	err := s.query(ctx, []any{&p.Contract, (*int64)(&p.PeriodStart)}, func() error {
		periods = append(periods, p)
		return nil
	}, `SELECT DISTINCT contract, period_start_second FROM quantity
		WHERE contract != '' AND block > {after:UInt64} AND block <= {block:UInt64}`,
		clickhouse.Named("after", after), clickhouse.Named("block", block))
	if err != nil {
		return nil, fmt.Errorf("list the periods changed in blocks %d to %d: %w", after, block, err)
	}
	slices.SortFunc(periods, store.ComparePeriods)
	return periods, nil
}

// OpenRefusals implements store.Store.
func (s *Store) OpenRefusals(ctx context.Context, block uint64) ([]meter.Refusal, error) {
	const latest = "(r.block, r.detail, r.customer, r.at_second), r.delta > 0)" // the raise that describes it
	var refusals []meter.Refusal
	var r meter.Refusal
	targets := []any{&r.ID, &r.Reason, &r.Lease, &r.Detail, &r.Customer, (*int64)(&r.At), &r.Block, &r.Delta}
	err := s.query(ctx, targets, func() error {
		refusals = append(refusals, r)
		return nil
	}, `SELECT id, reason, lease, argMaxIf(r.detail, `+latest+`, argMaxIf(r.customer, `+latest+`,
			argMaxIf(r.at_second, `+latest+`, argMaxIf(r.block, `+latest+`, sum(r.delta) AS open
		FROM `+once(refusalTable, "true")+` AS r GROUP BY id, reason, lease HAVING open > 0`, clickhouse.Named("block", block))
	if err != nil {
		return nil, fmt.Errorf("list open refusals up to block %d: %w", block, err)
	}
	slices.SortFunc(refusals, store.CompareRefusals)
	return refusals, nil
}

// DeviceTotals implements store.Store.
func (s *Store) DeviceTotals(ctx context.Context, within span.Span, block uint64) ([]store.DeviceTotal, error) {
	if within.Empty() {
		return nil, nil
	}
	first, last := hoursStarting(within)
	var totals []store.DeviceTotal
	var t store.DeviceTotal
	err := s.query(ctx, append([]any{&t.Node, &t.Device}, secondTargets(&t.DeviceSeconds)...), func() error {
		totals = append(totals, t)
		return nil
	}, `SELECT node, device, `+sums(secondColumns())+`
		FROM `+once(deviceHourTable, "hour BETWEEN {first:Int64} AND {last:Int64}")+`
		GROUP BY node, device HAVING `+anyOf(secondColumns()),
		clickhouse.Named("first", first), clickhouse.Named("last", last), clickhouse.Named("block", block))
	if err != nil {
		return nil, fmt.Errorf("sum device hours of %s up to block %d: %w", within, block, err)
	}
	slices.SortFunc(totals, store.CompareDeviceTotals)
	return totals, nil
}

// SeenSeconds implements store.Store. A minute is the OR of its rows; only the first and last minute can be cut.
func (s *Store) SeenSeconds(ctx context.Context, within span.Span, block uint64) (int64, error) {
	if within.Empty() {
		return 0, nil
	}
	first, last := within.From.Minute(), (within.To - 1).Minute()
	// Rows come in the order of the sorting key, so the groups of one device's hour are all that memory holds.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"optimize_aggregation_in_order": 1}))
	var seen uint64
	err := s.conn.QueryRow(ctx, `SELECT sum(bitCount(multiIf(
			minute = {first:Int64}, bitAnd(mask, {first_mask:UInt64}), minute = {last:Int64}, bitAnd(mask, {last_mask:UInt64}), mask)))
		FROM (SELECT minute, groupBitOr(seen) AS mask FROM minute
			WHERE device != '' AND minute BETWEEN {first:Int64} AND {last:Int64} AND block <= {block:UInt64}
			GROUP BY device, hour, minute)`,
		clickhouse.Named("first", int64(first)), clickhouse.Named("first_mask", uint64(span.MaskOf(first, within))),
		clickhouse.Named("last", int64(last)), clickhouse.Named("last_mask", uint64(span.MaskOf(last, within))),
		clickhouse.Named("block", block)).Scan(&seen)
	if err != nil {
		return 0, fmt.Errorf("count the seen seconds of %s up to block %d: %w", within, block, err)
	}
	return int64(seen), nil
}
