package alert

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Rule is the under-utilisation rule. Utilisation is busy x milli / milli over the known leased seconds of the
// window; the design's defaults are in Default.
type Rule struct {
	Name          string
	BelowPermille int64 // raised below this
	ClearPermille int64 // resolved at or above this
	KnownPermille int64 // part of the leased time that must be known for either
	WindowMinutes int64
}

// Default is: below 60 % over 30 minutes, cleared at 65 %, with 80 % of the seconds known (design page 5).
func Default() Rule {
	return Rule{Name: "under_utilised", BelowPermille: 600, ClearPermille: 650, KnownPermille: 800, WindowMinutes: 30}
}

// Scopes of an alert.
const (
	ScopeLease    = "lease"
	ScopeCustomer = "customer"
)

// target is who an alert is about.
type target struct{ scope, id, customer string }

// minuteSums are one minute of a target, in milli-seconds; busy counts per cent.
type minuteSums struct {
	minute              span.Minute
	busy, known, leased int64
}

// Fold is the alerter's state. Everything in it can be rebuilt from the facts and the usage of one window.
type Fold struct {
	rule    Rule
	book    *occupancy.Book
	keys    map[string]bool
	open    *usage.Assembly
	through span.Minute // minutes before this one are evaluated; 0 before the first block
	windows map[target][]minuteSums
	firing  map[target]bool
	live    map[string]map[string]bool // leases of a customer that may reach into the window
}

// NewFold is the alerter before the first block.
func NewFold(rule Rule) *Fold {
	return &Fold{
		rule: rule, book: occupancy.NewBook(), keys: map[string]bool{}, open: usage.NewAssembly(),
		windows: map[target][]minuteSums{}, firing: map[target]bool{}, live: map[string]map[string]bool{},
	}
}

// Apply takes one block and returns the transitions it causes, as facts to publish.
func (f *Fold) Apply(b meter.Block) []fact.Body {
	for _, m := range b.Usage {
		if m.Batch.Minute >= f.through {
			f.open.Add(m.Seq, &m.Batch)
		}
	}
	for _, x := range b.Facts {
		f.take(x)
	}
	return f.advance(b.At)
}

// Restore rebuilds the state at a tick: the facts up to its F, and the usage of the last window. Transitions it decided
// up to then may lie anywhere after F.
func (f *Fold) Restore(at span.Second, factsSeq uint64, facts []fact.Fact, messages []meter.UsageMessage) {
	through := (at - meter.MinuteDelaySeconds).Minute()
	for _, x := range facts {
		if x.Seq <= factsSeq {
			f.take(x)
		}
		f.recall(x, through.Start())
	}
	f.through = through - span.Minute(f.rule.WindowMinutes)
	for _, m := range messages {
		if m.Batch.Minute >= f.through {
			f.open.Add(m.Seq, &m.Batch)
		}
	}
	f.fill(through)
	f.through = through
}

// Floor is the position after which usage must be replayed to rebuild the open minutes.
func (f *Fold) Floor(block uint64) uint64 { return f.open.Floor(block) }

// WindowStart is the first second whose usage a restore at this time needs.
func (f *Fold) WindowStart(at span.Second) span.Second {
	return at - meter.MinuteDelaySeconds - span.Second((f.rule.WindowMinutes+2)*span.SecondsPerMinute)
}

func (f *Fold) take(x fact.Fact) {
	if f.keys[x.Key] {
		return
	}
	f.keys[x.Key] = true
	switch x.Body.(type) {
	case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped:
		f.book.Apply(x)
		if l := f.book.Lease(x.Body.Entity()); l.Started != nil {
			if f.live[l.Started.Customer] == nil {
				f.live[l.Started.Customer] = map[string]bool{}
			}
			f.live[l.Started.Customer][l.ID] = true
		}
	}
}

// recall takes an alert's own facts, in a restore only: a running fold knows what it decided.
func (f *Fold) recall(x fact.Fact, until span.Second) {
	switch b := x.Body.(type) {
	case *fact.AlertRaised:
		if b.At <= until {
			f.firing[targetOf(b.Alert)] = true
		}
	case *fact.AlertResolved:
		if b.At <= until {
			delete(f.firing, targetOf(b.Alert))
		}
	}
}

func targetOf(a fact.Alert) target { return target{a.Scope, a.Target, a.Customer} }

// advance evaluates every minute that is over, in order. Minutes without any sample in the window decide nothing,
// so a jump of the clock over quiet time costs one step.
func (f *Fold) advance(at span.Second) []fact.Body {
	through := (at - meter.MinuteDelaySeconds).Minute()
	if f.through == 0 {
		f.through = through
	}
	var out []fact.Body
	for f.through < through {
		if len(f.windows) == 0 && len(f.open.Keys()) == 0 {
			f.through = through
			break
		}
		f.through++
		f.fill(f.through)
		out = append(out, f.decide(f.through.Start())...)
	}
	return out
}

// fill adds the closed minutes before through to the windows of the leases that held their devices.
func (f *Fold) fill(through span.Minute) {
	minutes := map[usage.Key]*usage.Minute{}
	var order []usage.Key
	for _, r := range f.open.CloseBefore(through) {
		k := usage.Key{Device: r.Device, Minute: r.Minute}
		if r.Device == "" {
			continue
		}
		if minutes[k] == nil {
			minutes[k] = &usage.Minute{}
			order = append(order, k)
		}
		minutes[k].AddRow(&r)
	}
	for _, k := range order {
		f.charge(k, minutes[k])
	}
	f.forget(through)
}

// charge gives a device's minute to every lease that held a part of it.
func (f *Fold) charge(k usage.Key, m *usage.Minute) {
	known := m.BusyKnown()
	whole := span.Span{From: k.Minute.Start(), To: k.Minute.End()}
	for _, tr := range f.book.On(nil, occupancy.Unit{Device: k.Device}, whole) {
		held := span.MaskOf(k.Minute, tr.Span)
		s := minuteSums{minute: k.Minute, known: int64((known & held).Count()) * tr.Milli, leased: int64(held.Count()) * tr.Milli}
		(known & held).Each(func(i int) { s.busy += int64(m.Busy[i]) * tr.Milli })
		customer := tr.Lease.Started.Customer
		f.add(target{ScopeLease, tr.Lease.ID, customer}, s)
		f.add(target{ScopeCustomer, customer, customer}, s)
	}
}

func (f *Fold) add(t target, s minuteSums) {
	list := f.windows[t]
	if n := len(list); n > 0 && list[n-1].minute == s.minute {
		last := &list[n-1]
		last.busy, last.known, last.leased = last.busy+s.busy, last.known+s.known, last.leased+s.leased
		return
	}
	f.windows[t] = append(list, s)
}

// forget drops what left the window.
func (f *Fold) forget(through span.Minute) {
	for t, list := range f.windows {
		list = slices.DeleteFunc(list, func(s minuteSums) bool { return s.minute < through-span.Minute(f.rule.WindowMinutes) })
		if len(list) == 0 {
			delete(f.windows, t)
			continue
		}
		f.windows[t] = list
	}
}

// decide compares every target's window with the rule at the end of a minute.
func (f *Fold) decide(at span.Second) []fact.Body {
	targets := make([]target, 0, len(f.windows))
	for t := range f.windows {
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b target) int { return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.id, b.id)) })
	var out []fact.Body
	for _, t := range targets {
		busy, known, ok := f.window(t, at)
		if !ok {
			continue
		}
		a := fact.Alert{
			Rule: f.rule.Name, Scope: t.scope, Target: t.id, Customer: t.customer, At: at,
			WindowSeconds: f.rule.WindowMinutes * span.SecondsPerMinute, BusyPermille: busy, KnownPermille: known,
		}
		switch {
		case !f.firing[t] && busy < f.rule.BelowPermille:
			f.firing[t] = true
			out = append(out, &fact.AlertRaised{Alert: a})
		case f.firing[t] && busy >= f.rule.ClearPermille:
			delete(f.firing, t)
			out = append(out, &fact.AlertResolved{Alert: a})
		}
	}
	return out
}

// window is the target's utilisation and known part in permille; not ok when too little is known or the lease is
// younger than the window. Time that is leased and was not sampled at all counts as unknown.
func (f *Fold) window(t target, at span.Second) (busy, known int64, ok bool) {
	w := span.Span{From: at - span.Second(f.rule.WindowMinutes*span.SecondsPerMinute), To: at}
	var sums minuteSums
	for _, s := range f.windows[t] {
		sums.busy, sums.known, sums.leased = sums.busy+s.busy, sums.known+s.known, sums.leased+s.leased
	}
	whole := true
	if t.scope == ScopeLease {
		sums.leased, whole = f.held(t.id, w)
	} else {
		sums.leased = f.heldBy(t.id, w)
	}
	if !whole || sums.leased == 0 || sums.known == 0 || sums.known*1000 < sums.leased*f.rule.KnownPermille {
		return 0, 0, false
	}
	return sums.busy * 10 / sums.known, sums.known * 1000 / sums.leased, true
}

// held is what a lease holds in the window, and whether it began before it.
func (f *Fold) held(id string, w span.Span) (milliSeconds int64, whole bool) {
	l := f.book.Lease(id)
	for _, tr := range l.Tranches {
		milliSeconds += tr.Span.Intersect(w).Seconds() * tr.Milli
	}
	return milliSeconds, l.Started != nil && l.Started.At <= w.From
}

// heldBy is what all leases of a customer hold in the window; leases that are over are forgotten.
func (f *Fold) heldBy(customer string, w span.Span) (milliSeconds int64) {
	for id := range f.live[customer] {
		over := true
		for _, tr := range f.book.Lease(id).Tranches {
			over = over && tr.Span.To <= w.From
			milliSeconds += tr.Span.Intersect(w).Seconds() * tr.Milli
		}
		if over {
			delete(f.live[customer], id)
		}
	}
	return milliSeconds
}
