package codec

import (
	"encoding/hex"
	"errors"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := draw{t}.batch()
		given := want
		given.Blocks = rapid.Permutation(want.Blocks).Draw(t, "order")
		p, err := EncodeBatch(&given)
		if err != nil {
			t.Fatal(err)
		}
		if stream, err := p.Check(); err != nil || stream != bus.Usage || p.Header != nil {
			t.Fatalf("the bus would not take it: %s, %v", stream, err)
		}
		got, q := DecodeBatch(received(p))
		if q != nil {
			t.Fatal(q)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("batch changed (-want +got):\n%s", diff)
		}
		again, err := EncodeBatch(&got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("the same batch has two forms (-first +second):\n%s", diff)
		}
	})
}

// full is a whole node in ten seconds: eight devices, all metrics.
func full(devices int) usage.Batch {
	b := usage.Batch{
		Node: "node7", Boot: "3f1e0c52-6a1b-4d0e-9d42-0b6f4a2f9c11", Run: 1_772_000_000, Seq: 4711, Minute: at.Minute(), Spoken: 1<<10 - 1,
		Clock: usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -18_000, ErrorBoundNano: 420_000},
	}
	for d := range devices {
		block := usage.Block{Device: "GPU-6f1c9d2e-0a52-4a37-9d0f-5c2b7e8a1f0" + string(rune('0'+d)), Seen: b.Spoken}
		for i := range 10 {
			block.Busy[i] = uint8(85 + d + i%3)
			block.Memory.Set(i, 70<<30)
			block.Power.Set(i, 650_000+int64(i*i)*100)
			block.Energy.Set(i, 9_000_000_000+int64(i)*650_000)
			block.Throttle.Set(i, int64(4*(i/8)))
		}
		b.Blocks = append(b.Blocks, block.Append(nil))
	}
	return b
}

func TestBatchSharesMemory(t *testing.T) {
	b := full(2)
	p, err := EncodeBatch(&b)
	if err != nil {
		t.Fatal(err)
	}
	got, q := DecodeBatch(received(p))
	if q != nil {
		t.Fatal(q)
	}
	p.Data[len(p.Data)-1] = 9 // the last block's number of faults
	if last := got.Blocks[1]; last[len(last)-1] != 9 || cap(last) != len(last) {
		t.Errorf("block ends in %d with capacity %d of %d; want the message's own bytes, closed at their end", last[len(last)-1], cap(last), len(last))
	}
}

func TestBatchQuarantined(t *testing.T) {
	field := func(data []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(data, n, protowire.VarintType), v)
	}
	tests := []struct {
		name   string
		change func(m *bus.Message)
		want   usage.Quarantine
	}{
		{"garbage", func(m *bus.Message) { m.Data = []byte{0xff} }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "no protobuf"}},
		{"nothing", func(m *bus.Message) { m.Data = nil }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "node name of 0 bytes"}},
		{"torn", func(m *bus.Message) { m.Data = m.Data[:len(m.Data)-1] }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "no protobuf"}},
		{"unknown field", func(m *bus.Message) { m.Data = field(m.Data, 11, 1) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "field 11 with wire type 0 is unknown"}},
		{"reserved field", func(m *bus.Message) { m.Data = field(m.Data, 13, 1) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "field 13"}},
		{"other wire type", func(m *bus.Message) { m.Data = field(m.Data, 1, 1) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "field 1 with wire type 0"}},
		{"group", func(m *bus.Message) { m.Data = protowire.AppendTag(m.Data, 1, protowire.StartGroupType) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "wire type 3"}},
		{"clock state", func(m *bus.Message) { m.Data = append(m.Data, 9<<3|2, 2, 1<<3, 4) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "clock state 4"}},
		{"far clock state", func(m *bus.Message) { m.Data = append(m.Data, 9<<3|2, 3, 1<<3, 0x81, 2) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "clock state 257"}},
		{"clock field", func(m *bus.Message) { m.Data = append(m.Data, 9<<3|2, 2, 4<<3, 1) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "field 4 of the clock"}},
		{"clock bytes", func(m *bus.Message) { m.Data = append(m.Data, 9<<3|2, 1, 1<<3) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "no protobuf"}},
		{"empty block", func(m *bus.Message) { m.Data = append(m.Data, 10<<3|2, 0) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "block 2: the block ends early"}},
		{"minute", func(m *bus.Message) { m.Data = field(m.Data, 7, 1<<63) }, usage.Quarantine{Reason: usage.Undecodable, Node: "node7", Detail: "lies outside 1970 to 9999"}},
		{"other partition", func(m *bus.Message) { m.Subject = "gh.usage.15.node7" }, usage.Quarantine{Reason: usage.WrongPartition, Node: "node7", Detail: "came on gh.usage.15.node7 and belongs on gh.usage.14.node7"}},
		{"other node", func(m *bus.Message) { m.Subject = UsageSubject("node8") }, usage.Quarantine{Reason: usage.WrongPartition, Node: "node7", Detail: "came on gh.usage.47.node8"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := full(2)
			p, err := EncodeBatch(&b)
			if err != nil {
				t.Fatal(err)
			}
			m := received(p)
			tt.change(&m)
			got, q := DecodeBatch(m)
			if q == nil || q.Reason != tt.want.Reason || q.Node != tt.want.Node || !strings.Contains(q.Detail, tt.want.Detail) {
				t.Errorf("quarantine %v, want %v", q, &tt.want)
			}
			if got.Node != "" {
				t.Errorf("a quarantined batch gave %+v", got)
			}
		})
	}
}

func TestEncodeBatchRefuses(t *testing.T) {
	for want, change := range map[string]func(b *usage.Batch){
		"run 0":           func(b *usage.Batch) { b.Run = 0 },
		"not come after":  func(b *usage.Batch) { b.Blocks = append(b.Blocks, b.Blocks[0]) },
		"ends early":      func(b *usage.Batch) { b.Blocks[1] = b.Blocks[1][:9] },
		"not speak for":   func(b *usage.Batch) { b.Spoken = 1 },
		"not valid UTF-8": func(b *usage.Batch) { b.Boot = "\xff" },
	} {
		b := full(2)
		change(&b)
		if p, err := EncodeBatch(&b); err == nil || !strings.Contains(err.Error(), want) || p.Data != nil {
			t.Errorf("EncodeBatch gave %d bytes, %v; want an error about %q", len(p.Data), err, want)
		}
	}
}

// compareWithGenerated holds the hand-written reader against the generated one: it may only be stricter.
func compareWithGenerated(t *testing.T, data []byte) {
	t.Helper()
	var got usage.Batch
	err := parseBatch(data, &got)
	var want logv1.UsageBatch
	wantErr := proto.Unmarshal(data, &want)
	if err != nil || wantErr != nil {
		if err == nil && got.Validate() == nil {
			t.Errorf("read by hand, refused by the generated code: %v", wantErr)
		}
		return
	}
	diff := cmp.Diff(usage.Batch{
		Node: want.GetNode(), Boot: want.GetBoot(), Run: want.GetRun(), Seq: want.GetSeq(), PreviousRun: want.GetPreviousRun(),
		PreviousSeq: want.GetPreviousSeq(), Minute: span.Minute(want.GetUnixMinute()), Spoken: span.SecondMask(want.GetSpoken()),
		Clock:  usage.ClockEvidence{State: got.Clock.State, OffsetNanos: want.GetClock().GetOffsetNanos(), ErrorBoundNano: want.GetClock().GetErrorBoundNanos()},
		Blocks: want.GetBlocks(), Gaps: gapsOf(&want), Topology: got.Topology, Seed: want.GetSeed(), Signature: want.GetSignature(),
	}, got, cmpopts.EquateEmpty())
	if !proto.Equal(want.GetTopology(), topologyMessage(got.Topology)) {
		t.Errorf("topology %v by hand, %v by the generated code", got.Topology, want.GetTopology())
	}
	if diff != "" || uint8(want.GetClock().GetState()) != uint8(got.Clock.State) {
		t.Errorf("batch (-generated +by hand):\n%s", diff)
	}
}

func gapsOf(m *logv1.UsageBatch) (all []usage.Gap) {
	for _, g := range m.GetGaps() {
		all = append(all, usage.Gap{
			Device: g.GetDevice(), From: span.Second(g.GetFromUnixSeconds()), To: span.Second(g.GetToUnixSeconds()), Reason: usage.GapReason(g.GetReason()),
		})
	}
	return all
}

// told makes a batch its run's first one, with all that such a one may tell.
func told(b *usage.Batch) {
	end := b.Minute.Start() + 10
	b.Seq, b.PreviousRun, b.PreviousSeq = 1, b.Run-7, 300
	b.Gaps = []usage.Gap{
		{From: end - 500, To: end - 200, Reason: usage.GapRebooted},
		{From: end - 200, To: end - 10, Reason: usage.GapStalled},
		{Device: "GPU-6f1c9d2e-0a52-4a37-9d0f-5c2b7e8a1f00", From: end - 3, To: end, Reason: usage.GapTimeout},
	}
	b.Topology = &usage.Topology{Source: "nvml 13.580.65.06", Driver: "580.65.06", Devices: []usage.Device{
		{
			Name: "GPU-6f1c9d2e-0a52-4a37-9d0f-5c2b7e8a1f00", Vendor: "nvidia", Model: "NVIDIA H100 80GB HBM3", Serial: "1652823054567",
			PCI: "00000000:10:00.0", MemoryBytes: 80 << 30,
		},
		{Name: "MIG-1", Parent: "GPU-6f1c9d2e-0a52-4a37-9d0f-5c2b7e8a1f00", Vendor: "nvidia", Profile: "1g.10gb", MemoryBytes: 10 << 30},
	}}
}

// signed gives a batch what a signed one carries; whether it holds is package trust's.
func signed(b *usage.Batch) {
	b.Seed, b.Signature = make([]byte, usage.SeedBytes), make([]byte, usage.SignatureBytes)
	for i := range b.Signature {
		b.Seed[i/2], b.Signature[i] = byte(i), byte(200+i)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for _, devices := range []int{0, 1, 3} {
		b := full(devices)
		p, err := EncodeBatch(&b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Subject, p.Data)
	}
	for _, change := range []func(b *usage.Batch){told, signed, func(b *usage.Batch) { told(b); signed(b) }} {
		b := full(2)
		change(&b)
		p, err := EncodeBatch(&b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Subject, p.Data)
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		compareWithGenerated(t, data)
		b, q := DecodeBatch(bus.Message{Subject: subject, Data: data})
		if q != nil {
			if q.Reason != usage.Undecodable && q.Reason != usage.WrongPartition {
				t.Errorf("reason %q", q.Reason)
			}
			return
		}
		p, err := EncodeBatch(&b)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		again, q := DecodeBatch(received(p))
		if q != nil {
			t.Fatalf("written but not read: %v", q)
		}
		if diff := cmp.Diff(b, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("batch (-first +second):\n%s", diff)
		}
	})
}

func TestTick(t *testing.T) {
	p, err := EncodeTick(Tick{FactsSeq: 41, At: at})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Subject+" "+hex.EncodeToString(p.Data), "gh.tick 08291080a6facc06"; got != want {
		t.Errorf("tick %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := Tick{FactsSeq: rapid.Uint64().Draw(t, "facts"), At: draw{t}.instant()}
		p, err := EncodeTick(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeTick(received(p)); err != nil || got != want {
			t.Fatalf("tick %+v, %v; want %+v", got, err, want)
		}
	})
	if p, err := EncodeTick(Tick{At: latest + 1}); !errors.Is(err, ErrBody) || p.Data != nil {
		t.Errorf("a tick after 9999: %v, %v", p, err)
	}
}

func TestTickRefused(t *testing.T) {
	p, err := EncodeTick(Tick{FactsSeq: 41, At: at})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		subject string
		data    []byte
		is      error
	}{
		"subject": {"gh.tock", p.Data, ErrEnvelope},
		"garbage": {bus.Tick, []byte{0xff}, ErrBody},
		"no time": {bus.Tick, nil, ErrBody},
		"field":   {bus.Tick, append(slices.Clone(p.Data), 3<<3, 1), ErrUnknown},
	} {
		if got, err := DecodeTick(bus.Message{Seq: 3, Subject: tt.subject, Data: tt.data}); !errors.Is(err, tt.is) || got != (Tick{}) {
			t.Errorf("%s: tick %+v, %v; want %v", name, got, err, tt.is)
		}
	}
}

func BenchmarkDecodeBatch(b *testing.B) {
	batch := full(8)
	p, err := EncodeBatch(&batch)
	if err != nil {
		b.Fatal(err)
	}
	m := received(p)
	samples := 0
	for range batch.Blocks {
		samples += bits.OnesCount64(uint64(batch.Spoken))
	}
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var got usage.Batch
			if err := parseBatch(m.Data, &got); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(m.Data)))
		for b.Loop() {
			if _, q := DecodeBatch(m); q != nil {
				b.Fatal(q)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
	})
}
