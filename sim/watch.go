package sim

import (
	"errors"
	"fmt"
	"maps"
	"math/big"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// watcher reads the log beside everybody and holds every closing against what was known at its cut.
type watcher struct {
	story    *story
	facts    []fact.Fact // the first of every key
	keys     map[string]fact.Fact
	read     [2]uint64         // positions of facts and usage
	known    map[uint64]uint64 // F of every tick
	at       map[uint64]int64  // T of every tick
	last     int64             // T of the last tick
	cuts     map[string]*fact.CutDone
	done     map[string]uint64 // position of a cut's answer
	closings map[string]int
	number   uint64
	closed   *fact.PeriodClosed // waits for its invoice
	billed   map[line]*owed
	invoices []*fact.InvoiceIssued
	firing   map[string]bool
	audited  map[string]*truth
	figures  Figures
	time     wallTime
	believed uint64               // a block whose time was good before the log was restored; services that stand there go on
	halted   map[string]uint64    // by customer: position of the fact
	terms    map[uint64]*terms    // by position of the contract's fact
	versions map[string][]version // by contract, in order of the log
	ends     map[string]int64     // of closed periods, by contract and name
	market   map[span.Second]*marketPeriod
	heard    []bus.Message     // of usage, for the market
	ahead    map[string]*ahead // by contract and name of the period
	firstCut map[string]uint64 // of a period's first closing: position of the cut's answer
}

// owed is what a line was billed so far, or should be.
type owed struct {
	minor *big.Int
	milli int64
}

func newWatcher(s *story) *watcher {
	return &watcher{
		story: s, keys: map[string]fact.Fact{}, known: map[uint64]uint64{}, at: map[uint64]int64{}, cuts: map[string]*fact.CutDone{},
		halted: map[string]uint64{}, done: map[string]uint64{}, closings: map[string]int{}, billed: map[line]*owed{}, firing: map[string]bool{}, audited: map[string]*truth{},
		terms: map[uint64]*terms{}, versions: map[string][]version{}, ends: map[string]int64{}, market: map[span.Second]*marketPeriod{},
		ahead: map[string]*ahead{}, firstCut: map[string]uint64{},
	}
}

// look takes what the log got since it looked last.
func (w *watcher) look(b bus.Bus, f *faults) error {
	for _, m := range everything(b, bus.Usage, w.read[1]) {
		w.read[1] = m.Seq
		f.hear(m)
		w.hears(m)
		if m.Subject != bus.Tick {
			w.figures.Batches++
			continue
		}
		t, err := codec.DecodeTick(m)
		if err != nil {
			return err
		}
		if int64(t.At) < w.last {
			return fmt.Errorf("tick %d goes back to %v", m.Seq, t.At)
		}
		w.figures.Ticks++
		if w.story.wall {
			w.time.heard(tickOf{m.Seq, t.FactsSeq, int64(t.At), m.Time.Unix()})
		}
		w.known[m.Seq], w.at[m.Seq], w.last = t.FactsSeq, int64(t.At), int64(t.At)
	}
	for _, m := range everything(b, bus.Facts, w.read[0]) {
		w.read[0] = m.Seq
		f.hear(m)
		w.figures.Facts++
		x, err := codec.DecodeFact(m)
		if err != nil {
			return err
		}
		if err := w.take(x); err != nil {
			return fmt.Errorf("fact %d, %s: %w", x.Seq, x.Key, err)
		}
	}
	return nil
}

func (w *watcher) take(f fact.Fact) error {
	if _, repeated := w.keys[f.Key]; repeated {
		return nil
	}
	w.keys[f.Key] = f
	w.facts = append(w.facts, f)
	if _, invoice := f.Body.(*fact.InvoiceIssued); !invoice && w.closed != nil {
		return fmt.Errorf("closing %s has no invoice behind it", w.closed.Key())
	}
	switch b := f.Body.(type) {
	case *fact.ContractSigned:
		w.state(b.Contract, f.Seq, 0, b.Document)
	case *fact.ContractAmended:
		if len(w.versions[b.Contract]) > 0 {
			w.state(b.Contract, f.Seq, int64(b.Effective), b.Document)
		}
	case *fact.TimeResumed:
		w.time.resumed = f.Seq
	case *fact.CustomerHalted:
		w.halted[b.Customer] = f.Seq
	case *fact.CutDone:
		if good := w.time.good(); w.story.wall && b.Block > max(good.seq, w.believed) {
			return fmt.Errorf("it stands at block %d, time is good up to block %d", b.Block, good.seq)
		}
		w.figures.Cuts++
		w.cuts[b.Cut], w.done[b.Cut] = b, f.Seq
		if w.at[b.Block] != int64(b.At) {
			return fmt.Errorf("the cut says it stands at %v, its tick %d says %s", b.At, b.Block, instantText(w.at[b.Block]))
		}
	case *fact.PeriodClosed:
		if err := w.follows(b); err != nil {
			return err
		}
		if w.cuts[b.Cut] == nil {
			return fmt.Errorf("it closes at cut %s, which is not done", b.Cut)
		}
		if at := w.halted[w.customer(b.Contract)]; at > 0 && at < w.done[b.Cut] {
			return fmt.Errorf("its customer is halted since fact %d, the cut was done at %d", at, w.done[b.Cut])
		}
		w.closed = b
	case *fact.InvoiceIssued:
		return w.invoice(b)
	case *fact.AlertRaised:
		return w.alert(b.Entity(), true)
	case *fact.AlertResolved:
		return w.alert(b.Entity(), false)
	}
	return nil
}

// follows holds a closing's number against those before it: 0 only in front of all others, then 1, 2 and so on.
func (w *watcher) follows(b *fact.PeriodClosed) error {
	name := fmt.Sprintf("%s %v", b.Contract, b.PeriodStart)
	next, begun := w.closings[name]
	if !begun && b.N > 0 {
		next = 1
	}
	if b.N != next || b.N == 0 && !w.paysAhead(b.Contract) {
		return fmt.Errorf("closing %d of %s, where %d was due", b.N, name, next)
	}
	w.closings[name] = next + 1
	return nil
}

// state keeps a version of a contract. An amendment in front of the signature is none.
func (w *watcher) state(contract string, seq uint64, from int64, document string) {
	t := w.story.terms[document]
	if t == nil {
		return // the market's
	}
	w.terms[seq] = t
	w.versions[contract] = append(w.versions[contract], version{seq, max(from, t.from), t})
}

func (w *watcher) alert(target string, raised bool) error {
	if w.firing[target] == raised {
		return fmt.Errorf("alert of %s raised %v twice", target, raised)
	}
	w.firing[target] = raised
	return nil
}

func (w *watcher) invoice(b *fact.InvoiceIssued) error {
	c := w.closed
	w.closed = nil
	if c == nil || c.Key() != b.Closing {
		return fmt.Errorf("the invoice is of closing %s, in front of it stands %v", b.Closing, c)
	}
	if b.Number != w.number+1 {
		return fmt.Errorf("number %d follows %d", b.Number, w.number)
	}
	w.number = b.Number
	w.invoices = append(w.invoices, b)
	switch c.N {
	case 0:
		w.figures.count("bills in advance", 1)
	case 1:
		w.figures.Invoices++
	default:
		w.figures.Corrections++
	}
	d, err := bill.ParseDocument(b.Document)
	if err != nil {
		return err
	}
	if d.Number != b.Number || d.Closing != c.N || d.Contract != c.Contract || d.Customer != b.Customer {
		return fmt.Errorf("the document is %s closing %d of %s for %s", d.Invoice, d.Closing, d.Contract, d.Customer)
	}
	if d.Contract == market {
		return w.bookMarket(d, c)
	}
	terms, period, err := w.edges(c)
	if err != nil {
		return err
	}
	key := c.Contract + " " + period
	if _, known := w.firstCut[key]; !known {
		w.firstCut[key] = w.done[c.Cut]
	}
	if c.N == 0 {
		w.ahead[key] = &ahead{int64(c.PeriodEnd), d}
	} else {
		w.ends[key] = int64(c.PeriodEnd)
	}
	if err := errors.Join(w.book(d, terms, period), w.takenOff(d, terms, period)); err != nil {
		return err
	}
	return w.compareAsOf(c, period)
}

// customer of a contract, or nothing when it was never signed.
func (w *watcher) customer(contract string) string {
	for _, v := range w.versions[contract] {
		return v.customer
	}
	return ""
}

// latest is the version that comes into force last, of those stated before a position.
func (w *watcher) latest(contract string, before uint64) (latest version) {
	for _, v := range w.versions[contract] {
		if v.seq < before && (latest.terms == nil || v.from >= latest.from) {
			latest = v
		}
	}
	return latest
}

// edges holds a period against what its seconds show on the wall: all alike, and no neighbour like them but beyond the term, as
// it was known at the cut. A correction is of the period that was closed, but where the term was prolonged: then
// the period closes anew at its new end, and nothing of it is corrected before. A bill in advance is of a period that runs; one that
// lies behind the term by now is closed as it was.
func (w *watcher) edges(c *fact.PeriodClosed) (*terms, string, error) {
	t := w.latest(c.Contract, w.knownAt(c.Cut)+1).terms
	if t == nil {
		return nil, "", fmt.Errorf("no contract %s was known at the cut", c.Contract)
	}
	from, to := int64(c.PeriodStart), int64(c.PeriodEnd)
	period := t.period(from)
	end, closed := w.ends[c.Contract+" "+period]
	anew := c.N <= 1 || closed && to > end
	paid, at := w.ahead[c.Contract+" "+period], int64(w.cuts[c.Cut].At)
	switch {
	case c.N == 1 && from >= t.to && paid != nil && to == paid.end: // nothing of it is left
		w.figures.count("bills in advance of a period that an amendment took away", 1)
	case c.N == 0 && (at < from || to <= at):
		return nil, "", fmt.Errorf("period %s is billed in advance at %s", period, instantText(at))
	case !anew && (!closed || to != end || to < t.to && t.period(to) == period):
		return nil, "", fmt.Errorf("period %s ended at %s and is corrected as if it ended at %v", period, instantText(end), c.PeriodEnd)
	case t.period(to-1) != period:
		return nil, "", fmt.Errorf("the period begins in %s and ends in %s", period, t.period(to-1))
	case from != t.from && t.period(from-1) == period, anew && to != t.to && t.period(to) == period, anew && to > t.to:
		return nil, "", fmt.Errorf("period %s is cut at %v or %v", period, c.PeriodStart, c.PeriodEnd)
	}
	return t, period, nil
}

// book adds a document to what was billed, line by line, and holds its sums together.
func (w *watcher) book(d *bill.Document, t *terms, period string) error {
	total := new(big.Int)
	for _, l := range d.Lines {
		k := line{d.Contract, period, goods{l.SKU, l.Region, l.ServiceTier, l.Dedicated}, string(l.Item), l.Name}
		if w.billed[k] == nil {
			w.billed[k] = &owed{new(big.Int), 0}
		}
		amount, err := minor(l.Amount, t)
		if err != nil {
			return err
		}
		if d.Closing > 1 && l.Before != "" {
			before, err := minor(l.Before, t)
			if err != nil {
				return err
			}
			if before.Cmp(w.billed[k].minor) != 0 {
				return fmt.Errorf("line %+v says that %s was billed before, it was %s minor units", k, l.Before, w.billed[k].minor)
			}
		}
		w.billed[k].minor.Add(w.billed[k].minor, amount)
		w.billed[k].milli += l.Quantity.MilliGPUSeconds
		total.Add(total, amount)
	}
	said, err := minor(d.Total, t)
	if err == nil && said.Cmp(total) != 0 {
		err = fmt.Errorf("the total says %s, the lines are %s minor units", d.Total, total)
	}
	return err
}

// minor reads a decimal amount as minor units.
func minor(text string, t *terms) (*big.Int, error) {
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("amount %q is no number", text)
	}
	v.Mul(v, new(big.Rat).SetInt(t.minor()))
	if !v.IsInt() {
		return nil, fmt.Errorf("amount %q has more digits than %s", text, t.currency)
	}
	return v.Num(), nil
}

// knownAt is the position of the last fact that counts at a cut: what its block's tick says, whatever the answer says.
func (w *watcher) knownAt(cut string) uint64 { return w.known[w.cuts[cut].Block] }

// compareAsOf holds all that was billed of a period up to a closing against what was known at its cut.
func (w *watcher) compareAsOf(c *fact.PeriodClosed, period string) error {
	cut := w.cuts[c.Cut]
	before := w.knownAt(c.Cut) + 1
	wanted := func(l line) bool { return l.contract == c.Contract && l.period == period }
	billed := maps.Clone(w.billed)
	maps.DeleteFunc(billed, func(l line, _ *owed) bool { return !wanted(l) })
	want := map[line]*owed{}
	if c.N > 0 {
		t := w.audited[c.Cut]
		if t == nil {
			w.figures.Audits++
			t = observe(w.upTo(w.knownAt(c.Cut)), w.story.terms, nil, int64(cut.At))
			w.audited[c.Cut] = t
		}
		want = w.owed(t, before, wanted)
	}
	for k, exact := range feesOf(w.stated(c.Contract, before), int64(c.PeriodStart), int64(c.PeriodEnd), c.N == 0) {
		want[k] = &owed{w.governing(c.Contract, int64(c.PeriodEnd), before).round(exact), 0}
	}
	if err := compareLines(billed, want); err != nil {
		return fmt.Errorf("as of cut %s: %w", c.Cut, err)
	}
	return nil
}

func compareLines(billed, want map[line]*owed) error {
	var wrong []string
	for _, lines := range []map[line]*owed{billed, want} {
		for k := range lines {
			if err := compareLine(k, billed[k], want[k]); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	return first(wrong)
}

func compareLine(k any, billed, want *owed) error {
	zero := &owed{new(big.Int), 0}
	if billed == nil {
		billed = zero
	}
	if want == nil {
		want = zero
	}
	if billed.minor.Cmp(want.minor) != 0 || billed.milli != want.milli {
		return fmt.Errorf("line %+v: billed %s minor units for %d milli-GPU-seconds, owed are %s for %d", k, billed.minor, billed.milli, want.minor, want.milli)
	}
	return nil
}

// upTo lists the facts of the first so many positions.
func (w *watcher) upTo(last uint64) []fact.Fact {
	n := 0
	for n < len(w.facts) && w.facts[n].Seq <= last {
		n++
	}
	return w.facts[:n]
}

// owed rounds the truth, line by line, by the terms that were stated before a position and govern the period's end.
func (w *watcher) owed(t *truth, before uint64, wanted func(line) bool) map[line]*owed {
	out := map[line]*owed{}
	for k, exact := range t.amounts(w.terms, wanted) {
		out[k] = &owed{w.governing(k.contract, w.ends[k.contract+" "+k.period], before).round(exact), 0}
	}
	for s, milli := range t.sold {
		if out[s.line] != nil {
			out[s.line].milli += milli
		}
	}
	return out
}

// governing is the version that speaks of the last second in front of a period's end, of those that were stated before a position.
func (w *watcher) governing(contract string, end int64, before uint64) *terms {
	var found version
	for _, v := range w.versions[contract] {
		if v.seq < before && v.from < end && (found.terms == nil || v.from >= found.from) {
			found = v
		}
	}
	if found.terms == nil { // the period was never closed: any version will do to say what is owed
		return w.versions[contract][0].terms
	}
	return found.terms
}
