package live_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClocks is the table of what clocks do in the life of a collector, with the gaps of the whole node that follow, in seconds from the
// start, how many seconds of a device count, how often the clock was set and the machine slept, and how many seconds were sampled
// twice. Each life begins at 0.3 s of a second, and the event comes at 20.3 s.
func TestClocks(t *testing.T) {
	event := func(do func(*world)) []event { return []event{{20 * time.Second, do}, {after: 20 * time.Second}} }
	for name, c := range map[string]struct {
		do    func(*world)
		gaps  string
		count int
		steps uint64
		slept uint64
		twice int
	}{
		"nothing":                              {nil, "", 40, 0, 0, 0},
		"a second forward":                     {func(w *world) { w.clock.Step(time.Second) }, "20-21 clock_stepped, ", 40, 1, 0, 0},
		"a fifth of a second forward":          {func(w *world) { w.clock.Step(200 * time.Millisecond) }, "", 40, 0, 0, 0},
		"three seconds forward":                {func(w *world) { w.clock.Step(3 * time.Second) }, "20-23 clock_stepped, ", 40, 1, 0, 0},
		"an hour forward":                      {func(w *world) { w.clock.Step(time.Hour) }, "20-3620 clock_stepped, ", 40, 1, 0, 0},
		"half a second forward":                {func(w *world) { w.clock.Step(500 * time.Millisecond) }, "", 40, 1, 0, 0},
		"a second back makes one longer":       {func(w *world) { w.clock.Step(-time.Second) }, "", 39, 1, 0, 0},
		"nearly two seconds back: 1.15 s less": {func(w *world) { w.clock.Step(-1850 * time.Millisecond) }, "", 38, 1, 0, 0},
		"five seconds back: they come again":   {func(w *world) { w.clock.Step(-5 * time.Second) }, "", 35, 1, 0, 5},
		"an hour back, before the start":       {func(w *world) { w.clock.Step(-time.Hour) }, "", 40, 1, 0, 0},
		"ten seconds of sleep":                 {func(w *world) { w.clock.Suspend(10 * time.Second) }, "20-30 suspended, ", 40, 0, 1, 0},
		"eight hours of sleep":                 {func(w *world) { w.clock.Suspend(8 * time.Hour) }, "20-28820 suspended, ", 40, 0, 1, 0},
		"a stall of five seconds":              {func(w *world) { w.clock.Stall(5 * time.Second) }, "20-25 stalled, ", 35, 0, 0, 0},
		"sleep, then a step forward": {
			func(w *world) { w.clock.Suspend(10 * time.Second); w.clock.Step(3 * time.Second) },
			"20-30 suspended, 30-33 clock_stepped, ", 40, 1, 1, 0,
		},
		"sleep, then a step back inside it": {
			func(w *world) { w.clock.Suspend(10 * time.Second); w.clock.Step(-3 * time.Second) },
			"20-27 suspended, ", 40, 1, 1, 0,
		},
		"a stall, and a step forward in it": {
			func(w *world) { w.clock.Stall(5 * time.Second); w.clock.Step(2 * time.Second) },
			"20-22 clock_stepped, 22-27 stalled, ", 35, 1, 0, 0,
		},
		"all three": {func(w *world) {
			w.clock.Suspend(10 * time.Second)
			w.clock.Stall(5 * time.Second)
			w.clock.Step(2 * time.Second)
		}, "20-30 suspended, 30-32 clock_stepped, 32-37 stalled, ", 35, 1, 1, 0},
		"a part of a second of sleep counts whole": {
			func(w *world) { w.clock.Suspend(9300 * time.Millisecond); w.clock.Stall(5 * time.Second) },
			"20-30 suspended, 30-34 stalled, ", 35, 0, 1, 0,
		},
		"steered by 500 ppm": {func(w *world) { w.clock.Smear(500) }, "", 40, 0, 0, 0},
		"a wrong step forward is taken back": {func(w *world) {
			w.clock.Step(time.Hour)
			go func() { <-time.After(5 * time.Second); w.clock.Step(-time.Hour) }()
		}, "20-3620 clock_stepped, ", 40, 2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("a")
				check(t, w.live(t, event(c.do)...))
				lost, err := w.settled()
				check(t, err)
				equal(t, 0, total(lost))
				seen, err := counted(w.log.Held())
				check(t, err)
				equal(t, c.gaps, nodeGaps(w.log.Held()))
				equal(t, c.count, len(seen))
				equal(t, [2]uint64{c.steps, c.slept}, [2]uint64{w.stats.ClockSteps, w.stats.Suspensions})
				equal(t, c.twice, w.sampledAgain())
			})
		})
	}
}
