package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

func minutes(t *testing.T, s store.Store) {
	first := testHour.FirstMinute()
	early := meter.Outcome{Block: 1}
	for m := first - 2; m < first+62; m++ {
		early.Rows = append(early.Rows, row(1, "n1", "gpu-b", m, span.FullMinute), row(1, "n1", "", m, 0))
	}
	late := meter.Outcome{Block: 2, Rows: []usage.Row{
		row(2, "n1", "gpu-b", first, 1), // a second row of one minute
		row(2, "n2", "gpu-b", first, 2), // the device moved to another node within the minute
		row(2, "n2", "", first, 0),
		row(2, "n1", "gpu-a", first, 4),
	}}
	put(t, s, early, late)

	got, err := s.Minutes(ctx(t), []meter.MinuteRange{
		{Device: "gpu-b", From: first - 1, To: first + 1},
		{Device: "gpu-b", Node: "elsewhere", From: first, To: first + 2}, // overlaps; the node of a device plays no part
		{Device: "gpu-a", From: first, To: first + 1},
		{Node: "n1", From: first + 60, To: first + 61}, // the end is not in the range
	}, 2)
	check(t, err)
	same(t, "rows", got, []usage.Row{
		row(1, "n1", "", first+60, 0),
		row(2, "n1", "gpu-a", first, 4),
		row(1, "n1", "gpu-b", first-1, span.FullMinute),
		row(1, "n1", "gpu-b", first, span.FullMinute),
		row(2, "n1", "gpu-b", first, 1),
		row(1, "n1", "gpu-b", first+1, span.FullMinute),
		row(2, "n2", "gpu-b", first, 2),
	})
}

// manyRanges asks for three thousand ranges, all different.
func manyRanges(t *testing.T, s store.Store) {
	const n = 3000
	outcome := meter.Outcome{Block: 1}
	var ranges []meter.MinuteRange
	var want []usage.Row
	for i := range n {
		device := fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i)
		minute := testHour.FirstMinute() + span.Minute(i)
		outcome.Rows = append(outcome.Rows, row(1, "n", device, minute, 1), row(1, "n", device, minute+1, 2), row(1, "n", device, minute+60, 4))
		ranges = append(ranges, meter.MinuteRange{Device: device, From: minute, To: minute + 2})
		want = append(want, outcome.Rows[3*i], outcome.Rows[3*i+1])
	}
	put(t, s, outcome)
	got, err := s.Minutes(ctx(t), ranges, 1)
	check(t, err)
	same(t, "rows", got, want)
}

func standing(t *testing.T, s store.Store) {
	device := meter.Entry{Lease: "l1", Device: "gpu", Hour: testHour, Key: priced("c")}
	topUp := device
	topUp.Key.Kind = meter.TopUp
	corrected := device
	corrected.Lease = "l2"
	unplaced := meter.Entry{Lease: "l3", Hour: testHour, Key: priced("c")}
	nextHour := device
	nextHour.Hour++
	seconds := func(block uint64, node string, hour span.Hour, d meter.DeviceSeconds) meter.DeviceDifference {
		return meter.DeviceDifference{Block: block, DeviceEntry: meter.DeviceEntry{Node: node, Device: "gpu", Hour: hour}, DeviceSeconds: d}
	}
	put(t, s, meter.Outcome{Block: 1, Ledger: []meter.Difference{
		difference(1, device, 3_600_000), difference(1, topUp, 50), difference(1, corrected, 700), difference(1, unplaced, 8_000),
		difference(1, nextHour, 9),
	}, Devices: []meter.DeviceDifference{
		seconds(1, "n1", testHour, meter.DeviceSeconds{SeenLeased: 10, SeenUnleased: 20, Ghost: 30, Leak: 40}),
		seconds(1, "n2", testHour, meter.DeviceSeconds{SeenLeased: 1}),
	}})
	gone := difference(2, corrected, 700)
	gone.Amounts = meter.Amounts{}.Minus(gone.Amounts)
	put(t, s, meter.Outcome{Block: 2, Ledger: []meter.Difference{
		{Entry: device, Block: 2, Amounts: meter.Amounts{Quantity: -600_000, Measured: -599_999, Inferred: -1}}, gone,
	}, Devices: []meter.DeviceDifference{
		seconds(2, "n1", testHour, meter.DeviceSeconds{SeenLeased: -10, SeenUnleased: 1, Ghost: -30, Leak: -40}),
	}})

	n1 := meter.UnitHour{Unit: meter.Unit{Node: "n1", Device: "gpu"}, Hour: testHour}
	ledger, devices, err := s.Standing(ctx(t), []meter.UnitHour{n1, n1, {Unit: meter.Unit{Lease: "l3"}, Hour: testHour}}, 2)
	check(t, err)
	same(t, "ledger", ledger, map[meter.Entry]meter.Amounts{
		device:   {Quantity: 3_000_000, Measured: 2_999_998, Inferred: 1, Missing: 1},
		topUp:    {Quantity: 50, Measured: 47, Inferred: 2, Missing: 1},
		unplaced: {Quantity: 8_000, Measured: 7_997, Inferred: 2, Missing: 1},
	})
	same(t, "devices", devices, map[meter.DeviceEntry]meter.DeviceSeconds{
		{Node: "n1", Device: "gpu", Hour: testHour}: {SeenUnleased: 21}, {Node: "n2", Device: "gpu", Hour: testHour}: {SeenLeased: 1},
	})

	ledger, _, err = s.Standing(ctx(t), []meter.UnitHour{{Unit: meter.Unit{Lease: "l1"}, Hour: testHour}}, 2)
	check(t, err)
	same(t, "a placed lease asked for as an unplaced one", len(ledger), 0)
}

// manyUnitHours asks for twenty thousand unit hours, of which every second has an entry.
func manyUnitHours(t *testing.T, s store.Store) {
	const devices, hours = 500, 40
	outcome := meter.Outcome{Block: 1}
	var units []meter.UnitHour
	want := map[meter.Entry]meter.Amounts{}
	for d := range devices {
		device := fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", d)
		for h := range span.Hour(hours) {
			units = append(units, meter.UnitHour{Unit: meter.Unit{Node: "n", Device: device}, Hour: testHour + h})
			if h%2 == 0 {
				e := meter.Entry{Lease: "l", Device: device, Hour: testHour + h, Key: priced("c")}
				outcome.Ledger = append(outcome.Ledger, difference(1, e, int64(d)*100+int64(h)+10))
				want[e] = outcome.Ledger[len(outcome.Ledger)-1].Amounts
			}
		}
	}
	put(t, s, outcome)
	got, _, err := s.Standing(ctx(t), units, 1)
	check(t, err)
	same(t, "ledger", got, want)
}

func lastMinutes(t *testing.T, s store.Store) {
	put(t, s, meter.Outcome{Block: 1, Rows: []usage.Row{
		row(1, "n1", "gpu", 50, 1), row(1, "n1", "", 51, 0), row(1, "n2", "gpu", 40, 1), row(1, "n2", "", 9, 0),
	}}, meter.Outcome{Block: 2, Rows: []usage.Row{row(2, "n1", "gpu", 49, 1), row(2, "n2", "", 52, 0)}})
	got, err := s.LastMinutes(ctx(t), 2)
	check(t, err)
	same(t, "at block 2", got, map[meter.Unit]span.Minute{
		{Node: "n1", Device: "gpu"}: 50, {Node: "n1"}: 51, {Node: "n2", Device: "gpu"}: 40, {Node: "n2"}: 52,
	})
}

// hostileNames stores and finds names that would break a statement put together from text.
func hostileNames(t *testing.T, s store.Store) {
	names := []string{
		`'`, `"`, "`", `\`, `\'`, `''; DROP TABLE minute; --`, `{block:UInt64}`, `%s?`, `$1`, "tab\tand\nline\r", "nul\x00byte", `\N`, `NULL`,
		"名前 📟", "e\u0301", "\u202e", "[1,2]", "('a',1)", ` space `, "\xff\xfe not utf-8", `\x41`, "/* */", "a,b", "]",
	}
	outcome := meter.Outcome{Block: 1}
	var ranges []meter.MinuteRange
	var units []meter.UnitHour
	wantLedger := map[meter.Entry]meter.Amounts{}
	for i, name := range names {
		outcome.Rows = append(outcome.Rows, row(1, name, name, 60, span.Bit(i)), row(1, name, "", 60, 0))
		ranges = append(ranges, meter.MinuteRange{Device: name, From: 0, To: 100}, meter.MinuteRange{Node: name, From: 0, To: 100})
		k := priced(name)
		k.Customer, k.SKU, k.Region, k.Reason = name, name, name, name
		k.AtOnceMilli, k.SliceMilli = int64(i), int64(1000-i)
		e := meter.Entry{Lease: name, Device: name, Hour: testHour, Key: k}
		unplaced := meter.Entry{Lease: name, Hour: testHour, Key: k}
		unplaced.Key.Contract = ""
		for _, e := range []meter.Entry{e, unplaced} {
			outcome.Ledger = append(outcome.Ledger, difference(1, e, int64(i+10)))
			wantLedger[e] = outcome.Ledger[len(outcome.Ledger)-1].Amounts
		}
		units = append(units, meter.UnitHour{Unit: meter.Unit{Device: name}, Hour: testHour}, meter.UnitHour{Unit: meter.Unit{Lease: name}, Hour: testHour})
		outcome.Refusals = append(outcome.Refusals, meter.Refusal{ID: name, Reason: name, Detail: name, Customer: name, Lease: name, Block: 1, Delta: 1})
	}
	put(t, s, outcome)

	rows, err := s.Minutes(ctx(t), ranges, 1)
	check(t, err)
	slices.SortFunc(outcome.Rows, store.CompareRows)
	same(t, "minutes", rows, outcome.Rows)
	ledger, _, err := s.Standing(ctx(t), units, 1)
	check(t, err)
	same(t, "standing", ledger, wantLedger)
	open, err := s.OpenRefusals(ctx(t), 1)
	check(t, err)
	slices.SortFunc(outcome.Refusals, store.CompareRefusals)
	same(t, "refusals", open, outcome.Refusals)
	for _, name := range names {
		totals, err := s.PeriodTotals(ctx(t), name, priced("").PeriodStart, 1)
		check(t, err)
		if len(totals) != 1 || totals[0].Lease != name {
			t.Errorf("totals of contract %q: %v", name, totals)
		}
		totals, err = s.UncontractedTotals(ctx(t), name, span.Span{To: span.Open}, 1)
		check(t, err)
		if len(totals) != 1 || totals[0].Lease != name {
			t.Errorf("uncontracted totals of customer %q: %v", name, totals)
		}
		check(t, s.Put(ctx(t), store.Put{Progress: store.Progress{Service: name, Block: 3}}))
		p, err := s.Progress(ctx(t), name)
		check(t, err)
		same(t, "progress", p, store.Progress{Service: name, Block: 3})
		bill := invoice(1)
		bill.Series, bill.Customer, bill.Lines[0].Description = name, name, name
		check(t, s.PutInvoice(ctx(t), bill))
		check(t, s.PutInvoice(ctx(t), bill))
	}
	bills, err := s.Invoices(ctx(t))
	check(t, err)
	same(t, "invoices", len(bills), len(names))
}

// manyBlocks is a put of five thousand rows of each kind over fifty blocks.
func manyBlocks(t *testing.T, s store.Store) {
	var outcomes []meter.Outcome
	for b := range uint64(50) {
		o := meter.Outcome{Block: 10 + b}
		for i := range 100 {
			device := fmt.Sprintf("gpu-%03d", i)
			o.Rows = append(o.Rows, row(o.Block, "n", device, span.Minute(b), span.FullMinute))
			o.Ledger = append(o.Ledger, difference(o.Block, meter.Entry{Lease: "l", Device: device, Hour: testHour, Key: priced("c")}, 1000))
			o.Devices = append(o.Devices, meter.DeviceDifference{
				Block: o.Block, DeviceEntry: meter.DeviceEntry{Node: "n", Device: device, Hour: testHour}, DeviceSeconds: meter.DeviceSeconds{Ghost: 60},
			})
		}
		outcomes = append(outcomes, o)
	}
	put(t, s, outcomes...)
	for _, c := range []struct{ block, blocks uint64 }{{9, 0}, {10, 1}, {34, 25}, {59, 50}} {
		seen, err := s.SeenSeconds(ctx(t), span.Span{From: 0, To: 3600}, c.block)
		check(t, err)
		same(t, "seen", seen, int64(c.blocks)*100*60)
		totals, err := s.PeriodTotals(ctx(t), "c", priced("c").PeriodStart, c.block)
		check(t, err)
		var sum int64
		for _, total := range totals {
			sum += total.Quantity
		}
		same(t, "quantity", sum, int64(c.blocks)*100*1000)
	}
	check(t, s.Trim(ctx(t), 34))
	totals, err := s.DeviceTotals(ctx(t), testHour.Span(), math.MaxUint64)
	check(t, err)
	same(t, "devices", len(totals), 100)
	same(t, "first device", totals[0], store.DeviceTotal{Node: "n", Device: "gpu-000", DeviceSeconds: meter.DeviceSeconds{Ghost: 25 * 60}})
}
