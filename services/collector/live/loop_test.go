package live_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/collector/spool/spooltest"
)

// pass is time in which nothing else happens.
func pass(d time.Duration) event { return event{after: d} }

// dies lets the process die at the next change of the disk, before it or after it.
func dies(whole bool) event {
	return event{do: func(w *world) { w.disk.DieIn(1, whole) }}
}

// TestLives is the table of how a life ends and the next begins, five minutes later.
func TestLives(t *testing.T) {
	for name, c := range map[string]struct {
		first []event
		next  func(*world)
		gaps  string // of the node, in seconds from the start
		lost  int    // seconds that were sampled in the first life
	}{
		"stopped as it should be": {[]event{pass(25 * time.Second)}, func(w *world) { w.kill() }, "25-325 stopped, ", 0},
		"killed": {
			[]event{pass(15 * time.Second), dies(false), pass(time.Hour)},
			func(w *world) { w.kill() },
			"10-320 killed, ", 10,
		},
		"killed before the first flush": {
			[]event{pass(5500 * time.Millisecond), dies(false), pass(time.Hour)},
			func(w *world) { w.kill() },
			"0-310 killed, ", 10,
		},
		"the power fails before the first flush": {
			[]event{pass(5500 * time.Millisecond), dies(false), pass(time.Hour)},
			func(w *world) { w.reboot(0, false) },
			"0-310 rebooted, ", 10,
		},
		"killed after the last record was written": {
			[]event{pass(15 * time.Second), dies(true), pass(time.Hour)},
			func(w *world) { w.kill() },
			"20-320 killed, ", 0,
		},
		"the power fails": {
			[]event{pass(15 * time.Second), dies(false), pass(time.Hour)},
			func(w *world) { w.reboot(0, false) },
			"10-320 rebooted, ", 10,
		},
		"stopped, and the machine starts anew": {
			[]event{pass(25 * time.Second)}, func(w *world) { w.reboot(0, false) }, "25-325 stopped, ", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("a")
				err := w.live(t, c.first...)
				equal(t, w.disk.Dead(), err != nil)
				c.next(w)
				<-time.After(5*time.Minute - w.cameAfter())
				check(t, w.live(t, pass(30*time.Second)))
				lost, err := w.settled()
				check(t, err)
				equal(t, c.gaps, nodeGaps(w.log.Held()))
				equal(t, c.lost, lost[1])
			})
		})
	}
}

// cameAfter is how long ago the last tick was, in whole seconds.
func (w *world) cameAfter() time.Duration {
	now := w.clock.Now().Wall.Unix()
	return time.Duration(now-int64(w.ticks[len(w.ticks)-1].at)-1) * time.Second
}

// TestARunThatIsKilledBeforeItsFirstFlush leaves the reason of what lies before it as it was.
func TestARunThatIsKilledBeforeItsFirstFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		check(t, w.live(t, pass(20*time.Second)))
		w.kill()
		<-time.After(100 * time.Second)
		if err := w.live(t, pass(5*time.Second), dies(false), pass(time.Hour)); !errors.Is(err, spooltest.ErrDied) {
			t.Fatalf("error is %v", err)
		}
		w.reboot(0, false)
		<-time.After(70 * time.Second)
		check(t, w.live(t, pass(30*time.Second)))
		_, err := w.settled()
		check(t, err)
		equal(t, "20-120 stopped, 120-200 rebooted, ", nodeGaps(w.log.Held()))
	})
}

// TestAClockSetBackAndAKill: the seconds that came again below the end of the newest batch are in a gap.
func TestAClockSetBackAndAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		back := event{do: func(w *world) { w.clock.Step(-time.Hour) }}
		if err := w.live(t, pass(20*time.Second), back, pass(5*time.Second), dies(false), pass(time.Hour)); !errors.Is(err, spooltest.ErrDied) {
			t.Fatalf("error is %v", err)
		}
		w.kill()
		check(t, w.live(t, pass(20*time.Second)))
		_, err := w.settled()
		check(t, err)
		equal(t, "-3580--3570 killed, ", nodeGaps(w.log.Held()))
	})
}

func TestABrokerThatIsAwayForHoursDelaysNothing(t *testing.T) {
	for name, fault := range map[string]livetest.Fault{"refuses": livetest.Down, "hangs": livetest.Hanging} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("a", "b")
				w.log.Always(fault)
				var away live.Stats
				check(t, w.live(t, pass(6*time.Hour), event{do: func(w *world) { w.log.Always(livetest.Fine) }}, pass(5*time.Minute)))
				away = w.stats
				lost, err := w.settled()
				check(t, err)
				equal(t, 0, total(lost))
				equal(t, "", nodeGaps(w.log.Held()))
				equal(t, 0, away.Spool.Unsent)
				if n := away.PublishErrors; n < 200 || n > 6*3600/30+10 { // a minute each at most, and half a minute between them
					t.Fatalf("%d attempts in 6 h", n)
				}
				t.Logf("6 h away: %d seconds sampled, %d batches published after it, %d failed attempts, jitter %v, %v",
					away.Seconds, away.Publisher.Published, away.PublishErrors, away.Jitter, away.Alarms)
			})
		})
	}
}

func TestAFullSpoolIsThinnedWithAnAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b")
		w.opts = spool.Options{MaxBytes: 64 << 10}
		w.log.Always(livetest.Down)
		check(t, w.live(t, pass(2*time.Hour), event{do: func(w *world) { w.log.Always(livetest.Fine) }}, pass(5*time.Minute)))
		lost, err := w.settled()
		check(t, err)
		if w.stats.Spool.Lost == 0 || total(lost) != w.stats.Spool.Lost {
			t.Fatalf("%d seconds are not counted, the spool says it thinned %d", total(lost), w.stats.Spool.Lost)
		}
		if w.stats.Alarms["thinned"] == 0 {
			t.Fatalf("nobody was told: %v", w.stats.Alarms)
		}
		t.Logf("2 h away with 64 KiB: %d seconds sampled, %d thinned", w.stats.Seconds, total(lost))
	})
}

func TestAFullDiskHoldsThenPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.cfg.MaxHeld = 6
		full := func(on bool) event { return event{do: func(w *world) { w.disk.SetFull(on) }} }
		check(t, w.live(t, pass(20*time.Second), full(true), pass(2*time.Minute), full(false), pass(time.Minute)))
		lost, err := w.settled()
		check(t, err)
		equal(t, 0, total(lost))
		// Six batches of ten seconds wait, from 20 on. Whether the disk or the tick of 141 comes first is open: both come at 141.0.
		if got := nodeGaps(w.log.Held()); got != "80-140 paused, " && got != "80-141 paused, " {
			t.Fatalf("gaps are %s", got)
		}
		t.Log(w.stats.Unseen, w.stats.Alarms)
	})
}

// TestManyBatchesForASmallSpool: what waited in memory is more than the spool takes at once, and still it takes all, in parts.
func TestManyBatchesForASmallSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b")
		w.opts = spool.Options{MaxBytes: 8 << 10}
		full := func(on bool) event { return event{do: func(w *world) { w.disk.SetFull(on) }} }
		check(t, w.live(t, pass(20*time.Second), full(true), pass(20*time.Minute), full(false), pass(time.Minute)))
		_, err := w.settled()
		check(t, err)
		equal(t, [2]int{0, 0}, [2]int{w.stats.Held, w.stats.Spool.Unsent})
		equal(t, "", strings.Join(paused(w), " "))
	})
}

// paused are the gaps of the node but for those of the spool.
func paused(w *world) (all []string) {
	for g := range strings.SplitSeq(nodeGaps(w.log.Held()), ", ") {
		if strings.HasSuffix(g, "paused") {
			all = append(all, g)
		}
	}
	return all
}

func TestASickDiskDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		var release func()
		check(t, w.live(t, pass(15*time.Second), event{do: func(w *world) { release = w.disk.Stall() }}, pass(time.Minute),
			event{do: func(*world) { release() }}, pass(time.Minute)))
		_, err := w.settled()
		check(t, err)
		equal(t, "", nodeGaps(w.log.Held()))
		equal(t, time.Duration(0), w.stats.Jitter.Max)
		equal(t, uint64(135), w.stats.Seconds)
	})
}

func TestADiskThatHangsForEverDoesNotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		var release func()
		err := w.live(t, pass(15*time.Second), event{do: func(w *world) { release = w.disk.Stall() }}, pass(time.Minute))
		if !errors.Is(err, live.ErrStuck) {
			t.Fatalf("error is %v", err)
		}
		w.kill()
		release()
		synctest.Wait()
		check(t, w.live(t, pass(time.Minute)))
		_, err = w.settled()
		check(t, err)
	})
}

func TestARewoundStreamIsFilledAgainLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.cfg.Spread = -1
		check(t, w.live(t, pass(5*time.Minute), event{do: func(w *world) { w.log.Rewind(7) }}, pass(time.Minute)))
		lost, err := w.settled()
		check(t, err)
		equal(t, 0, total(lost))
		equal(t, uint64(23), w.stats.Publisher.Resent)
		t.Logf("%+v", w.stats.Publisher)
	})
}

func TestAClonedNodeEndsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.cfg.Spread = -1
		foreign := usage.Batch{Node: "n", Boot: "clone", Run: 1 << 40, Seq: 1, Minute: (start + 60).Minute(), Spoken: 1}
		err := w.live(t, pass(35*time.Second), event{do: func(w *world) { w.log.Put(foreign) }}, pass(time.Hour))
		if !errors.Is(err, collector.ErrCloned) {
			t.Fatalf("error is %v", err)
		}
		equal(t, uint64(40), w.stats.Seconds) // the next flush meets it
		t.Log(err)
		err = w.live(t, pass(time.Hour)) // and a restart too
		if !errors.Is(err, collector.ErrCloned) {
			t.Fatalf("error is %v", err)
		}
	})
}

func TestADiskThatBreaksEndsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		err := w.live(t, pass(15*time.Second), dies(false), pass(time.Minute))
		if !errors.Is(err, spooltest.ErrDied) || !errors.Is(err, spool.ErrBroken) {
			t.Fatalf("error is %v", err)
		}
	})
}

func TestNothingIsSampledBeforeTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		early := time.Duration(start-1000) * time.Second
		w.clock.Step(-early)
		check(t, w.live(t, pass(30*time.Second+time.Second/2), event{do: func(w *world) { w.clock.Step(early) }}, pass(30*time.Second)))
		equal(t, start+31, w.ticks[0].at)
		equal(t, "", nodeGaps(w.log.Held()))
		if w.stats.Alarms["clock_not_set"] == 0 {
			t.Fatal("nobody was told")
		}
	})
}

func TestHangingCallsAreCountedAndNothingElseIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b", "c")
		check(t, w.live(t, pass(10*time.Second), event{do: func(w *world) { w.node.Hang("b"); w.node.Hang("scan") }}, pass(30*time.Second)))
		equal(t, 2, w.hung)
		equal(t, 1, w.node.Sessions()) // it is not closed under a call
		equal(t, map[usage.GapReason]uint64{usage.GapTimeout: 30}, w.stats.Unseen.Device)
		_, err := w.settled()
		check(t, err)
		w.node.ReleaseAll() // the bubble ends only when no goroutine is left
	})
}

func TestANodeThatCannotBeOpenedIsAGapWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.node.OpenFails(fmt.Errorf("open the driver: %w", fs.ErrPermission))
		check(t, w.live(t, pass(25*time.Second), event{do: func(w *world) { w.node.OpenFails(nil) }}, pass(time.Minute)))
		_, err := w.settled()
		check(t, err)
		equal(t, "0-31 permission, ", nodeGaps(w.log.Held())) // tried at 1, 2, 4, 8, 16 and 32
		equal(t, uint64(31), w.stats.Failed)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.node.OpenFails(&collector.NoAnswer{Reason: usage.ReasonNotAvailable, Err: errors.New("no driver")})
		check(t, w.live(t, pass(10*time.Minute), event{do: func(w *world) { w.node.OpenFails(nil) }}, pass(time.Minute)))
		equal(t, "0-601 not_available, ", nodeGaps(w.log.Held())) // and then every 30 s
	})
}

// TestTheClocksEvidenceIsThatOfItsBatch: what the kernel says in the end of the ten seconds, and unknown where it says nothing.
func TestTheClocksEvidenceIsThatOfItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		says := func(e usage.ClockEvidence) event { return event{do: func(w *world) { w.clock.SetEvidence(e) }} }
		free := usage.ClockEvidence{State: usage.ClockFree, OffsetNanos: -7, ErrorBoundNano: 16_000_000_000}
		check(t, w.live(t, pass(15*time.Second), says(free), pass(10*time.Second), says(usage.ClockEvidence{}), pass(10*time.Second)))
		var got []usage.ClockEvidence
		for _, b := range w.log.Held() {
			got = append(got, b.Clock)
		}
		equal(t, []usage.ClockEvidence{{State: usage.ClockSynchronised}, free, {}, {}}, got)
		equal(t, usage.ClockEvidence{}, w.stats.Clock)
	})
}

// TestALostSpoolGoesOnLive: a run's number is the second of its start, so that the log does not hold a later one.
func TestALostSpoolGoesOnLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		check(t, w.live(t, pass(time.Minute)))
		w.disk = spooltest.New()
		check(t, w.live(t, pass(time.Minute)))
		var runs []uint64
		for _, b := range w.log.Held() {
			if b.Seq == 1 {
				runs = append(runs, b.Run)
			}
		}
		equal(t, []uint64{uint64(start), uint64(start) + 60}, runs)
		seen, err := counted(w.log.Held())
		check(t, err)
		equal(t, 120, len(seen))
	})
}

// TestWhatWaitedIsPublishedAtTheStart: not ten seconds later with the first batch.
func TestWhatWaitedIsPublishedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.log.Always(livetest.Down)
		check(t, w.live(t, pass(25*time.Second)))
		equal(t, 0, len(w.log.Held()))
		w.log.Always(livetest.Fine)
		check(t, w.live(t, pass(time.Second), event{do: func(w *world) { equal(t, 3, len(w.log.Held())) }}))
	})
}

// TestTheEndIsOneMoreAttempt: a broker that came back while nobody asked gets all before the process ends.
func TestTheEndIsOneMoreAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a")
		w.log.Always(livetest.Down)
		check(t, w.live(t, pass(95*time.Second), event{do: func(w *world) { w.log.Always(livetest.Fine) }}))
		equal(t, 10, len(w.log.Held()))
		equal(t, 0, w.stats.Spool.Unsent)
	})
}

// TestCallsThatHangInSessionsGivenUpAreBounded: each of them holds a thread for ever, so at some number the driver is not opened again.
func TestCallsThatHangInSessionsGivenUpAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b")
		w.node.Hang("a")
		reload := event{after: 5 * time.Second, do: func(w *world) { w.node.Reload() }}
		check(t, w.live(t, append(slices.Repeat([]event{reload}, 100), pass(time.Minute))...))
		equal(t, 17, w.hung)
		equal(t, 17, w.node.Sessions())
		if w.stats.Unseen.Device[usage.GapError] == 0 {
			t.Fatalf("unseen: %v", w.stats.Unseen)
		}
		_, err := w.settled()
		check(t, err)
		w.node.ReleaseAll()
	})
}
