package meter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Finish gives the rows of the block that Begin took in. The reads must answer Begin's Needs as of the last block.
func (s *State) Finish(r Reads) Outcome {
	w := s.work
	must.True(w != nil, "Finish without Begin")
	s.work = nil
	out := Outcome{Block: w.block}
	out.Rows = s.closeMinutes(w, r.Rows)
	seen := s.samples(w, r.Rows, out.Rows)
	standing := index(r)
	s.classifier.forget() // facts may have changed since they were worked out
	for _, t := range w.hours {
		// An open hour outside a cut is there because a cut may have classified it. After a restart it is not known which cut
		// did: the ledger tells, so that a restart gives the same rows.
		if old := standing[hourOf(t.Unit.Device, t.Unit.Lease, t.Hour)]; t.Hour >= s.hoursThrough && len(w.cuts) == 0 && !old.any() {
			continue
		}
		s.classifyTask(t, seen, standing, &out)
	}
	for _, cut := range w.cuts {
		out.Cuts = append(out.Cuts, s.AnswerCut(cut.Cut, w.block, w.facts))
	}
	out.Refusals = append(w.refusals, out.Refusals...)
	for i := range out.Refusals {
		out.Refusals[i].Block = w.block
	}
	sortOutcome(&out)
	return out
}

// closeMinutes turns minutes that are over into rows, and late pieces into the rows they add to what stands.
func (s *State) closeMinutes(w *work, stored []usage.Row) []usage.Row {
	var rows []usage.Row
	if w.closing { // else nothing open is over
		for _, k := range s.open.Keys() {
			if k.Minute < s.minutesThrough {
				w.conflicts(s.open.Conflicts(k, nil))
			}
		}
		rows = s.open.CloseBefore(s.minutesThrough)
	}
	late := w.late.Keys()
	standing := map[usage.Key][]usage.Row{}
	if len(late) > 0 {
		for i := range stored {
			r := &stored[i]
			if k := (usage.Key{Node: r.Node, Device: r.Device, Minute: r.Minute}); w.late.Holds(k) {
				standing[k] = append(standing[k], *r)
			}
		}
	}
	for _, k := range late {
		w.conflicts(w.late.Conflicts(k, standing[k]))
		rows = append(rows, w.late.Rows(k, standing[k])...)
	}
	for i := range rows {
		rows[i].Block = w.block
	}
	return rows
}

// conflicts lists batches that contradict another batch of their run; the lowest sequence is believed.
func (w *work) conflicts(list []usage.Conflict) {
	for _, c := range list {
		w.refusals = append(w.refusals, Refusal{
			ID: fmt.Sprintf("usage/%s/%d/%d/%s", c.Node, c.Run, c.Seq, c.Device), Reason: string(usage.SequenceConflict),
			Detail: fmt.Sprintf("%d seconds of minute %v contradict another batch of the run", c.Seconds.Count(), c.Minute.Start()),
			At:     c.Minute.Start(), Delta: 1,
		})
	}
}

// samples merges stored rows, new rows and open pieces into minutes. It is the only way samples reach an hour. Open pieces
// count only where an hour reaches into open minutes, as at a cut: most blocks leave them alone.
func (s *State) samples(w *work, stored, fresh []usage.Row) *samples {
	x := &s.seen
	x.reset()
	for i := range stored {
		x.add(&stored[i])
	}
	for i := range fresh {
		x.add(&fresh[i])
	}
	if n := len(w.hours); n > 0 && w.hours[n-1].Hour.FirstMinute()+60 >= s.minutesThrough {
		for _, k := range s.open.Keys() {
			rows := s.open.Rows(k, nil)
			for i := range rows {
				x.add(&rows[i])
			}
		}
	}
	return x
}

// hourKey names a unit's hour in the reads; lease is empty for a device.
type hourKey struct {
	device, lease string
	hour          span.Hour
}

func hourOf(device, lease string, h span.Hour) hourKey {
	if device != "" {
		lease = ""
	}
	return hourKey{device, lease, h}
}

// standing is what the ledger holds of one unit's hour.
type standing struct {
	ledger  map[Entry]Amounts
	devices map[DeviceEntry]DeviceSeconds
}

// any tells whether anything stands; sums of zero do not count, for a store may leave them out.
func (s *standing) any() bool {
	if s == nil {
		return false
	}
	for _, a := range s.ledger {
		if !a.IsZero() {
			return true
		}
	}
	for _, d := range s.devices {
		if d != (DeviceSeconds{}) {
			return true
		}
	}
	return false
}

// index sorts the reads by unit and hour.
func index(r Reads) map[hourKey]*standing {
	if len(r.Ledger)+len(r.Devices) == 0 {
		return nil
	}
	out := map[hourKey]*standing{}
	at := func(k hourKey) *standing {
		if out[k] == nil {
			out[k] = &standing{map[Entry]Amounts{}, map[DeviceEntry]DeviceSeconds{}}
		}
		return out[k]
	}
	for e, a := range r.Ledger {
		at(hourOf(e.Device, e.Lease, e.Hour)).ledger[e] = a
	}
	for e, a := range r.Devices {
		at(hourOf(e.Device, "", e.Hour)).devices[e] = a
	}
	return out
}

// classifyTask appends the differences between what the hour now gives and what stands.
func (s *State) classifyTask(t task, seen *samples, stands map[hourKey]*standing, out *Outcome) {
	within := t.Hour.Span()
	within.To = min(within.To, s.at)
	var cov *coverage
	if t.Unit.Device != "" {
		cov = s.classifier.cov.cover(t.Unit, t.Hour, seen)
	}
	seconds, failure := s.classifier.guarded(t.UnitHour, within, cov)
	if failure != nil {
		out.Refusals = append(out.Refusals, *failure)
		return
	}
	node := DeviceEntry{Node: t.Unit.Node, Device: t.Unit.Device, Hour: t.Hour}
	cells := s.classifier.cells
	if old := stands[hourOf(t.Unit.Device, t.Unit.Lease, t.Hour)]; t.standing && old != nil {
		for e, a := range old.ledger {
			cells = append(cells, cell{e, Amounts{}.Minus(a)})
		}
		for e, a := range old.devices {
			if e == node {
				seconds = seconds.Minus(a)
			} else {
				out.addDevice(e, DeviceSeconds{}.Minus(a))
			}
		}
		s.classifier.cells = cells
	}
	out.Ledger = slices.Grow(out.Ledger, len(cells))
	for _, x := range summed(cells) {
		if !x.IsZero() {
			out.Ledger = append(out.Ledger, Difference{Entry: x.Entry, Block: out.Block, Amounts: x.Amounts})
		}
	}
	out.addDevice(node, seconds)
}

func (o *Outcome) addDevice(e DeviceEntry, a DeviceSeconds) {
	if a != (DeviceSeconds{}) {
		o.Devices = append(o.Devices, DeviceDifference{DeviceEntry: e, Block: o.Block, DeviceSeconds: a})
	}
}

// AnswerCut says that a cut stands at the last block, which holds the facts up to a position. Of the totals it states those that
// changed since the cut before, so that an answer holds what is moving and stays far below a message's limit however many periods the log has seen.
func (s *State) AnswerCut(cut string, block, facts uint64) fact.CutDone {
	done := fact.CutDone{Cut: cut, At: s.at, Block: block, FactsSeq: facts}
	gone := maps.Clone(s.stated)
	for _, t := range s.Totals() {
		k := periodKey{t.Contract, t.PeriodStart}
		if s.stated[k] != t {
			done.Totals = append(done.Totals, t)
		}
		delete(gone, k)
	}
	for _, t := range gone {
		if t.LeasedMilliGPUSeconds != 0 {
			t.LeasedMilliGPUSeconds = 0
			done.Totals = append(done.Totals, t)
		}
	}
	slices.SortFunc(done.Totals, compareTotals)
	s.recallTotals(done.Totals)
	return done
}

// recallTotals remembers what a cut stated.
func (s *State) recallTotals(totals []fact.Total) {
	for _, t := range totals {
		s.stated[periodKey{t.Contract, t.PeriodStart}] = t
	}
}

func compareTotals(a, b fact.Total) int {
	return cmp.Or(cmp.Compare(a.Contract, b.Contract), cmp.Compare(a.PeriodStart, b.PeriodStart))
}

// Totals counts, from occupancy alone, what each contract's leases hold in each of its periods up to now: the left
// side of conservation. It shares no arithmetic with the hours: whole spans, not masks. A lease whose assertions fail
// is left out, so that conservation blocks its contract and no other.
func (s *State) Totals() []fact.Total {
	sums := map[periodKey]*fact.Total{}
	s.classifier.book.Leases(func(l *occupancy.Lease) {
		own := map[periodKey]int64{}
		if must.Catch(func() { s.total(l, own) }) != nil {
			return
		}
		for k, milliSeconds := range own {
			if sums[k] == nil {
				sums[k] = &fact.Total{Contract: k.contract, Customer: l.Started.Customer, PeriodStart: k.start}
			}
			sums[k].LeasedMilliGPUSeconds += milliSeconds
		}
	})
	out := make([]fact.Total, 0, len(sums))
	for _, t := range sums {
		out = append(out, *t)
	}
	slices.SortFunc(out, compareTotals)
	return out
}

type periodKey struct {
	contract string
	start    span.Second
}

// total adds up one lease.
func (s *State) total(l *occupancy.Lease, sums map[periodKey]int64) {
	c := &s.classifier
	for _, tr := range l.Tranches {
		in := tr.Span.Intersect(span.Span{From: 0, To: s.at})
		for in.From < in.To {
			v, reason := c.contracts.Resolve(l.Started, in.From)
			to := c.nextEdge(l, in)
			if reason == "" {
				period, ok := c.contracts.Periods(v.Contract.ID).At(in.From)
				must.True(ok, "contract %s has no period at %v", v.Contract.ID, in.From)
				to = min(to, period.Span.To)
				sums[periodKey{v.Contract.ID, period.Span.From}] += int64(to-in.From) * tr.Milli
			}
			in.From = to
		}
	}
}

// nextEdge is the first instant after s.From at which another contract or version may hold, or s.To.
func (c *classifier) nextEdge(l *occupancy.Lease, s span.Span) span.Second {
	c.edges = c.contracts.VersionEdges(c.edges[:0], l.Started.Contract, l.Started.Customer, s)
	next := s.To
	for _, e := range c.edges {
		next = min(next, e)
	}
	return next
}

// sortOutcome puts the rows in one order, so that a replay puts the same bytes.
func sortOutcome(o *Outcome) {
	slices.SortFunc(o.Rows, func(a, b usage.Row) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Minute, b.Minute), cmp.Compare(a.Run, b.Run))
	})
	slices.SortFunc(o.Ledger, func(a, b Difference) int { return compareEntries(&a.Entry, &b.Entry) })
	slices.SortFunc(o.Devices, func(a, b DeviceDifference) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Node, b.Node))
	})
}

func compareEntries(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Lease, b.Lease), CompareKeys(a.Key, b.Key))
}

// CompareKeys is the order of charge keys in rows and totals.
func CompareKeys(a, b ChargeKey) int {
	return cmp.Or(
		cmp.Compare(a.Customer, b.Customer), cmp.Compare(a.Contract, b.Contract), cmp.Compare(a.PeriodStart, b.PeriodStart),
		cmp.Compare(a.SKU, b.SKU), cmp.Compare(a.Region, b.Region), cmp.Compare(a.ServiceTier, b.ServiceTier), compareBools(a.Dedicated, b.Dedicated),
		cmp.Compare(a.PricingMode, b.PricingMode), cmp.Compare(a.Standing, b.Standing), cmp.Compare(a.Reason, b.Reason),
		price.CompareConditions(a.Conditions, b.Conditions), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.LocalDay, b.LocalDay), cmp.Compare(a.Version, b.Version),
	)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
