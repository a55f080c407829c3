package occupancy

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Lease is what is known of one lease.
type Lease struct {
	ID       string
	Started  *fact.LeaseStarted // nil until a start is known
	Tranches []Tranche
	Starts   []Start
	Problems []Problem
	Waivers  []span.Span // refused time that was given away
	facts    []fact.Fact
}

// Book holds every lease, by lease and by unit.
type Book struct {
	leases map[string]*Lease
	units  map[Unit][]*Lease // in order of lease id
	live   map[Unit]bool     // units with a tranche that is not over, see Retire
}

// NewBook is an empty book.
func NewBook() *Book {
	return &Book{leases: map[string]*Lease{}, units: map[Unit][]*Lease{}, live: map[Unit]bool{}}
}

// Touched is a unit and the span in which what is held of it, or can be billed of it, changed.
type Touched struct {
	Unit Unit
	Span span.Span
}

// Apply takes one lease fact (started, resized, state changed, stopped, refusal waived) and tells what it touched.
// Repeats and conflicts of keys were sorted out before.
func (b *Book) Apply(f fact.Fact) []Touched {
	l := b.lease(f.Body.Entity())
	if w, ok := f.Body.(*fact.RefusalWaived); ok {
		l.Waivers = append(l.Waivers, span.Span{From: w.From, To: w.To})
		return touch(l.Tranches, span.Span{From: w.From, To: w.To})
	}
	l.facts = append(l.facts, f)
	before, starts := l.Tranches, l.Starts
	b.refold(l)
	return append(differences(before, l.Tranches), startDifferences(starts, l.Starts)...)
}

func (b *Book) lease(id string) *Lease {
	l := b.leases[id]
	if l == nil {
		l = &Lease{ID: id}
		b.leases[id] = l
	}
	return l
}

// refold computes the lease anew from its facts: few facts, and order of arrival cannot matter.
func (b *Book) refold(l *Lease) {
	l.Started = nil
	var first uint64
	for _, f := range l.facts { // of two starts the first in the log is the lease's
		if s, ok := f.Body.(*fact.LeaseStarted); ok && (l.Started == nil || f.Seq < first) {
			l.Started, first = s, f.Seq
		}
	}
	t := timeline{lease: l, began: map[Unit][]int{}}
	t.fold(l.facts)
	t.tranches = slices.DeleteFunc(t.tranches, func(tr Tranche) bool { return tr.Span.Empty() })
	l.Tranches, l.Starts, l.Problems = t.tranches, t.starts, t.problems
	for _, tr := range l.Tranches {
		b.index(tr.Unit, l)
	}
	for _, s := range l.Starts {
		for _, h := range s.Last {
			b.index(h.Unit, l)
		}
	}
}

func (b *Book) index(u Unit, l *Lease) {
	b.live[u] = true
	at, found := slices.BinarySearchFunc(b.units[u], l.ID, func(e *Lease, id string) int { return cmp.Compare(e.ID, id) })
	if !found {
		b.units[u] = slices.Insert(b.units[u], at, l)
	}
}

// Lease is the lease of that id, or nil.
func (b *Book) Lease(id string) *Lease { return b.leases[id] }

// Leases calls f for every lease in order of id.
func (b *Book) Leases(f func(*Lease)) {
	ids := make([]string, 0, len(b.leases))
	for id := range b.leases {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f(b.leases[id])
	}
}

// On appends to dst the tranches of a unit that overlap s, ordered by (Began, Seq, lease): the order in which a device
// is given out.
func (b *Book) On(dst []Tranche, u Unit, s span.Span) []Tranche {
	from := len(dst)
	for _, l := range b.units[u] {
		for i := range l.Tranches {
			if tr := &l.Tranches[i]; tr.Unit == u && tr.Span.Overlaps(s) {
				dst = append(dst, *tr)
			}
		}
	}
	slices.SortStableFunc(dst[from:], func(a, c Tranche) int {
		return cmp.Or(cmp.Compare(a.Began, c.Began), cmp.Compare(a.Seq, c.Seq), cmp.Compare(a.Lease.ID, c.Lease.ID))
	})
	return dst
}

// EndedStart is a start of a lease that is over, with what a unit held in its last second.
type EndedStart struct {
	Lease *Lease
	Start Start
	Milli int64
}

// LastSecond is the second whose conditions a top-up takes: the last one, or the first of a start of length 0.
func (s Start) LastSecond() span.Second { return max(s.Span.From, s.Span.To-1) }

// Ended lists the starts whose last second lies in s on the unit.
func (b *Book) Ended(u Unit, s span.Span) []EndedStart {
	var out []EndedStart
	for _, l := range b.units[u] {
		for _, st := range l.Starts {
			if st.Span.To == span.Open || !s.Contains(st.LastSecond()) {
				continue
			}
			for _, h := range st.Last {
				if h.Unit == u {
					out = append(out, EndedStart{Lease: l, Start: st, Milli: h.Milli})
				}
			}
		}
	}
	return out
}

// Node is the node that leases name for the unit, or "".
func (b *Book) Node(u Unit) string {
	for _, l := range b.units[u] {
		for i := range l.Tranches {
			if l.Tranches[i].Unit == u {
				return l.Tranches[i].Node
			}
		}
	}
	return ""
}

// Extent is the smallest span that holds everything ever held of the unit and every start's last second; Empty when
// there is nothing.
func (b *Book) Extent(u Unit) span.Span {
	e := span.Span{From: span.Open}
	add := func(s span.Span) { e = span.Span{From: min(e.From, s.From), To: max(e.To, s.To)} }
	for _, l := range b.units[u] {
		for i := range l.Tranches {
			if l.Tranches[i].Unit == u {
				add(l.Tranches[i].Span)
			}
		}
		for _, s := range l.Starts {
			if s.Span.To != span.Open {
				add(span.Span{From: s.LastSecond(), To: s.LastSecond() + 1})
			}
		}
	}
	return e
}

// Live lists, in a fixed order, the units that may hold something at or after from, and forgets those that cannot:
// their tranches ended before. A later fact brings a unit back.
func (b *Book) Live(from span.Second) []Unit {
	out := make([]Unit, 0, len(b.live))
	for u := range b.live {
		if b.over(u, from) {
			delete(b.live, u)
			continue
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, c Unit) int { return cmp.Or(cmp.Compare(a.Device, c.Device), cmp.Compare(a.Lease, c.Lease)) })
	return out
}

func (b *Book) over(u Unit, from span.Second) bool {
	for _, l := range b.units[u] {
		for i := range l.Tranches {
			if l.Tranches[i].Unit == u && l.Tranches[i].Span.To > from {
				return false
			}
		}
		for _, s := range l.Starts {
			if s.Span.To == span.Open || s.LastSecond() >= from {
				return false
			}
		}
	}
	return true
}

// Problems lists every fact that could not be taken, in order of lease.
func (b *Book) Problems(f func(*Lease, Problem)) {
	b.Leases(func(l *Lease) {
		for _, p := range l.Problems {
			f(l, p)
		}
	})
}

// differences lists the units and spans in which two versions of a lease's tranches differ.
func differences(before, after []Tranche) []Touched {
	var out []Touched
	out = append(out, missing(before, after)...)
	return append(out, missing(after, before)...)
}

// missing lists what of a has no equal in b. Of a tranche that only moved its end, the moved part is touched.
func missing(a, b []Tranche) []Touched {
	var out []Touched
	for _, x := range a {
		rest := x.Span
		for _, y := range b {
			if x.Unit != y.Unit || x.Milli != y.Milli || x.Began != y.Began || x.Seq != y.Seq || x.Span.From != y.Span.From {
				continue
			}
			rest.From = max(rest.From, min(x.Span.To, y.Span.To))
		}
		if !rest.Empty() {
			out = append(out, Touched{x.Unit, rest})
		}
	}
	return out
}

// startDifferences touches the last second of every start that ended, or ended otherwise than before: its top-up.
func startDifferences(before, after []Start) []Touched {
	var out []Touched
	for _, s := range append(slices.Clone(before), after...) {
		if s.Span.To == span.Open {
			continue
		}
		for _, h := range s.Last {
			out = append(out, Touched{h.Unit, span.Span{From: s.LastSecond(), To: s.LastSecond() + 1}})
		}
	}
	return out
}

func touch(tranches []Tranche, s span.Span) []Touched {
	var out []Touched
	for _, tr := range tranches {
		if in := tr.Span.Intersect(s); !in.Empty() {
			out = append(out, Touched{tr.Unit, in})
		}
	}
	return out
}
