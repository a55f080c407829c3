package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/exporter"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// page serves what a file of the exporters' tests holds.
func page(t *testing.T, file string) *httptest.Server {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "services", "collector", "exporter", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(s.Close)
	return s
}

// noteOnce notes what is seen of the hardware, on a narrow page and on a wide one.
func noteOnce(t *testing.T, out *strings.Builder, title string, h collector.Hardware) {
	t.Helper()
	all, err := lookOnce(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{80, 100} {
		text := onceTable(h.Topology(), all, render.Options{Width: width})
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%s: a line of %d columns on a page of %d: %s", title, n, width, line)
			}
		}
		fmt.Fprintf(out, "--- %s, %d columns\n\n%s\n", title, width, aPort.ReplaceAllString(text, "HOST:PORT"))
	}
}

// TestOnceOfExporters: what --once prints of exporters' pages.
func TestOnceOfExporters(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		title string
		pages []string
	}{
		{"slices of dcgm-exporter", []string{"dcgm-mig.prom"}},
		{"partitions of AMD beside chips of Ascend", []string{"amd-partitions.prom", "ascend-chips.prom"}},
	} {
		var urls []string
		for _, p := range c.pages {
			urls = append(urls, page(t, p).URL)
		}
		h, err := exporter.Open(exporter.Options{URLs: urls})
		if err != nil {
			t.Fatal(err)
		}
		noteOnce(t, &out, c.title, h)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	golden(t, "collector-once-exporters.golden", out.String())
}

var (
	aMoment = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; clock [^\n]+`)
	aPort   = regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?`)
)

// TestOnce is the whole command, where there is a page and where there is none.
func TestOnce(t *testing.T) {
	there := page(t, "dcgm-blank.prom")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	shut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer shut.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "<html>hello</html>") }))
	defer other.Close()
	var out strings.Builder
	for _, c := range []struct {
		title string
		urls  []string
	}{
		{"a page", []string{there.URL}},
		{"a page, and one that nobody serves", []string{there.URL, gone.URL}},
		{"one that nobody serves", []string{gone.URL}},
		{"a page that is shut", []string{shut.URL}},
		{"a page of something else", []string{other.URL}},
	} {
		got := call(t, "", "collector", "--once", "--endpoint", strings.Join(c.urls, ",")).String()
		fmt.Fprintf(&out, "--- %s\n\n%s\n", c.title, aPort.ReplaceAllString(aMoment.ReplaceAllString(got, "(the time); clock (its state)"), "HOST:PORT"))
	}
	golden(t, "collector-once-calls.golden", out.String())
}

// TestOnceOfNvidiaSMI: the rows of a pipe, of one that says nothing more, and of one that ends; and a file, which is refused.
func TestOnceOfNvidiaSMI(t *testing.T) {
	in, smi := io.Pipe()
	defer in.Close()
	go func() {
		_, _ = io.WriteString(smi, "uuid, utilization.gpu [%], memory.used [MiB]\nGPU-a, 7 %, 1024 MiB\n")
	}()
	for _, c := range []struct {
		stdin io.Reader
		out   string
		code  int
		err   string
	}{
		{in, "unknown model 7 % 1.0 GiB", 0, ""},
		{strings.NewReader("Failed to initialize NVML: Driver/library version mismatch\n"), "", 1, "standard input:1: the driver answered nothing here"},
		{openFile(t, "collector_once_test.go"), "", 1, "play it with `gpuhour collector replay`"},
	} {
		var out, errOut strings.Builder
		cmd := root()
		cmd.SetArgs([]string{"collector", "--once", "--nvidia-smi"})
		cmd.SetIn(c.stdin)
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		code := execute(t.Context(), cmd, &errOut)
		said := strings.Join(strings.Fields(out.String()), " ")
		if code != c.code || !strings.Contains(said, c.out) || !strings.Contains(errOut.String(), c.err) {
			t.Errorf("exit %d\n%s\n%s", code, out.String(), errOut.String())
		}
		if c.code == 0 && !strings.Contains(said, "device GPU-a, which has no row in this second; it has to print every second: -l 1") {
			t.Errorf("it hangs, and nobody is told: %s", out.String())
		}
	}
}

// TestStandardInputHasOneReader: two would share its lines between them.
func TestStandardInputHasOneReader(t *testing.T) {
	c := root()
	c.SetIn(strings.NewReader(""))
	open, err := (&sources{smi: true}).opener(c)
	if err != nil {
		t.Fatal(err)
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := open(); again != first || err != nil {
		t.Errorf("another session reads %v, %v", again, err)
	}
}

func openFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestReplayOfNvidiaSMI: what it printed is told from a recording by its header, and each line that is not used is told.
func TestReplayOfNvidiaSMI(t *testing.T) {
	text := "Failed to initialize NVML\ntimestamp, uuid, utilization.gpu [%]\n2024/05/01 12:00:00.1, GPU-a, 7 %\n" + strings.Repeat("cut\n", 11)
	rec, err := readRecording("smi.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := rec.From(0, false).Sample(0, nil)
	if err != nil || len(got) != 1 || got[0].Device != "GPU-a" || got[0].Busy != collector.Known(7) {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(rec.Notes); n != 11 || !strings.HasPrefix(rec.Notes[0], "smi.csv:1: the driver answered nothing") || rec.Notes[10] != "smi.csv: 2 more lines are not used" {
		t.Errorf("%d notes: %q", n, rec.Notes)
	}
}
