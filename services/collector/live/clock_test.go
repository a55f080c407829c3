package live_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClocks is the table of what clocks do in the life of a collector, with the gaps of the whole node that follow, in seconds from the
// start, and how many seconds of a device count. Each life begins at 0.3 s of a second, and the event comes at 20.3 s.
func TestClocks(t *testing.T) {
	event := func(do func(*world)) []event { return []event{{20 * time.Second, do}, {after: 20 * time.Second}} }
	for name, c := range map[string]struct {
		do    func(*world)
		gaps  string
		count int
	}{
		"nothing":                            {nil, "", 40},
		"a second forward":                   {func(w *world) { w.clock.Step(time.Second) }, "20-21 clock_stepped, ", 40},
		"three seconds forward":              {func(w *world) { w.clock.Step(3 * time.Second) }, "20-23 clock_stepped, ", 40},
		"an hour forward":                    {func(w *world) { w.clock.Step(time.Hour) }, "20-3620 clock_stepped, ", 40},
		"half a second forward":              {func(w *world) { w.clock.Step(500 * time.Millisecond) }, "", 40},
		"a second back makes one longer":     {func(w *world) { w.clock.Step(-time.Second) }, "", 39},
		"five seconds back: they come again": {func(w *world) { w.clock.Step(-5 * time.Second) }, "", 35},
		"an hour back, before the start":     {func(w *world) { w.clock.Step(-time.Hour) }, "", 40},
		"ten seconds of sleep":               {func(w *world) { w.clock.Suspend(10 * time.Second) }, "20-30 suspended, ", 40},
		"eight hours of sleep":               {func(w *world) { w.clock.Suspend(8 * time.Hour) }, "20-28820 suspended, ", 40},
		"a stall of five seconds":            {func(w *world) { w.clock.Stall(5 * time.Second) }, "20-25 stalled, ", 35},
		"sleep, then a step forward": {
			func(w *world) { w.clock.Suspend(10 * time.Second); w.clock.Step(3 * time.Second) },
			"20-30 suspended, 30-33 clock_stepped, ", 40,
		},
		"sleep, then a step back inside it": {
			func(w *world) { w.clock.Suspend(10 * time.Second); w.clock.Step(-3 * time.Second) },
			"20-27 suspended, ", 40,
		},
		"a stall, and a step forward in it": {
			func(w *world) { w.clock.Stall(5 * time.Second); w.clock.Step(2 * time.Second) },
			"20-22 clock_stepped, 22-27 stalled, ", 35,
		},
		"all three": {func(w *world) {
			w.clock.Suspend(10 * time.Second)
			w.clock.Stall(5 * time.Second)
			w.clock.Step(2 * time.Second)
		}, "20-30 suspended, 30-32 clock_stepped, 32-37 stalled, ", 35},
		"steered by 500 ppm": {func(w *world) { w.clock.Smear(500) }, "", 40},
		"a wrong step forward is taken back": {func(w *world) {
			w.clock.Step(time.Hour)
			go func() { <-time.After(5 * time.Second); w.clock.Step(-time.Hour) }()
		}, "20-3620 clock_stepped, ", 40},
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
			})
		})
	}
}
