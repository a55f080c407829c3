package meter

import (
	"fmt"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// BenchmarkClassify is the inner loop alone: an hour of one leased device whose samples are at hand.
func BenchmarkClassify(b *testing.B) {
	s := NewState()
	facts := numbered(1, signed("c1", document("c1", "monthly", "", "3.60")), lease("L", midnight-7200, share("A", 1000)))
	s.Finish(newTables().read(s.Begin(Block{Seq: 1, At: midnight - 7200, Facts: facts})))
	hour := midnight.Hour()
	minutes := map[span.Minute]*usage.Minute{}
	for k := range span.Minute(62) {
		m := &usage.Minute{}
		m.Add(1, uint64(k+1), span.FullMinute, span.FullMinute&^6, make([]byte, 58))
		minutes[hour.FirstMinute()-1+k] = m
	}
	view := func(device string, m span.Minute) *usage.Minute { return minutes[m] }
	uh := UnitHour{Unit{Node: "n1", Device: "A"}, hour}
	b.ReportAllocs()
	for b.Loop() {
		out := map[Entry]Amounts{}
		s.classifier.classify(uh, hour.Span(), cover("A", hour, view), out)
		if len(out) == 0 {
			b.Fatal("nothing was classified")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/60, "ns/device-minute")
}

// BenchmarkHours is a tick that closes ten hours of 10,000 leased devices without samples: 100,000 unit hours.
func BenchmarkHours(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := NewState()
		bodies := []fact.Body{signed("c1", document("c1", "monthly", "", "3.60"))}
		for i := range 1250 {
			var devices []fact.Share
			for k := range 8 {
				devices = append(devices, share(fmt.Sprintf("G-%d-%d", i, k), 1000))
			}
			bodies = append(bodies, lease(fmt.Sprint("L", i), midnight-1800, devices...))
		}
		s.Finish(newTables().read(s.Begin(Block{Seq: 1, At: midnight, Facts: numbered(1, bodies...)})))
		b.StartTimer()
		needs := s.Begin(Block{Seq: 2, At: midnight - 1800 + 36000 + HourDelaySeconds})
		out := s.Finish(Reads{})
		if len(needs.Minutes) > 0 || len(out.Ledger) < 100_000 {
			b.Fatalf("%d differences", len(out.Ledger))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/unit-hour")
}
