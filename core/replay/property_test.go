package replay_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
)

func run(t *rapid.T, log replay.Log) *replay.Result {
	r, err := replay.Run(log, replay.Options{Series: "T", Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bytes is every invoice as it is frozen, by number.
func bytes(t *rapid.T, r *replay.Result) []string {
	var out []string
	for _, i := range r.Invoices {
		data, err := i.Document.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	return out
}

func cuts(r *replay.Result) []span.Second {
	var out []span.Second
	for i := range r.Outcomes {
		for _, c := range r.Outcomes[i].Cuts {
			out = append(out, c.At)
		}
	}
	return out
}

func same(t *rapid.T, what string, want, got *replay.Result) {
	if diff := cmp.Diff(bytes(t, want), bytes(t, got)); diff != "" {
		t.Fatalf("%s: invoices differ (-want +got)\n%s", what, diff)
	}
}

// What is known by a cut decides, not the order in which it came, how often, or in how many batches.
func TestOrderRepetitionAndBatchesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: day, batch: 60})
		want := run(t, w.log)
		pick := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).IntN
		same(t, "disorder", want, run(t, scenario.Disorder(w.log, cuts(want), pick)))
		w.measure(rapid.SampledFrom([]int64{1, 7, 10, 60}).Draw(t, "batch"))
		same(t, "batches", want, run(t, w.log))
	})
}

// More ticks change no invoice.
func TestMoreBlocksDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: day, batch: 60})
		want := run(t, w.log)
		at := w.from - day
		for at < w.log.Until {
			at += span.Second(rapid.Int64Range(1, day/2).Draw(t, "step"))
			w.log.Stops = append(w.log.Stops, at)
		}
		same(t, "more blocks", want, run(t, w.log))
	})
}

// Leased time = priced + waived + refused, in every cell as an oracle counts it second by second; and the invoices are its
// invoices, to the last cent.
func TestConservationAgainstSeconds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt, shape{refusals: rapid.Bool().Draw(rt, "refusals"), late: grace, batch: 10})
		r := run(rt, w.log)
		last := w.to + day/2 // what ends later is not compared
		o := consult(t, w, last)
		got := map[heldKey]coverage{}
		for _, total := range r.Totals {
			k := total.Key
			d := o.deal(k.Customer)
			period := d.label(zoneText(rt, d, k.PeriodStart))
			if k.Kind != meter.Leased || !ended(r, k.Contract, k.PeriodStart, last) {
				continue
			}
			cell := heldKey{total.Lease, total.Device, k.Contract, period, k.Reason, string(k.Standing)}
			c := got[cell]
			got[cell] = coverage{c.leased + total.Quantity, c.measured + total.Measured, c.inferred + total.Inferred, c.missing + total.Missing}
		}
		want := map[heldKey]coverage{}
		for k, c := range o.held {
			if _, billed := got[k]; billed || endedLabel(rt, r, o, k, last) {
				want[k] = c
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(heldKey{}, coverage{})); diff != "" {
			rt.Fatalf("(-oracle +ledger)\n%s", diff)
		}
		o.compareInvoices(rt, r, last)
	})
}

func (o *oracle) compareInvoices(t *rapid.T, r *replay.Result, last span.Second) {
	n := 0
	for _, issued := range r.Invoices {
		doc := issued.Document
		d := o.deal(doc.Customer)
		end, err := span.Parse(doc.Period.To)
		from, _ := span.Parse(doc.Period.From)
		if err != nil {
			t.Fatal(err)
		}
		if end > last || from < o.w.from-2*hour {
			continue
		}
		n++
		if want := o.total(d, d.label(doc.Period.From)); doc.Closing != 1 || doc.Total != want {
			t.Errorf("%s %s closing %d: billed %s, the seconds cost %s", doc.Contract, doc.Period.From, doc.Closing, doc.Total, want)
		}
	}
	if n == 0 && len(r.Blocked) == 0 {
		t.Error("nothing was billed")
	}
}

// Late facts give corrections; with them every period ends where it would have, had all been known in time.
func TestCorrectionsLeadToTheSameBill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: day, batch: 60})
		late := sums(t, run(t, w.log))
		for i := range w.log.Measurements {
			m := &w.log.Measurements[i]
			m.Known = m.Batch.Minute.End()
		}
		for i := range w.log.Statements {
			w.log.Statements[i].Known = w.from - day
		}
		if diff := cmp.Diff(sums(t, run(t, w.log)), late); diff != "" {
			t.Fatalf("(-in time +late)\n%s", diff)
		}
	})
}

// sums adds the documents of every period up, in total and by line.
func sums(t *rapid.T, r *replay.Result) map[string]string {
	amounts := map[string]money.Rounded{}
	quantities := map[string]int64{}
	add := func(k, amount string, milli int64) {
		v, err := money.ParseRounded(amount, "USD")
		if err != nil {
			t.Fatal(err)
		}
		if _, known := amounts[k]; !known {
			amounts[k] = money.FromMinor(new(big.Int), "USD")
		}
		amounts[k] = amounts[k].Add(v)
		quantities[k] += milli
	}
	for _, i := range r.Invoices {
		d := i.Document
		period := d.Contract + " " + d.Period.From
		add(period, d.Total, d.Quantity.MilliGPUSeconds)
		for _, l := range d.Lines {
			add(period+" "+l.SKU, l.Amount, l.Quantity.MilliGPUSeconds)
		}
	}
	out := map[string]string{}
	for k, v := range amounts {
		if !v.IsZero() || quantities[k] != 0 {
			out[k] = fmt.Sprintf("%s for %d milli-GPU-seconds", v, quantities[k])
		}
	}
	return out
}

func zoneText(t *rapid.T, d *deal, at span.Second) string {
	zone, err := calendar.LoadZone(d.zone)
	if err != nil {
		t.Fatal(err)
	}
	return zone.Text(at)
}

// ended tells whether the contract's period that starts at an instant is over by another.
func ended(r *replay.Result, contract string, start, by span.Second) bool {
	v, ok := r.Contracts().InForce(contract, start)
	return ok && v.Contract.Period(start).Span.To <= by
}

// endedLabel tells the same of a period by its label.
func endedLabel(t *rapid.T, r *replay.Result, o *oracle, k heldKey, by span.Second) bool {
	for minute, label := range o.label[k.contract] {
		if label == k.period {
			at := span.Second(minute * 60)
			v, ok := r.Contracts().InForce(k.contract, at)
			return ok && v.Contract.Period(at).Span.To <= by
		}
	}
	t.Fatalf("label %s was made up", k.period)
	return false
}
