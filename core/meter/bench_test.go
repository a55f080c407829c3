package meter

import (
	"fmt"
	"strings"
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
	seen := samplesOf(minutes)
	uh := UnitHour{Unit{Node: "n1", Device: "A"}, hour}
	b.ReportAllocs()
	for b.Loop() {
		s.classifier.classify(uh, hour.Span(), s.classifier.cov.cover(uh.Unit, hour, seen))
		if len(s.classifier.cells) == 0 {
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

// BenchmarkSupply is a tick that closes an hour in which 5,000 leases of one contract and SKU run, 1,000 of them begin and 1,000
// end, and 2,000 GPUs are reserved: 500 of them in one region.
func BenchmarkSupply(b *testing.B) {
	const leases, churn = 5000, 1000
	text := strings.Replace(document("c1", "monthly", "", "3.60"), "region: {in: 100%}", "region: {in: 100%, out: 88%}, reserved: "+
		"[{name: base, quantity: 1500, price: 1/gpu-day, from: 2026-01-01, to: 2027-01-01}, {name: in, quantity: 500, region: in, price: 1/gpu-day, from: 2026-01-01, to: 2027-01-01}]", 1)
	bodies := []fact.Body{signed("c1", text)}
	hour := midnight.Hour() + 1
	for i := range leases + churn {
		l := lease(fmt.Sprint("L", i), hour.Start()-7200-span.Second(i%1777), share(fmt.Sprint("G", i), 1000))
		if i%3 == 0 {
			l.Region = "out"
		}
		if i >= leases {
			l.At = hour.Start() + span.Second(i*7%3600)
		}
		bodies = append(bodies, l)
		if i < churn {
			bodies = append(bodies, &fact.LeaseStopped{Lease: fmt.Sprint("L", i), At: hour.Start() + span.Second(i*11%3600), By: fact.ByCustomer})
		}
	}
	facts := numbered(1, bodies...)
	for b.Loop() {
		b.StopTimer()
		s := NewState()
		s.Finish(newTables().read(s.Begin(Block{Seq: 1, At: hour.Start() + HourDelaySeconds, Facts: facts})))
		b.StartTimer()
		s.Begin(Block{Seq: 2, At: hour.End() + HourDelaySeconds})
		if out := s.Finish(Reads{}); len(out.Ledger) < leases {
			b.Fatalf("%d differences", len(out.Ledger))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(leases+churn), "ns/unit-hour")
}
