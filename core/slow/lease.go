package slow

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// lease is one lease, and what it does at the second at hand.
type lease struct {
	*fact.LeaseStarted
	id        string
	changes   []change
	waived    []span.Span
	state     fact.LeaseState // "" before it starts and after it stops
	entered   int             // position of the fact that brought the state
	was       []phase
	holds     bool            // GPUs
	heldAs    fact.LeaseState // in which state it held them last
	over      bool
	fault     bool // ended the start before
	began     span.Second
	position  int // of the fact that began it
	stated    []share
	parts     []grant   // what is held, oldest first
	reclaimed span.Span // the start that the provider ended
}

// phase is a state from an instant on.
type phase struct {
	at    span.Second
	state fact.LeaseState
}

type change struct {
	at       span.Second
	position int
	body     fact.Body
}

type share struct {
	device string
	milli  int64
	each   int64 // of one device or slice
}

// grant is what a lease holds of a device from one fact on, and what the device has left for it.
type grant struct {
	lease          *lease
	device         string // empty for a lease without a place
	milli, granted int64
	each           int64 // of one device or slice of the lease there
	began          span.Second
	position       int
	state          fact.LeaseState // of the lease now
}

// ended is a start of a lease that is over: what a minimum may be due for.
type ended struct {
	lease      *lease
	span       span.Span
	position   int
	by         fact.EndedBy
	afterFault bool
	last       []share         // held in the last second
	state      fact.LeaseState // then
}

func instant(b fact.Body) span.Second {
	switch f := b.(type) {
	case *fact.LeaseStarted:
		return f.At
	case *fact.LeaseResized:
		return f.At
	case *fact.LeaseStateChanged:
		return f.At
	case *fact.LeaseStopped:
		return f.At
	}
	return 0
}

func (w *World) lease(id string) *lease {
	for _, l := range w.leases {
		if l.id == id {
			return l
		}
	}
	l := &lease{id: id}
	w.leases = append(w.leases, l)
	return l
}

// hold notes what is held in every second. State = facts ordered by (instant, position); a start goes first in its second.
func (w *World) hold() {
	w.leases = slices.DeleteFunc(w.leases, func(l *lease) bool { return l.LeaseStarted == nil })
	w.from = w.until
	for _, l := range w.leases {
		slices.SortStableFunc(l.changes, func(a, b change) int {
			_, first := a.body.(*fact.LeaseStarted)
			_, second := b.body.(*fact.LeaseStarted)
			return cmp.Or(cmp.Compare(a.at, b.at), -compareBools(first, second), cmp.Compare(a.position, b.position))
		})
		w.from = min(w.from, l.At)
	}
	var now []grant
	for at := w.from; at <= w.until; at++ {
		changed := false
		for _, l := range w.leases {
			for ; len(l.changes) > 0 && l.changes[0].at <= at; l.changes = l.changes[1:] {
				if c := l.changes[0]; c.at == at && at >= l.At && !l.over {
					w.turn(l, c, now)
					changed = true
				}
			}
			if w.settle(l, at, now) { // by an amendment
				changed = true
			}
		}
		if changed || slices.ContainsFunc(w.declared, func(d *fact.DeviceDeclared) bool { return d.At == at }) {
			now = w.shareOut(at)
		}
		w.held = append(w.held, now)
		if len(now) == 0 && !slices.ContainsFunc(w.leases, func(l *lease) bool { return len(l.changes) > 0 || l.state != "" }) {
			return // nothing will be held any more
		}
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// turn applies a change of a lease; before is what was held in the second before.
func (w *World) turn(l *lease, c change, before []grant) {
	enter := func(state fact.LeaseState) {
		l.state, l.entered = state, c.position
		l.was = append(l.was, phase{c.at, state})
	}
	switch b := c.body.(type) {
	case *fact.LeaseStarted:
		l.stated = shares(b.Devices, b.Count, b.ShareMilli)
		enter(fact.Running)
	case *fact.LeaseResized:
		l.stated = shares(b.Devices, b.Count, b.ShareMilli)
	case *fact.LeaseStateChanged:
		enter(b.State)
	case *fact.LeaseStopped:
		w.end(l, c.at, b.By, before)
		enter("")
		l.over = b.By != fact.ByFault
	}
	if _, resized := c.body.(*fact.LeaseResized); !resized {
		w.settle(l, c.at, before)
	}
	l.holdStated(c)
}

// settle begins or ends what a lease holds where its state bills GPUs or does not, by the contract at that second: "A start = entering
// a state that bills gpu from one that does not". It tells whether anything changed.
func (w *World) settle(l *lease, at span.Second, before []grant) bool {
	holds := l.state == fact.Running || l.state != "" && w.bills(l, at)
	switch {
	case holds && !l.holds:
		l.holds, l.began, l.position, l.heldAs = true, at, l.entered, l.state
		l.holdStated(change{at: at, position: l.entered})
	case !holds && l.holds:
		w.end(l, at, fact.ByCustomer, before)
		l.holdStated(change{})
	case holds && l.state != l.heldAs:
		l.heldAs = l.state
	default:
		return false
	}
	return true
}

// bills tells whether a part of a GPU's price bills in the lease's state.
func (w *World) bills(l *lease, at span.Second) bool {
	v := w.of(l, at)
	return v != nil && v.States != nil && v.States.GPU[l.state].Sign() > 0
}

func shares(devices []fact.Share, count, milli int64) []share {
	if len(devices) == 0 {
		return []share{{"", count * milli, milli}}
	}
	var out []share
	for _, d := range devices {
		out = append(out, share{d.Device, d.ShareMilli, d.ShareMilli})
	}
	return out
}

// end ends the start that goes on.
func (w *World) end(l *lease, at span.Second, by fact.EndedBy, before []grant) {
	if !l.holds {
		return
	}
	e := &ended{
		lease: l, span: span.Span{From: l.began, To: at}, position: l.position, by: by, afterFault: l.fault, last: l.stated, state: l.heldAs,
	}
	if l.began < at {
		held := map[string]share{}
		for _, g := range before {
			if g.lease == l {
				held[g.device] = share{g.device, held[g.device].milli + g.milli, g.each}
				e.state = g.state
			}
		}
		e.last = nil
		for _, s := range held {
			e.last = append(e.last, s)
		}
	}
	w.ended = append(w.ended, e)
	l.holds, l.fault = false, by == fact.ByFault
	if by == fact.ByProvider {
		l.reclaimed = e.span
	}
}

// holdStated brings the parts to what is stated: a resize up is a new part, down takes from the newest first.
func (l *lease) holdStated(c change) {
	if !l.holds {
		l.parts = nil
		return
	}
	held := map[string]int64{}
	for _, p := range l.parts {
		held[p.device] += p.milli
	}
	for _, s := range l.stated {
		held[s.device] -= s.milli // what is held too much
		if more := -held[s.device]; more > 0 {
			l.parts = append(slices.Clone(l.parts), grant{lease: l, device: s.device, milli: more, began: c.at, position: c.position})
		}
	}
	each := map[string]int64{}
	for _, s := range l.stated {
		each[s.device] = s.each
	}
	var kept []grant
	for _, p := range slices.Backward(l.parts) {
		take := max(0, min(held[p.device], p.milli))
		held[p.device] -= take
		p.each = each[p.device]
		if p.milli -= take; p.milli > 0 {
			kept = append(kept, p)
		}
	}
	slices.Reverse(kept)
	l.parts = kept
}

// saleable is what of a device may be sold at once: what was declared last, or 1,000 milli.
func (w *World) saleable(device string, at span.Second) int64 {
	for _, d := range slices.Backward(w.declared) {
		if d.Device == device && d.At <= at {
			return d.SaleableMilli
		}
	}
	return 1000
}

// shareOut gives what is saleable of every device to who began first.
func (w *World) shareOut(at span.Second) []grant {
	var all []grant
	for _, l := range w.leases {
		all = append(all, l.parts...)
	}
	slices.SortStableFunc(all, func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.position, b.position), cmp.Compare(a.lease.id, b.lease.id))
	})
	given := map[string]int64{}
	for i := range all {
		g := &all[i]
		g.granted, g.state = g.milli, g.lease.heldAs
		if g.device != "" {
			g.granted = min(g.milli, w.saleable(g.device, at)-given[g.device])
		}
		given[g.device] += g.granted
	}
	return all
}

// at is what is held in a second.
func (w *World) at(second span.Second) []grant {
	if i := int(second - w.from); i >= 0 && i < len(w.held) && second < w.until {
		return w.held[i]
	}
	return nil
}

// reliefOf names the relief of a lease's device by a rule.
type reliefOf struct {
	lease  *lease
	device string
	rule   *contract.IdleRelief
}

// relieved tells whether a second has idle relief. An idle run is made of idle seconds; an unknown gap up to the bridge between two
// idle seconds belongs to it; relief begins with the first second after the rule's time.
func (w *World) relieved(of reliefOf, at span.Second) bool {
	all, known := w.reliefs[of]
	if !known {
		all = w.runs(of)
		w.reliefs[of] = all
	}
	return all[at-w.from]
}

func (w *World) runs(of reliefOf) []bool {
	const busy, unknown, idle = 0, 1, 2
	n := len(w.held)
	is := make([]uint8, n)
	for i := range is {
		is[i] = unknown
		own, shared := false, false
		for _, g := range w.held[i] {
			own = own || g.device == of.device && g.lease == of.lease
			shared = shared || g.device == of.device && g.lease != of.lease
		}
		s, seen := w.samples[of.device][w.from+span.Second(i)]
		switch {
		case !own:
			is[i] = busy
		case shared || !seen || s.busy == usage.BusyUnknown:
		case int64(s.busy) < of.rule.BelowPercent:
			is[i] = idle
		default:
			is[i] = busy
		}
	}
	for i := 1; i < n; i++ {
		if is[i-1] != idle {
			continue
		}
		k := i
		for k < n && is[k] == unknown {
			k++
		}
		if k < n && is[k] == idle && int64(k-i) <= of.rule.BridgeSeconds {
			for ; i < k; i++ {
				is[i] = idle
			}
		}
	}
	out := make([]bool, n)
	run := int64(0)
	for i := range is {
		if run++; is[i] != idle {
			run = 0
		}
		out[i] = run > of.rule.AfterSeconds
	}
	return out
}

// How a second of leased time was seen.
const (
	Measured = "measured"
	Inferred = "inferred"
	Missing  = "missing"
)

// slowSource tells whether ten seconds or more of a device's clock hour were seen, and fewer of them in company than by themselves.
func (w *World) slowSource(device string, at span.Second) bool {
	hour := at / 3600
	slow, known := w.slow[device][hour]
	if known {
		return slow
	}
	of, seen, company, streak := w.samples[device], 0, 0, 0
	for s := hour * 3600; s < hour*3600+3600; s++ {
		if _, this := of[s]; !this {
			streak = 0
			continue
		}
		seen++
		switch streak++; streak {
		case 1:
		case 2:
			company += 2
		default:
			company++
		}
	}
	if w.slow[device] == nil {
		w.slow[device] = map[span.Second]bool{}
	}
	slow = seen >= 10 && company < seen-company
	w.slow[device][hour] = slow
	return slow
}

// coverage tells whether a second of a device was seen; one that was not is inferred when the nearest seen ones, within ten seconds
// before and after, are of one run.
func (w *World) coverage(device string, at span.Second) string {
	of := w.samples[device]
	if _, seen := of[at]; seen {
		return Measured
	}
	near := func(step span.Second) uint64 {
		for i := span.Second(1); i <= 10; i++ {
			if s, seen := of[at+i*step]; seen {
				return s.run
			}
		}
		return 0
	}
	if len(of) > 0 {
		if before := near(-1); before != 0 && before == near(1) {
			return Inferred
		}
	}
	return Missing
}
