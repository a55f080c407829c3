package recorded_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
)

// said is one second of a drawn recording.
type said struct {
	at       span.Second
	readings []collector.Reading
	failed   bool
	topology *usage.Topology
}

func drawMetric() *rapid.Generator[collector.Metric] {
	return rapid.Custom(func(t *rapid.T) collector.Metric {
		if rapid.Bool().Draw(t, "known") {
			return collector.Known(rapid.Int64Min(0).Draw(t, "value"))
		}
		return collector.Unknown(usage.Reason(rapid.IntRange(int(usage.ReasonNotSupported), int(usage.ReasonError)).Draw(t, "reason")))
	})
}

func drawReading(name string) *rapid.Generator[collector.Reading] {
	return rapid.Custom(func(t *rapid.T) collector.Reading {
		m := drawMetric()
		r := collector.Reading{
			Device: name, Busy: m.Draw(t, "busy"), Memory: m.Draw(t, "memory"), Power: m.Draw(t, "power"),
			Energy: m.Draw(t, "energy"), Throttle: m.Draw(t, "throttle"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			f := usage.Fault{Kind: usage.FaultKind(rapid.IntRange(1, 4).Draw(t, "kind")), Code: rapid.Uint64().Draw(t, "code")}
			if len(r.Faults) == 0 || r.Faults[len(r.Faults)-1] != f {
				r.Faults = append(r.Faults, f)
			}
		}
		return r
	})
}

var names = []string{"#x", "GPU-1", "GPU-1/5", "a,\"b\"", "超"} // rising

func drawSeconds(t *rapid.T) []said {
	at := span.Second(rapid.Int64Range(1, 4_000_000_000).Draw(t, "begin"))
	var all []said
	for range rapid.IntRange(1, 12).Draw(t, "seconds") {
		s := said{at: at, failed: rapid.IntRange(0, 4).Draw(t, "failed") == 0}
		for _, name := range names {
			if !s.failed && rapid.Bool().Draw(t, "there") {
				s.readings = append(s.readings, drawReading(name).Draw(t, "reading"))
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "topology") == 0 {
			s.topology = &usage.Topology{Source: "nvml 13.2", Driver: "570", Devices: []usage.Device{
				{Name: "GPU-1", Vendor: "nvidia", Model: "a, \"b\"", Serial: "1", PCI: "0000:01:00.0", MemoryBytes: 1 << 40}, {Name: "GPU-1/5", Parent: "GPU-1", Profile: "1g.10gb"},
			}}
		}
		all = append(all, s)
		at += span.Second(rapid.SampledFrom([]int{1, 1, 1, 2, 100}).Draw(t, "step"))
	}
	return all
}

func write(t *rapid.T, all []said) []byte {
	var out bytes.Buffer
	w := recorded.NewWriter(&out)
	for _, s := range all {
		if s.topology != nil {
			w.Topology(*s.topology)
		}
		if err := w.Write(s.at, s.readings, s.failed); err != nil {
			t.Fatal(err)
		}
	}
	if w.Skipped() != 0 {
		t.Fatalf("%d seconds skipped", w.Skipped())
	}
	return out.Bytes()
}

// TestWhatIsWrittenIsReplayed: every second, reading, reason, fault and topology comes back, at the same distance, and what was
// not written was slept through.
func TestWhatIsWrittenIsReplayed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawSeconds(t)
		rec, err := recorded.ReadCSV("r.csv", bytes.NewReader(write(t, all)))
		if err != nil {
			t.Fatal(err)
		}
		begin, end := all[0].at, all[len(all)-1].at
		if rec.Begin != begin || rec.Seconds != end-begin+1 || len(rec.Notes) > 0 {
			t.Fatalf("begin %d, %d seconds, notes %v", rec.Begin, rec.Seconds, rec.Notes)
		}
		const start span.Second = 1_767_225_600
		src := rec.From(start, true)
		var topology *usage.Topology
		next := 0
		for at := begin; at <= end; at++ {
			got, err := src.Sample(start+at-begin, nil)
			s := all[next]
			if s.at != at {
				if !errors.Is(err, collector.ErrSlept) {
					t.Fatalf("second %d was not written: %v, %v", at, got, err)
				}
				continue
			}
			next++
			if (err != nil) != s.failed || errors.Is(err, collector.ErrSlept) {
				t.Fatalf("second %d: %v; failed %t", at, err, s.failed)
			}
			if d := cmp.Diff(s.readings, got); d != "" && len(s.readings)+len(got) > 0 {
				t.Fatalf("second %d: %s", at, d)
			}
			if s.topology != nil {
				topology = s.topology
			}
			if topology != nil {
				if now := src.Found(start + at - begin); now == nil || !cmp.Equal(*topology, *now) {
					t.Fatalf("second %d: topology %+v", at, now)
				}
			}
		}
	})
}

// TestARecordingThatBreaksOff at any byte: whole lines before stand, and no other value comes of a cut one.
func TestARecordingThatBreaksOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := write(t, drawSeconds(t))
		cut := rapid.IntRange(len(recorded.FullHeader)+1, len(whole)).Draw(t, "cut")
		until := bytes.LastIndexByte(whole[:cut], '\n') + 1
		rec, err := recorded.ReadCSV("r.csv", bytes.NewReader(whole[:cut]))
		want, wantErr := recorded.ReadCSV("r.csv", bytes.NewReader(whole[:until]))
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%v; whole lines alone: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if torn := cut > until; torn != (len(rec.Notes) == 1) || rec.Seconds != want.Seconds {
			t.Fatalf("cut %d of %d: notes %v, %d seconds; want %d", cut, len(whole), rec.Notes, rec.Seconds, want.Seconds)
		}
		one, other := rec.From(0, false), want.From(0, false)
		for at := span.Second(0); at < rec.Seconds; at++ {
			a, aErr := one.Sample(at, nil)
			b, bErr := other.Sample(at, nil)
			if d := cmp.Diff(a, b); d != "" || (aErr == nil) != (bErr == nil) {
				t.Fatalf("second %d: %s", at, d)
			}
		}
	})
}

// TestEachSecondIsOutAtOnce: after Write nothing waits in the writer, a step back of the clock is left out, and a name that no
// line can hold is refused before anything of its second is written.
func TestEachSecondIsOutAtOnce(t *testing.T) {
	var out bytes.Buffer
	w := recorded.NewWriter(&out)
	r := []collector.Reading{{Device: "g", Busy: collector.Known(101), Memory: collector.Unknown(usage.ReasonNotAvailable), Faults: []usage.Fault{{Kind: usage.FaultXID, Code: 79}, {Kind: usage.FaultECC, Code: 2}}}}
	want := recorded.FullHeader + "\n#begin,2026-01-01T00:00:00Z\n0,g,101,,0,0,0,xid:79 ecc:2\n"
	const begin = span.Second(1_767_225_600)
	for _, at := range []span.Second{begin, begin, begin - 5} {
		if err := w.Write(at, r, false); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, out.String()); d != "" || w.Skipped() != 2 {
		t.Fatalf("%d skipped, %s", w.Skipped(), d)
	}
	if err := w.Write(begin+1, []collector.Reading{{Device: "g"}, {Device: "a\nb"}}, false); err == nil || out.String() != want {
		t.Fatalf("%v, %s", err, out.String())
	}
	if err := recorded.NewWriter(broken{}).Write(begin, r, false); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Fatal(err)
	}
}

// TestATopologyIsWrittenOnce, before the second from which it is.
func TestATopologyIsWrittenOnce(t *testing.T) {
	var out bytes.Buffer
	w := recorded.NewWriter(&out)
	w.Topology(usage.Topology{Source: "nvml", Driver: "570", Devices: []usage.Device{{Name: "g", MemoryBytes: 5}}})
	for at := range span.Second(2) {
		if err := w.Write(at, []collector.Reading{{Device: "g"}}, false); err != nil {
			t.Fatal(err)
		}
	}
	want := recorded.FullHeader + "\n#source,0,nvml,570\n#device,g,,,,,,,5\n0,g,0,0,0,0,0,\n1,g,0,0,0,0,0,\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Fatal(d)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func TestBadLinesOfAFullRecording(t *testing.T) {
	for line, want := range map[string]string{
		"0,g,1,1,1,1,1":                 "7 cells",
		"0,g,?often,1,1,1,1,":           "?often",
		"0,g,1,1,1,1,1,xid":             "fault \"xid\"",
		"0,g,-1,1,1,1,1,":               "busy_percent \"-1\"",
		"0,g,1,1,1,-1,1,":               "energy_millijoule \"-1\"",
		"0,g,1,1,1,1,1,none:1":          "kind:code",
		"0,,5,,,,,":                     "a line about the node",
		"0,,?error,1,,,,":               "no values",
		"2147483647,g,1,1,1,1,1,":       "second",
		"0,\"a\tb\",1,1,1,1,1,":         "no name",
		"#begin,today":                  "no instant",
		"#begin,2026-01-01T00:00:00Z,1": "unknown",
		"#device,g,,,,,,,1":             "before any #source",
		"#source,x,,":                   "second",
		"0,,?error,,,,,\n0,g,1,,,,,":    "r.csv:3: device g speaks",
		"0,g,1,,,,,\n0,,?error,,,,,":    "r.csv:3: second 0 stands there twice",
		"#source,0,,\n#source,0,,":      "r.csv:3: topologies",
		"#source,0,,\n#device,g,,,,,,,1\n#device,g,,,,,,,1": "r.csv:4: #device",
		"#source,0,,\n#device,g,,,,,,,-1":                   "memory_bytes",
	} {
		if _, err := recorded.ReadCSV("r.csv", strings.NewReader(recorded.FullHeader+"\n"+line+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v; want %q in it", line, err, want)
		}
	}
}

// FuzzReadCSV: nothing panics, and what is read is written and read again as it is.
func FuzzReadCSV(f *testing.F) {
	f.Add(recorded.Header + "\n0,g0,50,1024,70000,1\n0,g1,,2048,,\n2,g0,51,1024,70000,2\n")
	f.Add(recorded.FullHeader + "\n#begin,2026-01-01T00:00:00Z\n#source,0,nvml 13.2,570\n#device,g,,nvidia,H100,1,0000:01:00.0,,85899345920\n" +
		"0,g,101,?stale,?lost,?not_supported,4,xid:79 ecc:2\n1,,?error,,,,,\n3,,,,,,,\n4,g,")
	f.Fuzz(func(t *testing.T, text string) {
		rec, err := recorded.ReadCSV("r.csv", strings.NewReader(text))
		if err != nil || rec.Seconds > 100_000 {
			return
		}
		var out bytes.Buffer
		w := recorded.NewWriter(&out)
		src := rec.From(0, false)
		for at := span.Second(0); at < rec.Seconds; at++ {
			got, err := src.Sample(at, nil)
			if errors.Is(err, collector.ErrSlept) {
				continue
			}
			if err := w.Write(at, got, err != nil); err != nil {
				if strings.HasPrefix(text, recorded.Header+"\n") {
					return // a hand-written name that the full format does not hold
				}
				t.Fatal(err)
			}
		}
		again, err := recorded.ReadCSV("r.csv", &out)
		if err != nil {
			t.Fatal(err)
		}
		one, other := rec.From(0, false), again.From(0, false)
		shift := rec.Seconds - again.Seconds // a recording begins with its first line
		for at := shift; at < rec.Seconds; at++ {
			a, aErr := one.Sample(at, nil)
			b, bErr := other.Sample(at-shift, nil)
			if fmt.Sprint(a) != fmt.Sprint(b) || (aErr == nil) != (bErr == nil) {
				t.Fatalf("second %d: %v, %v; again %v, %v", at, a, aErr, b, bErr)
			}
		}
	})
}
