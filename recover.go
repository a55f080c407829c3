package gpuhour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/run"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/clickhouse"
	"github.com/gpuhour/gpuhour/services/alerter"
	"github.com/gpuhour/gpuhour/services/invoicer"
	"github.com/gpuhour/gpuhour/services/rater"
)

// Recovery is what it takes for a log that was restored from an older copy of itself to go on.
type Recovery struct {
	// Incarnation is the one that begins; 0 when the tables agree with the log and nothing is to be recovered.
	Incarnation uint64
	// Block, FactsSeq and At are how far the tables had come in the log as it was.
	Block, FactsSeq uint64
	At              span.Second
	// LogBlock, LogFactsSeq and LogAt are where the log ends: its last tick, its last fact, its time.
	LogBlock, LogFactsSeq uint64
	LogAt                 span.Second
	// Invoices were given out and are not in the log, in order of series and number.
	Invoices []*bill.Document

	restated []fact.InvoiceRecovered
	last     map[string]uint64 // position of a series' last invoice
	began    uint64            // position of the last log.recovered
}

// Recovery compares the log with the tables, also those of other incarnations, and changes nothing. Its errors are logs that
// cannot go on, with what to restore instead. No service may run.
func (e *Engine) Recovery(ctx context.Context) (Recovery, error) {
	r, err := e.recovery(ctx)
	if err != nil {
		return Recovery{}, fmt.Errorf("compare the log with the tables: %w", err)
	}
	return r, nil
}

func (e *Engine) recovery(ctx context.Context) (Recovery, error) {
	var r Recovery
	incarnation, began, err := journal.Incarnation(ctx, e.bus)
	if err != nil {
		return r, err
	}
	r.began = began
	facts, err := e.readLog(ctx, &r)
	if err != nil {
		return r, err
	}
	all, last, err := e.everyTables(ctx)
	defer func() {
		for _, s := range all[1:] {
			_ = s.Close() // only read
		}
	}()
	if err != nil {
		return r, err
	}
	foreign := last > incarnation // the log was restored from before it was recovered
	for _, f := range facts {
		if b, ok := f.Body.(*fact.InvoiceRecovered); ok && b.Incarnation > incarnation {
			foreign = true // a recovery that did not come to its end
		}
	}
	for _, s := range all {
		for _, service := range []string{rater.Service, alerter.Service} {
			gone, err := e.gone(ctx, s, service, facts, &r)
			if err != nil {
				return r, err
			}
			foreign = foreign || gone && s == all[0]
		}
	}
	if err := r.invoices(ctx, all, facts); err != nil {
		return r, err
	}
	if !foreign && len(r.Invoices) == 0 {
		return r, nil
	}
	r.Incarnation = max(incarnation, last) + 1
	for i := range r.restated {
		r.restated[i].Incarnation = r.Incarnation
	}
	return r, nil
}

// Recover states the invoices that were given out and lost, then that the log goes on. Repeated after an error it goes on where
// it was. The engine is closed then; the next one opens tables of their own.
func (e *Engine) Recover(ctx context.Context, by, reason string) (Recovery, error) {
	goesOn := &fact.LogRecovered{Incarnation: 2, By: by, Reason: reason}
	if err := goesOn.Validate(); err != nil {
		return Recovery{}, err
	}
	r, err := e.Recovery(ctx)
	if err != nil || r.Incarnation == 0 {
		return r, err
	}
	for i := range r.restated {
		b := &r.restated[i]
		f := fact.Fact{Key: "invoice.recovered/" + bill.InvoiceName(b.Series, b.Number), Body: b}
		if r.last[b.Series], err = e.writer.Claim(ctx, r.last[b.Series], f); err != nil {
			return r, err
		}
	}
	goesOn.Incarnation = r.Incarnation
	_, err = e.writer.Claim(ctx, r.began, fact.Fact{Key: fmt.Sprintf("log.recovered/%d", r.Incarnation), Body: goesOn})
	return r, err
}

// readLog reads all facts and holds the two streams against each other.
func (e *Engine) readLog(ctx context.Context, r *Recovery) (facts []fact.Fact, err error) {
	if r.LogFactsSeq, err = e.bus.LastSeq(ctx, bus.Facts); err != nil {
		return nil, err
	}
	if r.LogFactsSeq == 0 {
		return nil, errors.New("the log holds nothing, so it is no older copy; restore one, or run `gpuhour serve` once to begin from nothing, then recover")
	}
	m, err := e.bus.Last(ctx, bus.Tick)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		t, err := codec.DecodeTick(m)
		if err != nil {
			return nil, err
		}
		if r.LogBlock, r.LogAt = m.Seq, t.At; t.FactsSeq > r.LogFactsSeq {
			return nil, fmt.Errorf("the usage stream's last tick names facts up to %d, the fact stream ends at %d: %w", t.FactsSeq, r.LogFactsSeq, errTwoMoments)
		}
	}
	if facts, _, err = journal.History(ctx, e.bus, r.LogFactsSeq, 0, 0); err != nil {
		return nil, err
	}
	if closed, ok := facts[len(facts)-1].Body.(*fact.PeriodClosed); ok {
		return nil, fmt.Errorf("the fact stream ends at closing %s, whose invoice is cut off; restore another copy", closed.Key())
	}
	return facts, e.checkCut(ctx, facts)
}

var errTwoMoments = errors.New("the streams were restored from two moments; restore both from the same copy, or the one that is shorter from a later one")

// checkCut finds facts that were decided on usage which is not there: the rater would answer their cut otherwise.
func (e *Engine) checkCut(ctx context.Context, facts []fact.Fact) error {
	for _, f := range slices.Backward(facts) {
		b, ok := f.Body.(*fact.CutDone)
		if !ok {
			continue
		}
		messages, err := e.bus.Read(ctx, bus.Usage, max(b.Block, 1)-1, 1)
		if err != nil {
			return err
		}
		if len(messages) == 1 && messages[0].Subject == bus.Tick {
			if t, err := codec.DecodeTick(messages[0]); err == nil && t.At == b.At {
				return nil
			}
		}
		return fmt.Errorf("the facts name cut %s at block %d, which the usage stream does not hold: %w", b.Cut, b.Block, errTwoMoments)
	}
	return nil
}

// everyTables opens, beside the engine's own tables, which come first, those of every other incarnation, and names the last.
func (e *Engine) everyTables(ctx context.Context) (all []store.Store, last uint64, err error) {
	all = []store.Store{e.store}
	s, ok := e.store.(*clickhouse.Store)
	if !ok {
		return all, 0, nil
	}
	list, err := s.Incarnations(ctx, e.cfg.ClickHouse.Database)
	for _, n := range list {
		last = n
		if n == e.incarnation {
			continue
		}
		other, openErr := e.tables(ctx, clickhouse.Options{Database: clickhouse.Database(e.cfg.ClickHouse.Database, n), Reader: true})
		if openErr != nil {
			return all, last, openErr
		}
		all = append(all, other)
	}
	return all, last, err
}

// gone tells whether tables stand at a position that the log does not hold, and keeps how far the furthest ones had come.
func (e *Engine) gone(ctx context.Context, s store.Store, service string, facts []fact.Fact, r *Recovery) (bool, error) {
	p, err := s.Progress(ctx, service)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.Block == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if p.At >= r.At {
		r.Block, r.FactsSeq, r.At = p.Block, p.FactsSeq, p.At
	}
	if err = journal.CheckTick(ctx, e.bus, p.Block, p.Tick); err == nil && service == rater.Service {
		err = rater.CheckAnswers(ctx, e.bus, p, facts)
	}
	if errors.Is(err, journal.ErrRewound) {
		return true, nil
	}
	return false, err
}

// invoices finds those that any tables hold and the log does not. Their numbers must follow the log's, and each must be one
// that can be cancelled.
func (r *Recovery) invoices(ctx context.Context, all []store.Store, facts []fact.Fact) error {
	var projected []store.Invoice
	for _, s := range all {
		rows, err := s.Invoices(ctx)
		if err != nil {
			return err
		}
		projected = append(projected, rows...)
	}
	lost, err := invoicer.Lost(projected, facts)
	if err != nil {
		return err
	}
	slices.SortStableFunc(lost, store.CompareInvoices)
	r.last = map[string]uint64{}
	number := map[string]uint64{}
	for _, f := range facts {
		if b := invoicer.Given(f); b != nil {
			number[b.Series], r.last[b.Series] = b.Number, f.Seq
		}
	}
	for i, row := range lost {
		name := bill.InvoiceName(row.Series, row.Number)
		if i > 0 && store.CompareInvoices(lost[i-1], row) == 0 { // tables of two incarnations hold it
			if !bytes.Equal(lost[i-1].Document, row.Document) {
				return fmt.Errorf("tables of two incarnations hold two documents with the number %s; restore a newer copy of the log", name)
			}
			continue
		}
		if number[row.Series]++; number[row.Series] != row.Number {
			return fmt.Errorf("invoice %s was given out, the log and the tables know no invoice %s; restore a newer copy of the log",
				name, bill.InvoiceName(row.Series, number[row.Series]))
		}
		d, err := bill.ParseDocument(row.Document)
		if err == nil && d.Invoice != name {
			err = fmt.Errorf("it calls itself %s", d.Invoice)
		}
		if err == nil {
			_, err = d.Cancellation()
		}
		if err != nil {
			return fmt.Errorf("state invoice %s again, as the tables hold it: %w", name, err)
		}
		r.Invoices = append(r.Invoices, d)
		r.restated = append(r.restated, fact.InvoiceRecovered{
			Series: row.Series, Number: row.Number, Customer: row.Customer, Closing: row.Closing, Document: row.Document,
		})
	}
	return nil
}

// checkIncarnation finds tables of a later incarnation than the log's: it was restored from before it was recovered, and the
// invoices of that incarnation are not in it.
func (e *Engine) checkIncarnation(ctx context.Context) error {
	s, ok := e.store.(*clickhouse.Store)
	if !ok {
		return nil
	}
	list, err := s.Incarnations(ctx, e.cfg.ClickHouse.Database)
	if err != nil {
		return err
	}
	if last := slices.Max(append(list, 1)); last > e.incarnation {
		e.rewound = fmt.Errorf("the log is in its incarnation %d, and there are tables of incarnation %d: %w", e.incarnation, last, journal.ErrRewound)
	}
	return nil
}

// step is one step of a service on the tables of the log's incarnation. A process that outlives a recovery is told so: its
// tables are those of the log as it was.
func (e *Engine) step(ctx context.Context, step run.Step) (bool, error) {
	if e.rewound != nil {
		return false, e.rewound
	}
	worked, err := step(ctx)
	if errors.Is(err, journal.ErrRewound) {
		if n, _, look := journal.Incarnation(ctx, e.bus); look == nil && n > e.incarnation {
			err = fmt.Errorf("incarnation %d of the log began; start this process again: %w", n, err)
		}
	}
	return worked, err
}
