package collector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

func twoNodes() []collector.Node {
	return []collector.Node{
		{Name: "a", Source: devices{names: []string{"a/0", "a/1"}}},
		{Name: "b", Source: devices{names: []string{"b/0"}}},
	}
}

func config(group int) collector.Config {
	return collector.Config{Boot: "boot", FirstRun: 1, Group: group, Clock: usage.ClockEvidence{State: usage.ClockScripted}}
}

func wanted(from, to span.Second) map[second]uint8 {
	want := map[second]uint8{}
	for at := from; at < to; at++ {
		for _, d := range []string{"a/0", "a/1", "b/0"} {
			want[second{d, at}] = uint8(at % 60)
		}
	}
	return want
}

func run(t *testing.T, e *collector.Engine, from, to span.Second) {
	t.Helper()
	for at := from; at < to; at++ {
		check(t, e.Step(t.Context(), at))
	}
	check(t, e.Stop(t.Context()))
}

// gapless fails unless each node's sequences of each run go up by one, and a run's first batch names the last before.
func gapless(t *testing.T, batches []usage.Batch) {
	t.Helper()
	last := map[string]spool.Name{}
	for _, b := range batches {
		before := last[b.Node]
		switch {
		case b.Run == before.Run && b.Seq == before.Seq+1:
		case b.Run > before.Run && b.Seq == 1 && (spool.Name{Run: b.PreviousRun, Seq: b.PreviousSeq}) == before:
		default:
			t.Fatalf("node %s: run %d sequence %d (before it %d/%d) follows %s", b.Node, b.Run, b.Seq, b.PreviousRun, b.PreviousSeq, before)
		}
		last[b.Node] = spool.Name{Run: b.Run, Seq: b.Seq}
	}
}

func TestEverySecondIsInTheLogOnce(t *testing.T) {
	for _, group := range []int{1, 7, 1000} {
		log, path := &stream{}, t.TempDir()
		for restart := range span.Second(3) {
			sp := openSpool(t, path)
			from := start + 100*restart
			e := collector.New(config(group), twoNodes(), sp, log)
			run(t, e, from, from+100)
			seen, failed := e.Samples()
			equal(t, [2]uint64{300, 0}, [2]uint64{seen, failed})
			equal(t, 0, sp.Stats().Unsent)
			for _, node := range []string{"a", "b"} {
				equal(t, log.last(node).Position, sp.Sent(node).Position)
			}
			check(t, sp.Close())
		}
		equal(t, 0, log.conflicts)
		gapless(t, log.held)
		equal(t, wanted(start, start+300), counted(t, log.held))
	}
}

// TestCrashes lets the process die at random points between spool, publication, answer and mark, loses answers
// and calls, and starts again each time. In the end every second that a spool accepted is in the log, once.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, path := &stream{}, t.TempDir()
		log.fault = func() fault { return rapid.SampledFrom([]fault{fine, fine, lostAck, lostCall, died}).Draw(rt, "fault") }
		want := map[second]uint8{}
		at := start
		for range rapid.IntRange(1, 6).Draw(rt, "lives") {
			sp, from := openSpool(t, path), at
			run := sp.Last("a").Run + 1
			e := collector.New(config(rapid.SampledFrom([]int{1, 3}).Draw(rt, "group")), twoNodes(), sp, log)
			for range rapid.IntRange(1, 45).Draw(rt, "seconds") {
				err := e.Step(t.Context(), at)
				at++
				if errors.Is(err, errDied) {
					break
				}
			}
			for k, v := range wanted(from, at) { // dying loses what was open or held, and nothing that was accepted
				last := sp.Last(k.Device[:1])
				if last.Run == run && k.At < (from/10+span.Second(last.Seq))*10 {
					want[k] = v
				}
			}
			check(t, sp.Close())
		}
		log.fault = nil
		sp := openSpool(t, path)
		e := collector.New(config(1), twoNodes(), sp, log)
		run(t, e, at, at+10)
		equal(t, 0, sp.Stats().Unsent)
		gapless(t, log.held)
		maps.Copy(want, wanted(at, at+10))
		equal(t, want, counted(t, log.held))
		check(t, sp.Close())
	})
}

// TestDeathAtEachPoint goes through the points one by one: what the spool accepted before is in the log afterwards.
func TestDeathAtEachPoint(t *testing.T) {
	points := map[string]fault{"published, answer lost": died, "answer lost": lostAck, "call lost": lostCall}
	for point, f := range points {
		for nth := range 4 {
			t.Run(fmt.Sprintf("%s %d", point, nth), func(t *testing.T) {
				log, path, calls := &stream{}, t.TempDir(), 0
				log.fault = func() fault {
					calls++
					if calls == nth+1 {
						return f
					}
					return fine
				}
				sp := openSpool(t, path)
				e := collector.New(config(1), twoNodes(), sp, log)
				at := start
				var err error
				for ; at < start+60 && !errors.Is(err, errDied); at++ {
					if err = e.Step(t.Context(), at); err != nil && !errors.Is(err, errDied) {
						t.Fatal(err)
					}
				}
				check(t, sp.Close())
				sp = openSpool(t, path)
				run(t, collector.New(config(1), twoNodes(), sp, log), at, start+120)
				gapless(t, log.held)
				equal(t, wanted(start, start+120), counted(t, log.held))
				check(t, sp.Close())
			})
		}
	}
}

func TestDeathBetweenSpoolAndLogAndBetweenAnswerAndMark(t *testing.T) {
	log := &stream{}
	path := t.TempDir()
	sp := openSpool(t, path)
	r := collector.NewRecorder(collector.Identity{Node: "a", Boot: "boot", Run: 1})
	batches := r.Record(start, []collector.Reading{reading("a/0", collector.Known(1))}, 0, nil)
	batches = r.Record(start+10, []collector.Reading{reading("a/0", collector.Known(2))}, 0, batches)
	batches = r.Stop(batches)
	check(t, sp.Append(batches...))
	check(t, sp.Close()) // died before publishing
	sp = openSpool(t, path)
	check(t, collector.NewPublisher(log, sp).Drain(t.Context(), start))
	equal(t, batches, log.held)
	sp2 := openSpool(t, t.TempDir()) // the same spool as it was before the marks
	check(t, sp2.Append(batches...))
	p := collector.NewPublisher(log, sp2)
	check(t, p.Drain(t.Context(), start))
	equal(t, batches, log.held)
	equal(t, uint64(1), p.Counters().Adopted)
	equal(t, uint64(2), sp2.Sent("a").Position)
}

func TestRewoundStreamIsFilledAgain(t *testing.T) {
	for keep := range 13 { // of twelve messages
		log := &stream{}
		sp := openSpool(t, t.TempDir())
		e := collector.New(config(1), twoNodes(), sp, log)
		for at := start; at < start+60; at++ {
			check(t, e.Step(t.Context(), at))
		}
		equal(t, 12, len(log.held))
		log.held = log.held[:keep]
		run(t, e, start+60, start+90)
		gapless(t, log.held)
		equal(t, wanted(start, start+90), counted(t, log.held))
		equal(t, uint64(12-keep), e.Counters().Resent)
		equal(t, uint64(0), e.Counters().Gone)
		check(t, sp.Close())
	}
}

func TestAClonedNodeIsAClearError(t *testing.T) {
	log := &stream{}
	sp, clone := openSpool(t, t.TempDir()), openSpool(t, t.TempDir())
	one := collector.New(config(1), twoNodes(), sp, log)
	other := collector.New(config(1), []collector.Node{{Name: "a", Source: devices{names: []string{"a/7"}}}}, clone, log)
	for at := start; at < start+20; at++ {
		check(t, one.Step(t.Context(), at))
	}
	var err error
	for at := start; at < start+20 && err == nil; at++ {
		err = other.Step(t.Context(), at)
	}
	if !errors.Is(err, collector.ErrCloned) || !strings.Contains(err.Error(), "node a: the log holds") {
		t.Fatalf("error is %v", err)
	}
	equal(t, wanted(start, start+20), counted(t, log.held))
	check(t, errors.Join(sp.Close(), clone.Close()))
}

func TestALostSpoolGoesOnAboveItsOldRuns(t *testing.T) {
	log := &stream{}
	for life := range uint64(2) {
		sp := openSpool(t, t.TempDir())
		cfg := config(1)
		cfg.FirstRun = 1000 + 60*life
		run(t, collector.New(cfg, twoNodes(), sp, log), start+span.Second(60*life), start+span.Second(60*life)+60)
		check(t, sp.Close())
	}
	equal(t, wanted(start, start+120), counted(t, log.held))
}

type failing struct{ collector.Log }

func (failing) Publish(context.Context, []collector.Outgoing) (uint64, error) {
	return 0, errors.New("no route to the broker")
}

func TestABrokerAwayLosesNothing(t *testing.T) {
	log := &stream{}
	path := t.TempDir()
	sp := openSpool(t, path)
	e := collector.New(config(1), twoNodes(), sp, failing{log})
	failures := 0
	for at := start; at < start+600; at++ {
		if e.Step(t.Context(), at) != nil {
			failures++
		}
	}
	equal(t, 60, failures)
	equal(t, 120, sp.Stats().Unsent)
	check(t, sp.Close())
	sp = openSpool(t, path)
	run(t, collector.New(config(1), twoNodes(), sp, log), start+600, start+610)
	gapless(t, log.held)
	equal(t, wanted(start, start+610), counted(t, log.held))
	check(t, sp.Close())
}

func TestAnImportIsPublishedInGroups(t *testing.T) {
	log := &stream{}
	sp := openSpool(t, t.TempDir())
	run(t, collector.New(config(collector.ImportGroup), twoNodes(), sp, log), start, start+12_000)
	equal(t, 2400, len(log.held))
	gapless(t, log.held)
	equal(t, wanted(start, start+12_000), counted(t, log.held))
	check(t, sp.Close())
}

// fullDisk refuses to write while full is set.
type fullDisk struct {
	spool.Files
	full bool
}

type fullFile struct {
	spool.File
	disk *fullDisk
}

func (d *fullDisk) Open(name string) (spool.File, error) {
	f, err := d.Files.Open(name)
	return fullFile{f, d}, err
}

func (f fullFile) WriteAt(p []byte, off int64) (int, error) {
	if f.disk.full {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

func TestAFullDiskPausesSamplingAndLosesNothingBefore(t *testing.T) {
	files, err := spool.Dir(t.TempDir())
	check(t, err)
	disk := &fullDisk{Files: files}
	sp, err := spool.Open(disk, spool.Options{})
	check(t, err)
	log := &stream{}
	cfg := config(1)
	cfg.MaxHeld = 6
	e := collector.New(cfg, twoNodes(), sp, log)
	disk.full = true
	for at := start; at < start+60; at++ {
		if err = e.Step(t.Context(), at); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if !errors.Is(err, collector.ErrHeld) { // more than six batches wait after forty seconds
		t.Fatalf("error is %v", err)
	}
	disk.full = false
	run(t, e, start+60, start+70)
	gapless(t, log.held)
	want := wanted(start, start+40)
	maps.Copy(want, wanted(start+60, start+70))
	equal(t, want, counted(t, log.held))
	var paused []usage.Gap
	for _, b := range log.held {
		if b.Node == "a" {
			paused = append(paused, b.Gaps...)
		}
	}
	equal(t, []usage.Gap{{From: start + 40, To: start + 60, Reason: usage.GapPaused}}, paused)
	check(t, sp.Close())
}

// TestAPublicationThatCannotBeMarkedGoesOnce: the disk that refuses the mark must not make the same batch go again and again.
func TestAPublicationThatCannotBeMarkedGoesOnce(t *testing.T) {
	files, err := spool.Dir(t.TempDir())
	check(t, err)
	disk := &fullDisk{Files: files}
	sp, err := spool.Open(disk, spool.Options{})
	check(t, err)
	r := collector.NewRecorder(collector.Identity{Node: "a", Boot: "boot", Run: 1})
	check(t, sp.Append(r.Stop(r.Record(start, []collector.Reading{reading("a/0", collector.Known(1))}, 0, nil))...))
	log := &stream{}
	p := collector.NewPublisher(log, sp)
	disk.full = true
	for range 3 {
		if err := p.Drain(t.Context(), start); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("error is %v", err)
		}
	}
	equal(t, 1, len(log.held))
	disk.full = false
	check(t, p.Drain(t.Context(), start))
	equal(t, 1, len(log.held))
	equal(t, 0, sp.Stats().Unsent)
	check(t, sp.Close())
}
