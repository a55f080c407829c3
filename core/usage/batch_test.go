package usage

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/span"
)

func validBatch() Batch {
	a, b := Block{Device: "GPU-0", Seen: 0b011}, Block{Device: "GPU-1", Seen: 0b111, Faults: []Fault{{Second: 2, Kind: FaultXID, Code: 31}}}
	return Batch{
		Node: "node7", Boot: "b1", Run: 3, Seq: 1, PreviousRun: 2, PreviousSeq: 9, Minute: testMinute, Spoken: 0b111,
		Clock: ClockEvidence{State: ClockSynchronised, OffsetNanos: -20_000, ErrorBoundNano: 900_000}, Blocks: [][]byte{a.Append(nil), b.Append(nil)},
	}
}

func TestBatchValid(t *testing.T) {
	tests := map[string]func(b *Batch){
		"as it is":         func(*Batch) {},
		"no run before":    func(b *Batch) { b.PreviousRun, b.PreviousSeq = 0, 0 },
		"later batch":      func(b *Batch) { b.Seq, b.PreviousRun, b.PreviousSeq = 2, 0, 0 },
		"no device":        func(b *Batch) { b.Blocks = nil },
		"no boot id":       func(b *Batch) { b.Boot = "" },
		"longest names":    func(b *Batch) { b.Node, b.Boot = strings.Repeat("n", MaxNameBytes), strings.Repeat("b", MaxNameBytes) },
		"last minute ever": func(b *Batch) { b.Minute = maxMinute },
		"64 faults":        func(b *Batch) { b.Blocks = [][]byte{faulty(MaxFaults)} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			b := validBatch()
			change(&b)
			if err := b.Validate(); err != nil {
				t.Error(err)
			}
			if err := b.ValidateBlocks(); err != nil {
				t.Error(err)
			}
		})
	}
}

func faulty(n int) []byte {
	b := Block{Device: "GPU-0"}
	for i := range n {
		b.Faults = append(b.Faults, Fault{Second: 1, Kind: FaultXID, Code: uint64(i)})
	}
	return b.Append(nil)
}

func TestBatchRefused(t *testing.T) {
	device := func(b Block) [][]byte { return [][]byte{b.Append(nil)} }
	tests := []struct {
		want   string
		change func(b *Batch)
	}{
		{"node name of 0 bytes", func(b *Batch) { b.Node = "" }},
		{"node name of 257 bytes", func(b *Batch) { b.Node = strings.Repeat("n", 257) }},
		{"boot id of 257", func(b *Batch) { b.Boot = strings.Repeat("n", 257) }},
		{"not valid UTF-8", func(b *Batch) { b.Node = "\xff" }},
		{"run 0 sequence 1", func(b *Batch) { b.Run = 0 }},
		{"run 3 sequence 0", func(b *Batch) { b.Seq = 0 }},
		{"names no second", func(b *Batch) { b.Spoken = 0 }},
		{"above 59", func(b *Batch) { b.Spoken = 1 << 60 }},
		{"minute 0 lies outside", func(b *Batch) { b.Minute = 0 }},
		{"lies outside 1970 to 9999", func(b *Batch) { b.Minute = maxMinute + 1 }},
		{"clock state 4", func(b *Batch) { b.Clock.State = clockEnd }},
		{"error bound -1 ns", func(b *Batch) { b.Clock.ErrorBoundNano = -1 }},
		{"1025 device blocks", func(b *Batch) { b.Blocks = make([][]byte, MaxBlocks+1) }},
		{"only a first batch names one", func(b *Batch) { b.Seq = 2 }},
		{"of an earlier run", func(b *Batch) { b.PreviousRun = 3 }},
		{"names run 2 sequence 0", func(b *Batch) { b.PreviousSeq = 0 }},
		{"names run 0 sequence 9", func(b *Batch) { b.PreviousRun = 0 }},
		{"block 0: block version 0", func(b *Batch) { b.Blocks = [][]byte{{0}} }},
		{`block 1: device "GPU-0" does not come after "GPU-0"`, func(b *Batch) { b.Blocks[1] = b.Blocks[0] }},
		{`device "GPU-0" does not come after "GPU-1"`, func(b *Batch) { b.Blocks[0], b.Blocks[1] = b.Blocks[1], b.Blocks[0] }},
		{"does not speak for", func(b *Batch) { b.Blocks = device(Block{Device: "GPU-0", Seen: span.Bit(3)}) }},
		{"seconds 0x400", func(b *Batch) {
			b.Blocks = device(Block{Device: "GPU-0", Faults: []Fault{{Second: 10, Kind: FaultXID, Code: 79}}})
		}},
		{"65 faults; at most 64", func(b *Batch) { b.Blocks = [][]byte{faulty(MaxFaults + 1)} }},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			b := validBatch()
			tt.change(&b)
			err := b.Validate()
			if err == nil {
				err = b.ValidateBlocks()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}
