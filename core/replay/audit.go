package replay

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
)

// Auditor re-decides a log that services wrote: it rates the same blocks, and at every finished cut computes what had to be
// closed and issued. What the log holds must be the same, to the last byte of every invoice. It trusts no table.
type Auditor struct {
	options  Options
	player   *player
	digest   fact.Hash
	cuts     map[string]auditedCut
	facts    []fact.Fact // all that were taken
	expected []fact.Fact // cancellations, then closings and invoices, that the log must hold next
	// cancelling is how many of them cancel: those come before the next close, whenever a cut is done.
	cancelling int
	last       decision
	lost       bool // the log lost some of what was decided last
	report     Audit
}

type auditedCut struct {
	fact.CutDone
	view view
}

// decision is the cut at which was decided last, and what the ledger held at it.
type decision struct {
	cut  bill.Cut
	view view
}

// Audit is what a replay of a log found.
type Audit struct {
	Blocks, Facts, Batches, Cuts, Invoices int
	// Recovered counts invoices that were given out, lost with the end of the log and stated again: they are taken as stated.
	// Cancelled counts the invoices among Invoices that take them back.
	Recovered, Cancelled int
	// Differences say, in order of the log, where it and the replay part. None means that the log's bills are right.
	Differences []string
}

// NewAuditor audits a log whose invoicer had these options.
func NewAuditor(o Options) *Auditor {
	return &Auditor{options: o, player: newPlayer(Log{}, o), cuts: map[string]auditedCut{}}
}

// Take replays the log's next block.
func (a *Auditor) Take(b meter.Block) error {
	p := a.player
	out := p.take(b)
	a.digest = out.Digest(a.digest)
	a.report.Blocks++
	a.report.Batches += len(b.Usage)
	for _, f := range b.Facts {
		a.report.Facts++
		err := a.take(f)
		a.facts = append(a.facts, f)
		if err != nil {
			return fmt.Errorf("audit block %d, fact %d %s: %w", b.Seq, f.Seq, f.Key, err)
		}
	}
	p.invoicer.Tick(b.At)
	for _, c := range out.Cuts {
		c.Digest = a.digest
		a.cuts[c.Cut] = auditedCut{c, p.look(bill.Cut{CutDone: c, Requested: p.invoicer.RequestedAt(c.Cut)})}
	}
	return nil
}

// take compares what services decided, and applies everything.
func (a *Auditor) take(f fact.Fact) error {
	p := a.player
	switch b := f.Body.(type) {
	case *fact.CutDone:
		return a.cutDone(f, b)
	case *fact.PeriodClosed, *fact.InvoiceIssued:
		a.decided(f)
	case *fact.InvoiceRecovered:
		a.recovered(f, b)
	case *fact.LogRecovered:
		return a.goOn(f)
	}
	p.invoicer.Apply(f)
	return nil
}

// recovered takes an invoice as stated. Its number is the next one.
func (a *Auditor) recovered(f fact.Fact, b *fact.InvoiceRecovered) {
	a.forget()
	a.report.Recovered++
	if last, _ := a.player.invoicer.Number(); b.Series == a.options.Series && b.Number != last+1 {
		a.differ(f, fmt.Sprintf("its number comes after %d", last))
	}
}

// forget takes back what was decided and was lost with the end of the log.
func (a *Auditor) forget() {
	if len(a.expected) == 0 {
		return
	}
	p := a.player
	for _, f := range a.expected {
		if closed, ok := f.Body.(*fact.PeriodClosed); ok {
			k := periodKey{closed.Contract, closed.PeriodStart}
			if p.statements[k] = p.replaced[k]; p.statements[k] == nil {
				delete(p.statements, k)
			}
		}
	}
	p.invoicer = bill.NewInvoicer(a.options.Series, a.options.Grace)
	for _, f := range a.facts {
		p.invoicer.Apply(f)
	}
	a.expected, a.cancelling, a.lost = nil, 0, true
}

// goOn begins an incarnation: what was recovered is cancelled, then what was lost of the last decision is decided again.
func (a *Auditor) goOn(f fact.Fact) error {
	a.forget()
	a.player.invoicer.Apply(f)
	cancellations, err := a.player.cancel()
	a.expected, a.cancelling = cancellations, len(cancellations)
	if err != nil || !a.lost {
		return err
	}
	a.lost = false
	again, err := a.player.close(a.last.cut, a.last.view)
	a.expected = append(a.expected, again...)
	return err
}

// cutDone compares the cut, then decides what it closes.
func (a *Auditor) cutDone(f fact.Fact, b *fact.CutDone) error {
	p := a.player
	known := len(p.invoicer.Cuts())
	p.invoicer.Apply(f)
	if len(p.invoicer.Cuts()) == known {
		return nil // a repeat
	}
	a.report.Cuts++
	a.missing()
	own, ok := a.cuts[b.Cut]
	if !ok {
		a.differ(f, "the replay met no such cut before it")
		return nil
	}
	if b.FactsSeq != 0 && own.FactsSeq != b.FactsSeq { // answers of old logs do not tell it
		a.differ(f, fmt.Sprintf("the log counts facts up to %d, the replay up to %d", b.FactsSeq, own.FactsSeq))
	}
	if own.Block != b.Block || own.At != b.At || own.Digest != b.Digest || !slices.Equal(own.Totals, b.Totals) {
		a.differ(f, fmt.Sprintf("the log has block %d and ledger %x, the replay block %d and ledger %x", b.Block, b.Digest[:6], own.Block, own.Digest[:6]))
	}
	delete(a.cuts, b.Cut)
	cuts := p.invoicer.Cuts()
	a.last = decision{cuts[len(cuts)-1], own.view}
	facts, err := p.close(a.last.cut, a.last.view)
	a.expected = append(a.expected, facts...)
	return err
}

// decided compares a closing or an invoice with the one that is due next.
func (a *Auditor) decided(f fact.Fact) {
	issued, isInvoice := f.Body.(*fact.InvoiceIssued)
	if isInvoice {
		a.report.Invoices++
	}
	if len(a.expected) == 0 || a.expected[0].Key != f.Key {
		a.differ(f, "the replay does not decide it here")
		return
	}
	own := a.expected[0].Body
	a.expected = a.expected[1:]
	if a.cancelling > 0 {
		a.cancelling--
		a.report.Cancelled++
	}
	if replayed, ok := own.(*fact.InvoiceIssued); ok && isInvoice && !bytes.Equal(replayed.Document, issued.Document) {
		a.differ(f, "the documents differ: "+firstDifference(issued.Document, replayed.Document))
	} else if fact.HashJSON(own) != fact.HashJSON(f.Body) {
		a.differ(f, "the replay states it otherwise")
	}
}

// missing lists decisions that the log should hold when another cut is done.
func (a *Auditor) missing() {
	for _, f := range a.expected[a.cancelling:] {
		a.differ(f, "the replay decides it, the log does not hold it")
	}
	a.expected = a.expected[:a.cancelling]
}

func (a *Auditor) differ(f fact.Fact, what string) {
	a.report.Differences = append(a.report.Differences, f.Key+": "+what)
}

// Finish ends the audit. Decisions of the last cut may still be on their way into a living log; in a finished one they must
// be there.
func (a *Auditor) Finish() Audit {
	a.cancelling = 0
	a.missing()
	return a.report
}

// firstDifference shows where two documents part.
func firstDifference(log, replayed []byte) string {
	at := 0
	for at < len(log) && at < len(replayed) && log[at] == replayed[at] {
		at++
	}
	around := func(b []byte) string { return string(b[max(0, at-30):min(len(b), at+30)]) }
	return fmt.Sprintf("at byte %d the log has %q, the replay %q", at, around(log), around(replayed))
}
