package exporter_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/exporter"
)

// sampleStale samples a page that shows an old value somewhere: the error names the page, a device and what to do.
func sampleStale(t *testing.T, e *exporter.Endpoint) []collector.Reading {
	t.Helper()
	r, err := e.Sample(nil)
	if !errors.Is(err, collector.ErrPartly) || !strings.Contains(err.Error(), e.Name()) || !strings.Contains(err.Error(), "-c 1000") {
		t.Fatalf("%v", err)
	}
	return r
}

// TestStaleByEnergy: a page that shows the same again measures nothing, an idle GPU whose energy moves never is stale, and it is over
// when something moves. Where the page before was another one each time, one repeat is drift.
func TestStaleByEnergy(t *testing.T) {
	s := serve(t, fmt.Sprintf(two, 50, 0, 0))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	for n, c := range []struct {
		energy int
		stale  bool
	}{
		{1, false}, {1, true}, {1, true}, // as after a start
		{4, false}, {5, false}, {5, false}, {5, true}, {8, false}, {8, true}, // it moved each second, once it did not
		{9, false}, {9, true}, {9, true}, {13, false}, // it moves seldom
	} {
		s.page(fmt.Sprintf(two, 50, c.energy, n))
		var got []collector.Reading
		if c.stale {
			got = sampleStale(t, e)
			if got[0].Busy != collector.Unknown(usage.ReasonStale) || got[0].Energy != collector.Unknown(usage.ReasonStale) {
				t.Fatalf("page %d: %+v", n, got[0])
			}
		} else if got = sample(t, e); got[0].Busy != collector.Known(50) || got[0].Energy != collector.Known(int64(c.energy)) {
			t.Fatalf("page %d: %+v", n, got[0])
		}
		if got[0].Memory != collector.Unknown(usage.ReasonNotSupported) {
			t.Fatalf("what was unknown before keeps its reason: %+v", got[0])
		}
		if got[1].Busy != collector.Known(0) || got[1].Energy != collector.Known(int64(n)) {
			t.Fatalf("page %d: the idle one is %+v", n, got[1])
		}
	}
}

// TestASlowExporterIsSeenOnceARefresh: what refreshes every 2, 5 or 30 seconds gives one second each, and no two side by side, so that
// bill_by: observed refuses it (core/meter, slow_source); one that refreshes every second and is late by one now and then leaves no hole.
func TestASlowExporterIsSeenOnceARefresh(t *testing.T) {
	for every, want := range map[int]int{1: 60, 2: 30, 5: 12, 30: 2} {
		s := serve(t, fmt.Sprintf(two, 50, 0, 0))
		_, e := open(t, exporter.Options{URLs: []string{s.URL}})
		seen, last := 0, -2
		for second := range 60 {
			n := second/every + 1
			if every == 1 && second%10 == 9 {
				n--
			}
			s.page(fmt.Sprintf(two, 50, n, n))
			got, _ := e.Sample(nil)
			if !got[0].Seen() {
				continue
			}
			if every > 1 && last == second-1 {
				t.Errorf("every %d s: seconds %d and %d are seen", every, last, second)
			}
			seen, last = seen+1, second
		}
		if seen != want {
			t.Errorf("every %d s: %d of 60 seconds seen, want %d", every, seen, want)
		}
	}
}

// TestStaleSlices: slices are judged by their GPU's counter, which stands with them in the page alone; also where they have names of
// their own, and the page does not say of which GPU they are.
func TestStaleSlices(t *testing.T) {
	page := fixture(t, "dcgm-mig.prom")
	for name, page := range map[string]string{
		"GPU-aaaaaaaa-0000-0000-0000-000000000001/1": page,
		"MIG-aaaaaaaa-0000-0000-0000-000000000001":   strings.ReplaceAll(page, "GPU-aaaaaaaa-0000-0000-0000-000000000001", "MIG-aaaaaaaa-0000-0000-0000-000000000001"),
	} {
		s := serve(t, page)
		_, e := open(t, exporter.Options{URLs: []string{s.URL}})
		for n := range 3 {
			got, _ := e.Sample(nil)
			i := slices.IndexFunc(got, func(r collector.Reading) bool { return r.Device == name })
			if fresh := n < 1; i < 0 || got[i].Busy.Read() != fresh || got[i].Energy != collector.Unknown(usage.ReasonNotSupported) {
				t.Fatalf("page %d: %+v", n, got)
			}
		}
	}
}

// TestStaleByTime: Ascend has no energy; each line's own time is the witness, standing or old.
func TestStaleByTime(t *testing.T) {
	at := int64(1_723_621_883_000)
	memoryAt := at
	now := time.UnixMilli(at)
	page := func() string {
		return fmt.Sprintf("npu_chip_info_utilization{id=\"0\",vdie_id=\"A\"} 5 %d\nnpu_chip_info_hbm_used_memory{id=\"0\",vdie_id=\"A\"} 1 %d\n", at, memoryAt)
	}
	s := serve(t, page())
	_, e := open(t, exporter.Options{URLs: []string{s.URL}, MaxAge: 20 * time.Second, Now: func() time.Time { return now }})
	want := func(busy, memory bool) {
		t.Helper()
		s.page(page())
		r, err := e.Sample(nil)
		got := r[0]
		if got.Busy.Read() != busy || !busy && got.Busy.Reason != usage.ReasonStale || got.Memory.Read() != memory || (err == nil) != (busy && memory) {
			t.Fatalf("%+v, %v", got, err)
		}
		if got.Energy != collector.Unknown(usage.ReasonNotSupported) {
			t.Fatalf("energy %+v", got.Energy)
		}
	}
	want(true, true)
	want(false, false) // both stand still
	at += 1000
	want(true, false) // what reads the memory hangs
	memoryAt += 1000
	at += 1000
	want(true, true)
	now = now.Add(23 * time.Second)
	at += 500
	memoryAt += 2000
	want(false, true) // moves, and is over 20 s old; the other is not
	at += 1000
	want(true, true) // late by one, after it was not: drift
	at += 1000
	want(true, false)
}

func TestWithoutAWitnessNothingIsStale(t *testing.T) {
	s := serve(t, fixture(t, "amd-mini.prom"))
	_, e := open(t, exporter.Options{URLs: []string{s.URL}})
	for range 4 {
		if got := sample(t, e)[0]; got.Power != collector.Known(41000) {
			t.Fatalf("%+v", got)
		}
	}
	if c := capability(e, "freshness"); c.Reason != usage.ReasonNotSupported || !strings.Contains(c.Note, "not noticed") {
		t.Fatalf("%+v", c)
	}
}
