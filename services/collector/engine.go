package collector

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// Config names a run of the collector.
type Config struct {
	Boot string
	// FirstRun is the least number for this run. A live collector gives the Unix second of its start, so that a lost
	// spool never brings an old number back; a script gives 1.
	FirstRun uint64
	Clock    usage.ClockEvidence
	// Group is how many closed batches are put in the spool together and then published: 1 for a live collector, ImportGroup
	// for an import, which so syncs the disk once a group.
	Group int
	// MaxHeld bounds the batches held in memory while the disk refuses them. Beyond it nothing is sampled: those
	// seconds are not spoken for. At least Group plus two for every node; 4096 when 0.
	MaxHeld int
	// Signer signs what is published; nil: it goes unsigned.
	Signer Signer
}

// ImportGroup is some eight mebibytes of batches of small nodes: what a slow disk syncs in the time it takes to make them.
const ImportGroup = 8 * MaxPublish

// Node is one writer: its name and its devices.
type Node struct {
	Name   string
	Source Source
}

// Engine is a collector as one step, with no goroutine and no clock of its own.
type Engine struct {
	cfg       Config
	run       *Run
	spool     *spool.Spool
	publisher *Publisher
	held      []usage.Batch // closed, not yet in the spool
}

// ErrHeld means that no second is sampled because the disk has refused too many batches.
var ErrHeld = errors.New("the spool has not accepted batches for too long; sampling is paused until it does")

// New starts a run of every node: its number and its predecessor come from the spool.
func New(cfg Config, nodes []Node, sp *spool.Spool, log Log) *Engine {
	cfg.Group = max(cfg.Group, 1)
	if cfg.MaxHeld == 0 {
		cfg.MaxHeld = 4096
	}
	cfg.MaxHeld = max(cfg.MaxHeld, cfg.Group+2*len(nodes))
	e := &Engine{cfg: cfg, run: NewRun(cfg, nodes, sp), spool: sp, publisher: NewPublisher(log, sp)}
	e.publisher.Signer = cfg.Signer
	return e
}

// Samples counts the device-seconds that were seen and the node-seconds in which a source answered nothing.
func (e *Engine) Samples() (seen, failed uint64) { return e.run.Samples() }

// Counters are the publisher's.
func (e *Engine) Counters() Counters { return e.publisher.Counters() }

// Step samples every node in one second and, when a group is complete, moves it on. The order of effects is sample,
// spool, publish, mark. An error loses nothing: what the spool did not accept is held and offered again, what the log
// did not accept waits in the spool. The caller reports the error and goes on with the next second.
func (e *Engine) Step(ctx context.Context, at span.Second) error {
	if len(e.held) > e.cfg.MaxHeld {
		if err := e.Flush(ctx); len(e.held) > 0 {
			e.run.Gap(at, at+1, usage.GapPaused)
			return fmt.Errorf("sample second %s: %w: %w", at, ErrHeld, err)
		}
	}
	e.held = e.run.Sample(at, e.held)
	if len(e.held) >= e.cfg.Group {
		return e.Flush(ctx)
	}
	return nil
}

// Flush moves everything closed into the spool and everything in the spool into the log.
func (e *Engine) Flush(ctx context.Context) error {
	if err := e.store(); err != nil {
		return err
	}
	return e.publisher.Drain(ctx, e.run.Now())
}

// store moves everything closed into the spool.
func (e *Engine) store() error {
	if len(e.held) == 0 {
		return nil
	}
	if err := e.spool.Append(e.held...); err != nil {
		return err
	}
	e.held = e.held[:0]
	return nil
}

// Stop closes open batches at once, records in the spool that this run ends as it should, and flushes. It may be called
// again after an error.
func (e *Engine) Stop(ctx context.Context) error {
	e.held = e.run.Stop(e.held)
	if err := e.store(); err != nil {
		return err
	}
	if err := e.spool.Stop(); err != nil {
		return err
	}
	return e.publisher.Drain(ctx, e.run.Now())
}
