package usage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
)

// toldBatch has gaps and a topology beside what validBatch has.
func toldBatch() Batch {
	b := validBatch()
	begin := testMinute.Start()
	b.Gaps = []Gap{
		{From: begin - 300, To: begin, Reason: GapStopped},
		{From: begin, To: begin + 1, Reason: GapError},
		{Device: "GPU-0", From: begin + 2, To: begin + 3, Reason: GapTimeout},
	}
	b.Topology = &Topology{Source: "nvml 13.2", Driver: "595.10", Devices: []Device{
		{Name: "GPU-0", Vendor: "nvidia", Model: "H200", Serial: "165", PCI: "00000000:1B:00.0", MemoryBytes: 141 << 30},
		{Name: "MIG-7", Parent: "GPU-0", Vendor: "nvidia", Model: "H200", Profile: "1g.18gb", MemoryBytes: 16 << 30},
	}}
	return b
}

func TestToldBatchIsValid(t *testing.T) {
	for name, change := range map[string]func(b *Batch){
		"as it is":                  func(*Batch) {},
		"up to the end of a minute": func(b *Batch) { b.Gaps[2].To = testMinute.End() },
		"each device has its own":   func(b *Batch) { b.Gaps[2].From, b.Gaps[2].To = b.Gaps[0].From, b.Gaps[0].To },
		"a node without devices":    func(b *Batch) { b.Topology = &Topology{Source: "nvml"} },
		"signed":                    func(b *Batch) { b.Seed, b.Signature = make([]byte, SeedBytes), make([]byte, SignatureBytes) },
	} {
		b := toldBatch()
		change(&b)
		if err := b.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestToldBatchRefused(t *testing.T) {
	for want, change := range map[string]func(b *Batch){
		"16385 gaps; at most 16384":            func(b *Batch) { b.Gaps = make([]Gap, MaxGaps+1) },
		"reason 0 is unknown":                  func(b *Batch) { b.Gaps[1].Reason = 0 },
		"reason 8 is unknown":                  func(b *Batch) { b.Gaps[1].Reason = 8 },
		"reason 15 is unknown":                 func(b *Batch) { b.Gaps[1].Reason = 15 },
		"reason 24 is unknown":                 func(b *Batch) { b.Gaps[1].Reason = gapEnd },
		"gap 1: seconds":                       func(b *Batch) { b.Gaps[1].To = b.Gaps[1].From },
		"gap 0: seconds 0 to":                  func(b *Batch) { b.Gaps[0].From = 0 },
		"lie after the batch's minute":         func(b *Batch) { b.Gaps[2].To = testMinute.End() + 1 },
		"gap 1 does not come after":            func(b *Batch) { b.Gaps[0], b.Gaps[1] = b.Gaps[1], b.Gaps[0] },
		"gap 2 does not come after":            func(b *Batch) { b.Gaps[1].Device = "GPU-1" },
		"gap 1 overlaps":                       func(b *Batch) { b.Gaps[0].To++ },
		"is no name":                           func(b *Batch) { b.Gaps[2].Device = "\xff" },
		`device "GPU-0" of the topology does`:  func(b *Batch) { b.Topology.Devices[1].Name = "GPU-0" },
		`device "" of the topology does`:       func(b *Batch) { b.Topology.Devices[0].Name = "" },
		"not plain text":                       func(b *Batch) { b.Topology.Devices[0].Model = "a\nb" },
		"driver":                               func(b *Batch) { b.Topology.Driver = strings.Repeat("9", MaxNameBytes+1) },
		"has -1 bytes of memory":               func(b *Batch) { b.Topology.Devices[0].MemoryBytes = -1 },
		"1025 devices":                         func(b *Batch) { b.Topology.Devices = make([]Device, MaxBlocks+1) },
		"seed of 0 bytes and signature of 64":  func(b *Batch) { b.Signature = make([]byte, SignatureBytes) },
		"seed of 32 bytes and signature of 63": func(b *Batch) { b.Seed, b.Signature = make([]byte, SeedBytes), make([]byte, 63) },
	} {
		b := toldBatch()
		change(&b)
		if err := b.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

func TestAppendGap(t *testing.T) {
	var got []Gap
	for _, g := range []Gap{
		{"", 5, 6, GapError},
		{"", 6, 9, GapError},
		{"", 9, 10, GapPaused},
		{"", 12, 13, GapPaused},
		{"GPU-0", 13, 14, GapPaused},
	} {
		got = AppendGap(got, g)
	}
	want := []Gap{{"", 5, 9, GapError}, {"", 9, 10, GapPaused}, {"", 12, 13, GapPaused}, {"GPU-0", 13, 14, GapPaused}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGapReasonsHaveNames(t *testing.T) {
	for g := range gapEnd + 3 {
		if named := !strings.HasPrefix(g.String(), "gap reason"); named != g.Valid() {
			t.Errorf("reason %d is named %q, valid %v", g, g, g.Valid())
		}
	}
}

// The bytes of docs/format.md, Signature, field by field.
func TestSignedBytesGolden(t *testing.T) {
	b := Batch{Node: "n", Boot: "b", Run: 2, Seq: 3, Minute: 4, Spoken: 5, Clock: ClockEvidence{ClockSynchronised, -1, 6}, Seed: []byte("s")}
	b.Gaps = []Gap{{"g", 7, 8, GapLost}}
	b.Topology = &Topology{"s", "d", []Device{{"a", "p", "v", "m", "e", "i", "f", 9}}}
	block := (&Block{Device: "g"}).Append(nil)
	b.Blocks = [][]byte{block}
	number := func(v string) string { return strings.Repeat("00", 8-len(v)/2) + v }
	text := func(s string) string { return number("01") + hex.EncodeToString([]byte(s)) }
	salt := BlockSalt(b.Seed, "g")
	leaf := sha256.Sum256(append(append([]byte{0}, salt...), block...))
	want := hex.EncodeToString([]byte("gpuhour usage batch 1\x00")) + text("n") + text("b") +
		number("02") + number("03") + number("") + number("") + number("04") + number("05") + // run to spoken
		number("01") + strings.Repeat("ff", 8) + number("06") + // clock
		number("01") + text("g") + number("07") + number("08") + number("04") + // gaps
		"01" + text("s") + text("d") + number("01") + // topology
		text("a") + text("p") + text("v") + text("m") + text("e") + text("i") + text("f") + number("09") +
		number("01") + hex.EncodeToString(leaf[:]) // blocks
	got, err := b.SignedBytes()
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("signed bytes %x, %v; want\n%s", got, err, want)
	}
	b.Topology = nil
	bare, err := b.SignedBytes()
	if err != nil || len(bare) >= len(got) || bytes.Equal(bare, got) {
		t.Errorf("without a topology: %d bytes, %v", len(bare), err)
	}
	b.Blocks = [][]byte{{9}}
	if _, err := b.SignedBytes(); err == nil {
		t.Error("a block that cannot be read was hashed")
	}
}

// Whatever a batch says changes what is signed.
func TestSignedBytesCoverTheBatch(t *testing.T) {
	signed := func(change func(b *Batch)) string {
		b := toldBatch()
		b.Seed = make([]byte, SeedBytes)
		change(&b)
		data, err := b.SignedBytes()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	seen := map[string]string{signed(func(*Batch) {}): "nothing"}
	for name, change := range map[string]func(b *Batch){
		"node": func(b *Batch) { b.Node += "x" }, "boot": func(b *Batch) { b.Boot += "x" }, "run": func(b *Batch) { b.Run++ },
		"seq": func(b *Batch) { b.Seq++ }, "previous run": func(b *Batch) { b.PreviousRun-- }, "previous seq": func(b *Batch) { b.PreviousSeq++ },
		"minute": func(b *Batch) { b.Minute++ }, "spoken": func(b *Batch) { b.Spoken |= span.Bit(9) }, "clock": func(b *Batch) { b.Clock.State = ClockFree },
		"offset": func(b *Batch) { b.Clock.OffsetNanos++ }, "bound": func(b *Batch) { b.Clock.ErrorBoundNano++ },
		"no gaps": func(b *Batch) { b.Gaps = nil }, "gap device": func(b *Batch) { b.Gaps[2].Device = "GPU-1" }, "gap from": func(b *Batch) { b.Gaps[0].From++ },
		"gap to": func(b *Batch) { b.Gaps[0].To-- }, "gap reason": func(b *Batch) { b.Gaps[0].Reason = GapKilled },
		"no topology": func(b *Batch) { b.Topology = nil }, "source": func(b *Batch) { b.Topology.Source += "x" }, "driver": func(b *Batch) { b.Topology.Driver += "x" },
		"no devices": func(b *Batch) { b.Topology.Devices = nil }, "model": func(b *Batch) { b.Topology.Devices[0].Model += "x" },
		"memory": func(b *Batch) { b.Topology.Devices[0].MemoryBytes++ }, "profile": func(b *Batch) { b.Topology.Devices[1].Profile += "x" },
		"parent": func(b *Batch) { b.Topology.Devices[1].Parent += "x" }, "serial": func(b *Batch) { b.Topology.Devices[0].Serial += "x" },
		"pci": func(b *Batch) { b.Topology.Devices[0].PCI += "x" }, "vendor": func(b *Batch) { b.Topology.Devices[0].Vendor += "x" },
		"name": func(b *Batch) { b.Topology.Devices[1].Name += "x" }, "seed": func(b *Batch) { b.Seed[3]++ },
		"no blocks": func(b *Batch) { b.Blocks = nil }, "a block": func(b *Batch) { b.Blocks[0], b.Blocks[1] = b.Blocks[1], b.Blocks[0] },
		"a block's end": func(b *Batch) { b.Blocks[0] = append(bytes.Clone(b.Blocks[0]), 0) },
	} {
		data := signed(change)
		if other, twice := seen[data]; twice {
			t.Errorf("%s and %s are signed alike", name, other)
		}
		seen[data] = name
	}
}
