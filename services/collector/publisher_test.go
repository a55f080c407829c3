package collector_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// named is a batch of node a with one device that says busy.
func named(t *testing.T, run, seq uint64, busy int64) usage.Batch {
	t.Helper()
	at := start + span.Second(1000*run+10*seq)
	r := collector.NewRecorder(collector.Identity{Node: "a", Boot: "boot", Run: run})
	b := r.Stop(r.Record(at, []collector.Reading{reading("a/0", collector.Known(busy))}, 0, nil))[0]
	b.Seq = seq
	return b
}

// TestWhatTheLogMayHold is the table of what a log says of a node, beside a spool that holds sequences 1 to 4 of run 5, of which the
// first two are acknowledged.
func TestWhatTheLogMayHold(t *testing.T) {
	for name, c := range map[string]struct {
		held   []usage.Batch
		cloned string // what the error says; published nothing
		count  collector.Counters
	}{
		"what was acknowledged":        {[]usage.Batch{named(t, 5, 1, 1), named(t, 5, 2, 1)}, "", collector.Counters{Published: 2}},
		"one more: its answer is lost": {[]usage.Batch{named(t, 5, 2, 1), named(t, 5, 3, 1)}, "", collector.Counters{Published: 1, Adopted: 1}},
		"all: their answer is lost":    {[]usage.Batch{named(t, 5, 4, 1)}, "", collector.Counters{Adopted: 1}},
		"one less":                     {[]usage.Batch{named(t, 5, 1, 1)}, "", collector.Counters{Published: 3, Resent: 1}},
		"nothing any more":             {nil, "", collector.Counters{Published: 4, Resent: 2}},
		"a run before":                 {[]usage.Batch{named(t, 4, 9, 1)}, "", collector.Counters{Published: 4, Resent: 2}},
		"other content, acknowledged":  {[]usage.Batch{named(t, 5, 2, 7)}, "holds other content as run 5 sequence 2", collector.Counters{}},
		"other content that waits":     {[]usage.Batch{named(t, 5, 3, 7)}, "holds other content as run 5 sequence 3", collector.Counters{}},
		"a sequence to come":           {[]usage.Batch{named(t, 5, 5, 1)}, "this spool ends at run 5 sequence 4", collector.Counters{}},
		"a run to come":                {[]usage.Batch{named(t, 6, 1, 1)}, "this spool ends at run 5 sequence 4", collector.Counters{}},
	} {
		t.Run(name, func(t *testing.T) {
			sp := openSpool(t, t.TempDir())
			for seq := range uint64(4) {
				check(t, sp.Append(named(t, 5, seq+1, 1)))
			}
			check(t, sp.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 5, Seq: 2}, Position: 2, At: start}))
			log := &stream{held: c.held}
			p := collector.NewPublisher(log, sp)
			err := p.Drain(t.Context(), start)
			equal(t, c.count, p.Counters())
			if c.cloned != "" {
				if !errors.Is(err, collector.ErrCloned) || !strings.Contains(err.Error(), c.cloned) {
					t.Fatalf("error is %v", err)
				}
				equal(t, c.held, log.held)
				return
			}
			check(t, err)
			equal(t, 0, sp.Stats().Unsent)
			equal(t, uint64(len(log.held)), sp.Sent("a").Position)
			check(t, sp.Close())
		})
	}
}

// TestARunBetweenThatTheSpoolNeverHeld is somebody else's, also where later runs wait here.
func TestARunBetweenThatTheSpoolNeverHeld(t *testing.T) {
	sp := openSpool(t, t.TempDir())
	check(t, sp.Append(named(t, 3, 1, 1)))
	check(t, sp.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 3, Seq: 1}, Position: 1, At: start}))
	check(t, sp.Append(named(t, 5, 1, 1)))
	log := &stream{held: []usage.Batch{named(t, 3, 1, 1), named(t, 4, 1, 1)}}
	err := collector.NewPublisher(log, sp).Drain(t.Context(), start)
	if !errors.Is(err, collector.ErrCloned) || !strings.Contains(err.Error(), "never held") {
		t.Fatalf("error is %v", err)
	}
	equal(t, 2, len(log.held))
	check(t, sp.Close())
}

// TestWhatIsGoneOverTheEdgeOfARun: a run before the log's last is not missed, and one of which only the name is left is.
func TestWhatIsGoneOverTheEdgeOfARun(t *testing.T) {
	sp := openSpool(t, t.TempDir())
	log := &stream{held: []usage.Batch{named(t, 3, 50, 1), named(t, 4, 1, 1), named(t, 4, 2, 1)}}
	check(t, sp.Append(log.held...))
	check(t, sp.Append(named(t, 4, 3, 1)))
	check(t, sp.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 4, Seq: 3}, Position: 4, At: start}))
	check(t, sp.Append(named(t, 5, 1, 1)))
	p := collector.NewPublisher(log, sp)
	check(t, p.Drain(t.Context(), start))
	equal(t, collector.Counters{Published: 2, Resent: 1}, p.Counters())

	files, err := spool.Dir(t.TempDir())
	check(t, err)
	other, err := spool.Open(files, spool.Options{SegmentBytes: 64})
	check(t, err)
	for seq := range uint64(9) {
		check(t, other.Append(named(t, 1, seq+1, 1)))
	}
	check(t, other.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 1, Seq: 9}, Position: 9, At: start}))
	check(t, other.Append(named(t, 2, 1, 1)))
	check(t, other.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 1, Seq: 9}, Position: 9, At: start + spool.KeepSeconds}))
	p = collector.NewPublisher(&stream{held: []usage.Batch{named(t, 1, 4, 1)}}, other)
	check(t, p.Drain(t.Context(), start))
	equal(t, collector.Counters{Published: 1, Gone: 5}, p.Counters())
	check(t, errors.Join(sp.Close(), other.Close()))
}

// TestWhatNobodyHoldsAnyMoreIsCounted: a stream that lost more than the spool still has.
func TestWhatNobodyHoldsAnyMoreIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		keep uint64 // what the log has left
		want collector.Counters
	}{
		"all is there":            {6, collector.Counters{Published: 7, Resent: 6}},
		"two before that are not": {4, collector.Counters{Published: 7, Resent: 6, Gone: 2}},
		"nothing is left of it":   {0, collector.Counters{Published: 7, Resent: 6, Gone: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := spool.Dir(t.TempDir())
			check(t, err)
			sp, err := spool.Open(files, spool.Options{SegmentBytes: 64}) // each batch in its own
			check(t, err)
			log := &stream{}
			for seq := uint64(1); seq <= 12; seq++ {
				b := named(t, 1, seq, 1)
				log.held = append(log.held, b)
				check(t, sp.Append(b))
				if seq == 6 {
					check(t, sp.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 1, Seq: 6}, Position: 6, At: start}))
				}
			}
			check(t, sp.MarkSent(spool.Mark{Node: "a", Sent: spool.Name{Run: 1, Seq: 12}, Position: 12, At: start + spool.KeepSeconds}))
			_, ok, err := sp.Find("a", spool.Name{Run: 1, Seq: 6})
			equal(t, false, ok || err != nil)
			check(t, sp.Append(named(t, 1, 13, 1)))
			log.held = log.held[:c.keep]
			p := collector.NewPublisher(log, sp)
			check(t, p.Drain(t.Context(), start))
			equal(t, c.want, p.Counters())
			equal(t, c.keep+7, uint64(len(log.held)))
			check(t, sp.Close())
		})
	}
}
