package collector_test

import (
	"testing"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
)

// A node of eight GPUs that runs for ten minutes.
const (
	measuredDevices = 8
	measuredSeconds = 600
	measuredSamples = measuredDevices * measuredSeconds
)

// size is what one sample, a second of a device, takes in thousandths of a byte.
type size struct{ plain, signed, disk int64 }

// measure sends a shape through recorder, spool and encoder, and counts what a reader sees. The topology, which goes once in a run, is left out.
func measure(t testing.TB, shape livetest.Shape) size {
	t.Helper()
	var out size
	sp := openSpool(t, t.TempDir())
	empty := sp.Stats().Bytes
	fleet := livetest.NewFleet(shape, measuredDevices)
	r := collector.NewRecorder(collector.Identity{
		Node: "gpu-node-0123", Boot: "3f1e0c52-6a1b-4d0e-9d42-0b6f4a2f9c11", Run: 1_772_000_000,
		Clock: usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -18_000, ErrorBoundNano: 420_000},
	})
	seen := 0
	for at := start; at < start+measuredSeconds; at++ {
		for _, b := range r.Record(at, fleet.Next(), 0, nil) {
			check(t, sp.Append(b))
			n, samples := encoded(t, &b)
			out.plain += n
			seen += samples
			check(t, signer(1).Sign(&b))
			n, _ = encoded(t, &b)
			out.signed += n
		}
	}
	out.disk = sp.Stats().Bytes - empty
	check(t, sp.Close())
	if seen != measuredSamples {
		t.Fatalf("%d samples were said, %d are seen", measuredSamples, seen)
	}
	for _, n := range []*int64{&out.plain, &out.signed, &out.disk} {
		*n = *n * 1000 / measuredSamples
	}
	return out
}

// encoded is a batch's message as its reader takes it: its bytes, and the samples in it of which every metric is known.
func encoded(t testing.TB, b *usage.Batch) (bytes int64, samples int) {
	t.Helper()
	p, err := codec.EncodeBatch(b)
	check(t, err)
	got, q := codec.DecodeBatch(bus.Message{Subject: p.Subject, Header: p.Header, Data: p.Data})
	if q != nil {
		t.Fatal(q)
	}
	var block usage.Block
	for _, raw := range got.Blocks {
		check(t, block.Decode(raw))
		known := block.Seen & block.Memory.Known & block.Power.Known & block.Energy.Known & block.Throttle.Known
		known.Each(func(i int) {
			if block.Busy[i] != usage.BusyUnknown {
				samples++
			}
		})
	}
	return int64(len(p.Data)), samples
}

// TestBytesOfASample holds what docs and spool's limit count on, with room for a field more.
func TestBytesOfASample(t *testing.T) {
	most := map[livetest.Shape]int64{livetest.Idle: 18_000, livetest.Steady: 19_000, livetest.Noisy: 28_000}
	last := int64(0)
	for _, shape := range livetest.Shapes() {
		s := measure(t, shape)
		if s.plain <= last || s.signed > most[shape] || s.disk > most[shape] {
			t.Errorf("%s: a sample takes %d thousandths of a byte, %d signed, %d in the spool; want more than the %d of the shape before and at most %d",
				shape, s.plain, s.signed, s.disk, last, most[shape])
		}
		if extra := s.signed - s.plain; extra != (usage.SeedBytes+usage.SignatureBytes+4)*1000/(measuredDevices*collector.FlushSeconds) {
			t.Errorf("%s: a signature costs %d thousandths of a byte for a sample", shape, extra)
		}
		last = s.plain
	}
}

// BenchmarkBytesOfASample states what a second of one device takes, of eight on a node that sends every ten seconds.
func BenchmarkBytesOfASample(b *testing.B) {
	for _, shape := range livetest.Shapes() {
		b.Run(string(shape), func(b *testing.B) {
			var s size
			for b.Loop() {
				s = measure(b, shape)
			}
			for unit, n := range map[string]int64{"B/sample": s.plain, "B/sample-signed": s.signed, "B/sample-on-disk": s.disk} {
				b.ReportMetric(float64(n)/1000, unit)
			}
			b.ReportMetric(float64(s.signed)*measuredDevices*86_400/1000/(1<<20), "MiB/node-day-signed")
			b.ReportMetric(0, "ns/op")
		})
	}
}
