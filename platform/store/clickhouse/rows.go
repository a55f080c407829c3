package clickhouse

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/platform/store"
)

// table is where rows of one kind go. The order of columns is the order of values in a row.
type table struct {
	name    string
	columns string
}

// keyColumns are meter.ChargeKey, in the order of keyValues and keyTargets.
const keyColumns = "customer, contract, version, period_start_second, local_day, sku, pricing_mode, region, service_tier, " +
	"dedicated, kind, standing, reason, window, idle, commitment, spot_price, book, at_once_milli, slice_milli, state"

// The tables that Trim trims.
const (
	minuteTable     = "minute"
	quantityTable   = "quantity"
	deviceHourTable = "device_hour"
	refusalTable    = "refusal"
)

func rowTables() []table {
	return []table{
		{minuteTable, "device, hour, node, minute, run, block, seq_first, seq_last, spoken, seen, data"},
		{quantityTable, "device, hour, lease, block, " + keyColumns +
			", milli_gpu_seconds, measured_milli_gpu_seconds, inferred_milli_gpu_seconds, missing_milli_gpu_seconds"},
		{deviceHourTable, "device, hour, node, block, seen_leased_seconds, seen_unleased_seconds, ghost_seconds, leak_seconds"},
		{refusalTable, "id, reason, lease, customer, detail, at_second, block, delta"},
	}
}

// rowsOf are a put's rows for one table, in the order of the outcomes. Of one block no two rows are alike, because reads
// count those once.
func rowsOf(name string, outcomes []meter.Outcome) [][]any {
	var rows [][]any
	for i := range outcomes {
		o := &outcomes[i]
		switch name {
		case minuteTable:
			for _, r := range o.Rows {
				rows = append(rows, []any{
					r.Device, int64(r.Minute.Hour()), r.Node, int64(r.Minute), r.Run, r.Block, r.SeqFirst, r.SeqLast,
					uint64(r.Spoken), uint64(r.Seen), string(r.Data),
				})
			}
		case quantityTable:
			for _, d := range merged(o.Ledger, func(d meter.Difference) meter.Entry { return d.Entry }, addAmounts) {
				row := append([]any{d.Device, int64(d.Hour), d.Lease, d.Block}, keyValues(d.Key)...)
				rows = append(rows, append(row, d.Quantity, d.Measured, d.Inferred, d.Missing))
			}
		case deviceHourTable:
			for _, d := range merged(o.Devices, func(d meter.DeviceDifference) meter.DeviceEntry { return d.DeviceEntry }, addSeconds) {
				rows = append(rows, []any{d.Device, int64(d.Hour), d.Node, d.Block, d.SeenLeased, d.SeenUnleased, d.Ghost, d.Leak})
			}
		case refusalTable:
			for _, r := range merged(o.Refusals, withoutDelta, addDelta) {
				rows = append(rows, []any{r.ID, r.Reason, r.Lease, r.Customer, r.Detail, int64(r.At), r.Block, r.Delta})
			}
		}
	}
	return rows
}

// merged adds up rows with the same key, in the order in which keys come first.
func merged[R any, K comparable](rows []R, key func(R) K, add func(into *R, r R)) []R {
	at := make(map[K]int, len(rows))
	out := make([]R, 0, len(rows))
	for _, r := range rows {
		k := key(r)
		if i, ok := at[k]; ok {
			add(&out[i], r)
			continue
		}
		at[k] = len(out)
		out = append(out, r)
	}
	return out
}

func addAmounts(into *meter.Difference, d meter.Difference) { into.Amounts = into.Plus(d.Amounts) }

func addSeconds(into *meter.DeviceDifference, d meter.DeviceDifference) {
	into.DeviceSeconds = into.Plus(d.DeviceSeconds)
}

func addDelta(into *meter.Refusal, r meter.Refusal) { into.Delta += r.Delta }

func withoutDelta(r meter.Refusal) meter.Refusal {
	r.Delta = 0
	return r
}

func keyValues(k meter.ChargeKey) []any {
	return []any{
		k.Customer, k.Contract, k.Version, int64(k.PeriodStart), k.LocalDay, k.SKU, k.PricingMode, k.Region, k.ServiceTier,
		k.Dedicated, string(k.Kind), string(k.Standing), k.Reason, k.Window, k.Idle, k.Commitment, k.SpotPrice, k.Book, k.AtOnceMilli, k.SliceMilli, string(k.State),
	}
}

// keyTargets are where keyColumns are scanned to.
func keyTargets(k *meter.ChargeKey) []any {
	return []any{
		&k.Customer, &k.Contract, &k.Version, (*int64)(&k.PeriodStart), &k.LocalDay, &k.SKU, &k.PricingMode, &k.Region, &k.ServiceTier,
		&k.Dedicated, (*string)(&k.Kind), (*string)(&k.Standing), &k.Reason, &k.Window, &k.Idle, &k.Commitment, &k.SpotPrice, &k.Book, &k.AtOnceMilli, &k.SliceMilli, (*string)(&k.State),
	}
}

func progressTable() table {
	return table{"progress", "service, block, facts_seq, at_second, usage_floor, tick_digest, ledger_digest, run"}
}

func runTable() table { return table{"run", "run, block"} }

func progressRow(p store.Progress, run uint64) []any {
	return []any{p.Service, p.Block, p.FactsSeq, int64(p.At), p.UsageFloor, string(p.Tick[:]), string(p.Ledger[:]), run}
}

// token names an insert by its table, the run, its blocks and every value. The engine
// drops an insert whose token it has seen lately: that is one which arrived although its sender had given up.
func token(t table, run, first, last uint64, rows [][]any) string {
	h := sha256.New()
	for _, v := range []any{t.name, t.columns, run, first, last} {
		hashValue(h, v)
	}
	for _, row := range rows {
		for _, v := range row {
			hashValue(h, v)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashValue writes a value so that no two rows of a table give the same bytes: text carries its length.
func hashValue(h hash.Hash, v any) {
	var b [8]byte
	number := func(n uint64) {
		binary.BigEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	switch v := v.(type) {
	case string:
		number(uint64(len(v)))
		h.Write([]byte(v))
	case uint64:
		number(v)
	case int64:
		number(uint64(v))
	case int32:
		number(uint64(v))
	case bool:
		h.Write([]byte{map[bool]byte{true: 1}[v]})
	default:
		panic(fmt.Sprintf("no row holds a %T", v))
	}
}
