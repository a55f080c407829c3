package meter

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Segment is a stretch of one lease's time on one unit under one charge key: what the ledger sums, before it is summed.
type Segment struct {
	Lease, Device string    // Device is empty for an unplaced lease
	Span          span.Span // of a top-up: the whole start that it tops up
	Milli         int64     // of the unit
	Key           ChargeKey
	Amounts
	Unrelieved Unrelieved // of billed time without idle relief, where the contract has a rule
}

// Unrelieved says why a second had no idle relief, in milli-GPU-seconds by reason. The reasons are apart: they add up to a segment.
type Unrelieved struct {
	Busy    int64 // utilisation was not below the rule's limit
	Early   int64 // idle, but its run had not lasted for the rule's time
	Shared  int64 // other leases held the device too: nobody knows whose utilisation it was
	Unknown int64 // no sample tells the utilisation
}

// Plus adds two.
func (u Unrelieved) Plus(o Unrelieved) Unrelieved {
	return Unrelieved{u.Busy + o.Busy, u.Early + o.Early, u.Shared + o.Shared, u.Unknown + o.Unknown}
}

// traceHours is how many hours are read and traced at once: it bounds memory, and no segment is longer than an hour anyway.
const traceHours = 24

// Trace classifies a period of a contract again as it is known at the last block, and gives take every segment that the ledger
// sums, of all leases. It is the classification itself, run for someone who watches: nothing is computed a second way, and that
// the segments sum to what the ledger gets is asserted. read answers as of the last block. The state stays as it is.
func (s *State) Trace(contractID string, period span.Span, read func(Needs) Reads, take func(Segment)) {
	must.True(s.work == nil, "Trace between Begin and Finish")
	hours := s.hoursOf(contractID, period)
	c := &s.classifier
	c.forget()
	sums := map[Entry]Amounts{}
	var hour UnitHour
	c.sink = func(g Segment) {
		e := Entry{Lease: g.Lease, Device: g.Device, Hour: hour.Hour, Key: g.Key}
		sums[e] = sums[e].Plus(g.Amounts)
		if g.Key.Contract == contractID && g.Key.PeriodStart == period.From {
			take(g)
		}
	}
	defer func() { c.sink = nil }()
	for len(hours) > 0 {
		first := hours[0].Hour
		n := slices.IndexFunc(hours, func(t task) bool { return t.Hour >= first+traceHours })
		if n < 0 {
			n = len(hours)
		}
		w := &work{hours: hours[:n], late: usage.NewAssembly()}
		seen := s.samples(w, read(s.rangesOf(w.hours)).Rows, nil)
		for _, t := range w.hours {
			hour = t.UnitHour
			clear(sums)
			s.traceHour(t, seen, sums)
		}
		hours = hours[n:]
	}
}

// traceHour classifies one unit hour with the sink open.
func (s *State) traceHour(t task, seen *samples, sums map[Entry]Amounts) {
	within := t.Hour.Span()
	within.To = min(within.To, s.at)
	var cov *coverage
	if t.Unit.Device != "" {
		cov = s.classifier.cov.cover(t.Unit, t.Hour, seen)
	}
	s.classifier.classify(t.UnitHour, within, cov)
	ledger := summed(s.classifier.cells)
	must.True(len(sums) == len(ledger), "unit %v hour %d: %d keys in the segments, %d in the ledger", t.Unit, t.Hour, len(sums), len(ledger))
	for _, x := range ledger {
		must.True(sums[x.Entry] == x.Amounts, "unit %v hour %d: segments of %v sum to %v, the ledger gets %v", t.Unit, t.Hour, x.Key, sums[x.Entry], x.Amounts)
	}
}

// hoursOf lists the unit hours that a contract's period can stand on, in order: also the one before it, since the top-up of a start
// that stops in the period's first second belongs to the period.
func (s *State) hoursOf(contractID string, period span.Span) []task {
	p := plan{state: s}
	customer := s.classifier.contracts.Customer(contractID)
	s.classifier.book.Leases(func(l *occupancy.Lease) {
		if l.Started == nil || l.Started.Contract != contractID && (l.Started.Contract != "" || l.Started.Customer != customer) {
			return
		}
		for _, t := range l.Within(span.Span{From: max(period.From, 1) - 1, To: min(period.To, s.at)}) {
			for h := t.Span.From.Hour(); h.Start() < t.Span.To; h++ {
				p.add(t.Unit, h, false)
			}
		}
	})
	return p.sorted()
}

// rangesOf asks for the rows of hours, one range for each device and node: the hours' own, and what idle runs reach back to.
func (s *State) rangesOf(hours []task) Needs {
	spans := map[Unit]span.Span{}
	var units []Unit
	add := func(u Unit, in span.Span) {
		have, ok := spans[u]
		if !ok {
			units, have = append(units, u), in
		}
		spans[u] = span.Span{From: min(have.From, in.From), To: max(have.To, in.To)}
	}
	reach := max(BridgeSeconds, s.classifier.contracts.Lookback())
	for _, t := range hours {
		if in := t.Hour.Span(); t.Unit.Device != "" {
			add(Unit{Device: t.Unit.Device}, span.Span{From: max(in.From, reach) - reach, To: in.To + span.SecondsPerMinute})
			if t.Unit.Node != "" {
				add(Unit{Node: t.Unit.Node}, in)
			}
		}
	}
	var n Needs
	for _, u := range units {
		n.Minutes = append(n.Minutes, MinuteRange{Node: u.Node, Device: u.Device, From: spans[u].From.Minute(), To: spans[u].To.Minute()})
	}
	return n
}

// trace gives a part of a tranche to the sink, split until every piece has one key: the seconds of a stretch that samples tell apart
// are found by asking for its halves.
func (c *classifier) trace(uh UnitHour, l *occupancy.Lease, p part, s span.Span, cov *coverage) {
	if c.sink == nil || p.milli == 0 {
		return
	}
	var keys []stretch
	for _, st := range c.stretches(uh, p, l, s, cov.of(s), cov) {
		switch {
		case st.each.IsZero():
		case len(keys) > 0 && keys[0].key == st.key:
			keys[0].each = keys[0].each.Plus(st.each)
		default:
			keys = append(keys, st)
		}
	}
	if len(keys) > 1 {
		middle := s.From + (s.To-s.From)/2
		c.trace(uh, l, p, span.Span{From: s.From, To: middle}, cov)
		c.trace(uh, l, p, span.Span{From: middle, To: s.To}, cov)
		return
	}
	for _, st := range keys {
		c.keep(Segment{
			Lease: l.ID, Device: uh.Unit.Device, Span: s, Milli: p.milli, Key: st.key, Amounts: st.each.Times(p.milli),
			Unrelieved: c.unrelieved(uh, l, p, st.key, s, cov),
		})
	}
}

// keep gives a segment to the sink.
func (c *classifier) keep(g Segment) {
	if c.sink != nil && !g.IsZero() {
		c.sink(g)
	}
}

// unrelieved says why the seconds of a segment have no idle relief.
func (c *classifier) unrelieved(uh UnitHour, l *occupancy.Lease, p part, key ChargeKey, s span.Span, cov *coverage) (out Unrelieved) {
	v, ok := c.contracts.Version(key.Version)
	if !ok || v.Contract.Idle == nil || key.Standing != Priced || key.Idle || p.free {
		return out
	}
	all := s.Seconds() * p.milli
	if cov == nil || uh.Unit.Device == "" {
		return Unrelieved{Unknown: all}
	}
	held := c.book.On(nil, occupancy.Unit{Device: uh.Unit.Device}, s)
	for m := s.From.Minute(); m.Start() < s.To; m++ {
		own, others := holding(held, l, m, span.MaskOf(m, s))
		out.Shared += int64((own & others).Count()) * p.milli
		if cov.minutes != nil {
			idle, busy := idleness(&cov.minutes[m-cov.hour.FirstMinute()], v.Contract.Idle.BelowPercent, own&^others)
			out.Early += int64(idle.Count()) * p.milli
			out.Busy += int64(busy.Count()) * p.milli
		}
	}
	out.Unknown = all - out.Busy - out.Early - out.Shared
	return out
}
