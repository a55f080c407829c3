package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/explain"
)

func TestRateExplains(t *testing.T) {
	cases, err := filepath.Abs(filepath.Join("..", "..", "core", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	moved(t, nil)
	t.Chdir(cases)
	calls(
		t, "explain.golden",
		[]string{"rate", "window-belongs-to-the-date-it-begins-on.yaml", "--explain", "2"},
		[]string{"rate", "window-belongs-to-the-date-it-begins-on.yaml", "--explain", "2", "--lang", "zh"},
		[]string{"rate", "window-belongs-to-the-date-it-begins-on.yaml", "--explain", "3"},
		[]string{"rate", "window-belongs-to-the-date-it-begins-on.yaml", "--explain", "two"},
		[]string{"rate", "meters.yaml", "--explain", "2"},
		[]string{"rate", "meters.yaml", "--explain", "two"},
		[]string{"rate", "meters.yaml", "--explain", "CASE-000009/2"},
		[]string{"rate", "meters.yaml", "--explain", "CASE-000002/2"},
	)
}

// TestRateExplainsFacts: facts are explained as case files are, and a program gets every segment.
func TestRateExplainsFacts(t *testing.T) {
	moved(t, map[string]string{"facts.jsonl": leases("L1", "L2"), "acme.yaml": contractText})
	got := call(t, "", "rate", "facts.jsonl", "--contract", "acme.yaml", "--explain", "GH-000001/1", "--format", "json")
	if got.code != 0 {
		t.Fatal(got)
	}
	var r explain.Report
	if err := json.Unmarshal([]byte(got.out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Segments) != 2 || r.Segments[0].Lease != "L1" || r.Segments[0].Milli != 500 || r.Segments[0].PerGPUHour != "30.80" {
		t.Errorf("segments: %+v", r.Segments)
	}
	var sum int64
	for _, g := range r.Segments {
		sum += g.MilliGPUSeconds
	}
	if sum != r.Billed.Quantity.MilliGPUSeconds {
		t.Errorf("segments sum to %d of %d", sum, r.Billed.Quantity.MilliGPUSeconds)
	}
}

func TestExplainWithoutALog(t *testing.T) {
	moved(t, nil)
	if got := call(t, "", "explain", "GH-000001", "1"); got.code != 1 || !strings.Contains(got.err, "data directory") {
		t.Errorf("%v", got)
	}
	if got := call(t, "", "explain", "GH-000001", "x"); got.code != 1 || !strings.Contains(got.err, "write its number") {
		t.Errorf("%v", got)
	}
}
