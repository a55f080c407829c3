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
	units    []Unit    // in which the book holds it
	held     span.Span // the smallest that holds its tranches and the last seconds of its starts: where groups find it
}

// Book holds every lease, by lease, by unit and by group.
type Book struct {
	terms  Terms
	leases map[string]*Lease
	units  map[Unit][]holder // in order of (span.From, lease id)
	// changing are the leases that ever are in another state than running: what they hold hangs on their terms.
	changing map[*Lease]bool
	live     map[Unit]bool     // units with something that is not over, see Live
	nodes    map[string][]Unit // devices that a lease ever placed on the node
	groups   groups
	declared map[string][]Declaration // by device, in order of (instant, position)
	named    map[string]bool          // devices that lease facts ever named
}

// holder is what one lease holds of one unit.
type holder struct {
	lease    *Lease
	tranches []Tranche
	ended    []EndedStart
	span     span.Span   // the smallest that holds the tranches and the last seconds of the ended starts
	until    span.Second // the latest end of this holder and all before it: where a search may stop
}

// NewBook is an empty book. Terms say what leases hold that do not run; nil is nothing.
func NewBook(terms Terms) *Book {
	return &Book{
		terms: terms, leases: map[string]*Lease{}, units: map[Unit][]holder{}, changing: map[*Lease]bool{}, live: map[Unit]bool{},
		nodes: map[string][]Unit{}, groups: groups{}, declared: map[string][]Declaration{}, named: map[string]bool{},
	}
}

// Touched is a unit and the span in which what is held of it, or can be billed of it, changed.
type Touched struct {
	Unit Unit
	Span span.Span
}

// Apply takes one lease fact (started, resized, state changed, stopped, refusal waived), or a declaration of a device, and tells what it
// touched. Repeats and conflicts of keys were sorted out before.
func (b *Book) Apply(f fact.Fact) []Touched {
	if d, ok := f.Body.(*fact.DeviceDeclared); ok {
		return b.declare(f, d)
	}
	l := b.lease(f.Body.Entity())
	if w, ok := f.Body.(*fact.RefusalWaived); ok {
		in := span.Span{From: w.From, To: w.To}
		l.Waivers = append(l.Waivers, in)
		return l.Within(in)
	}
	l.facts = append(l.facts, f)
	for _, d := range Devices(f.Body) {
		b.named[d.Device] = true
	}
	if change, ok := f.Body.(*fact.LeaseStateChanged); ok && change.State != fact.Running {
		b.changing[l] = true
	}
	return b.Reconsider(l)
}

// Changing calls f, in no order, for every lease that ever is in another state than running: after a change of terms they have to be
// reconsidered, and no others.
func (b *Book) Changing(f func(*Lease)) {
	for l := range b.changing {
		f(l)
	}
}

// Reconsider folds a lease anew, by the terms as they are now, and tells what that touched.
func (b *Book) Reconsider(l *Lease) []Touched {
	before, starts := l.Tranches, l.Starts
	terms := b.terms
	if !b.changing[l] {
		terms = nil // it always runs: there is nothing to ask
	}
	l.refold(terms)
	b.place(l)
	return append(differences(before, l.Tranches), startDifferences(starts, l.Starts)...)
}

// Within lists what of the lease lies in s: parts of tranches, and last seconds of ended starts, where their top-up is.
func (l *Lease) Within(s span.Span) []Touched {
	var out []Touched
	for i := range l.Tranches {
		if in := l.Tranches[i].Span.Intersect(s); !in.Empty() {
			out = append(out, Touched{l.Tranches[i].Unit, in})
		}
	}
	for i := range l.Starts {
		if st := &l.Starts[i]; st.Span.To != span.Open && s.Contains(st.LastSecond()) {
			out = st.touch(out)
		}
	}
	return out
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
func (l *Lease) refold(terms Terms) {
	l.Started = firstStart(l.facts)
	t := timeline{lease: l, terms: terms, began: map[Unit][]int{}}
	t.fold(l.facts)
	t.tranches = slices.DeleteFunc(t.tranches, func(tr Tranche) bool { return tr.Span.Empty() })
	l.Tranches, l.Starts, l.Problems = t.tranches, t.starts, t.problems
}

// firstStart is the lease's start: of two the first in the log. It is nil while none is known.
func firstStart(facts []fact.Fact) (start *fact.LeaseStarted) {
	var first uint64
	for _, f := range facts {
		if s, ok := f.Body.(*fact.LeaseStarted); ok && (start == nil || f.Seq < first) {
			start, first = s, f.Seq
		}
	}
	return start
}

// place puts what the lease holds now into its units.
func (b *Book) place(l *Lease) {
	for _, u := range l.units {
		at := len(b.units[u]) - 1
		for b.units[u][at].lease != l {
			at--
		}
		b.setHolders(u, slices.Delete(b.units[u], at, at+1), at)
	}
	l.units = l.units[:0]
	held := map[Unit]*holder{}
	var whole span.Span // the smallest that holds all tranches and last seconds
	wider := func(s span.Span) {
		if whole.Empty() {
			whole = s
		}
		whole = span.Span{From: min(whole.From, s.From), To: max(whole.To, s.To)}
	}
	in := func(u Unit) *holder {
		if held[u] == nil {
			held[u] = &holder{lease: l, span: span.Span{From: span.Open}}
			l.units = append(l.units, u)
		}
		return held[u]
	}
	for _, tr := range l.Tranches {
		h := in(tr.Unit)
		h.tranches = append(h.tranches, tr)
		h.reach(tr.Span)
		wider(tr.Span)
		if tr.Node != "" && !slices.Contains(b.nodes[tr.Node], tr.Unit) {
			b.nodes[tr.Node] = append(b.nodes[tr.Node], tr.Unit)
		}
	}
	for _, s := range l.Starts {
		for _, last := range s.Last {
			h := in(last.Unit)
			h.ended = append(h.ended, EndedStart{Lease: l, Start: s, Milli: last.Milli, Each: last.Each})
			h.reach(second(s.LastSecond()))
			wider(second(s.LastSecond()))
		}
	}
	b.groups.move(l, l.held, whole)
	l.held = whole
	for _, u := range l.units {
		h := *held[u]
		at, _ := slices.BinarySearchFunc(b.units[u], h, func(a, c holder) int {
			return cmp.Or(cmp.Compare(a.span.From, c.span.From), cmp.Compare(a.lease.ID, c.lease.ID))
		})
		b.setHolders(u, slices.Insert(b.units[u], at, h), at)
		b.live[u] = true
	}
}

func (h *holder) reach(s span.Span) {
	h.span = span.Span{From: min(h.span.From, s.From), To: max(h.span.To, s.To)}
}

// setHolders keeps a unit's holders, which changed from an index on.
func (b *Book) setHolders(u Unit, list []holder, changed int) {
	if len(list) == 0 {
		delete(b.units, u)
		return
	}
	for i := changed; i < len(list); i++ {
		list[i].until = list[i].span.To
		if i > 0 {
			list[i].until = max(list[i].until, list[i-1].until)
		}
	}
	b.units[u] = list
}

// each calls f for the holders of a unit that reach into s, the latest first. It looks at few others, however many
// leases the device had.
func (b *Book) each(u Unit, s span.Span, f func(*holder)) {
	list := b.units[u]
	i, _ := slices.BinarySearchFunc(list, s.To, func(h holder, to span.Second) int { return cmp.Compare(h.span.From, to) })
	for i--; i >= 0 && list[i].until > s.From; i-- {
		if list[i].span.Overlaps(s) {
			f(&list[i])
		}
	}
}

func second(at span.Second) span.Span { return span.Span{From: at, To: at + 1} }

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
	b.each(u, s, func(h *holder) {
		for i := range h.tranches {
			if h.tranches[i].Span.Overlaps(s) {
				dst = append(dst, h.tranches[i])
			}
		}
	})
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
	Each  int64 // of one device or slice, see Tranche
}

// LastSecond is the second whose conditions a top-up takes: the last one, or the first of a start of length 0.
func (s Start) LastSecond() span.Second { return max(s.Span.From, s.Span.To-1) }

// Ended lists the starts whose last second lies in s on the unit.
func (b *Book) Ended(u Unit, s span.Span) []EndedStart {
	var out []EndedStart
	b.each(u, s, func(h *holder) {
		for i := range h.ended {
			if s.Contains(h.ended[i].Start.LastSecond()) {
				out = append(out, h.ended[i])
			}
		}
	})
	return out
}

// Node is the node on which leases placed the unit last before to, or "".
func (b *Book) Node(u Unit, to span.Second) string {
	node, from := "", span.Second(-1)
	b.each(u, span.Span{From: -1, To: to}, func(h *holder) {
		for i := range h.tranches {
			if tr := &h.tranches[i]; from < tr.Span.From && tr.Span.From < to {
				node, from = tr.Node, tr.Span.From
			}
		}
	})
	return node
}

// Placed lists the devices that leases ever placed on a node.
func (b *Book) Placed(node string) []Unit { return b.nodes[node] }

// Extent is the smallest span that holds everything ever held of the unit and every start's last second; Empty when
// there is nothing.
func (b *Book) Extent(u Unit) span.Span {
	list := b.units[u]
	if len(list) == 0 {
		return span.Span{}
	}
	return span.Span{From: list[0].span.From, To: list[len(list)-1].until}
}

// Live lists, in a fixed order, the units that hold something at or after from, and forgets the others. A later fact
// brings a unit back.
func (b *Book) Live(from span.Second) []Unit {
	out := make([]Unit, 0, len(b.live))
	for u := range b.live {
		if b.Extent(u).To <= from {
			delete(b.live, u)
			continue
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, c Unit) int { return cmp.Or(cmp.Compare(a.Device, c.Device), cmp.Compare(a.Lease, c.Lease)) })
	return out
}

// IsLive tells whether Live listed the unit last, or a fact brought it back since.
func (b *Book) IsLive(u Unit) bool { return b.live[u] }

// differences lists the units and spans in which two versions of a lease's tranches differ. Of a tranche that only
// moved its end, the moved part is touched.
func differences(before, after []Tranche) []Touched {
	return missing(missing(nil, before, after), after, before)
}

func missing(out []Touched, a, b []Tranche) []Touched {
	equal := make(map[Tranche]span.Second, len(b)) // the tranche without its end, and its end
	for _, tr := range b {
		to := tr.Span.To
		tr.Span.To = 0
		equal[tr] = to
	}
	for _, tr := range a {
		rest := tr.Span
		tr.Span.To = 0
		if to, ok := equal[tr]; ok {
			rest.From = max(rest.From, min(rest.To, to))
		}
		if !rest.Empty() {
			out = append(out, Touched{tr.Unit, rest})
		}
	}
	return out
}

// startDifferences touches the last second of every start that ended, or ended otherwise than before: its top-up.
func startDifferences(before, after []Start) []Touched {
	var out []Touched
	same := 0
	for same < min(len(before), len(after)) && before[same].equal(&after[same]) {
		same++
	}
	for _, list := range [2][]Start{before[same:], after[same:]} {
		for i := range list {
			out = list[i].touch(out)
		}
	}
	return out
}

func (s *Start) equal(o *Start) bool {
	return s.Span == o.Span && s.Seq == o.Seq && s.EndedBy == o.EndedBy && s.State == o.State && s.AfterFault == o.AfterFault && slices.Equal(s.Last, o.Last)
}

// touch appends the start's last second on every unit it held; nothing while it is open.
func (s *Start) touch(out []Touched) []Touched {
	for _, h := range s.Last {
		out = append(out, Touched{h.Unit, second(s.LastSecond())})
	}
	return out
}
