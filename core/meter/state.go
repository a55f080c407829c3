package meter

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Delays between the end of a minute or hour and its row, in seconds of tick time (design page 2).
const (
	MinuteDelaySeconds = 30
	HourDelaySeconds   = 120
)

// ConflictingFact refuses a key that was used for another statement.
const ConflictingFact = "conflicting_fact"

// State is the rater's fold: it takes blocks and gives rows. Begin takes a block in and says what must be read,
// Finish takes the answers and gives the rows. Everything in it can be rebuilt from the log and the tables up to a
// progress row; after an error it is thrown away.
type State struct {
	at             span.Second              // T of the last block
	minutesThrough span.Minute              // minutes before this one are closed: their samples are late
	hoursThrough   span.Hour                // hours before this one are classified
	cutAt          span.Second              // time of the last cut: hours that began before it are classified, so something may stand
	stated         map[periodKey]fact.Total // what cuts stated last of each period
	keys           map[string]fact.Hash
	trust          *trust.Keys
	problems       map[string][]Refusal // standing refusals by lease or contract
	open           *usage.Assembly
	sampled        map[Unit]span.Minute // last minute seen per device and per node (Device "")
	sampledFrom    map[Unit]span.Minute // first minute seen whose hour is not classified yet
	nodes          map[string]string    // the node a device was sampled on last
	classifier     classifier
	seen           samples // of the block at hand
	work           *work   // the block between Begin and Finish
}

// NewState is the rater before the first block.
func NewState() *State {
	contracts := contract.NewRegister()
	return &State{
		stated:   map[periodKey]fact.Total{},
		keys:     map[string]fact.Hash{},
		trust:    trust.New(),
		problems: map[string][]Refusal{},
		open:     usage.NewAssembly(),
		sampled:  map[Unit]span.Minute{}, sampledFrom: map[Unit]span.Minute{}, nodes: map[string]string{},
		seen: newSamples(),
		classifier: classifier{
			book: occupancy.NewBook(contracts), contracts: contracts, spot: newSpotIndexes(), unpriced: map[priceability]string{},
			allocations: map[allocationOf]*allocation{}, crowds: map[allocationOf]*crowd{},
		},
	}
}

// Book is who holds what, for reading.
func (s *State) Book() *occupancy.Book { return s.classifier.book }

// Contracts is the register of contracts, for reading.
func (s *State) Contracts() *contract.Register { return s.classifier.contracts }

// At is the time of the last block.
func (s *State) At() span.Second { return s.at }

// UsageFloor is the position after which usage must be replayed to rebuild the open minutes, given the last block.
func (s *State) UsageFloor(block uint64) uint64 { return s.open.Floor(block) }

// Restore rebuilds the state at a progress row: the facts up to its F, the answers to their cuts wherever they stand, the
// measured usage after its floor up to its block, and the last minute stored per device and node. Nothing is emitted: the rows are
// in the tables.
func (s *State) Restore(at span.Second, facts []fact.Fact, messages []UsageMessage, sampled map[Unit]span.Minute) {
	open := map[string]bool{}
	for _, f := range facts {
		if _, known := s.keys[f.Key]; !known {
			s.keys[f.Key] = f.Hash
			s.takeFact(f, nil)
			s.recallCut(f, open)
		}
	}
	if len(open) > 0 { // a cut without an answer stands at the last block
		s.cutAt = at
	}
	s.advance(at)
	for u, m := range sampled {
		s.note(u.Node, u.Device, m)
		s.note(u.Node, u.Device, min(m, s.hoursThrough.FirstMinute()))
	}
	for _, m := range messages {
		if m.Batch.Minute >= s.minutesThrough {
			s.keep(s.open, m)
		}
	}
}

// keep takes a batch into an assembly and remembers who was sampled last.
func (s *State) keep(into *usage.Assembly, m UsageMessage) {
	b := &m.Batch
	into.Add(m.Seq, b)
	s.note(b.Node, "", b.Minute)
	for _, block := range b.Blocks {
		device, err := usage.BlockDevice(block)
		must.True(err == nil, "batch %s/%d/%d: %v", b.Node, b.Run, b.Seq, err)
		s.note(b.Node, device, b.Minute)
	}
}

// note remembers that a device, or the node itself, was sampled in a minute, and on which node last.
func (s *State) note(node, device string, m span.Minute) {
	u := Unit{Device: device}
	if device == "" {
		u.Node = node
	} else if m >= s.sampled[u] {
		s.nodes[device] = node
	}
	s.sampled[u] = max(s.sampled[u], m)
	if first, ok := s.sampledFrom[u]; !ok || m < first {
		s.sampledFrom[u] = m
	}
}

// advance moves the watermarks to a tick's time.
func (s *State) advance(at span.Second) {
	s.at = at
	s.minutesThrough = max(s.minutesThrough, (at - MinuteDelaySeconds).Minute())
	s.hoursThrough = max(s.hoursThrough, (at - HourDelaySeconds).Hour())
}

// recallCut takes a cut in a restore: its answer says when it stood and what it stated. A running state knows both.
func (s *State) recallCut(f fact.Fact, open map[string]bool) {
	switch b := f.Body.(type) {
	case *fact.CutRequested:
		open[b.Cut] = true
	case *fact.CutDone:
		delete(open, b.Cut)
		s.cutAt = max(s.cutAt, b.At)
		s.recallTotals(b.Totals)
	}
}

// takeFact folds one fact and adds the units and spans it touches to w, which is nil while restoring.
func (s *State) takeFact(f fact.Fact, w *work) {
	switch b := f.Body.(type) {
	case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped, *fact.RefusalWaived:
		before := reclaimed(s.classifier.book.Lease(f.Body.Entity()))
		touched := s.classifier.book.Apply(f)
		s.classifier.contracts.Apply(f) // levels of meters may follow the lease
		s.leaseProblems(f.Body.Entity(), w)
		lease := s.classifier.book.Lease(f.Body.Entity())
		s.classifier.spot.list(lease)
		s.touchLease(lease, before, touched, w)
		for _, d := range occupancy.Devices(f.Body) {
			s.deviceProblems(d.Device, w)
		}
	case *fact.DeviceDeclared:
		touched := s.classifier.book.Apply(f)
		s.deviceProblems(b.Device, w)
		if w != nil {
			w.touched = append(w.touched, touched...)
		}
	case *fact.PriceBookPublished:
		s.touchContracts(f, w)
		s.replaceProblems("book/"+b.Book, refusalsOf(s.classifier.contracts.BookProblems(b.Book)), w)
	case *fact.ContractSigned, *fact.ContractAmended, *fact.MeterRecorded, *fact.PackagePurchased, *fact.PackageEnded,
		*fact.ContractTerminated:
		s.touchContracts(f, w)
	case *fact.SpotPriceChanged:
		s.takeTick(f, b, w)
	case *fact.NodeEnrolled, *fact.NodeRevoked:
		s.trust.Take(f)
	case *fact.CutRequested:
		if w != nil {
			w.cuts = append(w.cuts, b)
		}
	}
}

// touchLease touches what a lease holds otherwise than before; before is what the provider had reclaimed.
func (s *State) touchLease(l *occupancy.Lease, before span.Span, touched []occupancy.Touched, w *work) {
	if w == nil {
		return
	}
	w.touched = append(w.touched, touched...)
	w.regroup(l, touched)
	s.touchReclaim(l, before, w)
}

// touchContracts takes a fact that prices stand on, and touches what it can change.
func (s *State) touchContracts(f fact.Fact, w *work) {
	s.classifier.day = day{} // a version may have moved the edges of periods
	for _, changed := range s.classifier.contracts.Apply(f) {
		s.replaceProblems("contract/"+changed.Contract, refusalsOf(s.classifier.contracts.Problems(changed.Contract)), w)
		if changed.Leases {
			clear(s.classifier.unpriced) // the version that a termination cuts keeps its position when its words change
			s.reconsider(changed, w)
		}
		if changed.Leases && w != nil {
			s.touchLeases(changed, w)
		}
	}
}

// touchLeases touches everything that a changed contract may price from its first difference on; also the second before,
// whose top-up takes the version of the stop.
func (s *State) touchLeases(c contract.Changed, w *work) {
	s.classifier.book.Leases(func(l *occupancy.Lease) {
		if concerns(c, l) {
			w.touched = append(w.touched, l.Within(span.Span{From: max(c.From, 1) - 1, To: span.Open})...)
		}
	})
}

// reconsider takes in what a changed contract makes of the states of its leases: they may hold their GPUs in other ones now.
func (s *State) reconsider(c contract.Changed, w *work) {
	book := s.classifier.book
	book.Changing(func(l *occupancy.Lease) {
		if concerns(c, l) {
			before := reclaimed(l)
			s.touchLease(l, before, book.Reconsider(l), w)
		}
	})
}

// concerns tells whether a contract may price a lease.
func concerns(c contract.Changed, l *occupancy.Lease) bool {
	return l.Started != nil && (l.Started.Contract == c.Contract || l.Started.Contract == "" && l.Started.Customer == c.Customer)
}

func (s *State) leaseProblems(id string, w *work) {
	l := s.classifier.book.Lease(id)
	var now []Refusal
	for _, p := range l.Problems {
		r := Refusal{ID: p.Key, Reason: p.Reason, Detail: p.Detail, Lease: id, At: p.At}
		if l.Started != nil {
			r.Customer = l.Started.Customer
		}
		now = append(now, r)
	}
	s.replaceProblems("lease/"+id, now, w)
}

// deviceProblems refuses what was declared of a device until a lease names it.
func (s *State) deviceProblems(device string, w *work) {
	declared := s.classifier.book.Declared(device)
	if len(declared) == 0 {
		return
	}
	var now []Refusal
	if !s.classifier.book.Named(device) {
		for _, d := range declared {
			now = append(now, Refusal{ID: d.Key, Reason: occupancy.UnknownDevice, Detail: "no lease names the device " + device, At: d.At})
		}
	}
	s.replaceProblems("device/"+device, now, w)
}

func refusalsOf(problems []contract.Problem) []Refusal {
	var out []Refusal
	for _, p := range problems {
		out = append(out, Refusal{ID: p.Key, Reason: p.Reason, Detail: p.Detail, Customer: p.Customer, At: p.At})
	}
	return out
}

// replaceProblems emits what was raised and what went since the subject's last fact.
func (s *State) replaceProblems(subject string, now []Refusal, w *work) {
	before := s.problems[subject]
	if len(now) == 0 {
		delete(s.problems, subject)
	} else {
		s.problems[subject] = now
	}
	if w == nil {
		return
	}
	w.refuse(now, before, 1)
	w.refuse(before, now, -1)
}

// refuse adds those of list that are not in other, with the delta. What both begin with is passed over at once: a subject with thousands of
// refusals gets one more at its end.
func (w *work) refuse(list, other []Refusal, delta int64) {
	same := 0
	for same < min(len(list), len(other)) && list[same] == other[same] {
		same++
	}
	for _, r := range list[same:] {
		if !slices.Contains(other, r) {
			r.Delta = delta
			w.refusals = append(w.refusals, r)
		}
	}
}
