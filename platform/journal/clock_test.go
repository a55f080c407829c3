package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/journal"
)

const hour span.Second = span.SecondsPerHour

// TestWallClock reads a good tick and then one more, stamped by the server at its own time.
func TestWallClock(t *testing.T) {
	for name, c := range map[string]struct {
		mode    fact.ClockMode
		at, now span.Second // the tick, and the server's stamp
		want    string      // "" is taken
	}{
		"on time":                    {fact.Wall, noon + 1, noon + 1, ""},
		"late by a slow disk":        {fact.Wall, noon + 1, noon + 1800, ""},
		"late by more than an hour":  {fact.Wall, noon + 1, noon + 5*hour, ""},
		"five seconds ahead":         {fact.Wall, noon + 6, noon + 1, ""},
		"six seconds ahead":          {fact.Wall, noon + 7, noon + 1, "is 6 s ahead of the server's stamp"},
		"an hour later":              {fact.Wall, noon + hour, noon + hour, ""},
		"a jump of over an hour":     {fact.Wall, noon + hour + 1, noon + hour + 1, "jumps from 2026-03-01T12:00:00Z to 2026-03-01T13:00:01Z"},
		"ahead and a jump":           {fact.Wall, noon + 2*hour, noon, "ahead of the server's stamp"},
		"a scripted clock may leap":  {fact.Scripted, noon + 1000*hour, noon, ""},
		"a scripted clock may crawl": {fact.Scripted, noon + 1, noon + 1000*hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declare(c.mode)
			w.tick(noon)
			w.now = c.now
			w.tick(c.at)
			r := journal.Open(w.bus, journal.Position{})
			next(t, r)
			if c.want == "" {
				if got := next(t, r); got.At != c.at {
					t.Errorf("block at %v, want %v", got.At, c.at)
				}
				return
			}
			err := stops(t, r)
			if !errors.Is(err, journal.ErrClock) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "gpuhour resume") {
				t.Errorf("error %v; want %s and the remedy", err, c.want)
			}
		})
	}
}

// TestFirstTickIsNoJump: a log begins when it begins, but not in the future.
func TestFirstTickIsNoJump(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Wall)
	w.tick(noon)
	next(t, journal.Open(w.bus, journal.Position{}))

	w = newWorld(t)
	w.declare(fact.Wall)
	w.tick(noon + 60)
	if err := stops(t, journal.Open(w.bus, journal.Position{})); !errors.Is(err, journal.ErrClock) {
		t.Errorf("a first tick from the future: %v", err)
	}
}

// TestResumedClock: clock.resumed.v1 after the last good block lets the refused tick pass, for readers that stood there
// and for those that start anew, and only that one.
func TestResumedClock(t *testing.T) {
	for name, c := range map[string]struct{ at, now span.Second }{
		"after a jump":     {noon + 12*hour, noon + 12*hour},
		"ahead of a stamp": {noon + 30*60, noon + 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declare(fact.Wall)
			w.resume() // before the last good block: it was for something else
			w.tick(noon)
			w.now = c.now
			w.tick(c.at)
			w.sample("n1")
			r := journal.Open(w.bus, journal.Position{})
			good := next(t, r)
			if err := stops(t, r); !errors.Is(err, journal.ErrClock) {
				t.Fatalf("error %v", err)
			}
			w.resume()
			w.now = c.at + 1
			w.tick(c.at + 1)
			for _, from := range []journal.Position{{}, {Block: good.Seq, FactsSeq: good.F, At: good.At}} {
				r := journal.Open(w.bus, from)
				if from.Block == 0 {
					next(t, r)
				}
				if a, b := next(t, r), next(t, r); a.At != c.at || b.At != c.at+1 || b.F != 3 || len(b.Usage) != 1 {
					t.Errorf("blocks %+v and %+v after the clock was resumed", a, b)
				}
				none(t, r)
			}
			w.now = c.at + 3*hour
			w.tick(w.now)
			r = journal.Open(w.bus, journal.Position{})
			for range 3 {
				next(t, r)
			}
			if err := stops(t, r); !errors.Is(err, journal.ErrClock) {
				t.Errorf("the next jump: %v", err)
			}
		})
	}
}

func TestResumedAfter(t *testing.T) {
	w := newWorld(t)
	w.declare(fact.Wall)
	w.state("L1")
	for _, want := range []bool{false, true} {
		for after, resumed := range map[uint64]bool{0: want, 2: want, 3: false, 9: false} {
			got, err := journal.ResumedAfter(t.Context(), w.bus, after)
			if err != nil || got != resumed {
				t.Errorf("ResumedAfter(%d) = %v, %v; want %v", after, got, err, resumed)
			}
		}
		if !want {
			w.resume()
		}
	}
}

// TestLogWithoutDeclaration: whose clock it follows decides what a tick means, so nothing is read.
func TestLogWithoutDeclaration(t *testing.T) {
	w := newWorld(t)
	w.state("L1")
	w.tick(noon)
	if err := stops(t, journal.Open(w.bus, journal.Position{})); !strings.Contains(err.Error(), "the log's first fact is lease.stopped.v1, not clock.declared.v1") {
		t.Errorf("error %v", err)
	}
}
