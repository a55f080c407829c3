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
	block   uint64
	facts   uint64          // F
	closing bool            // minutes end with this block
	late    *usage.Assembly // pieces of minutes that were closed before this block
	touched []occupancy.Touched
	// regrouped are the spans of leases that facts changed, by the group that commitments cover together.
	regrouped []regrouped
	cuts      []*fact.CutRequested
	refusals  []Refusal
	hours     []task
}

// task is one unit hour to classify.
type task struct {
	UnitHour
	standing bool // something may stand in the ledger: read it first
}

// Begin takes a block in, in its order: usage, facts, time. It returns what Finish must be given.
func (s *State) Begin(b Block) Needs {
	if b.At < s.at {
		must.Never("block %d: time goes back from %v to %v", b.Seq, s.at, b.At)
	}
	w := &work{block: b.Seq, facts: b.FactsSeq, late: usage.NewAssembly()}
	s.work = w
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
	s.takeUsage(b, w) // a key that the block's facts enrol counts for it
	first, minutes := s.hoursThrough, s.minutesThrough
	s.advance(b.At)
	w.closing = minutes < s.minutesThrough
	s.planHours(first, w)
	if len(w.cuts) > 0 {
		s.cutAt = s.at
	}
	return s.needs(w)
}

// takeUsage takes the batches that are measured. What is quarantined is listed in front of what the block's facts raised: the
// digests of logs stand on that order.
func (s *State) takeUsage(b Block, w *work) {
	raised := w.refusals
	w.refusals = nil
	for _, q := range b.Quarantined {
		w.quarantine(q)
	}
	for _, m := range b.Usage {
		q := s.trust.Judge(&m.Batch, b.FactsSeq, b.At)
		switch {
		case q != nil:
			w.quarantine(Quarantined{m.Seq, *q})
		case m.Batch.Minute < s.minutesThrough:
			s.keep(w.late, m)
		default:
			s.keep(s.open, m)
		}
	}
	w.refusals = append(w.refusals, raised...)
}

func (w *work) quarantine(q Quarantined) {
	w.refusals = append(w.refusals, Refusal{
		ID: fmt.Sprintf("usage/%d", q.Seq), Reason: string(q.Reason), Detail: "node " + q.Node + ": " + q.Detail, Delta: 1,
	})
}

// planHours lists what to classify: hours that closed with this block, from first on; classified hours that something
// touched; and at a cut every open hour up to now.
func (s *State) planHours(first span.Hour, w *work) {
	p := plan{state: s}
	if first < s.hoursThrough {
		p.close(first)
	}
	p.touch(first, w)
	if len(w.cuts) > 0 {
		p.cut()
	}
	w.hours = p.sorted()
}

func compareTasks(a, b task) int {
	return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Unit.Device, b.Unit.Device), cmp.Compare(a.Unit.Lease, b.Unit.Lease))
}

// plan collects the hours to classify.
type plan struct {
	state *State
	tasks []task // in any order and repeated; without nodes
}

func (p *plan) add(u occupancy.Unit, h span.Hour, standing bool) {
	t := task{UnitHour{Unit{Device: u.Device, Lease: u.Lease}, h}, standing}
	if n := len(p.tasks); n == 0 || p.tasks[n-1] != t { // a late device has many minutes in an hour
		p.tasks = append(p.tasks, t)
	}
}

// sorted lists each hour once, in order and with its node. Something may stand there when any reason to classify it says so.
func (p *plan) sorted() []task {
	slices.SortFunc(p.tasks, compareTasks)
	out := p.tasks[:0]
	for _, t := range p.tasks {
		if n := len(out); n > 0 && out[n-1].UnitHour == t.UnitHour {
			out[n-1].standing = out[n-1].standing || t.standing
		} else {
			out = append(out, t)
		}
	}
	for i := range out {
		u := &out[i].Unit
		*u = p.state.unit(occupancy.Unit{Device: u.Device, Lease: u.Lease}, out[i].Hour)
	}
	return out
}

// close adds the hours from first that are over now, of every unit that was leased or sampled in them.
func (p *plan) close(first span.Hour) {
	s := p.state
	for _, u := range s.unitsFrom(first) {
		from, to := s.interest(u)
		for h := max(first, from); h < min(s.hoursThrough, to); h++ {
			if s.concerns(u, h) {
				p.add(u, h, h.Start() < s.cutAt)
			}
		}
	}
	edge := s.hoursThrough.FirstMinute()
	for u, m := range s.sampled {
		if m < edge {
			delete(s.sampledFrom, u)
		} else {
			s.sampledFrom[u] = max(s.sampledFrom[u], edge)
		}
	}
}

// touch adds the classified hours that facts and late samples touch: those closed before this block, and open ones that
// the last cut classified, since what it put may have to be taken back from a unit that is not leased any more. A late
// sample at an hour's edge also touches its neighbour, whose inferred seconds it may change, and what an idle run that it
// breaks or makes reaches to.
func (p *plan) touch(closed span.Hour, w *work) {
	s := p.state
	limit := max(closed.Start(), s.cutAt)
	reach := s.classifier.contracts.Lookback()
	add := func(u occupancy.Unit, in span.Span) {
		in = span.Span{From: in.From - reach, To: min(in.To, limit) + reach}.Intersect(span.Span{From: 0, To: limit})
		for h := in.From.Hour(); h.Start() < in.To; h++ {
			p.add(u, h, true)
		}
	}
	for _, t := range slices.Concat(w.touched, s.rerank(w, limit)) {
		add(t.Unit, t.Span)
	}
	for _, k := range w.late.Keys() {
		around := span.Span{From: k.Minute.Start() - BridgeSeconds, To: k.Minute.End() + BridgeSeconds}
		if k.Device != "" {
			add(occupancy.Unit{Device: k.Device}, around)
			continue
		}
		for _, u := range s.classifier.book.Placed(k.Node) { // a node's late word can make its silent devices ghosts
			add(u, around)
		}
	}
}

// cut adds the open hours up to now.
func (p *plan) cut() {
	s := p.state
	units := s.unitsFrom(s.hoursThrough)
	for h := s.hoursThrough; h.Start() < s.at; h++ {
		for _, u := range units {
			if s.concerns(u, h) {
				p.add(u, h, true)
			}
		}
	}
}

// unit names an occupancy unit in an hour with its node: the one its leases state.
func (s *State) unit(u occupancy.Unit, h span.Hour) Unit {
	out := Unit{Device: u.Device, Lease: u.Lease}
	if u.Device != "" {
		out.Node = s.classifier.book.Node(u, h.End())
	}
	return out
}

// unitsFrom lists the units that may be leased or were sampled at or after an hour's start.
func (s *State) unitsFrom(h span.Hour) []occupancy.Unit {
	out := s.classifier.book.Live(h.Start())
	for u, m := range s.sampled {
		if device := (occupancy.Unit{Device: u.Device}); u.Device != "" && m >= h.FirstMinute() && !s.classifier.book.IsLive(device) {
			out = append(out, device)
		}
	}
	return out
}

// interest is the range of hours [from, to) in which a unit was held or sampled.
func (s *State) interest(u occupancy.Unit) (from, to span.Hour) {
	if e := s.classifier.book.Extent(u); !e.Empty() {
		from, to = e.From.Hour(), e.To.Hour()+1
	} else {
		from = span.Open.Hour()
	}
	device := Unit{Device: u.Device}
	if first, ok := s.sampledFrom[device]; ok && u.Device != "" {
		from, to = min(from, first.Hour()), max(to, s.sampled[device].Hour()+1)
	}
	return from, to
}

// concerns tells whether anything can come out of a unit's hour.
func (s *State) concerns(u occupancy.Unit, h span.Hour) bool {
	c := &s.classifier
	c.tranches = c.book.On(c.tranches[:0], u, h.Span())
	return len(c.tranches) > 0 || u.Device != "" && s.sampled[Unit{Device: u.Device}] >= h.FirstMinute() || len(c.book.Ended(u, h.Span())) > 0
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
		from := (first.Start() - max(BridgeSeconds, s.classifier.contracts.Lookback())).Minute()
		n.Minutes = append(slices.Grow(n.Minutes, 2), MinuteRange{Device: t.Unit.Device, From: from, To: first + 61})
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
