package alert

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
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

// minute is what is known of a device's minute: of two values for one second the first that arrived counts.
type minute struct {
	seen, known span.SecondMask
	busy        [span.SecondsPerMinute]uint8
}

// Fold is the alerter's state: what the samples of the last window say, by device, and who holds what. Everything in it can
// be rebuilt from the facts and the usage of one window. Utilisation is joined with leases only when a minute is
// decided, so a late fact or sample counts from then on as if it had been there.
type Fold struct {
	rule    Rule
	book    *occupancy.Book
	keys    map[string]bool
	trust   *trust.Keys
	minutes map[span.Minute]map[string]*minute // by minute, then device
	through span.Minute                        // minutes before this one are decided; 0 before the first block
	leases  map[string]bool                    // that may reach into the window
	firing  map[target]bool
}

// NewFold is the alerter before the first block.
func NewFold(rule Rule) *Fold {
	return &Fold{
		rule: rule, book: occupancy.NewBook(nil), keys: map[string]bool{}, trust: trust.New(), minutes: map[span.Minute]map[string]*minute{},
		leases: map[string]bool{}, firing: map[target]bool{},
	}
}

// Apply takes one block and returns the transitions it causes, as facts to publish.
func (f *Fold) Apply(b meter.Block) []fact.Body {
	through := ended(b.At)
	if f.through == 0 {
		f.through = through
	}
	for _, x := range b.Facts { // first: a key that the block's facts enrol counts for it
		f.take(x)
	}
	for i := range b.Usage {
		if m := &b.Usage[i].Batch; f.reaches(m) && f.trust.Judge(m, b.FactsSeq, b.At) == nil {
			f.measure(m)
		}
	}
	return f.advance(through)
}

// Restore rebuilds the state at a tick: the facts up to its F, and the measured usage of the last window. Transitions it decided
// up to then may lie anywhere after F.
func (f *Fold) Restore(at span.Second, factsSeq uint64, facts []fact.Fact, messages []meter.UsageMessage) {
	f.through = ended(at)
	for _, x := range facts {
		if x.Seq <= factsSeq {
			f.take(x)
		}
		f.recall(x, f.through.Start())
	}
	for i := range messages {
		if m := &messages[i].Batch; f.reaches(m) {
			f.measure(m)
		}
	}
}

// ended is the first minute that is not over yet at a tick.
func ended(at span.Second) span.Minute { return (at - meter.MinuteDelaySeconds).Minute() }

// WindowStart is the first second whose usage a restore at this time needs.
func (f *Fold) WindowStart(at span.Second) span.Second {
	return at - meter.MinuteDelaySeconds - span.Second((f.rule.WindowMinutes+2)*span.SecondsPerMinute)
}

// reaches tells whether a batch reaches into the window of a minute to be decided.
func (f *Fold) reaches(b *usage.Batch) bool {
	return b.Minute > f.through-span.Minute(f.rule.WindowMinutes)
}

// measure takes a batch that is measured.
func (f *Fold) measure(b *usage.Batch) {
	devices := f.minutes[b.Minute]
	if devices == nil {
		devices = map[string]*minute{}
		f.minutes[b.Minute] = devices
	}
	var block usage.Block
	for _, data := range b.Blocks {
		if err := block.Decode(data); err != nil {
			must.Never("batch %s/%d/%d was taken with a block that cannot be read: %v", b.Node, b.Run, b.Seq, err)
		}
		m := devices[block.Device]
		if m == nil {
			m = &minute{}
			devices[block.Device] = m
		}
		(block.Seen &^ m.seen).Each(func(i int) {
			if m.busy[i] = block.Busy[i]; block.Busy[i] != usage.BusyUnknown {
				m.known |= span.Bit(i)
			}
		})
		m.seen |= block.Seen
	}
}

func (f *Fold) take(x fact.Fact) {
	if f.keys[x.Key] {
		return
	}
	f.keys[x.Key] = true
	switch x.Body.(type) {
	case *fact.NodeEnrolled, *fact.NodeRevoked:
		f.trust.Take(x)
	case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped:
		f.book.Apply(x)
		if l := f.book.Lease(x.Body.Entity()); l.Started != nil {
			f.leases[l.ID] = true
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

// advance decides every minute that is over, in order. Minutes without any sample in the window decide nothing, so a
// jump of the clock over quiet time costs one step.
func (f *Fold) advance(through span.Minute) []fact.Body {
	var out []fact.Body
	for f.through < through {
		if f.quiet() {
			f.through = min(through, f.nextSampled())
			continue
		}
		delete(f.minutes, f.through-span.Minute(f.rule.WindowMinutes))
		f.through++
		out = append(out, f.decide(f.through.Start())...)
	}
	delete(f.minutes, f.through-span.Minute(f.rule.WindowMinutes))
	return out
}

// quiet tells whether the window of the next minute holds no sample.
func (f *Fold) quiet() bool {
	for m := f.through - span.Minute(f.rule.WindowMinutes) + 1; m <= f.through; m++ {
		if f.minutes[m] != nil {
			return false
		}
	}
	return true
}

// nextSampled is the first minute with a sample; what left the window without being decided is forgotten.
func (f *Fold) nextSampled() span.Minute {
	next := span.Open.Minute()
	for m := range f.minutes {
		if m < f.through {
			delete(f.minutes, m)
		} else {
			next = min(next, m)
		}
	}
	return next
}

// sums are what a target holds in the window, in milli-seconds; busy counts per cent.
type sums struct{ busy, known, leased int64 }

// decide compares every target's window with the rule at the end of a minute.
func (f *Fold) decide(at span.Second) []fact.Body {
	w := span.Span{From: at - span.Second(f.rule.WindowMinutes*span.SecondsPerMinute), To: at}
	leases, customers := map[target]sums{}, map[target]sums{}
	held := map[target]bool{} // customers with a lease that is older than the window
	for id := range f.leases {
		l := f.book.Lease(id)
		if !slices.ContainsFunc(l.Tranches, func(tr occupancy.Tranche) bool { return tr.Span.To > w.From }) {
			delete(f.leases, id)
			continue
		}
		s, customer := f.sum(l, w), target{ScopeCustomer, l.Started.Customer, l.Started.Customer}
		all := customers[customer]
		customers[customer] = sums{all.busy + s.busy, all.known + s.known, all.leased + s.leased}
		for _, start := range l.Starts {
			if start.Span.From <= w.From && w.From < start.Span.To {
				held[customer] = true
			}
			if start.Span.From <= w.From && w.To <= start.Span.To {
				leases[target{ScopeLease, l.ID, l.Started.Customer}] = s
			}
		}
	}
	live := f.live(at)
	maps.DeleteFunc(customers, func(t target, _ sums) bool { return !held[t] || !live[t] })
	out := f.settled(live, at)
	return append(append(out, f.transitions(customers, at)...), f.transitions(leases, at)...)
}

// live are the leases that hold something at an instant, and their customers.
func (f *Fold) live(at span.Second) map[target]bool {
	live := map[target]bool{}
	for id := range f.leases {
		l := f.book.Lease(id)
		if slices.ContainsFunc(l.Tranches, func(tr occupancy.Tranche) bool { return tr.Span.To > at }) {
			live[target{ScopeLease, l.ID, l.Started.Customer}] = true
			live[target{ScopeCustomer, l.Started.Customer, l.Started.Customer}] = true
		}
	}
	return live
}

// settled resolves, in order, the alerts of leases that hold nothing any more, and of customers whose last lease did: what
// is not leased is not under-utilised. Missing samples of a lease that goes on resolve nothing.
func (f *Fold) settled(live map[target]bool, at span.Second) []fact.Body {
	var out []fact.Body
	for _, t := range slices.SortedFunc(maps.Keys(f.firing), byTarget) {
		if live[t] {
			continue
		}
		delete(f.firing, t)
		out = append(out, &fact.AlertResolved{Alert: f.alert(t, sums{}, at)})
	}
	return out
}

func byTarget(a, b target) int {
	return cmp.Or(strings.Compare(a.scope, b.scope), strings.Compare(a.id, b.id))
}

// alert states a target's sums; with nothing known both parts are 0.
func (f *Fold) alert(t target, s sums, at span.Second) fact.Alert {
	a := fact.Alert{
		Rule: f.rule.Name, Scope: t.scope, Target: t.id, Customer: t.customer, At: at, WindowSeconds: f.rule.WindowMinutes * span.SecondsPerMinute,
	}
	if s.known > 0 {
		a.BusyPermille, a.KnownPermille = s.busy*10/s.known, s.known*1000/s.leased
	}
	return a
}

// sum joins a lease with the samples of what it holds.
func (f *Fold) sum(l *occupancy.Lease, w span.Span) (s sums) {
	for i := range l.Tranches {
		tr := &l.Tranches[i]
		in := tr.Span.Intersect(w)
		s.leased += in.Seconds() * tr.Milli
		for m := in.From.Minute(); m.Start() < in.To; m++ {
			if of := f.minutes[m][tr.Unit.Device]; of != nil {
				known := of.known & span.MaskOf(m, in)
				s.known += int64(known.Count()) * tr.Milli
				known.Each(func(i int) { s.busy += int64(of.busy[i]) * tr.Milli })
			}
		}
	}
	return s
}

// transitions raises and resolves, in order of target. With too little known nothing changes.
func (f *Fold) transitions(of map[target]sums, at span.Second) []fact.Body {
	var out []fact.Body
	for _, t := range slices.SortedFunc(maps.Keys(of), byTarget) {
		s := of[t]
		if s.known == 0 || s.known*1000 < s.leased*f.rule.KnownPermille {
			continue
		}
		a := f.alert(t, s, at)
		switch {
		case !f.firing[t] && a.BusyPermille < f.rule.BelowPermille:
			f.firing[t] = true
			out = append(out, &fact.AlertRaised{Alert: a})
		case f.firing[t] && a.BusyPermille >= f.rule.ClearPermille:
			delete(f.firing, t)
			out = append(out, &fact.AlertResolved{Alert: a})
		}
	}
	return out
}
