package smi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/smi"
)

func file(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written is a recording in our own format, which a person can read.
func written(t *testing.T, rec *recorded.Recording) string {
	t.Helper()
	var out bytes.Buffer
	w := recorded.NewWriter(&out)
	src := rec.From(rec.Begin, false)
	for at := rec.Begin; at < rec.Begin+rec.Seconds; at++ {
		got, err := src.Sample(at, nil)
		if errors.Is(err, collector.ErrSlept) {
			continue
		}
		if top := rec.Topology(0); top != nil && at == rec.Begin {
			w.Topology(*top)
		}
		if err := w.Write(at, got, err != nil); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestLoops reads every form that loops leave: each line is blank, a header, a row, or reported with its place and what to do.
func TestLoops(t *testing.T) {
	res, err := smi.Read("loops.csv", strings.NewReader(file(t, "loops.csv")), smi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := written(t, res.Recording) + fmt.Sprintf("\n%d rows, %d replaced, %d not used\n", res.Rows, res.Replaced, res.BadCount)
	for _, b := range res.Bad {
		got += b.String() + "\n"
	}
	if os.Getenv("GOLDEN") == "rewrite" {
		if err := os.WriteFile("testdata/loops.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(file(t, "loops.golden"), got); d != "" {
		t.Fatal(d)
	}
}

func read(t *testing.T, text string, o smi.Options) (*smi.Result, []collector.Reading) {
	t.Helper()
	res, err := smi.Read("f.csv", strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := res.Recording.From(0, false).Sample(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res, got
}

func TestCells(t *testing.T) {
	for cell, want := range map[string]collector.Metric{
		"35 %": known(35), "35": known(35), "101 %": known(101), "0": known(0), "12.5 %": known(13),
		"[N/A]": unknown(usage.ReasonNotSupported), "N/A": unknown(usage.ReasonNotSupported), "[Not Supported]": unknown(usage.ReasonNotSupported),
		"[Unknown Error]": unknown(usage.ReasonError), "ERR!": unknown(usage.ReasonError), "[GPU is lost]": unknown(usage.ReasonLost),
		"[Insufficient Permissions]": unknown(usage.ReasonPermission), "": unknown(usage.ReasonNotAvailable), "[Not Found]": unknown(usage.ReasonNotAvailable),
		"[GPU requires reset]": unknown(usage.ReasonError), "4294967295": unknown(usage.ReasonNotAvailable),
	} {
		res, got := read(t, "uuid, timestamp, utilization.gpu [%]\ng, 2024/05/01 12:00:00, "+cell+"\n", smi.Options{})
		if got[0].Busy != want || res.BadCount != 0 {
			t.Errorf("%q: %+v, %v", cell, got[0].Busy, res.Bad)
		}
	}
	for cell, want := range map[string]collector.Metric{"71.3 W": known(71300), "71.3": known(71300), "500 mW": known(500), "4294967295": unknown(usage.ReasonNotAvailable)} {
		if _, got := read(t, "uuid,timestamp,power.draw\ng,2024/05/01 12:00:00,"+cell+"\n", smi.Options{}); got[0].Power != want {
			t.Errorf("%q: %+v", cell, got[0].Power)
		}
	}
	for cell, want := range map[string]int64{"1024 MiB": 1 << 30, "1024": 1 << 30, "1 GiB": 1 << 30, "2 KiB": 2048} {
		if _, got := read(t, "uuid,timestamp,memory.used\ng,2024/05/01 12:00:00,"+cell+"\n", smi.Options{}); got[0].Memory != known(want) {
			t.Errorf("%q: %+v", cell, got[0].Memory)
		}
	}
	for _, cell := range []string{"35 W", "many", "-3 %", "1.2.3", "0x23", "35 % now"} {
		res, got := read(t, "uuid, timestamp, utilization.gpu\ng, 2024/05/01 12:00:00, "+cell+"\n", smi.Options{})
		if got[0].Busy != unknown(usage.ReasonNotAvailable) || res.BadCount != 1 || !strings.HasPrefix(res.Bad[0].String(), "f.csv:2: utilization.gpu") {
			t.Errorf("%q: %+v, %v", cell, got[0].Busy, res.Bad)
		}
	}
}

// TestTheZoneIsAnOption: nothing in the file says it.
func TestTheZoneIsAnOption(t *testing.T) {
	const text = "uuid, timestamp, utilization.gpu\ng, 2024/05/01 12:00:00.999, 1\n"
	for offset, want := range map[int]span.Second{0: 1714564800, 8: 1714564800 - 8*3600} {
		res, _ := read(t, text, smi.Options{Zone: time.FixedZone("z", offset*3600)})
		if res.Recording.Begin != want {
			t.Errorf("offset %d: begin %d, want %d", offset, res.Recording.Begin, want)
		}
	}
	if res, _ := read(t, text, smi.Options{}); res.Recording.Begin != 1714564800 {
		t.Errorf("without a zone: %d", res.Recording.Begin)
	}
}

func TestNames(t *testing.T) {
	for header, want := range map[string]string{
		"index, uuid, pci.bus_id, serial": "u", "index, pci.bus_id, serial": "p", "index, serial": "s", "index": "index-0",
	} {
		row := strings.NewReplacer("index", "0", "uuid", "u", "pci.bus_id", "p", "serial", "s").Replace(header)
		_, got := read(t, header+", timestamp\n"+row+", 2024/05/01 12:00:00\n", smi.Options{ByIndex: true})
		if got[0].Device != want {
			t.Errorf("%s: %q, want %q", header, got[0].Device, want)
		}
	}
	_, err := smi.Read("f.csv", strings.NewReader("index, timestamp\n0, 2024/05/01 12:00:00\n"), smi.Options{})
	if err == nil || !strings.Contains(err.Error(), "f.csv:2: no cell names the device; add uuid") {
		t.Errorf("an index alone: %v", err)
	}
}

func TestFilesThatHoldNothing(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "no row",
		"uuid, utilization.gpu\ng, 1\n":         "f.csv:2: the row has no time; add timestamp",
		"g, 2024/05/01 12:00:00, 1\n":           "f.csv:1: no header",
		"a, b\n1, 2\n":                          "f.csv:1: no header",
		strings.Repeat("x", 1<<17) + "\nuuid\n": "f.csv:1: the line is longer",
		"\xff\xfeu\x00u\x00i\x00d\x00\n":        "f.csv:1: this is no text in UTF-8; write it anew",
	} {
		if _, err := smi.Read("f.csv", strings.NewReader(text), smi.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
	_, got := read(t, "2024/05/01 12:00:00, g, 7\n", smi.Options{Columns: []string{"timestamp", "uuid", "utilization.gpu"}})
	if got[0].Busy != collector.Known(7) {
		t.Errorf("without a header, with columns: %+v", got)
	}
	if _, err := smi.Read("f.csv", io.MultiReader(strings.NewReader("uuid\n"), broken{}), smi.Options{}); err == nil || !strings.Contains(err.Error(), "the disk") {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

// clock is a clock that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// running is a nvidia-smi that a test plays.
type running struct {
	*testing.T
	clock *clock
	out   *io.PipeWriter
	s     *smi.Stream
}

func run(t *testing.T) *running {
	t.Helper()
	r := &running{T: t, clock: &clock{at: time.Unix(1_700_000_000, 0)}}
	in, out := io.Pipe()
	r.out, r.s = out, smi.Follow("nvidia-smi -l 1", in, smi.FollowOptions{Now: r.clock.now})
	t.Cleanup(func() { _ = r.s.Close() })
	return r
}

// say prints lines. The empty line behind them is taken from the pipe only once they were read.
func (r *running) say(text string) {
	r.Helper()
	for _, text := range []string{text + "\n", "\n"} {
		if _, err := io.WriteString(r.out, text); err != nil {
			r.Fatal(err)
		}
	}
}

// want samples, and gives the faults of each device.
func (r *running) want(wantErr error, busy ...collector.Metric) (faults [][]usage.Fault) {
	r.Helper()
	got, err := r.s.Sample(nil)
	if !errors.Is(err, wantErr) || len(got) != len(busy) {
		r.Fatalf("%+v, %v; want %v", got, err, wantErr)
	}
	for i := range busy {
		if got[i].Busy != busy[i] {
			r.Fatalf("%+v; want %+v", got[i], busy[i])
		}
		faults = append(faults, got[i].Faults)
	}
	return faults
}

func (r *running) scan(devices ...string) {
	r.Helper()
	if units, err := r.s.Scan(); err != nil || len(units) != 1 || !slices.Equal(r.s.Devices(), devices) {
		r.Fatalf("%v, %v; want %v", r.s.Devices(), err, devices)
	}
}

func known(v int64) collector.Metric            { return collector.Known(v) }
func unknown(why usage.Reason) collector.Metric { return collector.Unknown(why) }

const columns = "uuid, utilization.gpu [%], ecc.errors.uncorrected.aggregate.total\n"

// TestFollow: a row counts when it comes, for one second, and a fault once. One second without a row is drift where each had one
// before it.
func TestFollow(t *testing.T) {
	r := run(t)
	scanned := make(chan error)
	go func() {
		_, err := r.s.Scan()
		scanned <- err
	}()
	r.say(columns + "b, 2 %, 5\na, 1 %, 0") // the first scan waits for it
	if err := <-scanned; err != nil {
		t.Fatal(err)
	}
	r.scan("a", "b")
	r.want(nil, known(1), known(2))
	r.clock.pass(time.Second)
	r.say("b, 4 %, 7")
	if d := cmp.Diff([][]usage.Fault{nil, {{Kind: usage.FaultECC, Code: 2}}}, r.want(collector.ErrPartly, unknown(usage.ReasonStale), known(4))); d != "" {
		t.Fatal(d)
	}
	r.clock.pass(time.Second)
	if faults := r.want(collector.ErrPartly, unknown(usage.ReasonStale), known(4)); len(faults[1]) > 0 {
		t.Fatalf("a fault twice: %v", faults)
	}
	r.clock.pass(time.Second / 4)
	r.say("Failed to initialize NVML: Unknown Error")
	r.want(collector.ErrPartly, unknown(usage.ReasonError), unknown(usage.ReasonError))
	r.want(nil, unknown(usage.ReasonError), unknown(usage.ReasonError)) // told once
}

// TestASlowLoopIsSeenOnceARow: of nvidia-smi -l 2 each row is one second, however long it may be believed.
func TestASlowLoopIsSeenOnceARow(t *testing.T) {
	r := run(t)
	r.say(columns + "a, 1 %, 0")
	r.scan("a")
	for range 3 {
		r.want(nil, known(1))
		r.clock.pass(time.Second)
		if _, err := r.s.Sample(nil); !errors.Is(err, collector.ErrPartly) || !strings.Contains(err.Error(), "device a, which has no row in this second") {
			t.Fatal(err)
		}
		r.say("a, 1 %, 0") // and the next tick comes at once: the row was looked at less than MaxAge ago
		r.clock.pass(time.Second)
	}
}

func TestNothingIsFollowed(t *testing.T) {
	in, out := io.Pipe()
	s := smi.Follow("pipe", in, smi.FollowOptions{GoneAfter: time.Millisecond})
	if _, err := s.Scan(); err == nil || !strings.Contains(err.Error(), "(pipe) has printed no row for 1ms; start it with --query-gpu=uuid") {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
}

// TestFollowDevicesThatComeAndGo: a scan is asked for once.
func TestFollowDevicesThatComeAndGo(t *testing.T) {
	r := run(t)
	r.say(columns + "b, 2 %, 5\na, 1 %, 0")
	r.scan("a", "b")
	r.clock.pass(11 * time.Second)
	r.say(columns + "b, 6 %, 7\nc, 0 %, 0\nb, cut")
	r.want(collector.ErrChanged, unknown(usage.ReasonLost), known(6))
	r.say("b, 7 %, 7")
	_, err := r.s.Sample(nil)
	if !errors.Is(err, collector.ErrPartly) || !strings.Contains(err.Error(), "nvidia-smi -l 1:8: 2 cells, where the header has 3") {
		t.Fatal(err)
	}
	r.scan("b", "c")
	r.say("b, 8 %, 7\nc, 0 %, 0")
	r.want(nil, known(8), known(0))
	if top := r.s.Topology(); len(top.Devices) != 2 || top.Devices[0].Name != "b" || top.Source != "nvidia-smi" {
		t.Fatalf("%+v", top)
	}
	for _, c := range r.s.Capabilities() {
		if via := map[string]string{"busy": "utilization.gpu", "faults": "ecc.errors.uncorrected.aggregate.total"}[c.Metric]; c.Via != via {
			t.Fatalf("%+v", c)
		}
	}
}

// TestFollowUntilItEnds: the last rows count as long as others, the cut one does not, and the session is to be opened anew.
func TestFollowUntilItEnds(t *testing.T) {
	r := run(t)
	r.say(columns + "a, 1 %, 0")
	r.scan("a")
	if _, err := io.WriteString(r.out, "a, 99 %, 0"); err != nil {
		t.Fatal(err)
	}
	_ = r.out.Close()
	<-r.s.Done()
	r.want(collector.ErrSession, known(1))
	r.clock.pass(2 * time.Second)
	r.want(collector.ErrSession, unknown(usage.ReasonError))
	if _, err := r.s.Scan(); !errors.Is(err, collector.ErrSession) {
		t.Fatal(err)
	}
}

// TestALostGPUKeepsItsName: with words in place of its UUID it is the one at that address, and no new device.
func TestALostGPUKeepsItsName(t *testing.T) {
	const head = "uuid, pci.bus_id, timestamp, utilization.gpu\n"
	res, err := smi.Read("f.csv", strings.NewReader(head+"g, p, 2024/05/01 12:00:00, 7\n[GPU is lost], p, 2024/05/01 12:00:01, [GPU is lost]\n[GPU is lost], q, 2024/05/01 12:00:01, 0\n"), smi.Options{})
	if err != nil || !slices.Equal(res.Recording.Devices(), []string{"g"}) || res.BadCount != 1 || !strings.Contains(res.Bad[0].String(), "f.csv:4: no cell names the device") {
		t.Fatalf("%+v, %v", res, err)
	}
	got, err := res.Recording.From(0, false).Sample(1, nil)
	if err != nil || got[0].Busy != unknown(usage.ReasonLost) || len(got[0].Faults) != 1 || got[0].Faults[0].Kind != usage.FaultLost {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestECC: an increase is a fault, of two counters the volatile one's; one that begins anew counts from 0; one of two rows of a second
// keeps what the other told; a row with a cell too many is none.
func TestECC(t *testing.T) {
	rows := "uuid, timestamp, ecc.errors.uncorrected.aggregate.total, ecc.errors.uncorrected.volatile.total\n"
	for _, r := range []string{"0, 9, 3", "1, 11, 5", "1, 11, 5", "2, 12, 1", "3, 13, [N/A]", "3, 14, 2, 7"} {
		at, counts, _ := strings.Cut(r, ", ")
		rows += "g, 2024/05/01 12:00:0" + at + ", " + counts + "\n"
	}
	res, err := smi.Read("f.csv", strings.NewReader(rows), smi.Options{})
	if err != nil || res.Replaced != 1 || res.BadCount != 1 || !strings.Contains(res.Bad[0].String(), "f.csv:7: 5 cells, where the header has 4") {
		t.Fatalf("%+v, %v", res, err)
	}
	src := res.Recording.From(0, false)
	for at, want := range [][]usage.Fault{nil, {{Kind: usage.FaultECC, Code: 2}}, {{Kind: usage.FaultECC, Code: 1}}, {{Kind: usage.FaultECC, Code: 1}}} {
		got, err := src.Sample(span.Second(at), nil)
		if err != nil || !cmp.Equal(want, got[0].Faults) {
			t.Errorf("second %d: %v, want %v; %v", at, got, want, err)
		}
	}
}

// FuzzRead: nothing panics, each line is accounted for, and what is read can be recorded.
func FuzzRead(f *testing.F) {
	f.Add("uuid, timestamp, power.draw [W]\r\ng, 2024/05/01 12:00:00, 71.30 W\r\nuuid, timestamp, memory.used\ng, 2024/05/01 12:00:01, [GPU is lost]\n")
	f.Add("index, timestamp, clocks_event_reasons.active\n0, 2024/05/01 12:00:00, 0x4\nFailed to initialize NVML\n0, 2024/05/01")
	f.Add("uuid, timestamp, utilization.gpu\ng, 2024/05/01 12:00:00.999, 1\ng, 2024/05/01 12:00:00.1, [N/A]\n")
	f.Fuzz(func(t *testing.T, text string) {
		res, err := smi.Read("f", strings.NewReader(text), smi.Options{ByIndex: true})
		if err != nil {
			return
		}
		if lines := strings.Count(text, "\n") + 1; res.Rows > lines || res.Replaced >= res.Rows || len(res.Bad) > res.BadCount {
			t.Fatalf("%d lines: %+v", lines, res)
		}
		top := res.Recording.Topology(0)
		b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: 1, Topology: top}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		if res.Recording.Seconds < 10_000 {
			if _, err := recorded.ReadCSV("r", strings.NewReader(written(t, res.Recording))); err != nil {
				t.Fatal(err)
			}
		}
	})
}
