package meter

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// samplesOf are the minutes of device A, whose node never speaks.
func samplesOf(minutes map[span.Minute]*usage.Minute) *samples {
	x := newSamples()
	for m, minute := range minutes {
		x.turn(deviceHour{"A", m.Hour()})
		x.hour[m-m.Hour().FirstMinute()] = *minute
	}
	return &x
}

// TestCoverageAgainstSeconds draws runs and gaps around an hour's edges and counts any part of it by a plain loop.
func TestCoverageAgainstSeconds(t *testing.T) {
	hour := midnight.Hour()
	rapid.Check(t, func(t *rapid.T) {
		runs := map[span.Second]uint64{}
		minutes := map[span.Minute]*usage.Minute{}
		at := hour.Start() - 70
		for at < hour.End()+70 {
			run := rapid.Uint64Range(1, 2).Draw(t, "run")
			to := at + span.Second(rapid.SampledFrom([]int64{1, 2, 59, 60, 61, 900}).Draw(t, "seen"))
			for ; at < to; at++ {
				if minutes[at.Minute()] == nil {
					minutes[at.Minute()] = &usage.Minute{}
				}
				bit := span.Bit(int(at - at.Minute().Start()))
				minutes[at.Minute()].Add(run, 1, bit, bit, []byte{50})
				runs[at] = run
			}
			at += span.Second(rapid.SampledFrom([]int64{1, 9, 10, 11, 19, 20, 21, 22, 70, 800}).Draw(t, "gap"))
		}
		c := new(coverage).cover(Unit{Device: "A"}, hour, samplesOf(minutes))
		from := hour.Start() + span.Second(rapid.Int64Range(0, 3600).Draw(t, "from"))
		part := span.Span{From: from, To: from + span.Second(rapid.Int64Range(0, int64(hour.End()-from)).Draw(t, "length"))}
		want := Amounts{Quantity: part.Seconds()}
		o := oracle{runs: map[string]map[span.Second]uint64{"A": runs}}
		for at := part.From; at < part.To; at++ {
			switch {
			case runs[at] != 0:
				want.Measured++
			case o.inferred("A", at):
				want.Inferred++
			default:
				want.Missing++
			}
		}
		if got := c.of(part); got != want {
			t.Fatalf("%v: got %v, want %v", part, got, want)
		}
	})
}

// TestSlowSource counts the seconds that stand alone by a plain loop, over the edges of minutes and of the hour.
func TestSlowSource(t *testing.T) {
	hour := midnight.Hour()
	rapid.Check(t, func(t *rapid.T) {
		stretches := rapid.SampledFrom([][]int64{{1}, {1, 2}, {1, 1, 1, 2, 3}, {2, 59}}).Draw(t, "stretches")
		gaps := rapid.SampledFrom([][]int64{{1}, {1, 2, 58, 59}, {9, 300}, {700}}).Draw(t, "gaps")
		o := oracle{runs: map[string]map[span.Second]uint64{"A": {}}}
		minutes := map[span.Minute]*usage.Minute{}
		for at := hour.Start() - span.Second(rapid.IntRange(1, 3).Draw(t, "before")); at < hour.End()+3; {
			for to := at + span.Second(rapid.SampledFrom(stretches).Draw(t, "seen")); at < to; at++ {
				if minutes[at.Minute()] == nil {
					minutes[at.Minute()] = &usage.Minute{}
				}
				bit := span.Bit(int(at - at.Minute().Start()))
				minutes[at.Minute()].Add(1, 1, bit, bit, []byte{50})
				o.runs["A"][at] = 1
			}
			at += span.Second(rapid.SampledFrom(gaps).Draw(t, "gap"))
		}
		c := new(coverage).cover(Unit{Device: "A"}, hour, samplesOf(minutes))
		if got, want := c.slow(), o.slowSource("A", hour); got != want {
			t.Fatalf("slow: %v, want %v, of %v and %v", got, want, stretches, gaps)
		}
	})
	for _, c := range []struct {
		alone, pairs int // the pairs lie over the edges of minutes
		slow         bool
	}{{9, 0, false}, {10, 0, true}, {10, 5, false}, {11, 5, true}, {0, 6, false}} {
		var x coverage
		for i := range c.alone {
			x.seen[i] |= span.Bit(30)
		}
		for i := range c.pairs {
			x.seen[20+2*i] |= span.Bit(59)
			x.seen[21+2*i] |= span.Bit(0)
		}
		if got := x.slow(); got != c.slow {
			t.Errorf("%d seconds alone and %d pairs: slow is %v", c.alone, c.pairs, got)
		}
	}
}

func TestCoverageOfNothing(t *testing.T) {
	var c *coverage
	part := span.Span{From: midnight, To: midnight + 90}
	diff(t, Amounts{Quantity: 90, Missing: 90}, c.of(part))
}

// TestBridge: a gap is inferred as far as both its neighbours lie within ten seconds, and only within one run.
func TestBridge(t *testing.T) {
	for _, tt := range []struct {
		gap, run uint64
		inferred int64
	}{{1, 1, 1}, {10, 1, 10}, {11, 1, 9}, {18, 1, 2}, {19, 1, 1}, {20, 1, 0}, {1, 2, 0}} {
		hour := midnight.Hour()
		at := hour.Start() + 55 // over a minute's edge
		minutes := map[span.Minute]*usage.Minute{}
		for run, at := range map[uint64]span.Second{1: at, tt.run + 10: at + span.Second(tt.gap) + 1} {
			m := minutes[at.Minute()]
			if m == nil {
				m = &usage.Minute{}
				minutes[at.Minute()] = m
			}
			bit := span.Bit(int(at - at.Minute().Start()))
			m.Add(run%10, 1, bit, bit, []byte{50})
		}
		c := new(coverage).cover(Unit{Device: "A"}, hour, samplesOf(minutes))
		diff(t, Amounts{3600, 2, tt.inferred, 3598 - tt.inferred}, c.of(hour.Span()))
	}
}
