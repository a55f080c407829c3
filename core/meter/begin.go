package meter

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// work is one block between Begin and Finish.
type work struct {
	block    uint64
	late     *usage.Assembly // pieces of minutes that were closed before this block
	touched  []occupancy.Touched
	cuts     []*fact.CutRequested
	refusals []Refusal
	hours    []task
}

// task is one unit hour to classify.
type task struct {
	UnitHour
	standing bool // something may stand in the ledger: read it first
}

// Begin takes a block in, in its order: usage, facts, time. It returns what Finish must be given.
func (s *State) Begin(b Block) Needs {
	must.True(b.At >= s.at, "block %d: time goes back from %v to %v", b.Seq, s.at, b.At)
	w := &work{block: b.Seq, late: usage.NewAssembly()}
	s.work = w
	s.takeUsage(b, w)
	for _, f := range b.Facts {
		known, repeated := s.keys[f.Key]
		switch {
		case repeated && known != f.Hash:
			w.refusals = append(w.refusals, Refusal{
				ID: fmt.Sprintf("%s#%d", f.Key, f.Seq), Reason: ConflictingFact,
				Detail: "the key " + f.Key + " was used for another statement; that one stands", At: occupancy.At(f.Body), Delta: 1,
			})
		case !repeated:
			s.keys[f.Key] = f.Hash
			s.takeFact(f, w)
		}
	}
	first := s.hoursThrough
	s.advance(b.At)
	if len(w.cuts) > 0 {
		s.cutAt = s.at
	}
	s.planHours(first, w)
	return s.needs(w)
}

func (s *State) takeUsage(b Block, w *work) {
	for _, q := range b.Quarantined {
		w.quarantine(q)
	}
	for _, m := range b.Usage {
		last := m.Batch.Minute.Start() + span.Second(m.Batch.Spoken.Last())
		switch {
		case last > b.At+usage.MaxAheadSeconds:
			w.quarantine(Quarantined{m.Seq, usage.Quarantine{
				Reason: usage.AheadOfTick, Node: m.Batch.Node, Detail: fmt.Sprintf("it speaks of %v, the tick says %v", last, b.At),
			}})
		case m.Batch.Minute < s.minutesThrough:
			s.keep(w.late, m)
		default:
			s.keep(s.open, m)
		}
	}
}

func (w *work) quarantine(q Quarantined) {
	w.refusals = append(w.refusals, Refusal{
		ID: fmt.Sprintf("usage/%d", q.Seq), Reason: string(q.Reason), Detail: "node " + q.Node + ": " + q.Detail, Delta: 1,
	})
}

// planHours lists what to classify: hours that closed with this block, closed hours that something touched, and at a
// cut every open hour up to now.
func (s *State) planHours(first span.Hour, w *work) {
	tasks := map[UnitHour]bool{} // to standing
	through := s.hoursThrough
	if !s.begun {
		first = through // nothing was closed before the first block: older hours come in as touched
	}
	s.begun = true
	for _, u := range s.unitsFrom(first) {
		from, to := s.interest(u)
		for h := max(first, from); h < min(through, to); h++ {
			if s.concerns(u, h) {
				tasks[UnitHour{u, h}] = h.Start() < s.cutAt
			}
		}
	}
	for u, m := range s.sampled {
		if m < through.FirstMinute() {
			delete(s.sampledFrom, u)
		}
	}
	s.planTouched(first, tasks, w)
	if len(w.cuts) > 0 {
		for h := through; h.Start() < s.at; h++ {
			for _, u := range s.unitsFrom(through) {
				if s.concerns(u, h) {
					tasks[UnitHour{u, h}] = true
				}
			}
		}
	}
	for uh, standing := range tasks {
		w.hours = append(w.hours, task{uh, standing})
	}
	slices.SortFunc(w.hours, func(a, b task) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Unit.Device, b.Unit.Device), cmp.Compare(a.Unit.Lease, b.Unit.Lease))
	})
}

// planTouched adds hours that facts and late samples touch among those that were closed before this block, or that a cut
// classified while they were open; a late sample at an hour's edge also touches its neighbour, whose inferred seconds it
// may change.
func (s *State) planTouched(closed span.Hour, tasks map[UnitHour]bool, w *work) {
	standing := span.Span{From: 0, To: max(closed.Start(), s.cutAt)}
	touch := func(u Unit, in span.Span) {
		in = in.Intersect(standing)
		for h := in.From.Hour(); h.Start() < in.To; h++ {
			tasks[UnitHour{u, h}] = true
		}
	}
	for _, t := range w.touched {
		touch(s.unit(t.Unit), t.Span)
	}
	late := w.late.Keys()
	if len(late) == 0 {
		return
	}
	placed := s.unitsByNode()
	for _, k := range late {
		around := span.Span{From: k.Minute.Start() - BridgeSeconds, To: k.Minute.End() + BridgeSeconds}
		if k.Device != "" {
			touch(s.unit(occupancy.Unit{Device: k.Device}), around)
			continue
		}
		for _, u := range placed[k.Node] { // a node's late word can make its silent devices ghosts
			touch(u, around)
		}
	}
}

// unitsByNode lists the devices that leases place on each node.
func (s *State) unitsByNode() map[string][]Unit {
	placed := map[string][]Unit{}
	known := map[occupancy.Unit]bool{}
	s.classifier.book.Leases(func(l *occupancy.Lease) {
		for _, tr := range l.Tranches {
			if !known[tr.Unit] && tr.Node != "" {
				known[tr.Unit] = true
				placed[tr.Node] = append(placed[tr.Node], s.unit(tr.Unit))
			}
		}
	})
	return placed
}

// unit names an occupancy unit with its node: the one its leases state, else the one it was sampled on.
func (s *State) unit(u occupancy.Unit) Unit {
	node := s.classifier.book.Node(u)
	if node == "" {
		node = s.nodes[u.Device]
	}
	return Unit{Node: node, Device: u.Device, Lease: u.Lease}
}

// unitsFrom lists the units that may be leased or were sampled at or after an hour's start.
func (s *State) unitsFrom(h span.Hour) []Unit {
	var out []Unit
	for _, u := range s.classifier.book.Live(h.Start()) {
		out = append(out, s.unit(u))
	}
	known := make(map[string]bool, len(out))
	for _, u := range out {
		known[u.Device] = true
	}
	for u, m := range s.sampled {
		if u.Device != "" && !known[u.Device] && m >= h.FirstMinute() {
			out = append(out, s.unit(occupancy.Unit{Device: u.Device}))
		}
	}
	return out
}

// interest is the range of hours [from, to) in which a unit was held or sampled.
func (s *State) interest(u Unit) (from, to span.Hour) {
	if e := s.classifier.book.Extent(occupancy.Unit{Device: u.Device, Lease: u.Lease}); !e.Empty() {
		from, to = e.From.Hour(), e.To.Hour()+1
	} else {
		from = span.Open.Hour()
	}
	if first, ok := s.sampledFrom[Unit{Device: u.Device}]; ok && u.Device != "" {
		from, to = min(from, first.Hour()), max(to, s.sampled[Unit{Device: u.Device}].Hour()+1)
	}
	return from, to
}

// concerns tells whether anything can come out of a unit's hour.
func (s *State) concerns(u Unit, h span.Hour) bool {
	c := &s.classifier
	unit := occupancy.Unit{Device: u.Device, Lease: u.Lease}
	c.tranches = c.book.On(c.tranches[:0], unit, h.Span())
	return len(c.tranches) > 0 || s.covered(u, h) || len(c.book.Ended(unit, h.Span())) > 0
}

// covered tells whether samples of the unit or its node may lie in the hour.
func (s *State) covered(u Unit, h span.Hour) bool {
	if u.Device == "" {
		return false
	}
	return s.sampled[Unit{Device: u.Device}] >= h.FirstMinute() || u.Node != "" && s.sampled[Unit{Node: u.Node}] >= h.FirstMinute()
}

// needs lists the reads: rows around every covered hour, rows of late minutes, and what stands.
func (s *State) needs(w *work) Needs {
	var n Needs
	nodes := map[UnitHour]bool{}
	for _, t := range w.hours {
		if t.standing {
			n.Standing = append(n.Standing, t.UnitHour)
		}
		if !s.covered(t.Unit, t.Hour) {
			continue
		}
		first := t.Hour.FirstMinute()
		n.Minutes = append(n.Minutes, MinuteRange{Device: t.Unit.Device, From: first - 1, To: first + 61})
		node := UnitHour{Unit{Node: t.Unit.Node}, t.Hour}
		if t.Unit.Node != "" && !nodes[node] {
			nodes[node] = true
			n.Minutes = append(n.Minutes, MinuteRange{Node: t.Unit.Node, From: first, To: first + 60})
		}
	}
	for _, k := range w.late.Keys() {
		r := MinuteRange{Device: k.Device, From: k.Minute, To: k.Minute + 1}
		if k.Device == "" {
			r.Node = k.Node
		}
		n.Minutes = append(n.Minutes, r)
	}
	return n
}
