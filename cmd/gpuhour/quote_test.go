package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/quote"
)

// TestQuoteOfTheSpotMarket: the three contracts of examples/spot beside each other come to what each is rated at alone (its README).
func TestQuoteOfTheSpotMarket(t *testing.T) {
	facts := filepath.Join(t.TempDir(), "facts.jsonl")
	t.Setenv(testdataOfMoved, testdata(t))
	t.Chdir(filepath.Join("..", "..", "examples", "spot"))
	if got := call(t, "", "import", "spot", "--prices", "prices", "--availability", "availability.out", "--out", facts); got.code != 0 {
		t.Fatal(got)
	}
	ask := []string{"quote", facts, "market.yaml", "--contract", "hourly.yaml,fixed.yaml", "--customer", "spot", "--from", "2020-03-01", "--to", "2020-04-01"}
	var text strings.Builder
	for _, lang := range []string{"en", "zh"} {
		text.WriteString(call(t, "", append(ask, "--lang", lang)...).String())
	}
	golden(t, "quote.golden", text.String())

	var r quote.Report
	if err := json.Unmarshal([]byte(call(t, "", append(ask, "--format", "json")...).out), &r); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"1058.27", "1060.14", "1048.33"} {
		if o := r.Offers[i]; o.Total != want || o.Own != (i == 0) || len(o.Statements) != 1 || o.Statements[0].Total != want {
			t.Errorf("offer %d: %s of %v", i, o.Total, o.Contracts)
		}
		if !strings.Contains(string(readme), strings.Replace(want, "1", "1,", 1)) {
			t.Errorf("the README does not say %s", want)
		}
	}
	if m := r.Modes.List[0]; m.Mode != quote.Spot || m.Rank != 1 || m.Total != "1060.14" || m.Market.Taken != 27 {
		t.Errorf("the best way is %+v", m)
	}
}

// TestQuoteOfAScenario: a case file is quoted under the contract that it holds.
func TestQuoteOfAScenario(t *testing.T) {
	got := call(t, "", "quote", filepath.Join("..", "..", "core", "cases", "reserved-base-and-burst.yaml"), "--customer", "acme", "--from", "2026-03-01", "--to", "2026-04-01")
	if got.code != 0 || !regexp.MustCompile(`c1, as billed +12\.001 +3,120\.00`).MatchString(got.out) {
		t.Error(got)
	}
}

// TestWrongQuotes: each error says what is wrong and what to ask for instead.
func TestWrongQuotes(t *testing.T) {
	other := strings.Replace(contractText, "acme-2026", "other", 1)
	moved(t, map[string]string{
		"facts.jsonl": leases("L1"), "acme.yaml": contractText, "other.yaml": other, "again.yaml": other, "bad.yaml": strings.Replace(other, "rates:", "rtaes:", 1),
		"dollars.yaml": strings.NewReplacer("CNY", "USD", "acme-2026", "dollars").Replace(contractText),
		"later.yaml":   strings.NewReplacer("2026-02-01", "2026-06-01", "acme-2026", "later").Replace(contractText),
		"weekly.yaml":  strings.NewReplacer("monthly", "weekly", "acme-2026", "weekly").Replace(contractText),
		"empty.jsonl":  "\n",
	})
	of := func(files, customer, from, to string, flags ...string) []string {
		return append(append([]string{"quote"}, strings.Fields(files)...), append([]string{"--customer", customer, "--from", from, "--to", to}, flags...)...)
	}
	calls(
		t, "quote-calls.golden",
		[]string{"quote"}, []string{"quote", "--customer", "acme", "--from", "May", "--to", "2026-13-01"},
		of("", "acme", "2026-02-01", "2026-03-01"), of("acme.yaml", "acme", "2026-02-01", "2026-03-01"), of("none.jsonl", "acme", "2026-02-01", "2026-03-01"),
		of("facts.jsonl acme.yaml", "acne", "2026-02-01", "2026-03-01"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-02", "2026-03-01"),
		of("facts.jsonl acme.yaml", "acme", "2026-03-01", "2026-02-01"),
		of("facts.jsonl", "acme", "2026-02-01", "2026-03-01"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--contract", "dollars.yaml"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--contract", "later.yaml"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--contract", "weekly.yaml"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--contract", "other.yaml,again.yaml"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--contract", "bad.yaml"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--format", "xml"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--lang", "fr"),
		of("empty.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01"),
		of("facts.jsonl acme.yaml", "acme", "2026-02-01", "2026-03-01", "--contract", "other.yaml"),
	)
}
