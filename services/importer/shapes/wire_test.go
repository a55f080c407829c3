package shapes

import (
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// TestTheSamplesArriveThroughTheRealWire sends half an hour of the demo's window through spool, codec and bus and
// counts what is seen at the other end.
func TestTheSamplesArriveThroughTheRealWire(t *testing.T) {
	p := demoPlan(t)
	p.Window = span.Span{From: p.Window.From, To: p.Window.From + 1800}
	nodes, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	files, err := spool.Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sp, err := spool.Open(files, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := membus.New(func() time.Time { return time.Unix(0, 0) })
	cfg := collector.Config{Boot: "boot", FirstRun: 1, Group: collector.ImportGroup, Clock: usage.ClockEvidence{State: usage.ClockScripted}}
	e := collector.New(cfg, nodes, sp, buslog.New(log))
	for at := p.Window.From; at < p.Window.To; at++ {
		if err := e.Step(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages, err := log.Read(t.Context(), bus.Usage, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	arrived, bytes := uint64(0), 0
	for _, m := range messages {
		b, quarantine := codec.DecodeBatch(m)
		if quarantine != nil {
			t.Fatal(quarantine)
		}
		bytes += len(m.Data)
		for _, raw := range b.Blocks {
			var block usage.Block
			if err := block.Decode(raw); err != nil {
				t.Fatal(err)
			}
			arrived += uint64(block.Seen.Count())
		}
	}
	if seen, _ := e.Samples(); arrived != seen || seen < 100_000 {
		t.Fatalf("%d samples were seen, %d arrived", seen, arrived)
	}
	t.Logf("%d samples in %d messages, %d milli-bytes a sample", arrived, len(messages), bytes*1000/int(arrived))
	if err := sp.Close(); err != nil {
		t.Fatal(err)
	}
}
