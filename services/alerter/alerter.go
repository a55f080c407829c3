package alerter

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/alert"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Service is the alerter's name in the progress table.
const Service = "alerter"

// DefaultBlocks bounds one Step, in items.
const DefaultBlocks = 256

// Alerter is one pump. It is not safe for concurrent use.
type Alerter struct {
	bus    bus.Bus
	store  store.Store
	writer *journal.Writer
	rule   alert.Rule
	Blocks int

	fold     *alert.Fold // nil before boot and after an error
	reader   *journal.Reader
	progress store.Progress
	marks    []mark // ticks inside the window, oldest first: where a restore has to begin
}

type mark struct {
	at  span.Second
	seq uint64
}

// New is an alerter that boots at its first Step.
func New(b bus.Bus, s store.Store, rule alert.Rule) *Alerter {
	return &Alerter{bus: b, store: s, writer: journal.NewWriter(b), rule: rule, Blocks: DefaultBlocks}
}

// Step takes up to a budget of blocks, states their transitions, then writes progress. A transition stated twice after a
// crash has the same key and content and counts once. After an error the next Step boots anew.
func (a *Alerter) Step(ctx context.Context) (worked bool, err error) {
	defer func() {
		if err != nil {
			a.fold = nil
		}
	}()
	if a.fold == nil {
		if err := a.boot(ctx); err != nil {
			return false, fmt.Errorf("start alerter: %w", err)
		}
	}
	var stated []fact.Fact
	for taken := 0; taken < a.Blocks; taken++ {
		block, digest, ok, err := a.reader.Next(ctx)
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		worked = true
		for _, body := range a.fold.Apply(block) {
			stated = append(stated, fact.Fact{Key: key(body), Body: body})
		}
		a.progress = store.Progress{
			Service: Service, Block: block.Seq, FactsSeq: block.FactsSeq, At: block.At, Tick: digest, UsageFloor: a.floor(block.At, block.Seq),
		}
	}
	if !worked {
		return false, nil
	}
	if err := a.writer.State(ctx, stated); err != nil {
		return false, err
	}
	return true, a.store.Put(ctx, store.Put{Progress: a.progress})
}

func key(body fact.Body) string {
	switch b := body.(type) {
	case *fact.AlertRaised:
		return fmt.Sprintf("alert.raised/%s/%s", b.Entity(), b.At)
	case *fact.AlertResolved:
		return fmt.Sprintf("alert.resolved/%s/%s", b.Entity(), b.At)
	default:
		return "alert/" + body.Entity()
	}
}

// floor is the last tick before the window: a restore reads usage after it.
func (a *Alerter) floor(at span.Second, seq uint64) uint64 {
	a.marks = append(a.marks, mark{at, seq})
	start := a.fold.WindowStart(at)
	for len(a.marks) > 1 && a.marks[1].at <= start {
		a.marks = a.marks[1:]
	}
	if a.marks[0].at > start && a.progress.Block > 0 {
		return min(a.progress.UsageFloor, a.marks[0].seq)
	}
	if a.marks[0].at > start {
		return 0 // the log itself is younger than the window
	}
	return a.marks[0].seq
}

func (a *Alerter) boot(ctx context.Context) error {
	p, err := a.store.Progress(ctx, Service)
	if errors.Is(err, store.ErrNotFound) {
		p, err = store.Progress{Service: Service}, nil
	}
	if err != nil {
		return err
	}
	a.fold, a.progress, a.marks = alert.NewFold(a.rule), p, nil
	if p.Block > 0 {
		if err := journal.CheckTick(ctx, a.bus, p.Block, p.Tick); err != nil {
			return err
		}
		last, err := a.bus.LastSeq(ctx, bus.Facts)
		if err != nil {
			return err
		}
		facts, messages, err := journal.History(ctx, a.bus, last, p.UsageFloor, p.Block)
		if err != nil {
			return err
		}
		a.fold.Restore(p.At, p.FactsSeq, facts, messages)
		a.marks = []mark{{a.fold.WindowStart(p.At), p.UsageFloor}}
	}
	a.reader = journal.Open(a.bus, journal.Position{Block: p.Block, FactsSeq: p.FactsSeq, At: p.At, Tick: p.Tick})
	return nil
}
