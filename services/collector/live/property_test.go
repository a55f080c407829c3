package live_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// plan is a history: lives of a collector and what happens in and between them. It is drawn before it is played, because it is played in
// a bubble.
type plan struct {
	small bool // of the spool: it rotates, thins and lets go of segments; then no stream is rewound, for what it lost may be gone
	lives []life
}

type life struct {
	events []happening
	dieIn  int // changes of the disk until the process dies; 0: it is stopped as it should be
	whole  bool
	power  bool // the power fails with it, or the machine is started anew
	keep   int
	late   bool
	down   time.Duration
	step   time.Duration // of the clock between two lives
}

type happening struct {
	after time.Duration
	kind  string
	name  string
	by    time.Duration
	n     int
}

func draw(rt *rapid.T) plan {
	p := plan{small: rapid.Bool().Draw(rt, "small")}
	kinds := []string{
		"pass", "hang", "release", "plug", "pull", "slice", "fall", "fault", "reload", "no open", "open", "hang scan", "hang open", "release all",
		"no scan", "scan", "step", "sleep", "stall", "away", "silent", "back", "lost", "full", "roomy", "sick", "well",
	}
	if !p.small {
		kinds = append(kinds, "rewind")
	}
	moves := []time.Duration{
		300 * time.Millisecond, time.Second, 1500 * time.Millisecond, 3 * time.Second, 17 * time.Second, 70 * time.Second, time.Hour,
	}
	move := func(label string) time.Duration { return rapid.SampledFrom(moves).Draw(rt, label) }
	for range rapid.IntRange(1, 4).Draw(rt, "lives") {
		var l life
		for range rapid.IntRange(1, 10).Draw(rt, "events") {
			h := happening{
				after: time.Duration(rapid.IntRange(0, 90).Draw(rt, "after")) * 100 * time.Millisecond,
				kind:  rapid.SampledFrom(kinds).Draw(rt, "kind"), name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"),
				by: move("by"), n: rapid.IntRange(0, 3).Draw(rt, "n"),
			}
			if rapid.Bool().Draw(rt, "back") {
				h.by = -h.by
			}
			l.events = append(l.events, h)
		}
		if rapid.Bool().Draw(rt, "dies") {
			l.dieIn = rapid.IntRange(1, 40).Draw(rt, "at")
			l.whole = rapid.Bool().Draw(rt, "whole")
		}
		l.power = rapid.Bool().Draw(rt, "power")
		l.keep, l.late = rapid.IntRange(0, 2000).Draw(rt, "keep"), rapid.Bool().Draw(rt, "late")
		l.down = time.Duration(rapid.IntRange(0, 400).Draw(rt, "down")) * 100 * time.Millisecond
		if rapid.IntRange(0, 3).Draw(rt, "moved") == 0 {
			l.step = move("step")
			if rapid.Bool().Draw(rt, "back") {
				l.step = -l.step
			}
		}
		p.lives = append(p.lives, l)
	}
	return p
}

// play lets something happen.
func (h happening) play(w *world) {
	switch h.kind {
	case "hang":
		w.node.Hang(h.name)
	case "release":
		w.node.Release(h.name)
	case "plug":
		w.node.Plug(h.name)
	case "pull":
		w.node.Pull(h.name)
	case "slice":
		var parts []string
		for i := range h.n {
			w.cuts++
			parts = append(parts, fmt.Sprint(h.name, "/", w.cuts, ".", i))
		}
		w.node.Slice(h.name, parts...)
	case "fall":
		w.node.Fall(h.name)
	case "fault":
		w.node.Fault(h.name, usage.Fault{Kind: usage.FaultXID, Code: 13})
	case "reload":
		w.node.Reload()
	case "no open":
		w.node.OpenFails(&collector.NoAnswer{Reason: usage.ReasonPermission, Err: errors.New("no")})
	case "open":
		w.node.OpenFails(nil)
	case "no scan":
		w.node.ScanFails(errors.New("no"))
	case "scan":
		w.node.ScanFails(nil)
	case "hang scan":
		w.node.Hang("scan")
	case "hang open":
		w.node.Hang("open")
	case "release all":
		w.node.ReleaseAll()
	default:
		h.playWorld(w)
	}
}

func (h happening) playWorld(w *world) {
	switch h.kind {
	case "step":
		w.clock.Step(h.by)
	case "sleep":
		w.clock.Suspend(h.by.Abs())
	case "stall":
		w.clock.Stall(min(h.by.Abs(), time.Minute))
	case "away":
		w.log.Always(livetest.Down)
	case "silent":
		w.log.Always(livetest.Hanging)
	case "back":
		w.log.Always(livetest.Fine)
	case "lost":
		w.log.Next(livetest.LostAck, livetest.LostCall, livetest.LostAck)
	case "rewind":
		w.log.Rewind(len(w.log.Held()) - h.n)
	case "full":
		w.disk.SetFull(true)
	case "roomy":
		w.disk.SetFull(false)
	case "sick":
		w.releases = append(w.releases, w.disk.Stall())
	case "well":
		w.well()
	}
}

func (w *world) well() {
	for _, release := range w.releases {
		release()
	}
	w.releases = nil
}

// run plays the plan, then lets everything become well, and checks the promise.
func (p plan) run(t *testing.T) error {
	w := newWorld("a", "b")
	w.cfg.MaxHeld = 3
	if p.small {
		w.opts = spool.Options{MaxBytes: 12 << 10, SegmentBytes: 1500}
	}
	defer w.node.ReleaseAll()
	for i, l := range p.lives {
		if l.dieIn > 0 {
			w.disk.DieIn(l.dieIn, l.whole)
		}
		var events []event
		strained := false // the disk keeps batches waiting: a kill takes them
		for _, h := range l.events {
			events = append(events, event{h.after, h.play})
			strained = strained || h.kind == "full" || h.kind == "sick"
		}
		err := w.live(t, events...)
		if errors.Is(err, collector.ErrCloned) || !w.disk.Dead() && !expected(err) {
			return fmt.Errorf("life %d: %w", i+1, err)
		}
		w.badly = err != nil
		before := w.disk
		if l.power {
			w.reboot(l.keep, l.late)
		} else {
			w.kill()
		}
		before.SetFull(false)
		w.well()
		synctest.Wait()
		lost, err := w.took(strained || p.small)
		if err != nil {
			return fmt.Errorf("after life %d: %w", i+1, err)
		}
		if !strained && !p.small && lost > collector.FlushSeconds {
			return fmt.Errorf("life %d ended and took %d seconds with it", i+1, lost)
		}
		w.clock.Wake()
		<-time.After(l.down)
		w.clock.Step(l.step)
	}
	w.node.ReleaseAll()
	w.node.OpenFails(nil)
	w.node.ScanFails(nil)
	w.log.Always(livetest.Fine)
	for _, k := range w.ticks {
		if ahead := time.Unix(int64(k.at)+5, 0).Sub(w.clock.Now().Wall); ahead > 0 {
			w.clock.Step(ahead)
		}
	}
	if err := w.live(t, pass(75*time.Second), event{do: func(w *world) { w.node.ReleaseAll() }}, pass(2*time.Second)); err != nil {
		return fmt.Errorf("the last life: %w", err)
	}
	if w.stats.Spool.Unsent > 0 || w.hung > 0 {
		return fmt.Errorf("in the end %d batches wait and %d calls hang", w.stats.Spool.Unsent, w.hung)
	}
	_, err := w.settled()
	return err
}

// took counts seconds sampled in the last life that are in neither spool nor log.
func (w *world) took(strained bool) (int, error) {
	sp, err := spool.Open(w.disk, w.opts)
	if err != nil {
		return 0, err
	}
	batches, last := w.log.Held(), sp.Last("n")
	for seq := range last.Seq { // acknowledged or not: what a stream lost that was rewound is sent again
		b, ok, err := sp.Find("n", spool.Name{Run: last.Run, Seq: seq + 1})
		if err != nil {
			return 0, err
		}
		if ok {
			batches = append(batches, b)
		}
	}
	w.forget(sp, strained)
	lost := map[span.Second]bool{}
	for _, k := range w.ticks {
		if k.life == w.lives && !spoken(batches, k.at) {
			lost[k.at] = true
		}
	}
	return len(lost), nil
}

// forget excuses the ticks of which a life that ended badly could leave no trace: all while nothing ever got to the disk; and, where the
// clock was set back, those before the end of the newest batch and the record of what began then. That may be more than one tick only
// where the disk was strained.
func (w *world) forget(sp *spool.Spool, strained bool) {
	end, back, before, since := sp.End("n"), false, w.end, 0
	began := end.Began.At
	for i, k := range w.ticks {
		if k.life != w.lives {
			continue
		}
		if since++; k.at <= before || i == 0 || w.ticks[i-1].life != w.lives {
			since = 1
		}
		back, before = back || k.at < before, k.at
	}
	known := end.At // from where on the next run will say that nothing was seen
	if began > 0 {
		known = began
	}
	w.end = known
	if !strained && since > 1 {
		return
	}
	if end.At == 0 && began == 0 {
		w.ticks = nil
	}
	for i := range w.ticks {
		k := &w.ticks[i]
		k.excused = k.excused || back && w.badly && k.life == w.lives && k.at < known
	}
}

// expected are the ways in which a life may end whose process did not die.
func expected(err error) bool {
	for _, e := range []error{nil, live.ErrStuck, syscall.ENOSPC, spool.ErrFull} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// TestEverySecondIsInTheLogOrInAGapAndCountsOnce plays drawn histories of ticks, faults of hardware, clocks, disk and broker, kills at any
// write, power losses, and restarts.
func TestEverySecondIsInTheLogOrInAGapAndCountsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := draw(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatalf("%v\n%+v", err, p)
		}
	})
}
