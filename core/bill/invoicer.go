package bill

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// RetrySeconds is how long a blocked period waits, in tick time, before another cut is asked for on its account.
const RetrySeconds = 3600

// Invoicer is the invoicer's fold: facts in the order of the log, and the time of the last tick. What it decides
// becomes facts, so a restart is a replay.
type Invoicer struct {
	series     string
	grace      int64 // the provider's, for contracts that state none
	at         span.Second
	contracts  *contract.Register
	keys       map[string]bool
	requested  []request
	cuts       []Cut
	closings   map[periodKey][]closing
	carried    map[periodKey]uint64 // position of the first fact that says so
	lastStated uint64               // position of the last fact that people or machines stated
	agreed     uint64               // position of the last contract fact
	number     uint64
	numberAt   uint64 // position of the series' last invoice
	recovered  []*recovered
	// incarnation is the last that began, 0 in a log that was never recovered.
	incarnation   uint64
	halted        map[string]string
	amended       []amendment
	totals        map[periodKey][]stated // what cuts stated of a period's leases, in order
	closedThrough map[string]through     // by contract
	advances      map[string][]*advance  // by contract: of periods that are not closed
	nothingAhead  map[string]through     // by contract: the beginning of a period that owes nothing in advance
	awaiting      *advance               // the last one, while its invoice is not there
	asked         asOf                   // what ContractsAt was asked last
	answer        *contract.Register
}

// asOf is the position before which facts count, and that of the last fact that is there to count.
type asOf struct{ known, stated uint64 }

// through is the end of the periods that are closed without a gap: where the search for due ones starts, as long as the periods are
// those.
type through struct {
	periods *contract.Periods
	to      span.Second
}

type periodKey struct {
	contract string
	start    span.Second
}

// amendment is a fact that a contract's charges stand on, and the first instant it can change.
type amendment struct {
	contract string
	from     span.Second
	seq      uint64
}

// stated is what a cut said that the leases of a period hold.
type stated struct {
	at     uint64 // position of the cut's answer
	leased int64  // milli-GPU-seconds
}

type request struct {
	cut string
	at  span.Second
	seq uint64
}

// Cut is a finished cut with the positions of its request and of its answer. All that was stated up to its block counts, and nothing
// behind it: contracts, readings, purchases and what was carried as well as quantities. So a cut that is worked through again after a
// restart, when more is known, comes to the same end.
type Cut struct {
	fact.CutDone
	Requested, Done uint64
}

// known is the position before which facts count at the cut. The answers of old logs do not tell it; their requests do.
func (c Cut) known() uint64 { return max(c.FactsSeq+1, c.Requested) }

type closing struct {
	n     int
	end   span.Second // of the period
	block uint64      // of the cut
}

// NewInvoicer starts a series. Grace in seconds is the provider's default.
func NewInvoicer(series string, grace int64) *Invoicer {
	return &Invoicer{
		series: series, grace: grace, contracts: contract.NewRegister(), keys: map[string]bool{},
		closings: map[periodKey][]closing{}, carried: map[periodKey]uint64{}, halted: map[string]string{},
		totals: map[periodKey][]stated{}, closedThrough: map[string]through{}, advances: map[string][]*advance{},
		nothingAhead: map[string]through{},
	}
}

// Contracts is the register, for reading.
func (s *Invoicer) Contracts() *contract.Register { return s.contracts }

// Tick moves time; facts up to the tick's F were applied before.
func (s *Invoicer) Tick(at span.Second) { s.at = max(s.at, at) }

// Apply takes one fact in the order of the log. Repeats of a key are ignored.
func (s *Invoicer) Apply(f fact.Fact) {
	if s.keys[f.Key] {
		return
	}
	s.keys[f.Key] = true
	switch b := f.Body.(type) {
	case *fact.ContractSigned, *fact.ContractAmended, *fact.PriceBookPublished, *fact.MeterRecorded, *fact.PackagePurchased,
		*fact.PackageEnded, *fact.ContractTerminated, *fact.LeaseStarted, *fact.LeaseStateChanged, *fact.LeaseStopped:
		for _, changed := range s.contracts.Apply(f) {
			s.amended = append(s.amended, amendment{changed.Contract, s.dayOf(changed), f.Seq})
		}
		s.lastStated = f.Seq
		switch b.(type) {
		case *fact.ContractSigned, *fact.ContractAmended, *fact.ContractTerminated:
			s.agreed = f.Seq
		}
	case *fact.CutRequested:
		s.requested = append(s.requested, request{b.Cut, b.At, f.Seq})
	case *fact.CutDone:
		s.cuts = append(s.cuts, Cut{*b, s.RequestedAt(b.Cut), f.Seq})
		for _, t := range b.Totals {
			k := periodKey{t.Contract, t.PeriodStart}
			s.totals[k] = append(s.totals[k], stated{f.Seq, t.LeasedMilliGPUSeconds})
		}
	case *fact.PeriodClosed:
		if b.N == 0 {
			s.advanced(b)
			return
		}
		k := periodKey{b.Contract, b.PeriodStart}
		s.advances[b.Contract] = slices.DeleteFunc(s.advances[b.Contract], func(a *advance) bool { return a.period.From == b.PeriodStart })
		s.closings[k] = append(s.closings[k], closing{b.N, b.PeriodEnd, s.blockOf(b.Cut)})
	case *fact.InvoiceIssued:
		s.issued(b, f.Seq)
	case *fact.InvoiceRecovered:
		s.restated(b, f.Seq)
	case *fact.LogRecovered:
		s.incarnation = max(s.incarnation, b.Incarnation)
	case *fact.RefusalCarried:
		if k := (periodKey{b.Contract, b.PeriodStart}); s.carried[k] == 0 { // saying it again takes nothing from the cuts in between
			s.carried[k] = f.Seq
		}
		s.lastStated = f.Seq
	case *fact.CustomerHalted:
		s.halted[b.Customer] = b.Reason
	case *fact.LeaseResized, *fact.RefusalWaived, *fact.SpotPriceChanged, *fact.DeviceDeclared:
		s.lastStated = f.Seq
	}
}

// dayOf begins the local day in which a fact begins to change bills, in the zone before it and in its own: a day's part of a fee
// follows the version in force at the day's end, and stands on the bill of the day's first hour where bills are hourly.
func (s *Invoicer) dayOf(c contract.Changed) span.Second {
	day := c.From
	for _, at := range [2]span.Second{c.From - 1, c.From} {
		if v, ok := s.contracts.Governing(c.Contract, at); ok && c.From != span.Open {
			day = min(day, v.Contract.Zone.StartOfDay(v.Contract.Zone.DateOf(c.From)))
		}
	}
	return day
}

// RequestedAt is the position of the request for a cut, 0 when there is none.
func (s *Invoicer) RequestedAt(cut string) uint64 {
	for _, r := range s.requested {
		if r.cut == cut {
			return r.seq
		}
	}
	return 0
}

func (s *Invoicer) blockOf(cut string) uint64 {
	for _, c := range s.cuts {
		if c.Cut == cut {
			return c.Block
		}
	}
	return 0
}

// ContractsAt is the register as a cut knows it. Whoever works through a cut asks again and again, so the last answer is kept.
func (s *Invoicer) ContractsAt(cut Cut) *contract.Register {
	if want := (asOf{known: cut.known(), stated: s.lastStated}); s.asked != want || s.answer == nil {
		s.asked, s.answer = want, s.contracts.Before(want.known)
	}
	return s.answer
}

// KeptContractsAt is ContractsAt for one who keeps the answer while facts are still taken.
func (s *Invoicer) KeptContractsAt(cut Cut) *contract.Register {
	return s.contracts.KeptBefore(cut.known())
}

// CutAt is the cut that stands at a block, as Closed names it.
func (s *Invoicer) CutAt(block uint64) (Cut, bool) {
	for _, c := range s.cuts {
		if c.Block == block {
			return c, true
		}
	}
	return Cut{}, false
}

// Cuts lists the finished cuts in order of the log.
func (s *Invoicer) Cuts() []Cut { return s.cuts }

// Number is the last number given in the series and the position of its invoice.
func (s *Invoicer) Number() (number, seq uint64) { return s.number, s.numberAt }

// Series names the series of numbers.
func (s *Invoicer) Series() string { return s.series }

// DecideCut asks for a cut when a period is due that no cut has seen since: its end and grace have passed, or it has begun and fees
// are to be paid in advance. One cut serves everyone due. A period that a cut found blocked asks again after RetrySeconds if
// something was stated since; what a contract fact wants paid in advance, of a period that has begun, asks at once. Where no period falls
// due any more, because all terms are over, what is stated late asks by itself: else nobody would correct what was closed.
func (s *Invoicer) DecideCut() *fact.CutRequested {
	if len(s.requested) > len(s.cuts) {
		return nil // one is on its way
	}
	var last request
	if n := len(s.requested); n > 0 {
		last = s.requested[n-1]
	}
	asked := &fact.CutRequested{Cut: "cut-" + s.at.String(), At: s.at}
	retry := s.at >= last.at+RetrySeconds && s.lastStated > last.seq
	over := len(s.closings) > 0 // every term, and its grace
	for _, v := range s.contracts.Latest() {
		over = over && v.Contract.Term.To <= s.at-s.graceOf(v.Contract)
		for _, d := range s.due(s.contracts, v.Contract, s.at) {
			if d.At > last.at || d.Advance && s.agreed > last.seq || retry {
				return asked
			}
		}
	}
	if retry && over {
		return asked
	}
	return nil
}

// graceOf is how long after a period's end its close waits: the contract's own word, 0 included, else the provider's
// (case B90).
func (s *Invoicer) graceOf(c *contract.Contract) span.Second {
	if c.Billing.GraceKnown {
		return span.Second(c.Billing.GraceSeconds)
	}
	return span.Second(s.grace)
}

// Due is a period that is to be closed, for the first time, or again because it reaches further by now than when it was closed; or one
// that is to be billed in advance.
type Due struct {
	Contract, Customer string
	Period             span.Span
	At                 span.Second // its end plus grace; in advance its start
	Advance            bool        // closing 0
}

// due lists the periods of a contract, as a register knows it, whose end and grace had passed at an instant and that are not closed up
// to their end, and those that had begun and were not billed in advance. What is to be closed is not billed in advance any more.
func (s *Invoicer) due(contracts *contract.Register, c *contract.Contract, at span.Second) []Due {
	var out []Due
	periods := contracts.Periods(c.ID)
	for p := range periods.From(s.closedUpTo(c.ID, periods)) {
		when := p.To + s.graceOf(c)
		if when > at {
			break
		}
		if s.ClosedPeriod(c.ID, p.From).To < p.To {
			out = append(out, Due{c.ID, c.Customer, p, when, false})
		} else if len(out) == 0 {
			s.closedThrough[c.ID] = through{periods, p.To}
		}
	}
	return slices.Concat(out, s.gone(periods, c, at), s.dueInAdvance(contracts, c, at))
}

// closedUpTo is the end of the periods that are known to be closed without a gap, 0 where none is.
func (s *Invoicer) closedUpTo(contractID string, periods *contract.Periods) span.Second {
	if t := s.closedThrough[contractID]; t.periods == periods {
		return t.to
	}
	return 0
}

// DueAt lists what a cut has to close or to bill in advance, in order of (end, contract). A contract that was signed behind the
// cut's block waits for the next one: the cut knows nothing of it, and would close its past at zero.
func (s *Invoicer) DueAt(cut Cut) []Due {
	var out []Due
	contracts := s.ContractsAt(cut)
	for _, v := range contracts.Latest() {
		out = append(out, s.due(contracts, v.Contract, cut.At)...)
	}
	slices.SortFunc(out, func(a, b Due) int {
		return cmp.Or(cmp.Compare(a.Period.To, b.Period.To), cmp.Compare(a.Contract, b.Contract))
	})
	return out
}

// NextDue is the first instant after the given one at which an open period falls due, or one begins that is billed in advance, for a
// scripted clock to stop at; span.Open when there is none.
func (s *Invoicer) NextDue(after span.Second) span.Second {
	next := span.Open
	for _, v := range s.contracts.Latest() {
		c := v.Contract
		periods, ahead := s.contracts.Periods(c.ID), s.contracts.PaysAhead(c.ID)
		for p := range periods.From(s.closedUpTo(c.ID, periods)) {
			if p.From >= next {
				break
			}
			if ahead && p.From > after && owesInAdvance(s.contracts, c.ID, p) {
				next = min(next, p.From)
			}
			if at := p.To + s.graceOf(c); at > after {
				next = min(next, at)
				if !ahead {
					break
				}
			}
		}
		for _, a := range s.advances[c.ID] {
			if at := a.period.To + s.graceOf(c); a.gone(periods) && at > after {
				next = min(next, at)
			}
		}
	}
	return next
}

// Closed is what was closed last of a period: the number of the closing and the block of its cut.
func (s *Invoicer) Closed(contractID string, periodStart span.Second) (n int, block uint64) {
	for _, c := range s.closings[periodKey{contractID, periodStart}] {
		if c.n > n {
			n, block = c.n, c.block
		}
	}
	return n, block
}

// ClosedPeriod is the period as its closings state it; Empty when it is not closed.
func (s *Invoicer) ClosedPeriod(contractID string, periodStart span.Second) span.Span {
	list := s.closings[periodKey{contractID, periodStart}]
	if len(list) == 0 {
		return span.Span{}
	}
	return span.Span{From: periodStart, To: list[len(list)-1].end}
}

// Prolonged tells whether a closed period reaches further by now than its closings: it is due again at its new end, and until then
// nothing of it is corrected, or the rest would be billed in parts.
func (s *Invoicer) Prolonged(cut Cut, contractID string, periodStart span.Second) bool {
	closed := s.ClosedPeriod(contractID, periodStart)
	now, ok := s.ContractsAt(cut).Periods(contractID).At(periodStart)
	return ok && !closed.Empty() && now.Span.From == periodStart && closed.To < now.Span.To
}

// Remains is what of a closed period is still that period, as a cut knows it. A version that became known since
// may have closed a stub in it: what lies behind is due as a period of its own. It is empty where no period begins there any more.
func (s *Invoicer) Remains(cut Cut, contractID string, period span.Span) span.Span {
	return s.ContractsAt(cut).Periods(contractID).Remains(period)
}

// Statement is what a period costs by what was known at a cut, be it due or closed before. What of a closed period remains is billed;
// one of which nothing remains costs nothing, and keeps the name by which it was billed.
func (s *Invoicer) Statement(cut Cut, contractID string, period span.Span, totals []meter.Total) (*Statement, error) {
	return s.statement(cut, contractID, period, totals, Compute)
}

// Explained is Statement with what its items stand on, as Explain is Compute.
func (s *Invoicer) Explained(cut Cut, contractID string, period span.Span, totals []meter.Total) (*Statement, error) {
	return s.statement(cut, contractID, period, totals, Explain)
}

type computing func(*contract.Register, string, span.Span, []meter.Total) (*Statement, error)

func (s *Invoicer) statement(cut Cut, contractID string, period span.Span, totals []meter.Total, compute computing) (*Statement, error) {
	remains := s.Remains(cut, contractID, period)
	out, err := compute(s.ContractsAt(cut), contractID, remains, totals)
	if err == nil && remains.Empty() {
		out.Period = period
	}
	return out, err
}

// Amended lists, in order, the closed periods that contract facts stated between the cut before and this one can bill
// otherwise although no row of theirs moved: another rounding, say. Whether they do is for the correction to find.
func (s *Invoicer) Amended(cut Cut) []Due {
	var before uint64
	for _, c := range s.cuts {
		if c.Requested < cut.Requested {
			before = max(before, c.known())
		}
	}
	first := map[string]span.Second{} // that can change, by contract
	for _, a := range s.amended {
		if from, known := first[a.contract]; before <= a.seq && a.seq < cut.known() && (!known || a.from < from) {
			first[a.contract] = a.from
		}
	}
	var out []Due
	for k, list := range s.closings {
		period := span.Span{From: k.start, To: list[len(list)-1].end}
		if from, changed := first[k.contract]; changed && from < period.To {
			out = append(out, Due{Contract: k.contract, Period: period})
		}
	}
	slices.SortFunc(out, func(a, b Due) int {
		return cmp.Or(cmp.Compare(a.Contract, b.Contract), cmp.Compare(a.Period.From, b.Period.From))
	})
	return out
}

// Issue is a closing with its invoice, to be published together.
func (s *Invoicer) Issue(period span.Span, n int, cut Cut, d *Document) (*fact.PeriodClosed, *fact.InvoiceIssued, error) {
	closed := &fact.PeriodClosed{Contract: d.Contract, PeriodStart: period.From, PeriodEnd: period.To, N: n, Cut: cut.Cut}
	issued, err := s.numbered(d, closed.Key())
	return closed, issued, err
}

// numbered gives a document the next number.
func (s *Invoicer) numbered(d *Document, closing string) (*fact.InvoiceIssued, error) {
	numbered := d.Numbered(s.series, s.number+1)
	data, err := numbered.Bytes()
	if err != nil {
		return nil, err
	}
	return &fact.InvoiceIssued{Series: s.series, Number: numbered.Number, Customer: d.Customer, Closing: closing, Document: data}, nil
}

// LastDue is the latest instant at which a period that holds at falls due; 0 when no contract holds it.
func (s *Invoicer) LastDue(at span.Second) span.Second {
	var due span.Second
	for _, v := range s.contracts.Latest() {
		periods := s.contracts.Periods(v.Contract.ID)
		p, ok := periods.At(at)
		if !ok {
			p, ok = periods.At(at - 1) // what ends with the term lies in its last period
		}
		if ok {
			due = max(due, p.Span.To+s.graceOf(v.Contract))
		}
	}
	return due
}
