//go:build unix

package live_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
)

// benchTime is how long a benchmark in real time runs: five seconds, or GPUHOUR_LIVE_SECONDS of them.
func benchTime(b *testing.B) time.Duration {
	b.Helper()
	text := os.Getenv("GPUHOUR_LIVE_SECONDS")
	if text == "" {
		return 5 * time.Second
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("GPUHOUR_LIVE_SECONDS is %q, which is no number of seconds", text)
	}
	return time.Duration(n) * time.Second
}

// BenchmarkEightDevicesAtOneHertz runs the loop alone in real time, in this process: without driver, log and metrics. What the product
// takes is BenchmarkCommand's.
func BenchmarkEightDevicesAtOneHertz(b *testing.B) {
	took := benchTime(b)
	seconds := int(took / time.Second)
	for b.Loop() {
		node := livetest.NewNode("g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7")
		c, err := livetest.Measure(node.Open, b.TempDir(), took)
		if err != nil {
			b.Fatal(err)
		}
		if c.Stats.Seconds < uint64(seconds-1) || c.Stats.DeviceSeconds < 8*uint64(seconds-2) {
			b.Fatalf("%d seconds gave %+v", seconds, c.Stats)
		}
		b.ReportMetric(float64(c.CPU)/float64(time.Second)*100, "%-of-a-core")
		b.ReportMetric(float64(c.RSS)/(1<<20), "MiB-RSS")
		b.ReportMetric(float64(c.Stats.Jitter.P99)/1e6, "ms-jitter-p99")
		b.ReportMetric(float64(c.SpoolBytes)/float64(c.Stats.DeviceSeconds), "spool-bytes/device-second")
		b.ReportMetric(0, "ns/op")
	}
}
