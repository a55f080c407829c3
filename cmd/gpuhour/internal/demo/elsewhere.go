package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/alerter"
	"github.com/gpuhour/gpuhour/services/invoicer"
	"github.com/gpuhour/gpuhour/services/rater"
)

// services are what works on the ticks: a *gpuhour.Engine those of this process, elsewhere those of others.
type services interface {
	Advance(ctx context.Context, at span.Second) error
	Pump(ctx context.Context) error
	NextDue(after span.Second) span.Second
}

// elsewhere drives services of other processes by the log and the tables alone: it knows from the facts what the invoicer
// has to do, and from the tables how far each service is.
type elsewhere struct {
	engine   *gpuhour.Engine
	progress *Progress
	fold     *bill.Invoicer
	asked    int // cuts that were asked for
	issued   int // invoices
	at       standing
}

func newElsewhere(e *gpuhour.Engine, p *Progress) *elsewhere {
	return &elsewhere{engine: e, fold: bill.NewInvoicer("", 0), progress: p} // the demo's contracts state their grace
}

const (
	// patience is how long the driver waits while no service moves.
	patience = time.Minute
	// lookEvery is when it looks again although the log holds nothing new: progress is in the tables.
	lookEvery = 50 * time.Millisecond
)

// standing is how far everybody is, by position in the log.
type standing struct {
	tick, facts              uint64 // the last tick, and the last fact before it
	read                     uint64 // the last fact
	rater, alerter, invoicer uint64
	invoices                 int // in the tables
}

// Advance ticks, and again for every fact that the services state, until all of them rest.
func (s *elsewhere) Advance(ctx context.Context, at span.Second) error {
	for moved := time.Now(); ; {
		if err := s.engine.Tick(ctx, at); err != nil {
			return err
		}
		before := s.at
		if err := s.look(ctx); err != nil {
			return err
		}
		s.fold.Tick(at)
		switch {
		case s.rest():
			return nil
		case s.at != before:
			moved = time.Now()
		case time.Since(moved) > patience:
			return s.stuck(at)
		}
		s.progress.Reached("waiting for rater, alerter and invoicer", at)
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// Pump leaves the others alone.
func (s *elsewhere) Pump(context.Context) error { return nil }

// NextDue is (*gpuhour.Engine).NextDue.
func (s *elsewhere) NextDue(after span.Second) span.Second { return s.fold.NextDue(after) }

// look reads progress before facts: what a service states before its progress is seen with it.
func (s *elsewhere) look(ctx context.Context) error {
	m, err := s.engine.Bus().Last(ctx, bus.Tick)
	if err != nil {
		return err
	}
	tick, err := codec.DecodeTick(m)
	if err != nil {
		return err
	}
	s.at.tick, s.at.facts = m.Seq, tick.FactsSeq
	for service, block := range map[string]*uint64{rater.Service: &s.at.rater, alerter.Service: &s.at.alerter, invoicer.Service: &s.at.invoicer} {
		p, err := s.engine.Store().Progress(ctx, service)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		*block = p.Block
	}
	invoices, err := s.engine.Invoices(ctx)
	if err != nil {
		return err
	}
	s.at.invoices = len(invoices)
	return s.readOn(ctx)
}

// readOn folds the facts that are new.
func (s *elsewhere) readOn(ctx context.Context) error {
	for {
		messages, err := s.engine.Bus().Read(ctx, bus.Facts, s.at.read, bus.MaxBatch)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, m := range messages {
			f, err := codec.DecodeFact(m)
			if err != nil {
				return err
			}
			switch f.Body.(type) {
			case *fact.CutRequested:
				s.asked++
			case *fact.InvoiceIssued:
				s.issued++
			}
			s.fold.Apply(f)
			s.at.read = m.Seq
		}
	}
}

// rest tells whether nothing is to be done: every fact is before the last tick, which rater and alerter have taken; the
// invoicer asks for no cut and is done with the last one, and what it issued is in the tables.
func (s *elsewhere) rest() bool {
	now := s.at
	cuts := s.fold.Cuts()
	return now.read == now.facts && now.rater >= now.tick && now.alerter >= now.tick &&
		s.fold.DecideCut() == nil && s.asked == len(cuts) && (len(cuts) == 0 || now.invoicer >= cuts[len(cuts)-1].Block) &&
		now.invoices == s.issued
}

// stuck tells who did not come.
func (s *elsewhere) stuck(at span.Second) error {
	now := s.at
	return fmt.Errorf("no service moved for %v at %v: the log's last tick is %d, the rater is at %d, the alerter at %d, the invoicer at the cut at %d "+
		"(%d cuts of %d are answered, %d invoices of %d in the tables); see what `gpuhour rater --clock=false`, `gpuhour alerter` and `gpuhour invoicer` say",
		patience, at, now.tick, now.rater, now.alerter, now.invoicer, len(s.fold.Cuts()), s.asked, now.invoices, s.issued)
}

// wait returns when the log holds another fact, or after a moment.
func (s *elsewhere) wait(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	if err := s.engine.Bus().Wait(short, bus.Facts, s.at.read); err != nil && short.Err() == nil {
		return err
	}
	return ctx.Err()
}
