package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
)

// spotTerms are those of a contract of examples/spot, stated again.
type spotTerms struct {
	contract    string
	lock        string
	maxPercent  map[string]int64 // of the on-demand price; nil without a limit
	freeSeconds int64
}

func spotContracts() []spotTerms {
	whole := map[string]int64{"p2.xlarge": 100, "p2.8xlarge": 100, "p3.2xlarge": 100, "p3.16xlarge": 100}
	part := map[string]int64{"p2.xlarge": 40, "p2.8xlarge": 40, "p3.2xlarge": 33, "p3.16xlarge": 33}
	return []spotTerms{{"market", "none", whole, 3600}, {"hourly", "hour", part, 0}, {"fixed", "start", nil, 7200}}
}

// spotRun is an instance of the log: from its creation to the last poll that found it.
type spotRun struct {
	kind, zone string
	from, to   int64
	gone       bool
}

func spotRuns(t *testing.T) map[string]*spotRun {
	t.Helper()
	text, err := os.ReadFile("availability.out")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{"1 GPU(s) of type v100": "p3.2xlarge", "8 GPU(s) of type v100": "p3.16xlarge", "1 GPU(s) of type k80": "p2.xlarge", "8 GPU(s) of type k80": "p2.8xlarge"}
	runs := map[string]*spotRun{}
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		at := unixOf(t, strings.Trim(w[0], "[]"))
		switch {
		case w[1] == "Created":
			runs[w[3]] = &spotRun{kinds[strings.Join(w[5:10], " ")], w[12], at, at, false}
		case strings.Contains(line, "not running"):
			runs[w[2]].gone = true
		case strings.Contains(line, " running in "):
			runs[w[2]].to = at
		}
	}
	return runs
}

func unixOf(t *testing.T, stamp string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return at.Unix()
}

// spotPoint is a price in millionths of a dollar an hour.
type spotPoint struct{ at, micros int64 }

// spotPoints reads the histories line by line, as they are laid out, the oldest first.
func spotPoints(t *testing.T) map[string][]spotPoint {
	t.Helper()
	field := regexp.MustCompile(`"(\w+)": "([^"]*)"`)
	points := map[string][]spotPoint{}
	for kind := range spotContracts()[0].maxPercent {
		text, err := os.ReadFile("prices/aws-us-east-1-2020-03-23." + kind + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var zone string
		var micros int64
		for line := range strings.Lines(string(text)) {
			switch m := field.FindStringSubmatch(line); {
			case m == nil:
			case m[1] == "AvailabilityZone":
				zone = m[2]
			case m[1] == "SpotPrice":
				if micros, err = strconv.ParseInt(strings.Replace(m[2], ".", "", 1), 10, 64); err != nil || len(m[2])-strings.Index(m[2], ".") != 7 {
					t.Fatalf("price %s: %v", m[2], err)
				}
			case m[1] == "Timestamp":
				points[kind+" "+zone] = append(points[kind+" "+zone], spotPoint{unixOf(t, m[2]), micros})
			}
		}
	}
	for _, list := range points {
		slices.SortFunc(list, func(a, b spotPoint) int { return int(a.at - b.at) })
	}
	return points
}

// independent bills the log a second at a time: lines by type and zone as "seconds, amount", the free seconds and the total.
func (s spotTerms) independent(runs map[string]*spotRun, points map[string][]spotPoint) map[string]string {
	onDemand := map[string]int64{"p2.xlarge": 900_000, "p2.8xlarge": 7_200_000, "p3.2xlarge": 3_060_000, "p3.16xlarge": 24_480_000}
	seconds, micros := map[string]int64{}, map[string]int64{} // micros are millionths of a dollar x 3600
	var free, cents int64
	for _, r := range runs {
		if r.gone && r.to-r.from < s.freeSeconds {
			free += r.to - r.from
			continue
		}
		place := r.kind + " " + r.zone
		for at := r.from; at < r.to; at++ {
			when := map[string]int64{"none": at, "start": r.from, "hour": r.from + (at-r.from)/3600*3600}[s.lock]
			price := int64(-1)
			for _, p := range points[place] {
				if p.at <= when {
					price = p.micros
				}
			}
			if s.maxPercent != nil {
				price = min(price, onDemand[r.kind]*s.maxPercent[r.kind]/100)
			}
			seconds[place]++
			micros[place] += price
		}
	}
	out := map[string]string{}
	for place, n := range seconds {
		line := (micros[place] + 18_000_000) / 36_000_000
		cents += line
		out[place] = fmt.Sprintf("%d s, %d.%02d", n, line/100, line%100)
	}
	out["free"] = fmt.Sprintf("%d s", free)
	out["total"] = fmt.Sprintf("%d.%02d", cents/100, cents%100)
	return out
}

// TestSpotExample: the whole log of examples/spot, imported and rated under each contract that stands there, comes to what a walk
// over every second of the raw files gives.
func TestSpotExample(t *testing.T) {
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "spot"))
	if err != nil {
		t.Fatal(err)
	}
	facts := filepath.Join(t.TempDir(), "facts.jsonl")
	moved(t, nil)
	t.Chdir(example)
	imported := call(t, "", "import", "spot", "--prices", "prices", "--availability", "availability.out", "--out", facts)
	if imported.code != 0 || !strings.HasSuffix(imported.err, "372 ticks of 501 price entries; 39 leases (32 reclaimed) of 2464 log lines; 451 entries and lines became no fact\n") {
		t.Fatalf("%d: %s", imported.code, imported.err[max(0, len(imported.err)-300):])
	}
	again := call(t, "", "import", "spot", "--prices", "prices", "--availability", "availability.out")
	if written, err := os.ReadFile(facts); err != nil || string(written) != again.out {
		t.Fatalf("the same files give other facts: %v", err)
	}
	runs, points := spotRuns(t), spotPoints(t)
	totals := map[string]string{}
	for _, s := range spotContracts() {
		want := s.independent(runs, points)
		got := rated(t, facts, s.contract+".yaml")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-independent +rated)\n%s", s.contract, diff)
		}
		totals[s.contract] = got["total"]
	}
	if diff := cmp.Diff(map[string]string{"market": "1058.27", "hourly": "1060.14", "fixed": "1048.33"}, totals); diff != "" {
		t.Errorf("totals (-known +got)\n%s", diff)
	}
}

// rated is the one invoice that facts give under a contract, in the words of independent.
func rated(t *testing.T, facts, contract string) map[string]string {
	t.Helper()
	r := call(t, "", "rate", facts, "--contract", contract, "--format", "json")
	if r.code != 0 || strings.Count(r.out, "\n") != 1 {
		t.Fatalf("%s: %v", contract, r.err)
	}
	var d bill.Document
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"total": d.Total, "free": "0 s"}
	for _, l := range d.Lines {
		out[l.SKU+" "+l.Region] = fmt.Sprintf("%d s, %s", l.Quantity.MilliGPUSeconds/1000, l.Amount)
	}
	var free int64
	for _, l := range d.Unbilled {
		if l.Standing != "free" || l.Reason != "reclaimed_free" {
			t.Errorf("unbilled: %+v", l)
		}
		free += l.Quantity.MilliGPUSeconds / 1000
	}
	out["free"] = fmt.Sprintf("%d s", free)
	return out
}
