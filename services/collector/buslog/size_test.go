package buslog_test

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// worst is a second of as many devices as there may be, each with the longest name and numbers that compress worst: every second
// it has another reason or another value.
func worst(at span.Second, lost bool) []collector.Reading {
	readings := make([]collector.Reading, 0, usage.MaxBlocks)
	for i := range usage.MaxBlocks {
		m := collector.Known(int64(1-at%2*2) << 61)
		if lost {
			m = collector.Unknown(usage.Reason(1 + at%7))
		}
		r := collector.Reading{Device: longName(i), Busy: m, Memory: m, Power: m, Energy: m, Throttle: m}
		for range usage.MaxFaults / 10 {
			r.Faults = append(r.Faults, usage.Fault{Kind: usage.FaultVendor, Code: 1<<64 - 1})
		}
		readings = append(readings, r)
	}
	return readings
}

func longName(i int) string {
	name := fmt.Sprintf("%04d", i)
	return name + strings.Repeat("x", usage.MaxDeviceBytes-len(name))
}

// TestTheLogTakesEveryBatch: a batch that is more than a message would stand in front of all others of its node for ever.
func TestTheLogTakesEveryBatch(t *testing.T) {
	const start = span.Second(1_767_225_600)
	long := strings.Repeat("n", usage.MaxNameBytes)
	key := testKey()
	for name, lost := range map[string]func(span.Second) bool{
		"seen": func(span.Second) bool { return false },
		"lost": func(span.Second) bool { return true },
		"both": func(at span.Second) bool { return at%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := collector.NewRecorder(collector.Identity{Node: long, Boot: long, Run: 1<<63 - 1, Previous: spool.Name{Run: 1<<63 - 2, Seq: 1<<64 - 1}})
			fits := &usage.Topology{Source: "s"}
			for i := range usage.MaxBlocks {
				fits.Devices = append(fits.Devices, usage.Device{Name: longName(i), Parent: longName(i), Model: longName(i), MemoryBytes: 1<<63 - 1})
			}
			r.Found(fits)
			for i := range span.Second(20_000) { // more than one batch may have
				r.Gap(start-40_000+2*i, start-40_000+2*i+1, usage.GapStalled)
			}
			var batches []usage.Batch
			for at := start; at < start+10; at++ {
				batches = r.Record(at, worst(at, lost(at)), 0, batches)
			}
			log := buslog.New(membus.New(func() time.Time { return time.Unix(1, 0) }))
			devices, gaps, topologies := map[string]span.SecondMask{}, map[string]int{}, 0
			last := uint64(0)
			for _, b := range batches {
				if b.Topology != nil {
					topologies++
				}
				for _, g := range b.Gaps {
					gaps[g.Device] += int(g.To - g.From)
				}
				var block usage.Block
				for _, raw := range b.Blocks {
					if err := block.Decode(raw); err != nil || devices[block.Device] != 0 {
						t.Fatalf("%.4s: %v, %#x before", block.Device, err, devices[block.Device])
					}
					devices[block.Device] = block.Seen | 1<<60
				}
				thin := spool.Gap(b)
				if p, err := codec.EncodeBatch(&thin); err != nil || len(p.Data) > bus.MaxMessageBytes {
					t.Fatalf("thinned: %d bytes, %v", len(p.Data), err)
				}
				if err := trust.Sign(key, &b); err != nil {
					t.Fatal(err)
				}
				expect := last
				var err error
				if last, err = log.Publish(t.Context(), []collector.Outgoing{{Batch: b, ExpectLast: &expect}}); err != nil {
					t.Fatalf("batch %d: %v", b.Seq, err)
				}
			}
			if len(batches) < 2 || len(devices) != usage.MaxBlocks || topologies != 1 || gaps[""] != 20_000 || r.Dropped() != 0 {
				t.Fatalf("%d batches of %d devices, %d topologies, %d seconds of the node's gaps, %d dropped",
					len(batches), len(devices), topologies, gaps[""], r.Dropped())
			}
			for i := range usage.MaxBlocks {
				seen := (devices[longName(i)] &^ (1 << 60)).Count()
				if seen+gaps[longName(i)] != 10 {
					t.Fatalf("device %d: %d seconds seen, %d in gaps", i, seen, gaps[longName(i)])
				}
			}
		})
	}
}

func TestATopologyThatIsTooLargeIsNotTold(t *testing.T) {
	huge := &usage.Topology{Source: "s"}
	for i := range usage.MaxBlocks {
		n := longName(i)
		huge.Devices = append(huge.Devices, usage.Device{Name: n, Parent: n, Model: n, Serial: n, Profile: n})
	}
	r := collector.NewRecorder(collector.Identity{Node: "n", Run: 1})
	for at := range span.Second(3) {
		r.Found(huge)
		r.Record(1_767_225_600+at, nil, 0, nil)
	}
	b := r.Stop(nil)
	if len(b) != 1 || b[0].Topology != nil || r.Dropped() != 1 || collector.Fits(huge) {
		t.Fatalf("%d batches, topology %v, %d dropped", len(b), b[0].Topology != nil, r.Dropped())
	}
}

func testKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }
