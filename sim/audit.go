package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
)

const every = ^uint64(0)

// audit holds everything against the truth, once all is known and nothing fails any more.
func (r *road) audit() error {
	w := r.watch
	figures := &r.figures
	figures.Add(w.figures)
	s, err := listen(everything(r.log.inner, bus.Usage, 0), r.story, r.lost())
	if err != nil {
		return err
	}
	t := observe(w.facts, r.story.terms, s, w.last)
	figures.HeldSeconds += t.secondsHeld
	t.count(figures, "tenants")
	for _, check := range []func() error{
		r.allStated, func() error { return r.allSent(s) }, func() error { return r.allBilled(t) }, func() error { return r.allHeld(t) },
		func() error { return r.allSeen(t, s) }, r.allUnknown, r.allProjected, func() error { return r.allMarket(s) },
		func() error { return r.allQuarantined(s) }, r.allHalted, r.allDeclared, w.aheadInTime,
	} {
		err = errors.Join(err, check())
	}
	return err
}

// lost tells whether the restored log may lack batches that had left the spool.
func (r *road) lost() bool { return r.figures.Restored > 0 }

// allStated: what people stated is in the log, under its key the first content.
func (r *road) allStated() error {
	for _, e := range r.story.events {
		if f, ok := r.watch.keys[e.key]; !ok || !e.twin && !reflect.DeepEqual(f.Body, e.body) {
			return fmt.Errorf("%s is in the log as %+v, stated was %+v", e.key, f.Body, e.body)
		}
	}
	return nil
}

// allSent: what a spool accepted is in the log.
func (r *road) allSent(s *samples) error {
	for _, a := range r.agents {
		for run, seq := range a.kept {
			if have := s.runs[a.name][run]; have < seq && !a.out && !a.restored {
				return fmt.Errorf("node %s run %d: the spool accepted %d batches, the log has %d", a.name, run, seq, have)
			}
		}
	}
	return nil
}

// allBilled: invoices and corrections together are what the seconds cost.
func (r *road) allBilled(t *truth) error {
	// What a halted customer owes is not billed; compareAsOf held what was billed before.
	billable := func(l line) bool { return r.watch.halted[r.watch.customer(l.contract)] == 0 }
	want, billed := r.watch.owed(t, every, billable), maps.Clone(r.watch.billed)
	maps.DeleteFunc(billed, func(l line, _ *owed) bool { return !billable(l) })
	for contract := range r.watch.versions {
		for k, exact := range feesOf(r.watch.stated(contract, every), 0, 1<<62, false) {
			if billable(k) {
				want[k] = &owed{r.watch.governing(contract, r.watch.ends[contract+" "+k.period], every).round(exact), 0}
				r.figures.count("lines of fees by local days", 1)
			}
		}
	}
	r.figures.OwedLines += len(want)
	return compareLines(billed, want)
}

// allHeld: every leased milli-second is in the ledger once, with its standing, reason and coverage.
func (r *road) allHeld(t *truth) error {
	ctx := context.Background()
	var totals []meter.Total
	periods, err := r.tables.ChangedPeriods(ctx, 0, every)
	for _, p := range periods {
		more, readErr := r.tables.PeriodTotals(ctx, p.Contract, p.PeriodStart, every)
		totals, err = append(totals, more...), errors.Join(err, readErr)
	}
	for i := range 3 {
		more, readErr := r.tables.UncontractedTotals(ctx, fmt.Sprintf("customer%d", i), span.Span{To: span.Open}, every)
		totals, err = append(totals, more...), errors.Join(err, readErr)
	}
	if err != nil {
		return err
	}
	held := map[cell]coverage{}
	for _, x := range totals {
		if x.Key.Kind != meter.Leased || ofMarket(x.Lease) {
			continue
		}
		c := cell{lease: x.Lease, device: x.Device, contract: x.Key.Contract, standing: string(x.Key.Standing), reason: x.Key.Reason}
		for _, known := range r.watch.terms {
			if known != nil && known.id == c.contract {
				c.period = known.period(int64(x.Key.PeriodStart))
			}
		}
		h := held[c]
		held[c] = coverage{h.leased + x.Quantity, h.measured + x.Measured, h.inferred + x.Inferred, h.missing + x.Missing}
	}
	var wrong []string
	for _, cells := range []map[cell]coverage{t.held, held} {
		for c := range cells {
			if held[c] != t.held[c] {
				wrong = append(wrong, fmt.Sprintf("%+v: the ledger holds %+v, the seconds are %+v", c, held[c], t.held[c]))
			}
		}
	}
	return first(wrong)
}

// first is the first of findings in a fixed order, or nil.
func first(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(slices.Min(wrong))
}

// allSeen: every accepted sample-second is stored once, and lies under a lease or does not.
func (r *road) allSeen(t *truth, s *samples) error {
	ctx, always := context.Background(), span.Span{To: span.Open}
	stored, err := r.tables.SeenSeconds(ctx, always, every)
	if err != nil {
		return err
	}
	if stored != s.count() {
		return fmt.Errorf("%d device-seconds are stored, the log has %d", stored, s.count())
	}
	totals, err := r.tables.DeviceTotals(ctx, always, every)
	if err != nil {
		return err
	}
	got := map[string]meter.DeviceSeconds{}
	for _, d := range totals {
		got[d.Device] = got[d.Device].Plus(d.DeviceSeconds)
	}
	for i := range r.story.nodes {
		if r.story.nodes[i].name == market {
			continue // core/slow counts billed seconds only
		}
		for k := range 2 {
			device := r.story.nodes[i].device(k)
			held := t.devices[device]
			if held == nil {
				held = &deviceTruth{}
			}
			want := meter.DeviceSeconds{
				SeenLeased: held.seen, SeenUnleased: int64(len(s.devices[device])) - held.seen, Ghost: held.ghost, Leak: s.busy(device) - held.busy,
			}
			if got[device] != want {
				return fmt.Errorf("device %s: the ledger says %+v, the seconds %+v", device, got[device], want)
			}
		}
	}
	return nil
}

// allUnknown: what a machine could not read is stored as not known, and what it read as it was.
func (r *road) allUnknown() error {
	for i := range r.story.nodes {
		n := &r.story.nodes[i]
		for k := range 2 {
			wanted := []meter.MinuteRange{{Device: n.device(k), To: span.Minute(r.now/60 + 60)}}
			rows, err := r.tables.Minutes(context.Background(), wanted, every)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if err := n.recognise(k, row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (n *node) recognise(k int, row usage.Row) (err error) {
	var block usage.Block
	if err := block.Decode(row.Data); err != nil {
		return err
	}
	block.Seen.Each(func(i int) {
		busy, _ := n.says(k, int64(row.Minute)*60+int64(i))
		if want := uint8(busy); busy >= 0 && block.Busy[i] != want || busy < 0 && block.Busy[i] != usage.BusyUnknown {
			err = fmt.Errorf("%s minute %v second %d is stored as %d, the machine said %d", row.Device, row.Minute.Start(), i, block.Busy[i], busy)
		}
	})
	return err
}

// allProjected: the tables list the invoices of the log, no more and no less.
func (r *road) allProjected() error {
	rows, err := r.tables.Invoices(context.Background())
	if err != nil {
		return err
	}
	if len(rows) != len(r.watch.invoices) {
		return fmt.Errorf("%d invoices are projected, %d were issued", len(rows), len(r.watch.invoices))
	}
	for i, row := range rows {
		if issued := r.watch.invoices[i]; row.Number != issued.Number || !bytes.Equal(row.Document, issued.Document) {
			return fmt.Errorf("invoice %d is projected as another", issued.Number)
		}
	}
	return nil
}
