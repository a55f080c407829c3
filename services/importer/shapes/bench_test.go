package shapes

import (
	"context"
	"testing"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// sink is a log that answers at once and counts the bytes of blocks.
type sink struct {
	last, bytes uint64
}

func (s *sink) Publish(_ context.Context, out []collector.Outgoing) (uint64, error) {
	for i := range out {
		for _, b := range out[i].Batch.Blocks {
			s.bytes += uint64(len(b))
		}
	}
	s.last += uint64(len(out))
	return s.last, nil
}

func (s *sink) Last(context.Context, string) (collector.Held, error) { return collector.Held{}, nil }

// BenchmarkImport is the demo's road up to the bus: generate, record, encode, spool with fsync, mark, four hours of the
// demo's window a round.
func BenchmarkImport(b *testing.B) {
	p := demoPlan(b)
	p.Window.To = p.Window.From + 4*3600
	samples, bytes, spooled := uint64(0), uint64(0), int64(0)
	for b.Loop() {
		nodes, _, err := p.Build()
		if err != nil {
			b.Fatal(err)
		}
		files, err := spool.Dir(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		sp, err := spool.Open(files, spool.Options{})
		if err != nil {
			b.Fatal(err)
		}
		log := &sink{}
		e := collector.New(collector.Config{Boot: "bench", FirstRun: 1, Group: collector.ImportGroup}, nodes, sp, log)
		for at := p.Window.From; at < p.Window.To; at++ {
			if err := e.Step(b.Context(), at); err != nil {
				b.Fatal(err)
			}
		}
		if err := e.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		seen, _ := e.Samples()
		samples, bytes, spooled = samples+seen, bytes+log.bytes, spooled+sp.Stats().Bytes
		if err := sp.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(float64(bytes)/float64(samples), "block-B/sample")
}

// BenchmarkBlock states the bytes per sample of ten-second blocks by the kind of device.
func BenchmarkBlock(b *testing.B) {
	s, err := readSeries()
	if err != nil {
		b.Fatal(err)
	}
	window := span.Span{From: 1_780_000_020, To: 1_780_003_620}
	for name, loads := range map[string][]load{
		"idle": nil, "steady": {{"s", 1000, 4 << 8}}, "noisy": {{"n", 1000, 5<<8 + 1}},
	} {
		b.Run(name, func(b *testing.B) {
			bytes, samples := 0, 0
			for b.Loop() {
				d := &device{
					name: "openb-node-0123/gpu-0", seed: 7, series: s, window: window, next: window.From, minute: minute{at: -1},
					stretches: []stretch{{window, loads}},
				}
				r := collector.NewRecorder(collector.Identity{Node: "openb-node-0123", Run: 1})
				var batches []usage.Batch
				reading := make([]collector.Reading, 1)
				for at := window.From; at < window.To; at++ {
					d.At(at, &reading[0])
					batches = r.Record(at, reading, 0, batches[:0])
					for i := range batches {
						bytes += len(batches[i].Blocks[0])
					}
				}
				samples += int(window.Seconds())
			}
			b.ReportMetric(float64(bytes)/float64(samples), "B/sample")
			b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
