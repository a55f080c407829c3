package collector_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

const start = span.Second(1_767_196_800) // 2025-12-31T16:00:00Z, a whole minute

func block(t *testing.T, b usage.Batch, i int) usage.Block {
	t.Helper()
	var out usage.Block
	check(t, out.Decode(b.Blocks[i]))
	return out
}

func reading(device string, busy collector.Metric) collector.Reading {
	lost := collector.Unknown(usage.ReasonNotAvailable)
	return collector.Reading{Device: device, Busy: busy, Memory: lost, Power: lost, Energy: lost, Throttle: lost}
}

func TestABatchHasTenSecondsOfOneMinute(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Boot: "b", Run: 3, Previous: spool.Name{Run: 2, Seq: 40}})
	var got []usage.Batch
	for at := start + 55; at < start+73; at++ {
		got = r.Record(at, []collector.Reading{reading("g1", collector.Known(7)), reading("g0", collector.Known(5))}, 0, got)
	}
	equal(t, 2, len(got))
	got = r.Stop(got)
	got = r.Stop(got)
	equal(t, 3, len(got))
	for i, spoken := range []span.SecondMask{0b11111 << 55, 0x3ff, 0b111 << 10} {
		b := got[i]
		check(t, b.Validate())
		check(t, b.ValidateBlocks())
		equal(t, spoken, b.Spoken)
		equal(t, uint64(i+1), b.Seq)
		equal(t, "g0", block(t, b, 0).Device)
		equal(t, spoken, block(t, b, 1).Seen)
		equal(t, uint8(7), block(t, b, 1).Busy[spoken.First()])
	}
	equal(t, [4]uint64{2, 40, 0, 0}, [4]uint64{got[0].PreviousRun, got[0].PreviousSeq, got[1].PreviousRun, got[1].PreviousSeq})
}

func TestFailedIsSpokenForAndSleptIsNot(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	one := []collector.Reading{reading("g0", collector.Known(5))}
	r.Record(start, one, 0, nil)
	r.Record(start+1, nil, usage.GapError, nil)
	r.Record(start+3, one, 0, nil)
	b := r.Stop(nil)[0]
	equal(t, span.SecondMask(0b1011), b.Spoken)
	equal(t, span.SecondMask(0b1001), block(t, b, 0).Seen)
	equal(t, []usage.Gap{{From: start + 1, To: start + 2, Reason: usage.GapError}}, b.Gaps)
	equal(t, map[usage.GapReason]uint64{usage.GapError: 1}, r.Unseen().Node)
	next := r.Record(start+20, nil, usage.GapError, nil) // a batch of nothing but a failure
	b = r.Stop(next)[0]
	equal(t, 0, len(b.Blocks))
	check(t, b.Validate())
}

func TestUnknownIsNotZero(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	unreadable := reading("g0", collector.Unknown(usage.ReasonNotSupported))
	unreadable.Power = collector.Known(300)
	unreadable.Faults = []usage.Fault{{Kind: usage.FaultXID, Code: 79}}
	r.Record(start+2, []collector.Reading{unreadable, reading("g1", collector.Unknown(usage.ReasonLost))}, 0, nil)
	b := r.Stop(nil)[0]
	g0, g1 := block(t, b, 0), block(t, b, 1)
	equal(t, span.Bit(2), g0.Seen)
	equal(t, uint8(usage.BusyUnknown), g0.Busy[2])
	equal(t, usage.ReasonNotSupported, g0.Reason)
	equal(t, span.SecondMask(0), g0.Memory.Known|g0.Energy.Known)
	equal(t, []usage.Fault{{Second: 2, Kind: usage.FaultXID, Code: 79}}, g0.Faults)
	equal(t, span.SecondMask(0), g1.Seen) // nothing answered: not seen, with the reason
	equal(t, usage.ReasonLost, g1.Reason)
}

// TestEachMetricAloneIsSomethingSeen: a device of which any metric answered is seen, and the others stay unknown.
func TestEachMetricAloneIsSomethingSeen(t *testing.T) {
	for i := range 5 {
		one := reading("g0", collector.Unknown(usage.ReasonNotSupported))
		*[]*collector.Metric{&one.Busy, &one.Memory, &one.Power, &one.Energy, &one.Throttle}[i] = collector.Known(0)
		r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
		r.Record(start, []collector.Reading{one}, 0, nil)
		b := r.Stop(nil)[0]
		g := block(t, b, 0)
		equal(t, 0, len(b.Gaps))
		known := []bool{g.Busy[0] == 0, g.Memory.Known == 1, g.Power.Known == 1, g.Energy.Known == 1, g.Throttle.Known == 1}
		want := make([]bool, 5)
		want[i] = true
		equal(t, span.SecondMask(1), g.Seen)
		equal(t, want, known)
	}
}

func TestWhatNoBatchCanCarryIsCounted(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	noisy := reading("g0", collector.Known(130))
	noisy.Faults = make([]usage.Fault, usage.MaxFaults+2)
	for i := range noisy.Faults {
		noisy.Faults[i].Kind = usage.FaultXID
	}
	r.Record(start, []collector.Reading{reading("", collector.Known(1)), reading("\xff", collector.Known(1)), noisy}, 0, nil)
	b := r.Stop(nil)[0]
	check(t, b.ValidateBlocks())
	equal(t, uint8(100), block(t, b, 0).Busy[0])
	equal(t, uint64(4), r.Dropped())
}

// TestClock draws any walk of the clock, back and forth: every second it touched is there with the value that was
// measured first, and sequences have no gap.
func TestClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
		want := map[second]uint8{}
		var got []usage.Batch
		at := start
		for i := range rapid.IntRange(1, 60).Draw(rt, "samples") {
			at += span.Second(rapid.SampledFrom([]int{1, 1, 1, 1, 0, 3, 17, 70, -1, -12, -61}).Draw(rt, "step"))
			got = r.Record(at, []collector.Reading{reading("g0", collector.Known(int64(i)))}, 0, got)
			if _, ok := want[second{"g0", at}]; !ok {
				want[second{"g0", at}] = uint8(i)
			}
		}
		got = r.Stop(got)
		for i := range got {
			if got[i].Seq != uint64(i+1) || got[i].Spoken.Count() > collector.FlushSeconds {
				rt.Fatalf("batch %d has sequence %d and %d seconds", i, got[i].Seq, got[i].Spoken.Count())
			}
		}
		equal(t, want, counted(t, got))
	})
}

// TestGapsGoWithABatchThatReachesThem: a gap may be stated while a batch is open that ends before it.
func TestGapsGoWithABatchThatReachesThem(t *testing.T) {
	one := []collector.Reading{reading("g0", collector.Known(5))}
	gap := func(from, to span.Second, why usage.GapReason) usage.Gap {
		return usage.Gap{From: start + from, To: start + to, Reason: why}
	}
	for name, c := range map[string]struct {
		do   func(*collector.Recorder, []usage.Batch) []usage.Batch
		want [][]usage.Gap
	}{
		"a stall over the end of a batch": {func(r *collector.Recorder, out []usage.Batch) []usage.Batch {
			r.Gap(start+6, start+17, usage.GapStalled)
			return r.Record(start+17, one, 0, out)
		}, [][]usage.Gap{nil, {gap(6, 17, usage.GapStalled)}}},
		"a pause, and the clock set back before its end": {func(r *collector.Recorder, out []usage.Batch) []usage.Batch {
			r.Gap(start+6, start+17, usage.GapPaused)
			out = r.Record(start+3, one, 0, out)
			r.Gap(start+4, start+21, usage.GapStepped)
			return r.Record(start+21, one, 0, out)
		}, [][]usage.Gap{nil, nil, {gap(4, 21, usage.GapStepped)}}},
		"seconds that come again after the clock was set back": {func(r *collector.Recorder, out []usage.Batch) []usage.Batch {
			r.Gap(start+6, start+9, usage.GapPaused)
			for at := start + 3; at < start+12; at++ {
				out = r.Record(at, one, 0, out)
			}
			return out
		}, [][]usage.Gap{nil, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
			out := r.Stop(c.do(r, r.Record(start+5, one, 0, nil)))
			var got [][]usage.Gap
			for i := range out {
				check(t, out[i].Validate())
				got = append(got, out[i].Gaps)
			}
			equal(t, c.want, got)
		})
	}
}

// TestSlicesThatAreCutAnewForMonths: every cut has new names, and the old ones must not take their room for ever.
func TestSlicesThatAreCutAnewForMonths(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	for cut := range 3 * usage.MaxBlocks {
		at := start + span.Second(10*cut+9)
		slice := fmt.Sprint("slice ", cut)
		got := r.Record(at, []collector.Reading{reading("g0", collector.Known(1)), reading(slice, collector.Known(int64(cut%100)))}, 0, nil)
		equal(t, 2, len(got[0].Blocks))
		equal(t, slice, block(t, got[0], 1).Device)
		equal(t, uint8(cut%100), block(t, got[0], 1).Busy[(int(at)%60)])
	}
	equal(t, uint64(0), r.Dropped())
}

// TestADeviceTwiceInASecond: what a second source of the same name says is dropped, and breaks no batch.
func TestADeviceTwiceInASecond(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	lost := reading("g0", collector.Unknown(usage.ReasonLost))
	r.Record(start, []collector.Reading{lost, lost}, 0, nil)
	r.Record(start+1, []collector.Reading{reading("g0", collector.Known(1)), reading("g0", collector.Known(2))}, 0, nil)
	b := r.Stop(nil)[0]
	check(t, b.Validate())
	equal(t, uint8(1), block(t, b, 0).Busy[1])
	equal(t, uint64(2), r.Dropped())
}

// TestAClockSetBackIsNoContradiction: what was said of a second stands; another value would be listed as one of two collectors. A device
// that was not seen the first time is seen the second time, and faults are told.
func TestAClockSetBackIsNoContradiction(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	assembly := usage.NewAssembly()
	var got []usage.Batch
	for at := start + 50; at < start+75; at++ {
		late := reading("g1", collector.Unknown(usage.ReasonTimeout))
		got = r.Record(at, []collector.Reading{reading("g0", collector.Known(1)), late}, 0, got)
	}
	for at := start + 55; at < start+80; at++ {
		again := reading("g0", collector.Known(2))
		if at == start+57 {
			again.Faults = []usage.Fault{{Kind: usage.FaultXID, Code: 79}}
		}
		got = r.Record(at, []collector.Reading{again, reading("g1", collector.Known(3))}, 0, got)
	}
	got = r.Stop(got)
	for i := range got {
		check(t, got[i].Validate())
		check(t, got[i].ValidateBlocks())
		assembly.Add(uint64(i+1), &got[i])
	}
	busy, faults := map[string]string{}, 0
	for _, k := range assembly.Keys() {
		equal(t, 0, len(assembly.Conflicts(k, nil)))
		for _, row := range assembly.Rows(k, nil) {
			if k.Device == "" {
				continue
			}
			var b usage.Block
			check(t, b.Decode(row.Data))
			faults += len(b.Faults)
			b.Seen.Each(func(i int) { busy[k.Device] += fmt.Sprint(b.Busy[i]) })
		}
	}
	equal(t, map[string]string{"g0": strings.Repeat("1", 25) + strings.Repeat("2", 5), "g1": strings.Repeat("3", 25)}, busy)
	equal(t, 1, faults)
}

// TestAClockThatWasFarAhead: what was said then lies ahead of the log's time and does not count, so it is said again when its time comes.
func TestAClockThatWasFarAhead(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	for at := start + 120; at < start+150; at++ {
		r.Record(at, []collector.Reading{reading("g0", collector.Known(1))}, 0, nil)
	}
	var got []usage.Batch
	for at := start; at < start+150; at++ {
		if at == start+100 { // a small step back changes nothing of that
			got = r.Record(at-5, []collector.Reading{reading("g0", collector.Known(2))}, 0, got)
		}
		got = r.Record(at, []collector.Reading{reading("g0", collector.Known(2))}, 0, got)
	}
	seen := 0
	for _, b := range r.Stop(got) {
		for i := range b.Blocks {
			seen += block(t, b, i).Seen.Count()
		}
	}
	equal(t, 150, seen)
}
