package rater

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Service is the rater's name in the progress table.
const Service = "rater"

// Budgets of one Step, in items: never time, so that a replay can choose any other and put the same rows.
const (
	DefaultBlocks = 256
	DefaultRows   = 50_000
)

// Rater is one pump. It is not safe for concurrent use.
type Rater struct {
	bus    bus.Bus
	store  store.Store
	writer *journal.Writer
	// Blocks and Rows bound what one Step puts at once.
	Blocks, Rows int

	state    *meter.State // nil before boot and after an error
	reader   *journal.Reader
	progress store.Progress
	pending  []meter.Outcome
	rows     int
	counts   Counts
}

// Counts are what a rater did since it was made.
type Counts struct {
	Blocks, Batches, Rows, Differences, Refusals int64
}

// New is a rater that boots at its first Step.
func New(b bus.Bus, s store.Store) *Rater {
	return &Rater{bus: b, store: s, writer: journal.NewWriter(b), Blocks: DefaultBlocks, Rows: DefaultRows}
}

// Counts are for progress lines and metrics.
func (r *Rater) Counts() Counts { return r.counts }

// Progress is the last progress put.
func (r *Rater) Progress() store.Progress { return r.progress }

// Step takes up to a budget of blocks and puts their rows once. It tells whether it did anything. After an error the
// next Step boots anew.
func (r *Rater) Step(ctx context.Context) (worked bool, err error) {
	defer func() {
		if err != nil {
			r.state, r.pending, r.rows = nil, nil, 0
		}
	}()
	if r.state == nil {
		if err := r.boot(ctx); err != nil {
			return false, fmt.Errorf("start rater: %w", err)
		}
	}
	for taken := 0; taken < r.Blocks && r.rows < r.Rows; taken++ {
		block, digest, ok, err := r.reader.Next(ctx) // fetch, decode
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		worked = true
		if err := r.apply(ctx, block, digest); err != nil {
			return false, fmt.Errorf("rate block %d: %w", block.Seq, err)
		}
	}
	return worked, r.put(ctx)
}

// apply is one block: plan, read, apply. A block that must read first puts what came before, so that what it reads is
// whole; a cut is put at once, so that CutDone speaks of rows that are there.
func (r *Rater) apply(ctx context.Context, block meter.Block, digest fact.Hash) error {
	needs := r.state.Begin(block) // plan
	if len(needs.Minutes) > 0 || len(needs.Standing) > 0 {
		if err := r.put(ctx); err != nil {
			return err
		}
	}
	reads, err := Read(ctx, r.store, needs, r.progress.Block)
	if err != nil {
		return err
	}
	out := r.state.Finish(reads) // apply
	r.pending = append(r.pending, out)
	r.rows += len(out.Rows) + len(out.Ledger) + len(out.Devices) + len(out.Refusals)
	r.progress = store.Progress{
		Service: Service, Block: block.Seq, FactsSeq: block.FactsSeq, At: block.At,
		UsageFloor: r.state.UsageFloor(block.Seq), Tick: digest, Ledger: out.Digest(r.progress.Ledger),
	}
	r.counts.Blocks++
	r.counts.Batches += int64(len(block.Usage))
	r.counts.Rows += int64(len(out.Rows))
	r.counts.Differences += int64(len(out.Ledger))
	r.counts.Refusals += int64(len(out.Refusals))
	if len(out.Cuts) == 0 {
		return nil
	}
	if err := r.put(ctx); err != nil {
		return err
	}
	return r.publish(ctx, out.Cuts)
}

// Read answers a block's needs as of the last block put.
func Read(ctx context.Context, s store.Store, needs meter.Needs, block uint64) (meter.Reads, error) {
	var reads meter.Reads
	var err error
	if len(needs.Minutes) > 0 {
		if reads.Rows, err = s.Minutes(ctx, needs.Minutes, block); err != nil {
			return reads, err
		}
	}
	if len(needs.Standing) > 0 {
		reads.Ledger, reads.Devices, err = s.Standing(ctx, needs.Standing, block)
	}
	return reads, err
}

// put writes the pending rows, then progress.
func (r *Rater) put(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	if err := r.store.Put(ctx, store.Put{Outcomes: r.pending, Progress: r.progress}); err != nil {
		return err
	}
	r.pending, r.rows = r.pending[:0], 0
	return nil
}

// publish says that cuts are done. The place is claimed, so that a second rater or a restart changes nothing.
func (r *Rater) publish(ctx context.Context, cuts []fact.CutDone) error {
	for _, c := range cuts {
		c.Digest = r.progress.Ledger
		f := fact.Fact{Key: "cut.done/" + c.Cut, Body: &c}
		_, err := r.writer.Claim(ctx, 0, f)
		if errors.Is(err, bus.ErrConflict) {
			return fmt.Errorf("%w: the log's answer to this cut stands on other rows; rate this log with the release that wrote it "+
				"(`gpuhour audit` names what differs)", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boot rebuilds the state from progress: rows above it are deleted, the log up to it is folded without effect, and a cut
// that was put but not published is published now.
func (r *Rater) boot(ctx context.Context) error {
	p, err := r.store.Progress(ctx, Service)
	if errors.Is(err, store.ErrNotFound) {
		p, err = store.Progress{Service: Service}, nil
	}
	if err != nil {
		return err
	}
	if err := r.store.Trim(ctx, p.Block); err != nil {
		return err
	}
	state, facts, err := Restore(ctx, r.bus, r.store, p)
	if err != nil {
		return err
	}
	r.state, r.progress, r.pending, r.rows = state, p, nil, 0
	r.reader = journal.Open(r.bus, journal.Position{Block: p.Block, FactsSeq: p.FactsSeq, At: p.At, Tick: p.Tick})
	return r.publishMissing(ctx, facts)
}

// Restore rebuilds a rater's state at a progress row. It returns the facts it stands on, and behind them the answers to their
// cuts that the log holds further on.
func Restore(ctx context.Context, b bus.Bus, s store.Store, p store.Progress) (*meter.State, []fact.Fact, error) {
	state := meter.NewState()
	if p.Block == 0 {
		return state, nil, nil
	}
	if err := journal.CheckTick(ctx, b, p.Block, p.Tick); err != nil {
		return nil, nil, err
	}
	facts, messages, err := journal.History(ctx, b, p.FactsSeq, p.UsageFloor, p.Block)
	if err != nil {
		return nil, nil, err
	}
	for _, request := range openCuts(facts) {
		m, err := b.Last(ctx, codec.FactSubject(&fact.CutDone{Cut: request.Body.Entity()}))
		if errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		done, err := codec.DecodeFact(m)
		if err != nil {
			return nil, nil, err
		}
		facts = append(facts, done)
	}
	sampled, err := s.LastMinutes(ctx, p.Block)
	if err != nil {
		return nil, nil, err
	}
	state.Restore(p.At, facts, messages, sampled)
	return state, facts, nil
}

// openCuts lists the requests for cuts without an answer, in order.
func openCuts(facts []fact.Fact) []fact.Fact {
	var open []fact.Fact
	for _, f := range facts {
		switch b := f.Body.(type) {
		case *fact.CutRequested:
			open = append(open, f)
		case *fact.CutDone:
			open = slices.DeleteFunc(open, func(request fact.Fact) bool { return request.Body.Entity() == b.Cut })
		}
	}
	return open
}

// publishMissing answers the cut that stands at the last block put and was never said to be done. A cut ends its put and is
// said to be done before another block is taken, so no other can be without an answer.
func (r *Rater) publishMissing(ctx context.Context, facts []fact.Fact) error {
	if err := CheckAnswers(ctx, r.bus, r.progress, facts); err != nil {
		return err
	}
	var cuts []fact.CutDone
	for _, request := range openCuts(facts) {
		cuts = append(cuts, r.state.AnswerCut(request.Body.Entity(), r.progress.Block, r.progress.FactsSeq))
	}
	return r.publish(ctx, cuts)
}

// CheckAnswers stops a rater with journal.ErrRewound whose tables stand beyond a cut that the log has no answer to: there was one,
// and the log lost it. What the rater would say now speaks of another block, and no replay would come to it.
func CheckAnswers(ctx context.Context, b bus.Bus, p store.Progress, facts []fact.Fact) error {
	open := openCuts(facts)
	if len(open) == 0 || p.Block == 0 {
		return nil
	}
	before, err := journal.FactsBefore(ctx, b, p.Block)
	if err == nil && open[0].Seq <= before {
		err = fmt.Errorf("the log does not hold the answer to cut %s, which the tables stand beyond: %w", open[0].Body.Entity(), journal.ErrRewound)
	}
	return err
}
