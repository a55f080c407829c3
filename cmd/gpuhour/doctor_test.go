package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// examined is the marks and names of what the doctor finds.
func examined(t *testing.T, e *gpuhour.Engine) (out []string, d *diagnosis) {
	t.Helper()
	d = &diagnosis{e: e}
	if err := d.examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range d.findings {
		out = append(out, strings.Join(strings.Fields(f)[:2], " "))
	}
	return out, d
}

// TestDoctor: a log without a clock, and then a period that cannot close, are no good health.
func TestDoctor(t *testing.T) {
	e, err := gpuhour.Open(t.Context(), gpuhour.DefaultConfig(), gpuhour.Options{Memory: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Declare(t.Context(), fact.Scripted); err != nil {
		t.Fatal(err)
	}
	got, d := examined(t, e)
	if diff := cmp.Diff([]string{"ok log", "ok log", "BAD clock", "BAD rater", "BAD alerter", "ok invoicer", "BAD refusals"}, got); diff != "" || d.bad != 4 {
		t.Errorf("a new log, %d bad (-want +got):\n%s", d.bad, diff)
	}
	if _, err := openRefusals(t.Context(), e.Store()); !errors.Is(err, errNotJudged) {
		t.Errorf("what is refused of a log that nobody rated: %v", err)
	}
	moved(t, map[string]string{"acme.yaml": contractText, "facts.jsonl": started("L1", "acme", "b200", "cn-west", "GPU-1", "2026-02-28T13:00:00Z") + stopped("L9", "2026-02-28T18:00:00Z")})
	facts, err := readStatements([]string{"acme.yaml", "facts.jsonl"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	until, err := span.Parse("2026-03-02T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.State(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
	if err := e.Advance(t.Context(), until); err != nil {
		t.Fatal(err)
	}
	got, d = examined(t, e)
	if diff := cmp.Diff([]string{"ok log", "ok log", "ok clock", "ok rater", "ok alerter", "BAD invoicer", "BAD refusals"}, got); diff != "" || d.bad != 2 {
		t.Errorf("%d bad (-want +got):\n%s", d.bad, diff)
	}
	if list, err := openRefusals(t.Context(), e.Store()); err != nil || len(list) == 0 {
		t.Errorf("refused: %v, %v", list, err)
	}
	if len(d.blocked) != 1 || !strings.Contains(d.blocked[0].Reason, "no_rate") {
		t.Errorf("February waits for the rate of a b200: %+v", d.blocked)
	}
}
