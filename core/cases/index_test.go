package cases_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/contract"
)

// TestIndex: every row of INDEX.md names files that exist, what is missing or who holds it; a clause that is said to be missing is one
// that the language refuses by name; and every file that is named after a number stands in a row.
func TestIndex(t *testing.T) {
	text, err := os.ReadFile("INDEX.md")
	if err != nil {
		t.Fatal(err)
	}
	files := cases.List()
	named := regexp.MustCompile(`[\w-]+\.yaml`)
	var listed, numbers []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "--") || strings.TrimSpace(cells[2]) == "files" {
			continue
		}
		number, what := strings.TrimSpace(cells[1]), cells[2]
		numbers = append(numbers, number)
		here := named.FindAllString(what, -1)
		for _, file := range here {
			if !slices.Contains(files, file) {
				t.Errorf("%s: there is no %s", number, file)
			}
		}
		listed = append(listed, here...)
		_, missing, lacks := strings.Cut(what, "missing: ")
		if len(here) == 0 && !lacks && !strings.Contains(what, "elsewhere: ") {
			t.Errorf("%s has no file and no reason", number)
		}
		for _, clause := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(missing, -1) {
			refusesByName(t, clause[1])
		}
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(numbers))); len(sorted) != len(numbers) || len(numbers) < 140 {
		t.Errorf("%d rows, %d of them with a number of their own", len(numbers), len(sorted))
	}
	for _, file := range files {
		if regexp.MustCompile(`^[bf]\d+-`).MatchString(file) && !slices.Contains(listed, file) {
			t.Errorf("%s stands in no row", file)
		}
	}
}

// refusesByName: as long as the index says that a clause is missing, the language does not read it.
func refusesByName(t *testing.T, clause string) {
	t.Helper()
	head := "contract: c\ncustomer: c\ncurrency: USD\ntimezone: UTC\nterm: {from: 2026-01-01, to: open}\n"
	rates := "rates: [{sku: a, on_demand: 1/gpu-hour}]\n"
	text := head + rates + clause + ": {}\n"
	_, err := contract.Parse("c.yaml", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "not supported by this version") {
		t.Errorf("%s is said to be missing: %v", clause, err)
	}
}
