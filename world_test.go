package gpuhour_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
)

// world is everything that happens in a scripted time, with the instant at which each part becomes known.
type world struct {
	statements []replay.Statement // in order of Known
	nodes      []sampled
	stops      []span.Second // rising; on the grid of ten seconds, so that no batch straddles one
	until      span.Second

	batches []replay.Measurement // of nodes, once recorded, in order of Known
}

// sampled is a node's recording; its collector reaches the log only delay seconds later.
type sampled struct {
	name   string
	source *recorded.Source
	delay  span.Second
}

// know states a fact from an instant on.
func (w *world) know(at span.Second, key string, body fact.Body) {
	w.statements = append(w.statements, replay.Statement{Known: at, Fact: fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body}})
}

// finish puts everything in order and records the nodes.
func (w *world) finish() *world {
	slices.SortStableFunc(w.statements, func(a, b replay.Statement) int { return cmp.Compare(a.Known, b.Known) })
	for _, s := range w.statements {
		switch s.Fact.Body.(type) {
		case *fact.ContractSigned, *fact.ContractAmended:
			w.stops = append(w.stops, s.Known) // a period may fall due from now on
		}
	}
	w.finishStops()
	for i := range w.nodes {
		w.batches = append(w.batches, w.nodes[i].record()...)
	}
	slices.SortStableFunc(w.batches, func(a, b replay.Measurement) int { return cmp.Compare(a.Known, b.Known) })
	return w
}

func (w *world) finishStops() {
	slices.Sort(w.stops)
	w.stops = slices.Compact(w.stops)
}

func (n *sampled) record() (out []replay.Measurement) {
	r := collector.NewRecorder(collector.Identity{Node: n.name, Boot: "test", Run: 1, Clock: usage.ClockEvidence{State: usage.ClockScripted}})
	for at := n.source.Window.From; at < n.source.Window.To; at++ {
		readings, err := n.source.Sample(at, nil)
		if errors.Is(err, collector.ErrSlept) {
			continue
		}
		for _, b := range r.Record(at, readings, whyFailed(err), nil) {
			end := b.Minute.Start() + span.Second(b.Spoken.Last()) + 1
			out = append(out, replay.Measurement{Known: end + n.delay, Batch: b})
		}
	}
	for _, b := range r.Stop(nil) {
		out = append(out, replay.Measurement{Known: n.source.Window.To + n.delay, Batch: b})
	}
	return out
}

// log is the world as core/replay takes it.
func (w *world) log() replay.Log {
	declared := replay.Statement{Fact: fact.Fact{Key: "clock.declared", Body: &fact.ClockDeclared{Mode: fact.Scripted}}}
	return replay.Log{
		Statements: append([]replay.Statement{declared}, w.statements...), Measurements: slices.Clone(w.batches), Stops: w.stops, Until: w.until,
	}
}

// next is where the clock stops after an instant.
func (w *world) next(at, due span.Second) span.Second {
	next := min(w.until, due)
	if i, _ := slices.BinarySearch(w.stops, at+1); i < len(w.stops) {
		next = min(next, w.stops[i])
	}
	return next
}

// facts lists what becomes known in (from, to].
func (w *world) facts(from, to span.Second) (out []fact.Fact) {
	for _, s := range w.statements {
		if from < s.Known && s.Known <= to {
			out = append(out, s.Fact)
		}
	}
	return out
}

// measure brings the samples that become known in (from, to] into the log.
type measure func(ctx context.Context, from, to span.Second) error

// direct publishes the recorded batches as they are. What was published before is published again after a restart: a batch
// is named by its run and sequence and counts once.
func (w *world) direct(b bus.Bus) measure {
	return func(ctx context.Context, from, to span.Second) error {
		var ps []bus.Publication
		for i := range w.batches {
			if m := &w.batches[i]; from < m.Known && m.Known <= to {
				p, err := codec.EncodeBatch(&m.Batch)
				if err != nil {
					return err
				}
				ps = append(ps, p)
			}
		}
		for chunk := range slices.Chunk(ps, bus.MaxBatch) {
			if _, err := b.PublishBatch(ctx, chunk); err != nil {
				return err
			}
		}
		return nil
	}
}

// play moves the world from wherever its log stands to its end, as the demo does: the clock stops at every instant that
// the world names or at which a period falls due, and settles there. It may be called again after any error.
func (w *world) play(ctx context.Context, e *gpuhour.Engine, samples measure, reached func(span.Second)) error {
	last, err := journal.NewWriter(e.Bus()).LastTick(ctx)
	if err != nil {
		return err
	}
	at := last.At
	begun, err := w.begun(ctx, e.Bus(), last)
	switch {
	case err != nil:
	case at == 0:
		err = e.Declare(ctx, fact.Scripted)
	case begun: // at is settled; another tick of that time would take in what becomes known later
		err = e.Pump(ctx)
	default:
		err = e.Advance(ctx, at)
	}
	for err == nil && at < w.until {
		reached(at)
		next := w.next(at, e.NextDue(at))
		if err = e.State(ctx, w.facts(at, next)...); err != nil {
			return fmt.Errorf("state facts up to %v: %w", next, err)
		}
		if err = samples(ctx, at, next); err != nil {
			return fmt.Errorf("publish samples up to %v: %w", next, err)
		}
		err = e.Advance(ctx, next)
		at = next
	}
	return err
}

// begun tells whether facts of the step after the last tick are in the log already.
func (w *world) begun(ctx context.Context, b bus.Bus, last codec.Tick) (bool, error) {
	messages, err := b.Read(ctx, bus.Facts, last.FactsSeq, 1000)
	for _, m := range messages {
		f, err := codec.DecodeFact(m)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(w.statements, func(s replay.Statement) bool { return s.Fact.Key == f.Key && s.Known > last.At }) {
			return true, nil
		}
	}
	return false, err
}

// instant reads an instant written in a test.
func instant(text string) span.Second {
	at, err := span.Parse(text)
	if err != nil {
		panic(err)
	}
	return at
}

// whyFailed is the gap of a second in which a source failed.
func whyFailed(err error) usage.GapReason {
	if err != nil {
		return usage.GapError
	}
	return 0
}
