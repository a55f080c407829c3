package main

import (
	"fmt"
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
		fmt.Fprintf(out, "--- %s, %d columns\n\n%s\n", title, width, text)
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
