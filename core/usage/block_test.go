package usage

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
)

func TestBlockRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		device := rapid.StringN(1, -1, MaxDeviceBytes).Draw(t, "device")
		b := drawBlock(t, device, span.FullMinute)
		data := b.Append(nil)
		got := Block{Faults: []Fault{{Second: 1}}, Reason: ReasonLost} // what a reused block held is gone
		got.Busy[3], got.Power.Known = 9, 7
		if err := got.Decode(data); err != nil {
			t.Fatalf("decode %x: %v", data, err)
		}
		if diff := cmp.Diff(b, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("block changed (-want +got):\n%s", diff)
		}
		if name, err := BlockDevice(data); err != nil || name != device {
			t.Fatalf("BlockDevice = %q, %v; want %q", name, err, device)
		}
	})
}

// Every prefix of a block and every block with a byte after it is refused, and what is accepted after a change of one
// byte is the only form of what it says.
func TestBlockHasOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBlock(t, "GPU-0", span.FullMinute)
		data := b.Append(nil)
		var got Block
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if err := got.Decode(data[:cut]); err == nil {
			t.Fatalf("%d of %d bytes were believed", cut, len(data))
		}
		if err := got.Decode(append(data[:len(data):len(data)], 0)); err == nil {
			t.Fatal("a byte after the block was believed")
		}
		data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got.Decode(data) == nil {
			if diff := cmp.Diff(data, got.Append(nil)); diff != "" {
				t.Fatalf("two forms of one block (-read +written):\n%s", diff)
			}
		}
	})
}

// The bytes of docs/format.md, Device block, field by field.
func TestBlockGolden(t *testing.T) {
	b := Block{Device: "g0", Seen: 0b1111, Reason: ReasonTimeout, Faults: []Fault{{Second: 5, Kind: FaultXID, Code: 300}}}
	copy(b.Busy[:], []uint8{0, 100, BusyUnknown, 7})
	for i := range 4 {
		b.Memory.Set(i, 300)
	}
	b.Power.Set(1, -1)
	b.Power.Set(3, math.MaxInt64)
	want := "01" + "02" + "6730" + "0f00000000000000" + "0064ff07" + "06" + // version, name, seen, busy, reason
		"01" + "d804" + "0002" + // memory: as seen, +300, then three equal ones
		"02" + "0a00000000000000" + "01" + "ffffffffffffffffff01" + // power: partial, -1, a difference that wraps
		"00" + "00" + // energy and throttle absent
		"01" + "0501ac02" // one fault
	if got := hex.EncodeToString(b.Append(nil)); got != want {
		t.Errorf("block\n%s, want\n%s", got, want)
	}
}

func TestBlockRefused(t *testing.T) {
	const empty = "00000000000000000000000000" // seen, reason, four absent series
	tests := []struct{ name, hex, want string }{
		{"nothing", "", "ends early"},
		{"version", "02", "version 2 is unknown"},
		{"no device", "0100" + empty + "00", "names no device"},
		{"giant device name", "018102" + strings.Repeat("61", 257) + empty + "00", "257 bytes is longer than 256"},
		{"device not text", "0101ff" + empty + "00", "not valid UTF-8"},
		{"device in a long form", "018100" + "61" + empty + "00", "a shorter form"},
		{"number of 65 bits", "01ffffffffffffffffff7f", "more than 64 bits"},
		{"second 60", "0101610000000000000010" + "00", "names a second above 59"},
		{"busy 101", "0101610100000000000000" + "65" + "0000000000" + "00", "utilisation 101"},
		{"reason", "0101610000000000000000" + "08" + "00000000" + "00", "reason 8 is unknown"},
		{"series form", "0101610100000000000000" + "0000" + "03", "series form 3"},
		{"as seen, and nothing seen", "0101610000000000000000" + "00" + "01", "series form 1 is unknown, or empty"},
		{"partial known nowhere", "0101610100000000000000" + "0000" + "020000000000000000", "shorter form or none"},
		{"partial as seen", "0101610100000000000000" + "0000" + "020100000000000000" + "02", "shorter form or none"},
		{"partial where unseen", "0101610100000000000000" + "0000" + "020200000000000000" + "02", "shorter form or none"},
		{"run in two parts", "0101610300000000000000" + "000000" + "01" + "0000" + "0000" + "000000" + "00", "in two parts"},
		{"run too long", "0101610300000000000000" + "000000" + "01" + "0002" + "000000" + "00", "past the series"},
		{"fault of second 60", "010161" + empty + "01" + "3c0101", "fault kind 1 in second 60"},
		{"fault kind 0", "010161" + empty + "01" + "000001", "fault kind 0"},
		{"fault kind 6", "010161" + empty + "01" + "000601", "fault kind 6"},
		{"faults that are not there", "010161" + empty + "ffffffffffffffffff01" + "000101", "ends early"},
		{"bytes after it", "010161" + empty + "00" + "00", "1 bytes follow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := hex.DecodeString(tt.hex)
			if err != nil {
				t.Fatal(err)
			}
			var b Block
			if err = b.Decode(data); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}

func FuzzBlockDecode(f *testing.F) {
	b := Block{Device: "GPU-0", Seen: 0b1011}
	f.Add(b.Append(nil))
	b.Memory.Set(0, 5)
	b.Energy.Set(0, 1)
	b.Energy.Set(1, 1)
	b.Energy.Set(3, math.MinInt64)
	b.Faults = []Fault{{Second: 2, Kind: FaultECC, Code: 1 << 40}}
	f.Add(b.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Block
		if b.Decode(data) != nil {
			return
		}
		if diff := cmp.Diff(data, b.Append(nil), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("two forms of one block (-read +written):\n%s", diff)
		}
	})
}

func BenchmarkBlockDecode(b *testing.B) {
	block := Block{Device: "GPU-6f1c9d2e-0a52-4a37-9d0f-5c2b7e8a1f00", Seen: 1<<10 - 1}
	for i := range 10 {
		block.Busy[i] = uint8(90 + i)
		block.Memory.Set(i, 70<<30)
		block.Power.Set(i, 650_000+int64(i)*1000)
		block.Energy.Set(i, 1_000_000_000+int64(i)*650_000)
		block.Throttle.Set(i, 0)
	}
	data := block.Append(nil)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := block.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10, "ns/sample")
}
