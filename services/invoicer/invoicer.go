package invoicer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/rater"
)

// Service is the invoicer's name in the progress table.
const Service = "invoicer"

// Invoicer is one pump. It is not safe for concurrent use.
type Invoicer struct {
	bus    bus.Bus
	store  store.Store
	writer *journal.Writer
	series string
	grace  int64

	state   *bill.Invoicer // nil before boot and after an error
	reader  *journal.Reader
	looking bool // nothing is projected: see Look
	done    int  // cuts that were worked through
	issued  int
	last    string // name of the last that was issued
	blocked []bill.Block
	// deferred are closed periods whose correction was blocked: they are tried again at the next cut.
	deferred []store.Period
}

// New is an invoicer for one series of numbers; grace in seconds is the provider's default. It boots at its first Step.
func New(b bus.Bus, s store.Store, series string, grace int64) *Invoicer {
	return &Invoicer{bus: b, store: s, writer: journal.NewWriter(b), series: series, grace: grace}
}

// Blocked lists the periods that the last cut could not close, with the reason.
func (i *Invoicer) Blocked() []bill.Block { return i.blocked }

// Issued counts the invoices that it has issued and names the last one.
func (i *Invoicer) Issued() (n int, last string) { return i.issued, i.last }

// NextDue is when the next period falls due after an instant, for a scripted clock to stop at.
func (i *Invoicer) NextDue(after span.Second) span.Second {
	if i.state == nil {
		return span.Open
	}
	return i.state.NextDue(after)
}

// Step takes one tick: its facts, then what they allow to decide. After an error the next Step boots anew.
func (i *Invoicer) Step(ctx context.Context) (worked bool, err error) {
	defer func() {
		if err != nil {
			i.state = nil
		}
	}()
	if i.state == nil {
		worked, err = i.boot(ctx)
		if err != nil {
			return false, fmt.Errorf("start invoicer: %w", err)
		}
		if worked {
			return true, i.decide(ctx)
		}
	}
	block, _, ok, err := i.reader.Next(ctx)
	if err != nil {
		return false, err
	}
	if !ok { // a cut may wait for the tables
		before := i.done
		if before < len(i.state.Cuts()) {
			err = i.decide(ctx)
		}
		return i.done > before, err
	}
	for _, f := range block.Facts {
		if err := i.take(ctx, f); err != nil {
			return false, err
		}
	}
	i.state.Tick(block.At)
	return true, i.decide(ctx)
}

// boot folds the facts up to the last tick; nothing is decided for ticks that passed meanwhile but the last one.
func (i *Invoicer) boot(ctx context.Context) (bool, error) {
	i.state, i.done, i.deferred = bill.NewInvoicer(i.series, i.grace), 0, nil
	if _, err := i.rated(ctx, 0); err != nil {
		return false, err
	}
	given, err := i.store.Invoices(ctx) // before the log is read: what is projected meanwhile is in it
	if err != nil {
		return false, err
	}
	m, err := i.bus.Last(ctx, bus.Tick)
	if errors.Is(err, bus.ErrNotFound) {
		i.reader = journal.OpenTicks(i.bus, journal.Position{})
		return false, checkGiven(given, nil)
	}
	if err != nil {
		return false, err
	}
	t, err := codec.DecodeTick(m)
	if err != nil {
		return false, err
	}
	facts, _, err := journal.History(ctx, i.bus, t.FactsSeq, m.Seq, m.Seq)
	if err != nil {
		return false, err
	}
	if err := checkGiven(given, facts); err != nil {
		return false, err
	}
	for _, f := range facts {
		i.state.Apply(f)
	}
	projected, err := i.recall(ctx)
	if err != nil {
		return false, err
	}
	for _, f := range facts {
		if f.Seq > projected {
			if err := i.project(ctx, f); err != nil {
				return false, err
			}
		}
	}
	i.state.Tick(t.At)
	i.reader = journal.OpenTicks(i.bus, journal.Position{Block: m.Seq, FactsSeq: t.FactsSeq, At: t.At, Tick: journal.Digest(m)})
	return true, nil
}

// recall finds in progress which cuts an earlier life is done with and up to which fact it projected. The last cut is not done
// with: it tells again what is blocked. Doing all again changes nothing, so a progress that is lost or of another log costs
// time.
func (i *Invoicer) recall(ctx context.Context) (projected uint64, err error) {
	p, err := i.store.Progress(ctx, Service)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	cuts := i.state.Cuts()
	named := slices.IndexFunc(cuts, func(c bill.Cut) bool { return c.Block == p.Block && c.Digest == p.Ledger })
	if named < 0 {
		return 0, nil
	}
	i.done = min(named+1, len(cuts)-1)
	return p.FactsSeq, nil
}

// take folds a fact; an invoice is also projected for people and SQL.
func (i *Invoicer) take(ctx context.Context, f fact.Fact) error {
	i.state.Apply(f)
	return i.project(ctx, f)
}

func (i *Invoicer) project(ctx context.Context, f fact.Fact) error {
	given := Given(f)
	if given == nil || i.looking {
		return nil
	}
	row, err := Project(given)
	if err != nil {
		return err
	}
	return i.store.PutInvoice(ctx, row)
}

// decide cancels what was recovered, works through finished cuts, then asks for the next one. A cut waits until the tables
// hold its block: while they are rebuilt from the log they hold less than the cut says, and a correction would be missed.
func (i *Invoicer) decide(ctx context.Context) error {
	if err := i.cancel(ctx); err != nil {
		return err
	}
	cuts := i.state.Cuts()
	for ; i.done < len(cuts); i.done++ {
		if rated, err := i.rated(ctx, cuts[i.done].Block); err != nil || !rated {
			return err
		}
		var before uint64
		if i.done > 0 {
			before = cuts[i.done-1].Block
		}
		if err := i.work(ctx, cuts[i.done], before); err != nil {
			return fmt.Errorf("close at cut %s: %w", cuts[i.done].Cut, err)
		}
		if err := i.progress(ctx, cuts[i.done]); err != nil {
			return err
		}
	}
	if request := i.state.DecideCut(); request != nil {
		f := fact.Fact{Key: "cut.requested/" + request.Cut, Body: request}
		var err error
		if f.Seq, err = i.writer.Claim(ctx, 0, f); err != nil {
			return err
		}
		i.state.Apply(f) // ticks that were published before it must not ask again
	}
	return nil
}

// progress is written when nothing of a cut has to be tried again; the facts up to the cut's answer are projected by then. A
// close that is blocked is due at the next cut by itself.
func (i *Invoicer) progress(ctx context.Context, cut bill.Cut) error {
	if len(i.deferred) > 0 {
		return nil
	}
	return i.store.Put(ctx, store.Put{Progress: store.Progress{
		Service: Service, Block: cut.Block, FactsSeq: cut.Done, At: cut.At, Ledger: cut.Digest,
	}})
}

// cancel issues the cancellations of recovered invoices. The number is compared, so each is issued once.
func (i *Invoicer) cancel(ctx context.Context) error {
	for {
		issued, err := i.state.Cancel()
		if err != nil || issued == nil {
			return err
		}
		_, last := i.state.Number()
		f := fact.Fact{Key: "invoice.issued/" + bill.InvoiceName(issued.Series, issued.Number), Body: issued}
		if f.Seq, err = i.writer.Claim(ctx, last, f); err != nil {
			return err
		}
		i.state.Apply(f)
		i.issued, i.last = i.issued+1, bill.InvoiceName(issued.Series, issued.Number)
	}
}

// rated tells whether the rater's rows up to a block are in the tables. Rows of another log are an error.
func (i *Invoicer) rated(ctx context.Context, block uint64) (bool, error) {
	p, err := i.store.Progress(ctx, rater.Service)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || p.Block == 0 {
		return false, err
	}
	return p.Block >= block, journal.CheckTick(ctx, i.bus, p.Block, p.Tick)
}

// stillRated comes after what was read for a decision: a second rater that starts may delete rows, and puts them again.
func (i *Invoicer) stillRated(ctx context.Context, cut bill.Cut) error {
	rated, err := i.rated(ctx, cut.Block)
	if err == nil && !rated {
		err = errors.New("rows of the cut were deleted meanwhile: another rater started, and puts them again")
	}
	return err
}

// work closes what is due at a cut or bills it in advance, then corrects what changed since the cut before.
func (i *Invoicer) work(ctx context.Context, cut bill.Cut, before uint64) error {
	i.blocked = nil
	due := i.state.DueAt(cut)
	if len(due) > 0 {
		refusals, err := i.store.OpenRefusals(ctx, cut.Block)
		if err != nil {
			return err
		}
		for _, d := range due {
			if d.Advance {
				err = i.payAhead(ctx, d, cut)
			} else {
				err = i.close(ctx, d, cut, refusals)
			}
			if err != nil {
				return err
			}
		}
	}
	changed, err := i.store.ChangedPeriods(ctx, before, cut.Block)
	if err != nil {
		return err
	}
	changed = append(changed, i.deferred...)
	for _, d := range i.state.Amended(cut) {
		changed = append(changed, store.Period{Contract: d.Contract, PeriodStart: d.Period.From})
	}
	slices.SortFunc(changed, func(a, b store.Period) int {
		return cmp.Or(cmp.Compare(a.Contract, b.Contract), cmp.Compare(a.PeriodStart, b.PeriodStart))
	})
	i.deferred = nil
	for _, p := range slices.Compact(changed) {
		if err := i.correct(ctx, p, cut); err != nil {
			return err
		}
	}
	return i.stillRated(ctx, cut)
}

// check reads a period's totals at a cut and whether anything blocks its close.
func (i *Invoicer) check(ctx context.Context, d bill.Due, cut bill.Cut, refusals []meter.Refusal) ([]meter.Total, *bill.Block, error) {
	totals, err := i.store.PeriodTotals(ctx, d.Contract, d.Period.From, cut.Block)
	if err != nil {
		return nil, nil, err
	}
	uncontracted, err := i.store.UncontractedTotals(ctx, d.Customer, d.Period, cut.Block)
	if err != nil {
		return nil, nil, err
	}
	return totals, i.state.Check(d, cut, totals, uncontracted, refusals), nil
}

func (i *Invoicer) close(ctx context.Context, d bill.Due, cut bill.Cut, refusals []meter.Refusal) error {
	totals, blocked, err := i.check(ctx, d, cut, refusals)
	if err != nil {
		return err
	}
	if blocked != nil {
		i.blocked = append(i.blocked, *blocked)
		return nil
	}
	statement, err := i.state.Statement(cut, d.Contract, d.Period, totals)
	if err != nil {
		return err
	}
	before, n, err := i.billed(ctx, store.Period{Contract: d.Contract, PeriodStart: d.Period.From})
	if err != nil {
		return err
	}
	document, err := i.state.Draft(statement, before, n+1)
	if err != nil {
		return err
	}
	return i.issue(ctx, statement.Period, n+1, cut, document)
}

// payAhead bills a period's fees in advance, if any are left as of the cut.
func (i *Invoicer) payAhead(ctx context.Context, d bill.Due, cut bill.Cut) error {
	if b := i.state.CheckAdvance(d); b != nil {
		i.blocked = append(i.blocked, *b)
		return nil
	}
	s, err := bill.Advance(i.state.ContractsAt(cut), d.Contract, d.Period)
	if err != nil || s.Total.IsZero() {
		return err
	}
	return i.issue(ctx, d.Period, 0, cut, bill.NewAdvance(s))
}

// billed is the statement of a period's last closing and its number; nil and 0 when there was none.
func (i *Invoicer) billed(ctx context.Context, p store.Period) (*bill.Statement, int, error) {
	n, block := i.state.Closed(p.Contract, p.PeriodStart)
	if n == 0 {
		return nil, 0, nil
	}
	period := i.state.ClosedPeriod(p.Contract, p.PeriodStart)
	cut, ok := i.state.CutAt(block)
	if !ok {
		return nil, 0, fmt.Errorf("correct %s %v: the cut at block %d that it was billed at is not in the log", p.Contract, period, block)
	}
	totals, err := i.store.PeriodTotals(ctx, p.Contract, p.PeriodStart, cut.Block)
	if err != nil {
		return nil, 0, err
	}
	statement, err := i.state.Statement(cut, p.Contract, period, totals)
	return statement, n, err
}

// correct issues the difference between what is known at a cut and all that was billed before, if there is one.
func (i *Invoicer) correct(ctx context.Context, p store.Period, cut bill.Cut) error {
	n, block := i.state.Closed(p.Contract, p.PeriodStart)
	if n == 0 || block >= cut.Block || i.state.Prolonged(cut, p.Contract, p.PeriodStart) {
		return nil
	}
	period := i.state.ClosedPeriod(p.Contract, p.PeriodStart)
	totals, err := i.store.PeriodTotals(ctx, p.Contract, p.PeriodStart, cut.Block)
	if err != nil {
		return err
	}
	now, err := i.state.Statement(cut, p.Contract, period, totals)
	if err != nil {
		return err
	}
	due := bill.Due{Contract: p.Contract, Customer: now.Contract.Customer, Period: period}
	if b := i.state.CheckCorrection(due, cut, totals); b != nil {
		i.blocked, i.deferred = append(i.blocked, *b), append(i.deferred, p)
		return nil
	}
	before, n, err := i.billed(ctx, p)
	if err != nil {
		return err
	}
	d, err := i.state.Draft(now, before, n+1)
	if err != nil || len(d.Lines) == 0 {
		return err
	}
	return i.issue(ctx, now.Period, n+1, cut, d)
}

// issue publishes the closing and its invoice as one: the closing is claimed, the number compared.
func (i *Invoicer) issue(ctx context.Context, period span.Span, n int, cut bill.Cut, d *bill.Document) error {
	closed, issued, err := i.state.Issue(period, n, cut, d)
	if err != nil {
		return err
	}
	if err := i.stillRated(ctx, cut); err != nil {
		return err
	}
	_, last := i.state.Number()
	first := fact.Fact{Key: "period.closed/" + closed.Key(), Body: closed}
	second := fact.Fact{Key: "invoice.issued/" + bill.InvoiceName(issued.Series, issued.Number), Body: issued}
	seq, err := i.writer.ClaimBoth(ctx, first, 0, second, last)
	if err != nil {
		return err
	}
	first.Seq, second.Seq = seq-1, seq
	i.state.Apply(first)
	i.state.Apply(second)
	i.issued, i.last = i.issued+1, bill.InvoiceName(issued.Series, issued.Number)
	return nil
}
