package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/scenario"
)

// TestRateEveryCase: every case file comes out of `gpuhour rate` as it expects, as text in both languages and as the invoices' bytes.
func TestRateEveryCase(t *testing.T) {
	moved(t, nil)
	for _, name := range cases.List() {
		text, err := cases.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, lang := range []string{"en", "zh"} {
			got := call(t, "", "rate", name, "--lang", lang)
			want := "as expected: 1 scenario, " + count(len(s.Expect), "period") + "\n"
			if got.code != 0 || got.err != "" || !strings.HasSuffix(got.out, want) || !strings.HasPrefix(got.out, name+": "+s.Story) {
				t.Errorf("%s in %s: %v", name, lang, got)
			}
		}
		got := call(t, "", "rate", name, "--format", "json")
		if got.code != 0 || !strings.HasPrefix(got.err, `{"blocked":[`) {
			t.Errorf("%s: %v", name, got)
		}
		result, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(got.out, "\n")
		if len(lines) != len(result.Invoices)+1 {
			t.Fatalf("%s prints %d lines for %d invoices", name, len(lines)-1, len(result.Invoices))
		}
		for i, issued := range result.Invoices {
			if lines[i] != string(issued.Fact.Document)+"\n" {
				t.Errorf("%s: invoice %d has other bytes:\n%s", name, i+1, lines[i])
			}
			if _, err := bill.ParseDocument([]byte(lines[i])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
