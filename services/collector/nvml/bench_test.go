//go:build linux && cgo

package nvml

import (
	"fmt"
	"testing"

	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// BenchmarkSample is one second of eight GPUs, by each source of busy. The stub answers at once, so it is what the collector itself
// costs beside the driver.
func BenchmarkSample(b *testing.B) {
	for _, kind := range []string{"rates", "samples", "gpm"} {
		b.Run(kind, func(b *testing.B) {
			s := nvmltest.Start(b)
			for i := range 8 {
				switch g := steady(s, i, fmt.Sprintf("GPU-%d", i)); kind {
				case "samples":
					g.Set("ring", "100:40 200:50 300:60")
				case "gpm":
					g.Hopper(fmt.Sprintf("GPU-%d", i))
				}
			}
			n := start(b, s)
			if len(n.units) != 8 {
				b.Fatalf("%d units", len(n.units))
			}
			var into []collector.Reading
			b.ReportAllocs()
			for b.Loop() {
				n.clock.Add(1e9)
				into = into[:0]
				for _, u := range n.units {
					into, _ = u.Sample(into)
				}
			}
			if len(into) != 8 || !into[7].Busy.Read() {
				b.Fatalf("%+v", into)
			}
		})
	}
}
