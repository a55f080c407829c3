package replay

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// wanted is a closing whose evidence is to be kept while a log is replayed.
type wanted struct {
	closing  *fact.PeriodClosed
	concerns func(meter.Segment) bool
	segments []meter.Segment
	evidence *explain.Evidence // once the closing is decided
}

// witness keeps the segments of wanted closings at their cuts: the state is as the cut knew it, and in no later block. A bill in
// advance has none.
func (p *player) witness(o *meter.Outcome) {
	for i := range o.Cuts {
		for _, w := range p.wanted {
			if w.closing.N == 0 || w.closing.Cut != o.Cuts[i].Cut || w.evidence != nil {
				continue
			}
			w.segments = nil
			p.state.Trace(w.closing.Contract, span.Span{From: w.closing.PeriodStart, To: w.closing.PeriodEnd}, p.ledger.read, func(g meter.Segment) {
				if w.concerns(g) {
					w.segments = append(w.segments, g)
				}
			})
		}
	}
}

// testify keeps the statement of a wanted closing when it is decided.
func (p *player) testify(k periodKey, period span.Span, n int, cut bill.Cut, totals []meter.Total) error {
	for _, w := range p.wanted {
		if w.closing.Contract != k.contract || w.closing.PeriodStart != k.start || w.closing.N != n {
			continue
		}
		var s *bill.Statement
		var err error
		if n == 0 {
			s, err = bill.ExplainAdvance(p.invoicer.ContractsAt(cut), k.contract, period)
		} else {
			s, err = p.invoicer.Explained(cut, k.contract, period, totals)
		}
		if err != nil {
			return err
		}
		w.evidence = &explain.Evidence{Contracts: p.invoicer.KeptContractsAt(cut), Statement: s, Totals: totals, Segments: w.segments}
	}
	return nil
}

// want keeps the evidence of an invoice's closing, and of the one that it corrects.
func (p *player) want(s explain.Subject, closings []*fact.PeriodClosed) {
	for _, c := range closings {
		p.wanted = append(p.wanted, &wanted{closing: c, concerns: s.Concerns})
	}
}

// explained explains once everything wanted is there, else it gives nil.
func (p *player) explained(s explain.Subject) (*explain.Explanation, error) {
	known := make([]*explain.Evidence, 2) // now and before
	for i, w := range p.wanted {
		if w.evidence == nil {
			return nil, nil
		}
		known[i] = w.evidence
	}
	return explain.Line(s, known[0], known[1])
}

// Search finds what an explanation needs in a log's facts: an invoice by its name, and the closings that it stands on.
type Search struct {
	name      string
	closed    map[string]*fact.PeriodClosed
	document  []byte
	closing   string
	recovered bool
}

// NewSearch looks for an invoice, such as GH-000003.
func NewSearch(invoice string) *Search {
	return &Search{name: invoice, closed: map[string]*fact.PeriodClosed{}}
}

// Take takes the next fact of the log.
func (x *Search) Take(f fact.Fact) {
	switch b := f.Body.(type) {
	case *fact.PeriodClosed:
		x.closed[b.Key()] = b
	case *fact.InvoiceIssued:
		if x.is(b.Series, b.Number) {
			x.document, x.closing = b.Document, b.Closing
		}
	case *fact.InvoiceRecovered:
		if x.is(b.Series, b.Number) {
			x.recovered = true
		}
	}
}

// is tells the invoice by its name, or by its number alone.
func (x *Search) is(series string, number uint64) bool {
	return strings.EqualFold(bill.InvoiceName(series, number), x.name) || fmt.Sprint(number) == x.name
}

// Found is the subject and its closings: the invoice's own, then the one that it corrects. A line that takes off what was billed in
// advance stands on the closing that did.
func (x *Search) Found(line explain.LineName) (explain.Subject, []*fact.PeriodClosed, error) {
	switch {
	case x.recovered:
		return explain.Subject{}, nil, fmt.Errorf("%s was recovered: the log lost what it stands on; the invoices after it bill its period anew", x.name)
	case x.document == nil:
		return explain.Subject{}, nil, fmt.Errorf("invoice %q was not issued; `gpuhour invoice list` shows what was", x.name)
	}
	d, err := bill.ParseDocument(x.document)
	if err != nil {
		return explain.Subject{}, nil, err
	}
	s, err := explain.Find(d, line)
	if err != nil {
		return s, nil, err
	}
	own := x.closed[x.closing]
	if own == nil {
		return s, nil, fmt.Errorf("the log does not hold the closing %s of %s; run `gpuhour audit`", x.closing, x.name)
	}
	if own.N <= 1 && !s.TakesOff() {
		return s, []*fact.PeriodClosed{own}, nil
	}
	first := *own
	first.N--
	before := x.closed[first.Key()]
	switch {
	case before == nil:
		return s, nil, fmt.Errorf("the log does not hold the closing %s, on which %s stands; run `gpuhour audit`", first.Key(), x.name)
	case s.TakesOff():
		return s, []*fact.PeriodClosed{before}, nil
	default:
		return s, []*fact.PeriodClosed{own, before}, nil
	}
}

// Explain replays a log in memory and explains a line of one of its invoices.
func Explain(log Log, o Options, invoice string, line explain.LineName) (*explain.Explanation, error) {
	first := newPlayer(log, o)
	search := NewSearch(invoice)
	first.decided = search.Take
	if _, err := first.run(); err != nil {
		return nil, err
	}
	s, closings, err := search.Found(line)
	if err != nil {
		return nil, err
	}
	second := newPlayer(log, o)
	second.want(s, closings)
	if _, err := second.run(); err != nil {
		return nil, err
	}
	return second.explained(s)
}

// Explainer replays a log that services wrote, block by block, until a line of one of its invoices is explained.
type Explainer struct {
	auditor *Auditor
	subject explain.Subject
}

// NewExplainer explains what a Search found.
func NewExplainer(o Options, s explain.Subject, closings []*fact.PeriodClosed) *Explainer {
	x := &Explainer{NewAuditor(o), s}
	x.auditor.player.want(s, closings)
	return x
}

// Take replays the log's next block. It gives the explanation once the log has come so far, else nil.
func (x *Explainer) Take(b meter.Block) (*explain.Explanation, error) {
	if err := x.auditor.Take(b); err != nil {
		return nil, err
	}
	return x.auditor.player.explained(x.subject)
}
