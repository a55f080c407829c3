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

func TestEachUnseenSecondHasItsReason(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	seen, mute := reading("g1", collector.Known(5)), reading("g0", collector.Unknown(usage.ReasonTimeout))
	lost := reading("g0", collector.Unknown(usage.ReasonLost))
	r.Gap(start-30, start, usage.GapSuspended)
	r.Record(start, []collector.Reading{seen, lost}, 0, nil)
	r.Record(start+1, []collector.Reading{lost, seen}, 0, nil)
	r.Record(start+2, []collector.Reading{mute, seen}, 0, nil)
	r.Record(start+3, []collector.Reading{seen}, usage.GapPermission, nil)
	r.Record(start+4, []collector.Reading{seen}, 0, nil) // g0 did not exist
	b := r.Stop(nil)[0]
	check(t, b.Validate())
	check(t, b.ValidateBlocks())
	equal(t, []usage.Gap{
		{From: start - 30, To: start, Reason: usage.GapSuspended},
		{From: start + 3, To: start + 4, Reason: usage.GapPermission},
		{Device: "g0", From: start, To: start + 2, Reason: usage.GapLost},
		{Device: "g0", From: start + 2, To: start + 3, Reason: usage.GapTimeout},
	}, b.Gaps)
	r.Record(start+10, []collector.Reading{seen}, 0, nil)
	if next := r.Stop(nil)[0]; len(next.Gaps) != 0 {
		t.Errorf("the next batch repeats %v", next.Gaps)
	}
}

func TestGapsOfAClockThatWentBack(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	r.Gap(start+20, start+40, usage.GapStalled) // then the clock is set back
	r.Gap(start-5, start, usage.GapStalled)
	r.Gap(start-3, start+25, usage.GapSuspended)
	r.Gap(start+9, start+9, usage.GapPaused) // none at all
	b := r.Stop(r.Record(start+30, nil, usage.GapError, nil))[0]
	check(t, b.Validate())
	equal(t, []usage.Gap{
		{From: start - 5, To: start, Reason: usage.GapStalled},
		{From: start, To: start + 25, Reason: usage.GapSuspended},
		{From: start + 25, To: start + 30, Reason: usage.GapStalled},
		{From: start + 30, To: start + 31, Reason: usage.GapError}, // it came again, and failed
	}, b.Gaps)
}

func TestTopologyIsToldWhenItChanges(t *testing.T) {
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	one, two := &usage.Topology{Source: "x"}, &usage.Topology{Source: "x", Devices: []usage.Device{{Name: "g0"}}}
	var got []usage.Batch
	for i, found := range []*usage.Topology{one, one, two, two, nil, one} {
		r.Found(found)
		got = r.Record(start+span.Second(10*i+9), nil, usage.GapError, got)
	}
	got = r.Stop(got)
	for i, want := range []*usage.Topology{one, nil, two, nil, nil, one} {
		equal(t, want, got[i].Topology)
	}
	equal(t, uint64(0), r.Dropped())
	large := &usage.Topology{Source: "x", Devices: []usage.Device{{Name: strings.Repeat("g", 1<<20)}}}
	r.Found(large)
	r.Found(large)
	got = r.Stop(r.Record(start+100, nil, usage.GapError, nil))
	equal(t, true, got[0].Topology == nil)
	equal(t, uint64(1), r.Dropped())
}

func TestBetweenTwoRuns(t *testing.T) {
	const away = span.Second(301)
	for _, tt := range []struct {
		name    string
		boot    string
		stopped bool
		want    usage.GapReason
	}{
		{"stopped", "boot", true, usage.GapStopped},
		{"killed", "boot", false, usage.GapKilled},
		{"rebooted", "another", false, usage.GapRebooted},
		{"stopped, then the machine started anew", "another", true, usage.GapStopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, path := &stream{}, t.TempDir()
			sp := openSpool(t, path)
			e := collector.New(config(1), twoNodes(), sp, log)
			for at := start; at < start+30; at++ {
				check(t, e.Step(t.Context(), at))
			}
			if tt.stopped {
				check(t, e.Stop(t.Context()))
			}
			check(t, sp.Close())
			sp = openSpool(t, path)
			cfg := config(1)
			cfg.Boot = tt.boot
			run(t, collector.New(cfg, twoNodes(), sp, log), start+30+away, start+90+away)
			gapless(t, log.held)
			var gaps []usage.Gap
			for _, b := range log.held {
				gaps = append(gaps, b.Gaps...)
			}
			want := usage.Gap{From: start + 30, To: start + 30 + away, Reason: tt.want}
			equal(t, []usage.Gap{want, want}, gaps)
			equal(t, spool.End{Boot: tt.boot, At: start + 90 + away, Stopped: true}, sp.End("a"))
			check(t, sp.Close())
		})
	}
}

func TestAFailureSaysWhy(t *testing.T) {
	log := &stream{}
	sp := openSpool(t, t.TempDir())
	denied := &collector.NoAnswer{Reason: usage.ReasonPermission, Err: errors.New("not for you")}
	failures := map[span.Second]error{start + 1: denied, start + 2: errors.New("something else"), start + 3: &collector.NoAnswer{Err: errors.New("for no reason")}, start + 6: collector.ErrSlept}
	source := devices{names: []string{"g0"}, fail: func(at span.Second) error { return failures[at] }}
	run(t, collector.New(config(1), []collector.Node{{Name: "n", Source: source}}, sp, log), start, start+10)
	equal(t, []usage.Gap{
		{From: start + 1, To: start + 2, Reason: usage.GapPermission},
		{From: start + 2, To: start + 4, Reason: usage.GapError},
	}, log.held[0].Gaps)
	equal(t, span.SecondMask(0b1110111111), log.held[0].Spoken) // nothing at all is said of the seventh second
	equal(t, 6, len(counted(t, log.held)))
	check(t, sp.Close())
}
