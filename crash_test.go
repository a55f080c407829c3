package gpuhour_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// collected samples the nodes through collectors with a spool each. After a restart it begins at the last tick again, with
// a new run; what an earlier run spooled of the same seconds is published too, and counts once.
func (w *world) collected(b bus.Bus, dir string) (measure, func() error, error) {
	var engines []*collector.Engine
	var spools []*spool.Spool
	done := func() (err error) {
		for _, s := range spools {
			err = errors.Join(err, s.Close())
		}
		return err
	}
	for _, n := range w.nodes {
		files, err := spool.Dir(filepath.Join(dir, n.name))
		if err != nil {
			return nil, done, err
		}
		sp, err := spool.Open(files, spool.Options{})
		if err != nil {
			return nil, done, err
		}
		spools = append(spools, sp)
		engines = append(engines, collector.New(collector.Config{
			Boot: "test", FirstRun: 1, Group: 20, Clock: usage.ClockEvidence{State: usage.ClockScripted},
		}, []collector.Node{{Name: n.name, Source: n.source}}, sp, buslog.New(b)))
	}
	return func(ctx context.Context, from, to span.Second) error {
		for i, n := range w.nodes {
			in := span.Span{From: from - n.delay, To: to - n.delay}.Intersect(n.source.Window)
			for at := in.From; at < in.To; at++ {
				if err := engines[i].Step(ctx, at); err != nil {
					return err
				}
			}
			if err := engines[i].Flush(ctx); err != nil {
				return err
			}
		}
		return nil
	}, done, nil
}

// playChild plays a world on a directory and prints a line around every call of log and tables, so that a parent
// can kill it anywhere, or lets it end itself at a point.
func playChild(ctx context.Context, arg string) (err error) {
	dir, text, _ := strings.Cut(arg, " ")
	end, err := readDeath(text)
	if err != nil {
		return err
	}
	fmt.Println("starting")
	cfg := gpuhour.DefaultConfig()
	cfg.Data, cfg.NATS.Listen = dir, ""
	e, err := gpuhour.Open(ctx, cfg, quiet())
	if err != nil {
		return err
	}
	fmt.Println("open")
	c := &calls{at: func(n int, name string, after bool) error {
		fmt.Println(n, name, after)
		return end.at(point{callOf(name), after})
	}}
	e.Rewire(watchedBus{e.Bus(), c}, watchedStore{e.Store(), c})
	w, err := worldOf(filepath.Base(dir))
	if err != nil {
		return errors.Join(err, e.Close())
	}
	samples, done, err := w.collected(e.Bus(), filepath.Join(dir, "spools"))
	if err == nil {
		err = w.play(ctx, e, samples, func(at span.Second) { fmt.Println("reached", at) })
	}
	return errors.Join(err, done(), e.Close())
}

// worldOf is the world that a data directory is named after.
func worldOf(name string) (*world, error) {
	switch name {
	case "openb":
		return traced("", "", "")
	case "small":
		return small(), nil
	default:
		return rich(), nil
	}
}

// TestKilledRoad kills the process that holds the real engines at random moments, starts it again on what is left, and in
// the end compares with a run that nothing disturbed.
func TestKilledRoad(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse many times; left out of -short")
	}
	seed := testSeed(t)
	for _, k := range []killer{{"rich", 10, 300}, {"openb", 4, 1500}} {
		t.Run(k.world, func(t *testing.T) { k.run(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// testSeed is another one in every run, and the one that is asked for when a run is repeated.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("GPUHOUR_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("GPUHOUR_TEST_SEED=%d", seed)
	return seed
}

// killer kills one world's process several times, each within so many lines of what it prints.
type killer struct {
	world  string
	kills  int
	within int
}

func (k killer) run(t *testing.T, dice *rand.Rand) {
	dir := filepath.Join(t.TempDir(), k.world)
	cfg := embeddedConfig(t, dir)
	w, err := worldOf(k.world)
	if err != nil {
		t.Fatal(err)
	}
	want := w.replayed(t)
	var opened, settled time.Duration
	for life := 0; ; life++ {
		at := dice.IntN(k.within)
		if life >= k.kills {
			at = -1
		}
		l := live(t, dir, "", at)
		opened, settled = max(opened, l.opened), max(settled, l.settled)
		switch {
		case l.err == nil:
			t.Logf("%d kills; the longest start of the engines was %v, until everything stood again %v", min(life, k.kills),
				opened.Round(time.Millisecond), settled.Round(time.Millisecond))
			e := open(t, cfg, quiet())
			compareKilled(t, e, w, want)
			closed(t, e)
			return
		case at < 0 || l.lines <= at:
			t.Fatalf("life %d failed by itself after %q: %v\n%s", life, l.last, l.err, l.said)
		default:
			t.Logf("life %d was killed after %d lines, at %q", life, l.lines, l.last)
		}
	}
}

// life is what came of one process: how it ended, which calls it reached, and how long it took to open the engines and to
// settle what it found.
type life struct {
	err             error
	lines           int
	last, said      string
	opened, settled time.Duration
	points          []point
}

// live runs a process on a directory, which ends itself as death says, and kills it at a line; it lives to its end when
// there is no death and the line is below zero.
func live(t *testing.T, dir, death string, kill int) (l life) {
	p := start(t, "play", dir+" "+death)
	began := time.Now()
	for p.lines.Scan() {
		l.last = p.lines.Text()
		switch {
		case l.last == "open":
			l.opened = time.Since(began)
		case l.settled == 0 && strings.HasPrefix(l.last, "reached"):
			l.settled = time.Since(began)
		}
		if at, ok := readPoint(l.last); ok {
			l.points = append(l.points, at)
		}
		if l.lines == kill {
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		l.lines++
	}
	l.err, l.said = p.Wait(), p.said.String()
	return l
}

func compareKilled(t *testing.T, e *gpuhour.Engine, w *world, want bills) {
	t.Helper()
	got := harvest(t, e, want)
	got.Blocked = want.Blocked
	equal(t, "killed and started again", want, got)
	seen, err := e.Store().SeenSeconds(t.Context(), span.Span{From: 0, To: span.Open}, all)
	if err != nil || seen != w.seen() {
		t.Fatalf("%d seconds of devices are stored (%v), %d were sampled", seen, err, w.seen())
	}
}
