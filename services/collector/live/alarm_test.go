package live_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
)

// stuck is an output that nobody reads until it is released.
type stuck struct {
	release chan struct{}
	lines   []string
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	s.lines = append(s.lines, string(p))
	return len(p), nil
}

// TestNobodyReadsTheAlarms: a second takes no longer for it, and what is not read does not pile up.
func TestNobodyReadsTheAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		node := livetest.NewNode("a", "b")
		s := live.NewSampler(live.SamplerConfig{Open: node.Open, Log: slog.New(slog.NewTextHandler(out, nil))})
		_, err := s.Sample(0, nil)
		check(t, err)
		node.Hang("a")
		for range 600 {
			began := time.Now()
			_, err := s.Sample(0, nil)
			check(t, err)
			if took := time.Since(began); took > 700*time.Millisecond {
				t.Fatalf("a second took %s", took)
			}
			<-time.After(time.Second - time.Since(began))
		}
		equal(t, uint64(600), s.Stats().Alarms["unit_hangs"])
		close(out.release)
		synctest.Wait()
		if len(out.lines) != 1 || !strings.Contains(out.lines[0], "unit_hangs") {
			t.Fatalf("written: %q", out.lines)
		}
		node.ReleaseAll()
		_, err = closed(t, s)
		check(t, err)
	})
}

// restless is hardware with a slice that its driver lists and refuses.
type restless struct{ scans int }

func (r *restless) Topology() usage.Topology             { return usage.Topology{Source: "restless"} }
func (r *restless) Close() error                         { return nil }
func (r *restless) Name() string                         { return "a" }
func (r *restless) Devices() []string                    { return []string{"a"} }
func (r *restless) Capabilities() []collector.Capability { return nil }

func (r *restless) Scan() ([]collector.Unit, error) {
	r.scans++
	return []collector.Unit{r}, nil
}

func (r *restless) Sample(into []collector.Reading) ([]collector.Reading, error) {
	return append(into, livetest.Reading("a", 1)), collector.ErrChanged
}

// TestAUnitThatAsksForAScanAlways gets them ever later, until they are as rare as those that nobody asks for.
func TestAUnitThatAsksForAScanAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hardware := &restless{}
		s := live.NewSampler(live.SamplerConfig{Open: func() (collector.Hardware, error) { return hardware, nil }})
		scans := map[int]int{}
		for second := range 601 {
			readings, err := s.Sample(0, nil)
			check(t, err)
			equal(t, 1, len(readings))
			synctest.Wait()
			scans[second] = hardware.scans
			<-time.After(time.Second)
		}
		equal(t, []int{2, 3, 4, 5}, []int{scans[0], scans[1], scans[3], scans[7]})
		if n := scans[600]; n < 60 || n > 66 {
			t.Fatalf("%d scans in ten minutes", n)
		}
		_, err := closed(t, s)
		check(t, err)
	})
}
