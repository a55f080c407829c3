package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpuhour/gpuhour/core/usage"
)

// figure is what a collector shows, as services/collector/live/metrics.go names it; alarm a kind that it raises.
var (
	figure   = regexp.MustCompile(`w\.(count|gauge|unseen|put)\((?:prometheus\.\w+, )?"(\w+)"`)
	alarm    = regexp.MustCompile(`\.raise\("(\w+)"`)
	ingested = regexp.MustCompile(`"(gpuhour_ingest_\w+)"`)
)

// collectorFigures are the names of all figures of a collector, without gpuhour_collector_, and the kinds of its alarms.
func collectorFigures(t *testing.T) (figures, alarms map[string]bool) {
	t.Helper()
	figures, alarms = map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", "..", "services", "collector", "live", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range figure.FindAllStringSubmatch(string(text), -1) {
			name := m[2]
			if m[1] == "count" || m[1] == "unseen" {
				name += "_total"
			}
			figures[name] = true
		}
		for _, m := range alarm.FindAllStringSubmatch(string(text), -1) {
			alarms[m[1]] = true
		}
	}
	if len(figures) < 30 || len(alarms) < 10 {
		t.Fatalf("%d figures and %d alarms were found", len(figures), len(alarms))
	}
	return figures, alarms
}

// TestCollectorDocument: every reason of a gap and every alarm has its row with what to do, and no figure is named that nobody shows.
func TestCollectorDocument(t *testing.T) {
	text := readFile(t, "docs", "collector.md")
	figures, alarms := collectorFigures(t)
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|.*\\|.*\\|").FindAllStringSubmatch(text, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[1], -1) {
			rows[m[1]] = true
		}
	}
	for g := usage.GapReason(1); g < 64; g++ {
		if g.Valid() && !rows[g.String()] {
			t.Errorf("docs/collector.md has no row for gaps that are %s", g)
		}
	}
	for kind := range alarms {
		if !rows[kind] {
			t.Errorf("docs/collector.md has no row for the alarm %s", kind)
		}
	}
	_, watched, _ := strings.Cut(text, "| watch |")
	watched, _, _ = strings.Cut(watched, "\n\n")
	named := regexp.MustCompile("`([a-z_]+)(\\{[^`]*)?`").FindAllStringSubmatch(watched, -1)
	if len(named) < 10 {
		t.Fatalf("the table of figures names %d", len(named))
	}
	for _, m := range named {
		if !figures[m[1]] {
			t.Errorf("docs/collector.md names the figure %s, which no collector shows", m[1])
		}
	}
}

// TestAlertRules: the rules are YAML as Prometheus reads it, and each asks for figures that there are.
func TestAlertRules(t *testing.T) {
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(readFile(t, "deploy", "prometheus", "collector.rules.yaml")), &rules, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	figures, _ := collectorFigures(t)
	for _, m := range ingested.FindAllStringSubmatch(readFile(t, "platform", "obs", "ingest.go"), -1) {
		figures[m[1]] = true
	}
	count := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			count++
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("a rule of %s is %+v", g.Name, r)
			}
			names := regexp.MustCompile(`\bgpuhour_\w+`).FindAllString(r.Expr, -1)
			if len(names) == 0 && !strings.Contains(r.Expr, "up{") {
				t.Errorf("%s asks for nothing of ours: %s", r.Alert, r.Expr)
			}
			for _, name := range names {
				if !figures[strings.TrimPrefix(name, "gpuhour_collector_")] {
					t.Errorf("%s asks for %s, which nobody shows", r.Alert, name)
				}
			}
		}
	}
	if count < 10 {
		t.Errorf("there are %d rules", count)
	}
}
