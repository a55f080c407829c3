package replay

import (
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
)

// Decided lists all facts of a log, those that it decides included, in order.
func Decided(log Log, o Options) ([]fact.Fact, error) {
	p := newPlayer(log, o)
	var facts []fact.Fact
	p.decided = func(f fact.Fact) { facts = append(facts, f) }
	_, err := p.run()
	return facts, err
}

// ExplainAll explains every line of every invoice of a log, in one replay.
func ExplainAll(log Log, o Options) ([]*explain.Explanation, error) {
	searches := map[string]*Search{}
	var order []string
	first := newPlayer(log, o)
	var facts []fact.Fact
	first.decided = func(f fact.Fact) {
		facts = append(facts, f)
		if b, ok := f.Body.(*fact.InvoiceIssued); ok {
			name := bill.InvoiceName(b.Series, b.Number)
			searches[name] = NewSearch(name)
			order = append(order, name)
		}
	}
	if _, err := first.run(); err != nil {
		return nil, err
	}
	second := newPlayer(log, o)
	byClosing := map[string]*wanted{}
	for _, f := range facts {
		if b, ok := f.Body.(*fact.PeriodClosed); ok {
			w := &wanted{closing: b, concerns: func(meter.Segment) bool { return true }}
			byClosing[b.Key()] = w
			second.wanted = append(second.wanted, w)
		}
		for _, s := range searches {
			s.Take(f)
		}
	}
	if _, err := second.run(); err != nil {
		return nil, err
	}
	var out []*explain.Explanation
	for _, name := range order {
		list, err := searches[name].explainAll(byClosing)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

func (x *Search) explainAll(of map[string]*wanted) ([]*explain.Explanation, error) {
	d, err := bill.ParseDocument(x.document)
	if err != nil || d.Kind == bill.KindCancellation {
		return nil, err
	}
	var names []explain.LineName
	for i := range d.Lines {
		names = append(names, explain.LineName{Number: i + 1})
	}
	for i := range d.Unbilled {
		names = append(names, explain.LineName{Number: i + 1, Unbilled: true})
	}
	var out []*explain.Explanation
	for _, n := range names {
		s, closings, err := x.Found(n)
		if err != nil {
			return nil, err
		}
		var before *explain.Evidence
		if len(closings) > 1 {
			before = of[closings[1].Key()].evidence
		}
		e, err := explain.Line(s, of[closings[0].Key()].evidence, before)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// AuditOf replays a log, writes it down as services do, and audits that. What it decided is changed before, unless change is nil.
func AuditOf(log Log, o Options, change func(fact.Body)) (Audit, error) {
	p := newPlayer(log, o)
	var facts []fact.Fact
	var blocks []meter.Block
	p.decided = func(f fact.Fact) { facts = append(facts, f) }
	p.rated = func(b meter.Block) { blocks = append(blocks, b) }
	result, err := p.run()
	if err != nil {
		return Audit{}, err
	}
	for _, f := range facts {
		if change != nil {
			change(f.Body)
		}
	}
	var digest fact.Hash
	for i := range result.Outcomes {
		digest = result.Outcomes[i].Digest(digest)
		for k := range result.Outcomes[i].Cuts {
			result.Outcomes[i].Cuts[k].Digest = digest // the rater's pump adds it
		}
	}
	last := blocks[len(blocks)-1]
	blocks = append(blocks, meter.Block{Seq: last.Seq + 1, At: last.At, FactsSeq: uint64(len(facts))})
	a := NewAuditor(o)
	var before uint64
	for _, b := range blocks {
		b.Facts = facts[before:b.FactsSeq]
		before = b.FactsSeq
		if err := a.Take(b); err != nil {
			return Audit{}, err
		}
	}
	return a.Finish(), nil
}
