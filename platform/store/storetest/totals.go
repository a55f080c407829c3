package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// randomLedger has few names, so that entries meet, and amounts that often cancel.
func randomLedger(random *rand.Rand, blocks, perBlock int) []meter.Outcome {
	pick := func(names ...string) string { return names[random.IntN(len(names))] }
	var outcomes []meter.Outcome
	block := uint64(random.IntN(5))
	for range blocks {
		block += 1 + random.Uint64N(3)
		o := meter.Outcome{Block: block}
		for range random.IntN(perBlock + 1) {
			k := priced(pick("", "c1", "c2"))
			k.Customer = pick("acme", "globex")
			k.PeriodStart -= span.Second(random.IntN(2)) * 86400 * 30
			k.Version = uint64(random.IntN(2))
			k.LocalDay -= random.Int32N(2)
			k.Dedicated = random.IntN(2) == 0
			k.Kind = meter.Kind(pick(string(meter.Leased), string(meter.TopUp)))
			k.Reason = pick("", "no_contract")
			e := meter.Entry{Lease: pick("l1", "l2"), Device: pick("", "gpu-1", "gpu-2"), Hour: testHour + span.Hour(random.IntN(3)), Key: k}
			n := int64(random.IntN(3)-1) * 1000
			o.Ledger = append(o.Ledger, meter.Difference{Block: block, Entry: e, Amounts: meter.Amounts{Quantity: n, Measured: n}})
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// fold is the naive meaning of the totals: add everything that is wanted.
func fold(outcomes []meter.Outcome, block uint64, wanted func(meter.Entry) bool) []meter.Total {
	var totals []meter.Total
	for _, o := range outcomes {
		for _, d := range o.Ledger {
			if o.Block > block || !wanted(d.Entry) {
				continue
			}
			i := slices.IndexFunc(totals, func(t meter.Total) bool { return t.Lease == d.Lease && t.Device == d.Device && t.Key == d.Key })
			if i < 0 {
				i = len(totals)
				totals = append(totals, meter.Total{Lease: d.Lease, Device: d.Device, Key: d.Key})
			}
			totals[i].Amounts = totals[i].Plus(d.Amounts)
		}
	}
	totals = slices.DeleteFunc(totals, func(t meter.Total) bool { return t.IsZero() })
	slices.SortFunc(totals, store.CompareTotals)
	return totals
}

func totalsAsFold(t *testing.T, s store.Store) {
	random := rand.New(rand.NewPCG(1, 2))
	outcomes := randomLedger(random, 60, 40)
	for rest := outcomes; len(rest) > 0; {
		n := min(len(rest), 1+random.IntN(12))
		put(t, s, rest[:n]...)
		rest = rest[n:]
	}
	within := span.Span{From: testHour.Start() + 1, To: (testHour + 2).Start() + 1} // it touches hours 0 to 2
	for i := 0; i < len(outcomes); i += 7 {
		block := outcomes[i].Block
		for _, contract := range []string{"c1", "c2", "c3"} {
			for _, start := range []span.Second{priced("").PeriodStart, priced("").PeriodStart - 86400*30} {
				got, err := s.PeriodTotals(ctx(t), contract, start, block)
				check(t, err)
				want := fold(outcomes, block, func(e meter.Entry) bool { return e.Key.Contract == contract && e.Key.PeriodStart == start })
				sameTotals(t, fmt.Sprintf("%s %s at %d", contract, start, block), got, want)
			}
		}
		got, err := s.UncontractedTotals(ctx(t), "acme", within, block)
		check(t, err)
		want := fold(outcomes, block, func(e meter.Entry) bool {
			return e.Key.Contract == "" && e.Key.Customer == "acme" && e.Hour >= testHour && e.Hour <= testHour+2
		})
		sameTotals(t, fmt.Sprintf("uncontracted at %d", block), got, want)
	}
}

// sameTotals also asks for something to compare, once there is.
func sameTotals(t *testing.T, what string, got, want []meter.Total) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	same(t, what, got, want)
}

func uncontracted(t *testing.T, s store.Store) {
	k := priced("")
	k.Standing, k.Reason, k.PeriodStart, k.Version, k.LocalDay = meter.Refused, "no_contract", 0, 0, 0
	e := meter.Entry{Lease: "l", Device: "gpu", Hour: testHour, Key: k}
	other := e
	other.Key.Customer = "globex"
	contracted := e
	contracted.Key.Contract = "c"
	next := e
	next.Hour++
	put(t, s, meter.Outcome{Block: 1, Ledger: []meter.Difference{
		difference(1, e, 10), difference(1, other, 20), difference(1, contracted, 30), difference(1, next, 40),
	}})
	for _, c := range []struct {
		within span.Span
		want   int64
	}{
		{testHour.Span(), 10},
		{span.Span{From: testHour.Start(), To: testHour.Start() + 1}, 10},
		{span.Span{From: testHour.Start() + 1, To: testHour.End()}, 10}, // an hour on an edge blocks both sides
		{span.Span{From: testHour.Start(), To: testHour.End() + 1}, 50},
		{span.Span{From: testHour.Start(), To: testHour.Start()}, 0},
	} {
		got, err := s.UncontractedTotals(ctx(t), "acme", c.within, 1)
		check(t, err)
		var sum int64
		for _, total := range got {
			sum += total.Quantity
		}
		same(t, "quantity in "+c.within.String(), sum, c.want)
	}
}

func changedPeriods(t *testing.T, s store.Store) {
	at := func(block uint64, contract string, start span.Second) meter.Outcome {
		e := meter.Entry{Lease: "l", Device: "gpu", Hour: testHour, Key: priced(contract)}
		e.Key.PeriodStart = start
		return meter.Outcome{Block: block, Ledger: []meter.Difference{difference(block, e, 10), difference(block, e, 20)}}
	}
	put(t, s, at(1, "c1", 100), at(2, "c2", 200), at(3, "", 0), at(4, "c1", 50), at(5, "c1", 100))
	got, err := s.ChangedPeriods(ctx(t), 1, 5)
	check(t, err)
	same(t, "in (1, 5]", got, []store.Period{{Contract: "c1", PeriodStart: 50}, {Contract: "c1", PeriodStart: 100}, {Contract: "c2", PeriodStart: 200}})
	got, err = s.ChangedPeriods(ctx(t), 2, 4)
	check(t, err)
	same(t, "in (2, 4]", got, []store.Period{{Contract: "c1", PeriodStart: 50}})
	got, err = s.ChangedPeriods(ctx(t), 5, 5)
	check(t, err)
	same(t, "in (5, 5]", len(got), 0)
}

func refusals(t *testing.T, s store.Store) {
	r := func(block uint64, id, reason, detail string, delta int64) meter.Refusal {
		return meter.Refusal{ID: id, Reason: reason, Detail: detail, Customer: "acme", Lease: "l", At: span.Second(block), Block: block, Delta: delta}
	}
	put(t, s,
		meter.Outcome{Block: 1, Refusals: []meter.Refusal{r(1, "b", "overlap", "first", 1), r(1, "a", "no_contract", "", 1), r(1, "a", "overlap", "", 1)}},
		meter.Outcome{Block: 2, Refusals: []meter.Refusal{r(2, "a", "no_contract", "", -1), r(2, "b", "overlap", "second", 1)}},
		meter.Outcome{Block: 3, Refusals: []meter.Refusal{r(3, "b", "overlap", "gone", -1)}},
		meter.Outcome{Block: 4, Refusals: []meter.Refusal{r(4, "b", "overlap", "gone", -1)}},
		meter.Outcome{Block: 5, Refusals: []meter.Refusal{r(5, "a", "no_contract", "again", 1)}},
	)
	twice := r(2, "b", "overlap", "second", 2)
	for block, want := range map[uint64][]meter.Refusal{
		1: {r(1, "a", "no_contract", "", 1), r(1, "a", "overlap", "", 1), r(1, "b", "overlap", "first", 1)},
		2: {r(1, "a", "overlap", "", 1), twice},
		3: {r(1, "a", "overlap", "", 1), r(2, "b", "overlap", "second", 1)},
		4: {r(1, "a", "overlap", "", 1)},
		5: {r(5, "a", "no_contract", "again", 1), r(1, "a", "overlap", "", 1)},
	} {
		got, err := s.OpenRefusals(ctx(t), block)
		check(t, err)
		same(t, fmt.Sprintf("open at %d", block), got, want)
	}
}

func deviceTotals(t *testing.T, s store.Store) {
	d := func(block uint64, node, device string, hour span.Hour, seen int64) meter.DeviceDifference {
		return meter.DeviceDifference{
			Block: block, DeviceEntry: meter.DeviceEntry{Node: node, Device: device, Hour: hour},
			DeviceSeconds: meter.DeviceSeconds{SeenLeased: seen, SeenUnleased: 2 * seen, Ghost: 3 * seen, Leak: 4 * seen},
		}
	}
	put(t, s,
		meter.Outcome{Block: 1, Devices: []meter.DeviceDifference{
			d(1, "n2", "a", testHour, 5), d(1, "n1", "b", testHour, 7), d(1, "n1", "a", testHour, 1), d(1, "n1", "a", testHour+1, 10),
			d(1, "n1", "c", testHour, 9), d(1, "n1", "a", testHour-1, 100),
		}},
		meter.Outcome{Block: 2, Devices: []meter.DeviceDifference{d(2, "n1", "c", testHour, -9), d(2, "n1", "b", testHour, -2)}},
	)
	got, err := s.DeviceTotals(ctx(t), span.Span{From: testHour.Start(), To: (testHour + 2).Start()}, 2)
	check(t, err)
	total := func(node, device string, seen int64) store.DeviceTotal {
		return store.DeviceTotal{Node: node, Device: device, DeviceSeconds: d(0, "", "", 0, seen).DeviceSeconds}
	}
	same(t, "totals", got, []store.DeviceTotal{total("n1", "a", 11), total("n1", "b", 5), total("n2", "a", 5)})
}

func seenSeconds(t *testing.T, s store.Store) {
	put(t, s,
		meter.Outcome{Block: 1, Rows: []usage.Row{
			row(1, "n", "gpu", 100, 0b0111), row(1, "n", "gpu", 101, span.FullMinute), row(1, "n", "gpu", 102, 0b1111),
			row(1, "n", "other", 100, 0b1), row(1, "n", "", 100, 0),
		}},
		meter.Outcome{Block: 2, Rows: []usage.Row{row(2, "n", "gpu", 100, 0b1110), row(2, "m", "gpu", 100, 0b10001)}},
	)
	for _, c := range []struct {
		name   string
		within span.Span
		block  uint64
		want   int64
	}{
		{"a block", span.Span{From: 6000, To: 6180}, 1, 3 + 60 + 4 + 1},
		{"rows of one minute count once", span.Span{From: 6000, To: 6180}, 2, 5 + 60 + 4 + 1},
		{"cut on both sides", span.Span{From: 6003, To: 6122}, 2, 2 + 60 + 2},
		{"inside one minute", span.Span{From: 6061, To: 6064}, 2, 3},
		{"open", span.Span{From: 6120, To: span.Open}, 2, 4},
		{"empty", span.Span{From: 6120, To: 6120}, 2, 0},
	} {
		got, err := s.SeenSeconds(ctx(t), c.within, c.block)
		check(t, err)
		same(t, c.name, got, c.want)
	}
}

func invoice(number uint64) store.Invoice {
	return store.Invoice{
		Series: "2026", Number: number, Customer: "acme", Contract: "c", Closing: "c/1782864000/1", Currency: "JPY",
		TotalMinor: "123456789012345678901234567890", PeriodFrom: 1782864000, PeriodTo: 1785542400,
		Document: []byte("{\"n\":\x00\xff '\\}"),
		Lines: []store.InvoiceLine{
			{Line: 1, Description: "H100", SKU: "h100-80gb", PricingMode: "on_demand", Region: "eu-1", MilliGPUSeconds: 1 << 60, AmountMinor: "5"},
			{Line: 2, Description: "credit", AmountMinor: "-123456789012345678901234567890"},
		},
	}
}

func invoices(t *testing.T, s store.Store) {
	bare := store.Invoice{Series: "2025", Number: 9, TotalMinor: "0"}
	for _, row := range []store.Invoice{invoice(10), invoice(2), bare, invoice(10), bare} {
		check(t, s.PutInvoice(ctx(t), row))
	}
	got, err := s.Invoices(ctx(t))
	check(t, err)
	same(t, "invoices", got, []store.Invoice{bare, invoice(2), invoice(10)})

	other := invoice(10)
	other.Document = []byte("something else")
	if err := s.PutInvoice(ctx(t), other); !errors.Is(err, store.ErrOtherInvoice) {
		t.Errorf("another document under a number in use: %v; want ErrOtherInvoice", err)
	}
}
