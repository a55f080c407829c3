package occupancy

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Unit is a device, or an unplaced lease when Device is empty.
type Unit struct {
	Device string
	Lease  string // only when Device is empty
}

// Tranche is a part of a unit held by a lease without a change. Of two that overlap on a device beyond what of it is saleable, the one
// that began later is refused (tie: the later position), page 3b, Overlap.
type Tranche struct {
	Lease *Lease
	Unit  Unit
	Node  string
	Span  span.Span // To is span.Open while it is held
	Milli int64     // share of a device; of an unplaced lease count x share
	// Each is what the lease states for one device or slice of the unit in this span, in milli: of a device all that it holds of it.
	// Where it changes without the tranche, the tranche goes on with another span.
	Each  int64
	Began span.Second
	Seq   uint64          // position of the lease's fact that began it
	State fact.LeaseState // of the lease: another state splits a tranche, which goes on
}

// Terms are what contracts say of lease states.
type Terms interface {
	// Holds tells whether a lease holds its GPUs in a state at an instant.
	Holds(l *fact.LeaseStarted, state fact.LeaseState, at span.Second) bool
	// VersionEdges appends to dst the instants within s at which Holds may change its answer.
	VersionEdges(dst []span.Second, contract, customer string, s span.Span) []span.Second
}

// Start is one start of a lease, for minimum and granularity: from entering a state that holds GPUs to leaving all of them.
type Start struct {
	Span    span.Span // To is span.Open while it runs
	Seq     uint64    // position of the lease's fact that began it
	EndedBy fact.EndedBy
	State   fact.LeaseState // once ended: in the last second, or at the instant of a start of length 0
	// AfterFault: the start before this one ended by a fault, so this one has no minimum (page 3b, Starts).
	AfterFault bool
	Last       []Holding // once ended: what was held in the last second, or at the instant of a start of length 0
}

// Holding is a share of a unit at an instant.
type Holding struct {
	Unit  Unit
	Node  string
	Milli int64
	Each  int64 // of one device or slice, see Tranche
}

// Problem is a lease fact that could not be taken as it stands; it goes when its cause goes.
type Problem struct {
	Key    string // the fact's key
	Reason string
	Detail string
	At     span.Second
}

// Reasons of problems.
const (
	UnknownLease    = "unknown_lease"
	StopBeforeStart = "stop_before_start"
	SecondStart     = "second_start"
	AfterStop       = "after_stop"
)

// timeline folds one lease's facts, ordered by (instant, position).
type timeline struct {
	lease    *Lease
	tranches []Tranche
	starts   []Start
	problems []Problem
	holding  []Holding
	began    map[Unit][]int  // open tranches of a unit, oldest first: indexes into tranches
	terms    Terms           // nil: only a running lease holds its GPUs
	state    fact.LeaseState // "" before the start and after a stop
	entered  uint64          // position of the fact that brought the state
	holds    bool
	heldAs   fact.LeaseState // in which state it held last
	states   []InState
	stopped  bool
}

// ordered puts the facts in order of (instant, position), page 3b, Starts; only a start goes before everything else of
// its instant, so that a stop that arrived first still ends a lease of no length.
func ordered(facts []fact.Fact) []fact.Fact {
	rank := func(f fact.Fact) int {
		if _, ok := f.Body.(*fact.LeaseStarted); ok {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(facts)
	slices.SortFunc(sorted, func(a, b fact.Fact) int {
		return cmp.Or(cmp.Compare(At(a.Body), At(b.Body)), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Seq, b.Seq))
	})
	return sorted
}

// At is the instant that a lease fact, or a declaration of a device, speaks of.
func At(b fact.Body) span.Second {
	switch f := b.(type) {
	case *fact.LeaseStarted:
		return f.At
	case *fact.LeaseResized:
		return f.At
	case *fact.LeaseStateChanged:
		return f.At
	case *fact.LeaseStopped:
		return f.At
	case *fact.DeviceDeclared:
		return f.At
	default:
		return 0
	}
}

func (t *timeline) fold(facts []fact.Fact) {
	edges := t.edges()
	for _, f := range ordered(facts) {
		for len(edges) > 0 && edges[0] < At(f.Body) {
			t.turn(edges[0])
			edges = edges[1:]
		}
		switch b := f.Body.(type) {
		case *fact.LeaseStarted:
			t.start(f, b)
		case *fact.LeaseResized:
			if t.accepts(f) {
				t.hold(b.At, holdings(b.Lease, b.Devices, b.Count, b.ShareMilli), f.Seq)
			}
		case *fact.LeaseStateChanged:
			if t.accepts(f) {
				t.enter(b.At, b.State, f.Seq)
			}
		case *fact.LeaseStopped:
			if t.accepts(f) {
				t.end(b.At, b.By)
				t.state = ""
				t.note(b.At)
				t.stopped = b.By != fact.ByFault // what a fault ended may be restarted (page 3b, Starts)
			}
		}
	}
	for _, at := range edges {
		t.turn(at)
	}
}

// edges lists the instants at which contracts may say something else of a lease that does not run. What a lease does at such an
// instant comes first.
func (t *timeline) edges() []span.Second {
	if t.terms == nil || t.lease.Started == nil {
		return nil
	}
	l := t.lease.Started
	edges := t.terms.VersionEdges(nil, l.Contract, l.Customer, span.Span{From: l.At, To: span.Open})
	slices.Sort(edges)
	return slices.Compact(edges)
}

// accepts lists a fact that has no start before it, or follows the stop.
func (t *timeline) accepts(f fact.Fact) bool {
	switch {
	case t.stopped:
		t.problem(f, AfterStop, "the lease was stopped before")
	case t.lease.Started != nil && At(f.Body) < t.lease.Started.At:
		t.problem(f, StopBeforeStart, "the lease starts at "+t.lease.Started.At.String())
	case t.lease.Started == nil:
		t.problem(f, UnknownLease, "no start of this lease is known")
	default:
		return true
	}
	return false
}

func (t *timeline) problem(f fact.Fact, reason, detail string) {
	t.problems = append(t.problems, Problem{Key: f.Key, Reason: reason, Detail: detail, At: At(f.Body)})
}

func (t *timeline) start(f fact.Fact, b *fact.LeaseStarted) {
	if b != t.lease.Started {
		t.problem(f, SecondStart, "the lease was started at "+t.lease.Started.At.String())
		return
	}
	t.holding = holdings(b.Lease, b.Devices, b.Count, b.ShareMilli)
	t.enter(b.At, fact.Running, f.Seq)
}

func (t *timeline) enter(at span.Second, state fact.LeaseState, seq uint64) {
	t.state, t.entered = state, seq
	t.note(at)
	t.turn(at)
}

// turn brings what is held to the state: entering one that holds GPUs from one that does not is a start (page 3b, Advance fees), also
// where a contract makes a state such a one while the lease is in it.
func (t *timeline) turn(at span.Second) {
	holds := t.state == fact.Running || t.state != "" && t.terms != nil && t.terms.Holds(t.lease.Started, t.state, at)
	switch {
	case !holds:
		t.end(at, fact.ByCustomer)
	case !t.holds:
		t.begin(at)
	case t.state != t.heldAs:
		t.split(at)
	}
}

// begin opens a start and the tranches of what is held.
func (t *timeline) begin(at span.Second) {
	after := len(t.starts) > 0 && t.starts[len(t.starts)-1].EndedBy == fact.ByFault
	t.starts = append(t.starts, Start{Span: span.Span{From: at, To: span.Open}, Seq: t.entered, AfterFault: after})
	t.holds, t.heldAs = true, t.state
	held := t.holding
	t.holding = nil
	t.hold(at, held, t.entered)
}

// split goes on with what is held in another state.
func (t *timeline) split(at span.Second) {
	for i := range len(t.tranches) {
		rest := t.tranches[i]
		if rest.Span.To != span.Open {
			continue
		}
		t.tranches[i].Span.To = at
		rest.Span.From, rest.State = at, t.state
		open := t.began[rest.Unit]
		open[slices.Index(open, i)] = len(t.tranches)
		t.tranches = append(t.tranches, rest)
	}
	t.heldAs = t.state
}

// hold moves from what is held to the new holdings: more of a unit is a new tranche, less ends the newest first.
func (t *timeline) hold(at span.Second, held []Holding, seq uint64) {
	if t.holds {
		milli := make(map[Unit]Holding, len(held))
		for _, h := range held {
			milli[h.Unit] = h
		}
		for _, old := range t.holding {
			t.shrink(old.Unit, at, milli[old.Unit].Milli)
		}
		for _, h := range held {
			t.restate(h, at)
			t.grow(h, at, seq)
		}
	}
	t.holding = held
}

// shrink ends tranches of a unit, newest first, until at most keep milli are held; the straddling one is split.
func (t *timeline) shrink(u Unit, at span.Second, keep int64) {
	open := t.began[u]
	excess := -keep
	for _, i := range open {
		excess += t.tranches[i].Milli
	}
	for excess > 0 {
		last := &t.tranches[open[len(open)-1]]
		rest := *last
		last.Span.To = at
		open = open[:len(open)-1]
		if rest.Milli > excess {
			rest.Milli -= excess
			rest.Span = span.Span{From: at, To: span.Open}
			t.tranches = append(t.tranches, rest)
			open = append(open, len(t.tranches)-1)
		}
		excess -= last.Milli
	}
	t.began[u] = open
}

// restate notes what one device or slice of a unit is from now on.
func (t *timeline) restate(h Holding, at span.Second) {
	for k, i := range t.began[h.Unit] {
		old := &t.tranches[i]
		switch {
		case old.Each == h.Each:
		case old.Span.From == at:
			old.Each = h.Each
		default:
			rest := *old
			rest.Each, rest.Span.From = h.Each, at
			old.Span.To = at
			t.tranches = append(t.tranches, rest)
			t.began[h.Unit][k] = len(t.tranches) - 1
		}
	}
}

func (t *timeline) grow(h Holding, at span.Second, seq uint64) {
	more := h.Milli
	for _, i := range t.began[h.Unit] {
		more -= t.tranches[i].Milli
	}
	if more <= 0 {
		return
	}
	t.tranches = append(t.tranches, Tranche{
		Lease: t.lease, Unit: h.Unit, Node: h.Node, Span: span.Span{From: at, To: span.Open}, Milli: more, Each: h.Each, Began: at, Seq: seq, State: t.heldAs,
	})
	t.began[h.Unit] = append(t.began[h.Unit], len(t.tranches)-1)
}

// end closes the start that runs and all tranches at the first second that is no longer held.
func (t *timeline) end(at span.Second, by fact.EndedBy) {
	if !t.holds {
		return
	}
	s := &t.starts[len(t.starts)-1]
	s.Span.To, s.EndedBy = at, by
	s.Last, s.State = t.lastHolding(s.Span.From, at)
	for i := range t.tranches {
		t.tranches[i].Span.To = min(t.tranches[i].Span.To, at)
	}
	clear(t.began)
	t.holds = false
}

// lastHolding is what the tranches held in the second before at, and the lease's state then; or both at the instant of a start of
// length 0. A resize or another state at the very instant of the stop changes no second, so it does not count.
func (t *timeline) lastHolding(from, at span.Second) (out []Holding, state fact.LeaseState) {
	if at == from {
		return t.holding, t.heldAs
	}
	held := make(map[Unit]int)
	for i := range t.tranches {
		tr := &t.tranches[i]
		if !tr.Span.Contains(at - 1) {
			continue
		}
		k, ok := held[tr.Unit]
		if !ok {
			k = len(out)
			held[tr.Unit] = k
			out = append(out, Holding{Unit: tr.Unit, Node: tr.Node, Each: tr.Each})
		}
		out[k].Milli += tr.Milli
		state = tr.State
	}
	return out, state
}

func holdings(lease string, devices []fact.Share, count, share int64) []Holding {
	if len(devices) == 0 {
		return []Holding{{Unit: Unit{Lease: lease}, Milli: count * share, Each: share}}
	}
	out := make([]Holding, len(devices))
	for i, d := range devices {
		out[i] = Holding{Unit: Unit{Device: d.Device}, Node: d.Node, Milli: d.ShareMilli, Each: d.ShareMilli}
	}
	return out
}
