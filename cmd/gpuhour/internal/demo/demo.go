package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/importer/openb"
	"github.com/gpuhour/gpuhour/services/importer/shapes"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// Options of a demo.
type Options struct {
	Dir     string // data directory: must hold nothing yet
	Minimum string // minimum per start in the contracts, such as 60s; empty for none
	Hours   int    // of samples, MinHours to MaxHours
	// NATS and ClickHouse are addresses, or both empty for engines inside this process.
	NATS, ClickHouse string
	Elsewhere        bool // rater, alerter and invoicer run as other processes, at those addresses
	Logger           *slog.Logger
	Out              io.Writer // the report
	Progress         *Progress // where it stands
	Look             render.Options
}

// Steps of the clock: coarse in quiet time, every ten minutes while samples come.
const (
	quietStep    span.Second = 86400
	windowStep   span.Second = 600
	ticksPerPump             = 36
)

// Hours of samples: fewer than MinHours hold no place for everything that is planted.
const (
	MinHours = 2
	MaxHours = int((shapes.DemoWindowTo - shapes.DemoWindowFrom) / span.SecondsPerHour)
)

// Run is the whole demo.
func Run(ctx context.Context, o Options) (err error) {
	began := time.Now()
	if err := emptyDir(o.Dir); err != nil {
		return err
	}
	cfg := gpuhour.DefaultConfig()
	cfg.Data, cfg.NATS.Listen = o.Dir, ""
	cfg.NATS.URL, cfg.ClickHouse.URL = o.NATS, o.ClickHouse
	if o.NATS == "" {
		o.Progress.Stage("starting NATS JetStream and ClickHouse inside this process")
	} else {
		o.Progress.Stage("reaching NATS JetStream and ClickHouse")
	}
	engine, err := gpuhour.Open(ctx, cfg, gpuhour.Options{Logger: o.Logger, Progress: o.Progress.Bytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	w := &world{Options: o, engine: engine, services: engine, opened: time.Since(began)}
	if o.Elsewhere {
		w.services = newElsewhere(engine, o.Progress)
	}
	for _, step := range []func(context.Context) error{w.emptyLog, w.load, w.play, w.report} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// world is one run.
type world struct {
	Options
	engine   *gpuhour.Engine
	services services
	trace    *openb.Trace
	imported *openb.Import
	facts    []fact.Fact // not published yet, in order of time
	end      span.Second
	window   span.Span
	sampler  *collector.Engine
	planted  shapes.Planted
	spool    *spool.Spool
	ticks    int

	opened, sampled, pumped, total time.Duration
	seen                           uint64
}

// load reads the trace, states the clock and the contracts, and prepares the samplers.
func (w *world) load(ctx context.Context) (err error) {
	w.Progress.Stage("reading the trace")
	if w.trace, err = openb.Embedded(); err != nil {
		return err
	}
	if w.imported, err = w.trace.Import(openb.DemoStart); err != nil {
		return err
	}
	w.facts = w.imported.Facts
	w.end = occupancy.At(w.facts[len(w.facts)-1].Body)
	plan := shapes.DemoPlan(w.trace, w.imported)
	plan.Window.To = plan.Window.From + span.Second(w.Hours)*span.SecondsPerHour
	w.window = plan.Window
	nodes, planted, err := plan.Build()
	if err != nil {
		return err
	}
	w.planted = planted
	files, err := spool.Dir(filepath.Join(w.Dir, "spool"))
	if err != nil {
		return err
	}
	if w.spool, err = spool.Open(files, spool.Options{}); err != nil {
		return err
	}
	w.sampler = collector.New(collector.Config{
		Boot: "demo", FirstRun: 1, Group: collector.ImportGroup, Clock: usage.ClockEvidence{State: usage.ClockScripted},
	}, nodes, w.spool, buslog.New(w.engine.Bus()))
	if err := w.engine.Declare(ctx, fact.Scripted); err != nil {
		return err
	}
	contracts, err := Contracts(w.Minimum)
	if err != nil {
		return err
	}
	if err := w.engine.State(ctx, contracts...); err != nil {
		return err
	}
	return w.services.Advance(ctx, openb.DemoStart)
}

// play moves the clock from the trace's start to the close of its last month. Facts are published as they happen; where a
// period falls due the clock stands still until it is closed.
func (w *world) play(ctx context.Context) error {
	began := time.Now()
	for at := openb.DemoStart; ; {
		due := w.services.NextDue(at)
		if at >= w.end && due > w.end+40*86400 || due == span.Open {
			break
		}
		next := min(w.step(at), due)
		if err := w.publish(ctx, next); err != nil {
			return err
		}
		if err := w.sample(ctx, at, next); err != nil {
			return err
		}
		if err := w.turn(ctx, next, next == due); err != nil {
			return err
		}
		at = next
		if at == due && at > w.end {
			break
		}
		w.Progress.At(at, openb.DemoStart, w.end)
	}
	w.total = time.Since(began)
	w.seen, _ = w.sampler.Samples()
	return w.spool.Close()
}

// step is the clock's next stop without regard to what falls due.
func (w *world) step(at span.Second) span.Second {
	switch {
	case at < w.window.From:
		return min(at+quietStep, w.window.From)
	case at < w.window.To:
		return min(at+windowStep, w.window.To)
	default:
		return at + quietStep
	}
}

// publish states the facts up to an instant.
func (w *world) publish(ctx context.Context, until span.Second) error {
	n := 0
	for n < len(w.facts) && occupancy.At(w.facts[n].Body) <= until {
		n++
	}
	if n == 0 {
		return nil
	}
	if err := w.engine.State(ctx, w.facts[:n]...); err != nil {
		return err
	}
	w.facts = w.facts[n:]
	return nil
}

// sample lets the collectors of the window's nodes work through its seconds: sample, spool, publish.
func (w *world) sample(ctx context.Context, from, to span.Second) error {
	in := span.Span{From: from, To: to}.Intersect(w.window)
	if in.Empty() {
		return nil
	}
	began := time.Now()
	for at := in.From; at < in.To; at++ {
		if err := w.sampler.Step(ctx, at); err != nil {
			return err
		}
	}
	finish := w.sampler.Flush
	if in.To == w.window.To {
		finish = w.sampler.Stop // also closes batches whose last seconds nobody sampled
	}
	err := finish(ctx)
	w.sampled += time.Since(began)
	return err
}

// turn ticks; the services work every few ticks, and until they rest where something is due.
func (w *world) turn(ctx context.Context, at span.Second, settle bool) error {
	if !settle {
		if err := w.engine.Tick(ctx, at); err != nil {
			return err
		}
		if w.ticks++; w.ticks%ticksPerPump != 0 {
			return nil
		}
	}
	began := time.Now()
	defer func() { w.pumped += time.Since(began) }()
	if settle {
		return w.services.Advance(ctx, at)
	}
	return w.services.Pump(ctx)
}

// emptyLog is emptyDir for a log by address.
func (w *world) emptyLog(ctx context.Context) error {
	last, err := w.engine.Bus().LastSeq(ctx, bus.Facts)
	if err == nil && last > 0 {
		err = errors.New("the log at --nats-url holds facts; the demo begins with a new log: name another server")
	}
	return err
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the data directory %s is not empty; the demo begins with a new log: name another directory", dir)
	}
	return nil
}
