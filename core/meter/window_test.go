package meter

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// drawSchedule has windows that begin and end around the worlds' midnight, the first second of Wednesday, 7 January 2026. Of that
// day cn-2025 knows nothing.
func drawSchedule(t *rapid.T) string {
	n := rapid.IntRange(0, 3).Draw(t, "windows")
	if n == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("schedule:\n")
	for i := range n {
		fmt.Fprintf(&out, "  - {name: w%d, for: [%s], windows: [%s %s-%s], off: 10%%%s}\n", i,
			rapid.SampledFrom([]string{"on_demand", "spot", "on_demand, spot", "forward"}).Draw(t, "modes"),
			rapid.SampledFrom([]string{"daily", "Tue", "Wed", "Thu-Tue"}).Draw(t, "days"),
			rapid.SampledFrom([]string{"22:00", "23:30", "23:50", "00:00", "00:01", "00:10"}).Draw(t, "from"),
			rapid.SampledFrom([]string{"23:45", "23:59", "24:00", "00:05", "00:30", "08:00"}).Draw(t, "to"),
			rapid.SampledFrom([]string{"", "", ", holidays: cn-2026", ", holidays: cn-2025"}).Draw(t, "holidays"))
	}
	return out.String()
}

// BenchmarkMonth classifies one month of one GPU, hour by hour, by night and day and through a change of the clock. The samples of
// an hour are at hand.
func BenchmarkMonth(b *testing.B) {
	s := NewState()
	document := `{contract: c1, customer: acme, currency: USD, timezone: America/New_York, term: {from: 2026-01-01, to: 2027-01-01}, rates: [{sku: h100, on_demand: 3.60/gpu-hour}],
		schedule: [{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, Sat-Sun 00:00-24:00], holidays: us-federal-2026, off: 40%}]}`
	const from span.Second = 1772341200 // 2026-03-01T05:00:00Z, local midnight
	facts := numbered(1, signed("c1", document), lease("L", from, share("A", 1000)))
	s.Finish(newTables().read(s.Begin(Block{Seq: 1, At: from, Facts: facts})))
	seen := newSamples()
	var always sampledHour
	for k := range always {
		always[k].Add(1, 1, span.FullMinute, span.FullMinute, make([]byte, 60))
	}
	for k := range span.Hour(722) {
		seen.devices[deviceHour{"A", from.Hour() - 1 + k}] = &always
	}
	b.ReportAllocs()
	for b.Loop() {
		off := int64(0)
		for k := range span.Hour(720) {
			hour := from.Hour() + k
			uh := UnitHour{Unit{Node: "n1", Device: "A"}, hour}
			s.classifier.classify(uh, hour.Span(), s.classifier.cov.cover(uh.Unit, hour, &seen))
			for _, x := range s.classifier.cells {
				if x.Key.Window == "night" {
					off += x.Quantity
				}
			}
		}
		if off < 350*3600*1000 {
			b.Fatalf("%d milli-seconds are off-peak", off)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/43_200, "ns/device-minute")
}

// The top-up of a start has the window of its last second, in the words of the version at the stop.
func TestTopUpHasTheWindowOfTheLastSecond(t *testing.T) {
	const night = "schedule: [{name: night, for: [on_demand], windows: [daily 22:00-00:00], off: 40%}]\n"
	x, s := newTables(), NewState()
	late := &fact.LeaseStopped{Lease: "L1", At: midnight, By: fact.ByCustomer}
	early := &fact.LeaseStopped{Lease: "L2", At: midnight + 10, By: fact.ByCustomer}
	x.play(s, Block{Seq: 1, At: midnight + 7200, Facts: numbered(1,
		signed("c1", document("c1", "monthly", ", minimum: 60s", "3.60")+night),
		lease("L1", midnight-20, share("A", 1000)), late, lease("L2", midnight-10, share("B", 1000)), early)})
	for what, want := range map[string]int64{"L1 leased night": 20_000, "L1 top_up night": 40_000, "L2 leased night": 10_000, "L2 leased ": 10_000, "L2 top_up ": 40_000} {
		got := x.quantity(func(e Entry) bool { return fmt.Sprintf("%s %s %s", e.Lease, e.Key.Kind, e.Key.Window) == what })
		if got != want {
			t.Errorf("%s: %d milli-seconds, want %d", what, got, want)
		}
	}
}
