package storetest

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Run runs every case, each on an empty store from open, which also closes it (t.Cleanup).
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"empty store", emptyStore},
		{"progress", progress},
		{"refused puts", refusedPuts},
		{"rows above the block are invisible", bounded},
		{"trim", trim},
		{"trim and put again", trimAndPutAgain},
		{"minutes", minutes},
		{"many ranges", manyRanges},
		{"standing", standing},
		{"standing of many unit hours", manyUnitHours},
		{"last minutes", lastMinutes},
		{"hostile names", hostileNames},
		{"blocks above 2^63", highBlocks},
		{"one put of fifty blocks", manyBlocks},
		{"totals as a plain fold", totalsAsFold},
		{"uncontracted totals", uncontracted},
		{"changed periods", changedPeriods},
		{"refusals", refusals},
		{"device totals", deviceTotals},
		{"seen seconds", seenSeconds},
		{"invoices", invoices},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// testHour is 2026-07-20T17:00:00Z, in hours since the epoch.
const testHour span.Hour = 495713

func ctx(t *testing.T) context.Context { return t.Context() }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// put puts outcomes as one put, with progress at the last one's block.
func put(t *testing.T, s store.Store, outcomes ...meter.Outcome) {
	t.Helper()
	check(t, s.Put(ctx(t), store.Put{Outcomes: outcomes, Progress: progressAt(outcomes[len(outcomes)-1].Block)}))
}

func progressAt(block uint64) store.Progress {
	return store.Progress{
		Service: "rater", Block: block, FactsSeq: block / 2, At: testHour.Start(), UsageFloor: block / 3,
		Tick: fact.Hash{0, 1, 0xff, 31: 7}, Ledger: fact.Hash{31: byte(block)},
	}
}

// priced is the charge key of most rows.
func priced(contract string) meter.ChargeKey {
	return meter.ChargeKey{
		Customer: "acme", Contract: contract, Version: 12, PeriodStart: 1782864000, LocalDay: 20260720, SKU: "h100-80gb",
		PricingMode: "on_demand", Region: "eu-1", ServiceTier: "standard", Dedicated: true, Kind: meter.Leased, Standing: meter.Priced,
	}
}

func difference(block uint64, e meter.Entry, quantity int64) meter.Difference {
	return meter.Difference{Block: block, Entry: e, Amounts: meter.Amounts{Quantity: quantity, Measured: quantity - 3, Inferred: 2, Missing: 1}}
}

func row(block uint64, node, device string, minute span.Minute, seen span.SecondMask) usage.Row {
	r := usage.Row{
		Node: node, Device: device, Minute: minute, Run: 5, Block: block, SeqFirst: block * 6, SeqLast: block*6 + 5,
		Spoken: span.FullMinute, Seen: seen,
	}
	if device != "" {
		r.Data = []byte{0, 1, '\'', '\\', 0xff, 0, byte(minute)}
	}
	return r
}

func emptyStore(t *testing.T, s store.Store) {
	if _, err := s.Progress(ctx(t), "rater"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Progress of a service that never put: %v; want ErrNotFound", err)
	}
	check(t, s.Trim(ctx(t), 0))
	rows, err := s.Minutes(ctx(t), nil, math.MaxUint64)
	check(t, err)
	same(t, "Minutes", len(rows), 0)
	rows, err = s.Minutes(ctx(t), []meter.MinuteRange{{Device: "gpu", From: 0, To: 600}, {Node: "n", From: 5, To: 5}}, math.MaxUint64)
	check(t, err)
	same(t, "Minutes of an unknown device", len(rows), 0)
	ledger, devices, err := s.Standing(ctx(t), []meter.UnitHour{{Unit: meter.Unit{Node: "n", Device: "gpu"}, Hour: 1}, {Unit: meter.Unit{Lease: "l"}}}, 9)
	check(t, err)
	same(t, "Standing", [2]int{len(ledger), len(devices)}, [2]int{})
	last, err := s.LastMinutes(ctx(t), 9)
	check(t, err)
	same(t, "LastMinutes", len(last), 0)
	totals, err := s.PeriodTotals(ctx(t), "c", 0, 9)
	check(t, err)
	same(t, "PeriodTotals", len(totals), 0)
	totals, err = s.UncontractedTotals(ctx(t), "acme", span.Span{To: span.Open}, 9)
	check(t, err)
	same(t, "UncontractedTotals", len(totals), 0)
	periods, err := s.ChangedPeriods(ctx(t), 0, 9)
	check(t, err)
	same(t, "ChangedPeriods", len(periods), 0)
	open, err := s.OpenRefusals(ctx(t), 9)
	check(t, err)
	same(t, "OpenRefusals", len(open), 0)
	deviceSums, err := s.DeviceTotals(ctx(t), span.Span{To: span.Open}, 9)
	check(t, err)
	same(t, "DeviceTotals", len(deviceSums), 0)
	seen, err := s.SeenSeconds(ctx(t), span.Span{To: span.Open}, 9)
	check(t, err)
	same(t, "SeenSeconds", seen, int64(0))
	bills, err := s.Invoices(ctx(t))
	check(t, err)
	same(t, "Invoices", len(bills), 0)
}

func progress(t *testing.T, s store.Store) {
	for _, block := range []uint64{3, 4, 9} {
		check(t, s.Put(ctx(t), store.Put{Progress: progressAt(block)}))
	}
	other := store.Progress{Service: "alerter", Block: 4}
	check(t, s.Put(ctx(t), store.Put{Progress: other}))
	check(t, s.Put(ctx(t), store.Put{Progress: other})) // a repeat
	for _, want := range []store.Progress{progressAt(9), other} {
		got, err := s.Progress(ctx(t), want.Service)
		check(t, err)
		same(t, "progress of "+want.Service, got, want)
	}
}

func refusedPuts(t *testing.T, s store.Store) {
	e := meter.Entry{Lease: "l", Device: "gpu", Hour: testHour, Key: priced("c")}
	for name, p := range map[string]store.Put{
		"no service":            {Progress: store.Progress{Block: 1}},
		"a block above":         {Outcomes: []meter.Outcome{{Block: 2}}, Progress: progressAt(1)},
		"blocks out of order":   {Outcomes: []meter.Outcome{{Block: 2}, {Block: 1}}, Progress: progressAt(2)},
		"a block twice":         {Outcomes: []meter.Outcome{{Block: 2}, {Block: 2}}, Progress: progressAt(2)},
		"another block's row":   {Outcomes: []meter.Outcome{{Block: 1, Ledger: []meter.Difference{difference(2, e, 9)}}}, Progress: progressAt(2)},
		"another block's usage": {Outcomes: []meter.Outcome{{Block: 1, Rows: []usage.Row{row(2, "n", "gpu", 1, 1)}}}, Progress: progressAt(2)},
	} {
		if err := s.Put(ctx(t), p); err == nil {
			t.Errorf("put with %s was taken", name)
		}
	}
	if _, err := s.Progress(ctx(t), "rater"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("progress after refused puts: %v; want ErrNotFound", err)
	}
}

// everything is one row of each kind, put at the block.
func everything(block uint64) meter.Outcome {
	minute := testHour.FirstMinute() + span.Minute(block)
	return meter.Outcome{
		Block:    block,
		Rows:     []usage.Row{row(block, "n", "gpu", minute, 0xff), row(block, "n", "", minute, 0)},
		Ledger:   []meter.Difference{difference(block, meter.Entry{Lease: "l", Device: "gpu", Hour: testHour, Key: priced("c")}, 1000)},
		Devices:  []meter.DeviceDifference{{Block: block, DeviceEntry: meter.DeviceEntry{Node: "n", Device: "gpu", Hour: testHour}, DeviceSeconds: meter.DeviceSeconds{SeenLeased: 8}}},
		Refusals: []meter.Refusal{{ID: "fact", Reason: "overlap", Detail: "d", Customer: "acme", Lease: "l", At: 5, Block: block, Delta: 1}},
	}
}

// seesBlocks checks every bounded read against n blocks of everything, the latest one being block.
func seesBlocks(t *testing.T, s store.Store, asOf uint64, n int, latest uint64) {
	t.Helper()
	all := span.Span{To: span.Open}
	rows, err := s.Minutes(ctx(t), []meter.MinuteRange{
		{Device: "gpu", From: testHour.FirstMinute(), To: testHour.FirstMinute() + 600},
		{Node: "n", From: testHour.FirstMinute(), To: testHour.FirstMinute() + 600},
	}, asOf)
	check(t, err)
	same(t, "minute rows", len(rows), 2*n)
	ledger, devices, err := s.Standing(ctx(t), []meter.UnitHour{{Unit: meter.Unit{Node: "n", Device: "gpu"}, Hour: testHour}}, asOf)
	check(t, err)
	k := int64(n)
	amounts := meter.Amounts{Quantity: 1000 * k, Measured: 997 * k, Inferred: 2 * k, Missing: k}
	same(t, "ledger", ledger, map[meter.Entry]meter.Amounts{{Lease: "l", Device: "gpu", Hour: testHour, Key: priced("c")}: amounts})
	same(t, "devices", devices, map[meter.DeviceEntry]meter.DeviceSeconds{{Node: "n", Device: "gpu", Hour: testHour}: {SeenLeased: 8 * k}})
	last, err := s.LastMinutes(ctx(t), asOf)
	check(t, err)
	minute := testHour.FirstMinute() + span.Minute(latest)
	same(t, "last minutes", last, map[meter.Unit]span.Minute{{Node: "n", Device: "gpu"}: minute, {Node: "n"}: minute})
	totals, err := s.PeriodTotals(ctx(t), "c", priced("c").PeriodStart, asOf)
	check(t, err)
	same(t, "totals", totals, []meter.Total{{Lease: "l", Device: "gpu", Key: priced("c"), Amounts: amounts}})
	open, err := s.OpenRefusals(ctx(t), asOf)
	check(t, err)
	want := everything(latest).Refusals
	want[0].Delta = k
	same(t, "refusals", open, want)
	deviceSums, err := s.DeviceTotals(ctx(t), all, asOf)
	check(t, err)
	same(t, "device totals", deviceSums, []store.DeviceTotal{{Node: "n", Device: "gpu", DeviceSeconds: meter.DeviceSeconds{SeenLeased: 8 * k}}})
	seen, err := s.SeenSeconds(ctx(t), all, asOf)
	check(t, err)
	same(t, "seen seconds", seen, 8*k)
}

func bounded(t *testing.T, s store.Store) {
	put(t, s, everything(3), everything(5))
	put(t, s, everything(7))
	seesBlocks(t, s, 3, 1, 3)
	seesBlocks(t, s, 4, 1, 3)
	seesBlocks(t, s, 6, 2, 5)
	seesBlocks(t, s, 7, 3, 7)
	seesBlocks(t, s, math.MaxUint64, 3, 7)
}

// trim: rows of block 7 are there although progress says 6, as after a put that was cut short.
func trim(t *testing.T, s store.Store) {
	put(t, s, everything(5), everything(6))
	put(t, s, everything(7))
	check(t, s.Trim(ctx(t), 6))
	seesBlocks(t, s, math.MaxUint64, 2, 6)
	check(t, s.Trim(ctx(t), 6)) // nothing to delete
	seesBlocks(t, s, math.MaxUint64, 2, 6)
}

// trimAndPutAgain: rows that were deleted and come again, the same to the last byte, are no repeat.
func trimAndPutAgain(t *testing.T, s store.Store) {
	put(t, s, everything(6))
	for range 3 {
		put(t, s, everything(7), everything(8))
		seesBlocks(t, s, 8, 3, 8)
		check(t, s.Trim(ctx(t), 6))
		seesBlocks(t, s, 8, 1, 6)
	}
	put(t, s, everything(7), everything(8))
	put(t, s, everything(9))
	seesBlocks(t, s, 9, 4, 9)
}

func highBlocks(t *testing.T, s store.Store) {
	const high = math.MaxUint64 - 8
	outcome := everything(1)
	outcome.Block = high
	outcome.Rows[0].Block, outcome.Rows[1].Block = high, high
	outcome.Rows[0].Run, outcome.Rows[0].SeqFirst, outcome.Rows[0].SeqLast = math.MaxUint64, 1<<63, math.MaxUint64
	outcome.Ledger[0].Block, outcome.Devices[0].Block, outcome.Refusals[0].Block = high, high, high
	p := progressAt(high)
	p.FactsSeq, p.UsageFloor = math.MaxUint64, 1<<63+1
	check(t, s.Put(ctx(t), store.Put{Outcomes: []meter.Outcome{outcome}, Progress: p}))

	got, err := s.Progress(ctx(t), "rater")
	check(t, err)
	same(t, "progress", got, p)
	ranges := []meter.MinuteRange{{Device: "gpu", From: testHour.FirstMinute(), To: testHour.FirstMinute() + 60}}
	rows, err := s.Minutes(ctx(t), ranges, high)
	check(t, err)
	same(t, "row at the block", rows, outcome.Rows[:1])
	rows, err = s.Minutes(ctx(t), ranges, high-1)
	check(t, err)
	same(t, "rows below the block", len(rows), 0)
	periods, err := s.ChangedPeriods(ctx(t), high-1, high)
	check(t, err)
	same(t, "changed periods", len(periods), 1)
	check(t, s.Trim(ctx(t), high-1))
	rows, err = s.Minutes(ctx(t), ranges, math.MaxUint64)
	check(t, err)
	same(t, "rows after trim", len(rows), 0)
}
