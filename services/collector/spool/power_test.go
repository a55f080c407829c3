package spool_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/collector/spool/spooltest"
)

const minute = span.Minute(29_000_000)

func batch(seq uint64) usage.Batch {
	return usage.Batch{
		Node: "a", Boot: "boot", Run: 1, Seq: seq, Minute: minute + span.Minute(seq), Spoken: 0x3ff,
		Blocks: [][]byte{[]byte(strings.Repeat("block", 20))},
	}
}

func open(t *testing.T, d *spooltest.Disk, opts spool.Options) *spool.Spool {
	t.Helper()
	s, err := spool.Open(d, opts)
	check(t, err)
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func mark(seq uint64, at span.Second) spool.Mark {
	return spool.Mark{Node: "a", Sent: spool.Name{Run: 1, Seq: seq}, Position: seq, At: at}
}

func segments(t *testing.T, d *spooltest.Disk) (all []string) {
	t.Helper()
	names, err := d.List()
	check(t, err)
	return names
}

// TestNoSegmentGoesBeforeItsMarkIsOnDisk: a power loss that took the mark and left the removal would leave a spool that has never heard
// of what the log holds, and its node would be called a clone.
func TestNoSegmentGoesBeforeItsMarkIsOnDisk(t *testing.T) {
	d := spooltest.New()
	s := open(t, d, spool.Options{SegmentBytes: 300})
	for seq := range uint64(4) {
		check(t, s.Append(batch(seq+1)))
	}
	check(t, s.MarkSent(mark(4, 1000)))
	check(t, s.MarkSent(mark(4, 1000+spool.KeepSeconds)))
	equal(t, 1, len(segments(t, d)))
	equal(t, mark(4, 1000+spool.KeepSeconds), open(t, d.PowerLost(0, true), spool.Options{}).Sent("a"))
}

// TestTheTailOutlivesARestart: ten minutes are ten minutes of sample time, whoever counts them.
func TestTheTailOutlivesARestart(t *testing.T) {
	d := spooltest.New()
	s := open(t, d, spool.Options{SegmentBytes: 300})
	for seq := range uint64(4) {
		check(t, s.Append(batch(seq+1)))
	}
	check(t, s.MarkSent(mark(3, 1000)))
	d = d.Killed()
	s = open(t, d, spool.Options{SegmentBytes: 300})
	check(t, s.MarkSent(mark(4, 1000+spool.KeepSeconds-1)))
	back, oldest := s.Rewind("a", spool.Name{})
	equal(t, 4, back)
	equal(t, spool.Name{Run: 1, Seq: 1}, oldest)
	check(t, s.MarkSent(mark(4, 1000+spool.KeepSeconds)))
}

// TestAThinnedSegmentStaysThinned: once it may have been published as a gap, a power loss must not bring the data back under its name.
func TestAThinnedSegmentStaysThinned(t *testing.T) {
	d := spooltest.New()
	opts := spool.Options{MaxBytes: 3000, SegmentBytes: 600}
	s := open(t, d, opts)
	for seq := uint64(1); s.Stats().Thinned == 0; seq++ {
		check(t, s.Append(batch(seq)))
	}
	want, err := s.Unsent(1000, 1<<20)
	check(t, err)
	for _, late := range []bool{false, true} {
		got, err := open(t, d.PowerLost(0, late), opts).Unsent(1000, 1<<20)
		check(t, err)
		equal(t, want, got)
	}
}

// TestWhatAKillInMidThinningLeft is cleared away: a draft that is longer than the next one would show behind it.
func TestWhatAKillInMidThinningLeft(t *testing.T) {
	d := spooltest.New()
	f, err := d.Open("00000001.spool.tmp")
	check(t, err)
	_, err = f.WriteAt(slices.Repeat([]byte{7}, 5000), 0)
	check(t, err)
	open(t, d, spool.Options{})
	equal(t, []string{"00000001.spool"}, segments(t, d))
}

// TestASegmentThatDiedBeforeItsFirstRecord begins with what is known of every node all the same.
func TestASegmentThatDiedBeforeItsFirstRecord(t *testing.T) {
	d := spooltest.New()
	s := open(t, d, spool.Options{})
	check(t, s.Append(batch(1), batch(2)))
	check(t, s.MarkSent(mark(1, 1000)))
	check(t, s.Stop())
	_, err := d.Open("00000002.spool")
	check(t, err)
	d = d.Killed()
	s = open(t, d, spool.Options{})
	end := s.End("a")
	check(t, d.Remove("00000001.spool"))
	s = open(t, d.Killed(), spool.Options{})
	equal(t, spool.Name{Run: 1, Seq: 2}, s.Last("a"))
	equal(t, mark(1, 1000), s.Sent("a"))
	equal(t, end, s.End("a"))
	equal(t, true, end.Stopped)
}

// TestAGapRecordKeepsWhatItsBatchTold: topology and gaps, and that the data was given up where there was some. The run behind it goes on
// from the end of all that it spoke for.
func TestAGapRecordKeepsWhatItsBatchTold(t *testing.T) {
	b := batch(1)
	from := b.Minute.Start()
	lost := usage.Gap{Device: "g", From: from + 1, To: from + 4, Reason: usage.GapLost}
	killed := usage.Gap{From: from - 50, To: from, Reason: usage.GapKilled}
	failed := usage.Gap{From: from + 4, To: from + 6, Reason: usage.GapPermission}
	b.Gaps = []usage.Gap{killed, failed, lost}
	b.Topology = &usage.Topology{Source: "nvml"}
	check(t, b.Validate())
	g := spool.Gap(b)
	check(t, g.Validate())
	want := b
	want.Blocks, want.Spoken = nil, span.Bit(0)
	want.Gaps = []usage.Gap{
		killed,
		{From: from, To: from + 4, Reason: usage.GapThinned},
		failed,
		{From: from + 6, To: from + 10, Reason: usage.GapThinned},
		lost,
	}
	equal(t, want, g)
	d := spooltest.New()
	s := open(t, d, spool.Options{})
	check(t, s.Append(g))
	equal(t, from+10, s.End("a").At)
	equal(t, from+10, open(t, d.Killed(), spool.Options{}).End("a").At)
}
