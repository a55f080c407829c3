package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Statement is something stated, and when it became known: it counts in every block from then on.
type Statement struct {
	Known span.Second
	Fact  fact.Fact
}

// Measurement is a batch, and when it arrived.
type Measurement struct {
	Known span.Second
	Batch usage.Batch
}

// Log is the input of a replay. Statements keep their order; a statement is never known before the one in front of it.
type Log struct {
	Statements   []Statement
	Measurements []Measurement
	Stops        []span.Second // instants, rising, at which the clock also stops: more blocks, the same invoices
	Until        span.Second   // the last instant; what falls due later is not closed
}

// Options are the provider's settings.
type Options struct {
	Series string
	Grace  int64 // seconds, for contracts that state none
}

// Issued is an invoice with its document.
type Issued struct {
	Fact     *fact.InvoiceIssued
	Document *bill.Document
}

// Result is everything a replay gives.
type Result struct {
	Invoices []Issued
	Blocked  []bill.Block    // periods that could not close, as of the last cut
	Refusals []meter.Refusal // that stand at the end
	Devices  map[string]meter.DeviceSeconds
	Totals   []meter.Total   // the whole ledger at the end, by lease, device and key
	Outcomes []meter.Outcome // every block's rows, in order
	State    *meter.State
}

// Run replays the log. It stops the clock at every instant at which a period falls due, as a scripted log does.
func Run(log Log, o Options) (*Result, error) { return newPlayer(log, o).run() }

func (p *player) run() (*Result, error) {
	slices.SortStableFunc(p.log.Measurements, func(a, b Measurement) int { return cmp.Compare(a.Known, b.Known) })
	for at := p.next(0); at <= p.log.Until; at = p.next(at) {
		if err := p.advance(at); err != nil {
			return nil, err
		}
	}
	if err := p.advance(p.log.Until); err != nil {
		return nil, err
	}
	p.result.State, p.result.Refusals = p.state, p.ledger.openRefusals()
	p.result.Totals, p.result.Devices = p.ledger.totals(), p.ledger.deviceTotals()
	return p.result, nil
}

func newPlayer(log Log, o Options) *player {
	return &player{
		log: log, state: meter.NewState(), invoicer: bill.NewInvoicer(o.Series, o.Grace), ledger: newLedger(),
		statements: map[periodKey]*bill.Statement{}, replaced: map[periodKey]*bill.Statement{}, result: &Result{},
	}
}

type periodKey struct {
	contract string
	start    span.Second
}

// player is the log, the folds and the ledger in one place.
type player struct {
	log        Log
	stated     int // statements and measurements already in a block
	measured   int
	seq        uint64 // last fact
	tick       uint64 // last block
	messages   uint64
	state      *meter.State
	invoicer   *bill.Invoicer
	ledger     *ledger
	done       int
	decided    func(fact.Fact)   // is told every fact as it is numbered; nil when nobody asks
	rated      func(meter.Block) // is told every block; nil when nobody asks
	wanted     []*wanted
	statements map[periodKey]*bill.Statement // as billed last
	replaced   map[periodKey]*bill.Statement // what the last cut put others in the place of, nil for none
	result     *Result
}

// next is the first instant after at where the clock has to stop: a period falls due, a statement that may open one
// becomes known, or the log asks for it.
func (p *player) next(at span.Second) span.Second {
	next := p.invoicer.NextDue(at)
	if i, _ := slices.BinarySearch(p.log.Stops, at+1); i < len(p.log.Stops) {
		next = min(next, p.log.Stops[i])
	}
	for _, s := range p.log.Statements[p.stated:] {
		switch s.Fact.Body.(type) {
		case *fact.ContractSigned, *fact.ContractAmended, *fact.ContractTerminated:
			return min(next, max(s.Known, at+1))
		}
		if s.Known > next {
			break
		}
	}
	return next
}

// advance is one instant: a block with what is known by now, then blocks for what the services decide, until they rest.
func (p *player) advance(at span.Second) error {
	block := meter.Block{At: at}
	for p.measured < len(p.log.Measurements) && p.log.Measurements[p.measured].Known <= at {
		p.messages++
		block.Usage = append(block.Usage, meter.UsageMessage{Seq: p.messages, Batch: p.log.Measurements[p.measured].Batch})
		p.measured++
	}
	for p.stated < len(p.log.Statements) && p.log.Statements[p.stated].Known <= at {
		block.Facts = append(block.Facts, p.number(p.log.Statements[p.stated].Fact))
		p.stated++
	}
	for {
		decided := p.rate(block)
		for _, f := range append(block.Facts, decided...) {
			p.invoicer.Apply(f)
		}
		p.invoicer.Tick(at)
		facts, err := p.decide()
		if err != nil || len(facts) == 0 {
			return err
		}
		block = meter.Block{At: at, Facts: facts}
	}
}

func (p *player) number(f fact.Fact) fact.Fact {
	p.seq++
	f.Seq = p.seq
	if p.decided != nil {
		p.decided(f)
	}
	return f
}

// rate gives one block to the rater and keeps its rows; a finished cut becomes a fact.
func (p *player) rate(b meter.Block) []fact.Fact {
	p.messages++
	b.Seq, b.FactsSeq = p.messages, p.seq
	p.tick = b.Seq
	if p.rated != nil {
		p.rated(b)
	}
	out := p.take(b)
	p.result.Outcomes = append(p.result.Outcomes, out)
	var facts []fact.Fact
	for i := range out.Cuts {
		facts = append(facts, p.number(fact.Fact{Key: "cut.done/" + out.Cuts[i].Cut, Body: &out.Cuts[i]}))
	}
	return facts
}

// take rates a block and keeps its rows.
func (p *player) take(b meter.Block) meter.Outcome {
	out := p.state.Finish(p.ledger.read(p.state.Begin(b)))
	p.ledger.put(&out)
	p.witness(&out)
	return out
}

// decide cancels what was recovered, closes at finished cuts, else asks for one.
func (p *player) decide() ([]fact.Fact, error) {
	facts, err := p.cancel()
	if err != nil {
		return nil, err
	}
	cuts := p.invoicer.Cuts()
	for ; p.done < len(cuts); p.done++ {
		closed, err := p.close(cuts[p.done], p.look(cuts[p.done]))
		if err != nil {
			return nil, err
		}
		facts = append(facts, closed...)
	}
	if request := p.invoicer.DecideCut(); request != nil {
		facts = append(facts, p.number(fact.Fact{Key: "cut.requested/" + request.Cut, Body: request}))
	}
	return facts, nil
}

// view is what the ledger holds at a cut of everything that the cut may close or correct.
type view struct {
	totals       map[periodKey][]meter.Total
	uncontracted map[periodKey][]meter.Total
	refusals     []meter.Refusal
	changed      []periodKey
}

func (p *player) look(cut bill.Cut) view {
	v := view{map[periodKey][]meter.Total{}, map[periodKey][]meter.Total{}, p.ledger.openRefusals(), p.ledger.takeChanged()}
	for _, d := range p.invoicer.DueAt(cut) {
		k := periodKey{d.Contract, d.Period.From}
		v.totals[k], v.uncontracted[k] = p.ledger.period(k.contract, k.start), p.ledger.uncontracted(d.Customer, d.Period)
	}
	for _, d := range p.invoicer.Amended(cut) {
		v.changed = append(v.changed, periodKey{d.Contract, d.Period.From})
	}
	slices.SortFunc(v.changed, func(a, b periodKey) int {
		return cmp.Or(cmp.Compare(a.contract, b.contract), cmp.Compare(a.start, b.start))
	})
	v.changed = slices.Compact(v.changed)
	for _, k := range v.changed {
		v.totals[k] = p.ledger.period(k.contract, k.start)
	}
	return v
}

// cancel issues the cancellations of recovered invoices.
func (p *player) cancel() ([]fact.Fact, error) {
	var facts []fact.Fact
	for {
		issued, err := p.invoicer.Cancel()
		if err != nil || issued == nil {
			return facts, err
		}
		d, err := bill.ParseDocument(issued.Document)
		if err != nil {
			return nil, err
		}
		facts = append(facts, p.give(issued, d))
	}
}

// give puts an invoice into the log and the result.
func (p *player) give(issued *fact.InvoiceIssued, d *bill.Document) fact.Fact {
	f := p.number(fact.Fact{Key: "invoice.issued/" + bill.InvoiceName(issued.Series, issued.Number), Body: issued})
	p.invoicer.Apply(f)
	p.result.Invoices = append(p.result.Invoices, Issued{issued, d})
	return f
}

func (p *player) close(cut bill.Cut, v view) ([]fact.Fact, error) {
	var facts []fact.Fact
	p.result.Blocked = nil
	clear(p.replaced)
	for _, d := range p.invoicer.DueAt(cut) {
		k := periodKey{d.Contract, d.Period.From}
		if d.Advance {
			issued, err := p.payAhead(k, d, cut)
			if err != nil {
				return nil, err
			}
			facts = append(facts, issued...)
			continue
		}
		if b := p.invoicer.Check(d, cut, v.totals[k], v.uncontracted[k], v.refusals); b != nil {
			p.result.Blocked = append(p.result.Blocked, *b)
			continue
		}
		n, _ := p.invoicer.Closed(k.contract, k.start) // 0, or it was prolonged
		issued, err := p.issue(k, d.Period, n+1, cut, v.totals[k])
		if err != nil {
			return nil, err
		}
		facts = append(facts, issued...)
	}
	corrections, err := p.correct(cut, v)
	return append(facts, corrections...), err
}

// payAhead bills a period's fees in advance, if any are left as of the cut.
func (p *player) payAhead(k periodKey, d bill.Due, cut bill.Cut) ([]fact.Fact, error) {
	if b := p.invoicer.CheckAdvance(d); b != nil {
		p.result.Blocked = append(p.result.Blocked, *b)
		return nil, nil
	}
	s, err := bill.Advance(p.invoicer.ContractsAt(cut), d.Contract, d.Period)
	if err != nil || s.Total.IsZero() {
		return nil, err
	}
	if err := p.testify(k, d.Period, 0, cut, nil); err != nil {
		return nil, err
	}
	return p.stateClosing(d.Period, 0, cut, bill.NewAdvance(s))
}

// correct bills what changed in closed periods since they were billed last.
func (p *player) correct(cut bill.Cut, v view) ([]fact.Fact, error) {
	var facts []fact.Fact
	for _, k := range v.changed {
		n, block := p.invoicer.Closed(k.contract, k.start)
		if n == 0 || block >= cut.Block || p.invoicer.Prolonged(cut, k.contract, k.start) {
			continue
		}
		before, totals := p.statements[k], v.totals[k]
		d := bill.Due{Contract: k.contract, Customer: before.Contract.Customer, Period: before.Period}
		if b := p.invoicer.CheckCorrection(d, cut, totals); b != nil {
			p.result.Blocked = append(p.result.Blocked, *b)
			p.ledger.changed[k] = true // tried again at the next cut
			continue
		}
		issued, err := p.issue(k, before.Period, n+1, cut, totals)
		if err != nil {
			return nil, err
		}
		facts = append(facts, issued...)
	}
	return facts, nil
}

func (p *player) issue(k periodKey, period span.Span, n int, cut bill.Cut, totals []meter.Total) ([]fact.Fact, error) {
	s, err := p.invoicer.Statement(cut, k.contract, period, totals)
	if err != nil {
		return nil, err
	}
	d, err := p.invoicer.Draft(s, p.statements[k], n)
	if err != nil {
		return nil, err
	}
	if n > 1 && len(d.Lines) == 0 && period == p.invoicer.ClosedPeriod(k.contract, k.start) {
		return nil, nil // what was prolonged closes all the same
	}
	if err := p.testify(k, period, n, cut, totals); err != nil {
		return nil, err
	}
	p.replaced[k], p.statements[k] = p.statements[k], s
	return p.stateClosing(s.Period, n, cut, d)
}

// stateClosing puts a closing and its invoice into the log.
func (p *player) stateClosing(period span.Span, n int, cut bill.Cut, d *bill.Document) ([]fact.Fact, error) {
	closed, issued, err := p.invoicer.Issue(period, n, cut, d)
	if err != nil {
		return nil, err
	}
	first := p.number(fact.Fact{Key: "period.closed/" + closed.Key(), Body: closed})
	p.invoicer.Apply(first)
	return []fact.Fact{first, p.give(issued, d.Numbered(issued.Series, issued.Number))}, nil
}

// Contracts is the register of a finished replay.
func (r *Result) Contracts() *contract.Register { return r.State.Contracts() }

// LastDue is when the last period falls due that the log's statements reach: a natural end for a replay. Leases that are
// still open then bill to the end of that period.
func LastDue(log Log, o Options) (span.Second, error) {
	invoicer := bill.NewInvoicer(o.Series, o.Grace)
	var last span.Second
	for i, s := range log.Statements {
		s.Fact.Seq = uint64(i + 1)
		invoicer.Apply(s.Fact)
		switch s.Fact.Body.(type) {
		case *fact.SpotPriceChanged, *fact.DeviceDeclared, *fact.NodeEnrolled, *fact.NodeRevoked: // alone they are no usage
		default:
			last = max(last, s.Known)
		}
	}
	due := invoicer.LastDue(last)
	if due == 0 {
		return 0, fmt.Errorf("no contract is in force at %v, the last fact's instant; name one with --contract", last)
	}
	return due, nil
}
