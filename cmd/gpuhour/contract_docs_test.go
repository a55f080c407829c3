package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/schemas"
)

// wholeOf makes a document of an example: what it leaves out of the mandatory fields stands in front.
func wholeOf(example string) string {
	if strings.HasPrefix(example, "contract:") || strings.HasPrefix(example, "book:") {
		return example
	}
	head := "contract: acme-2026\ncustomer: acme\ncurrency: CNY\ntimezone: Asia/Shanghai\nterm: {from: 2026-01-01, to: 2027-01-01}\n"
	if !strings.Contains(example, "rates:") {
		head += "rates: [{sku: h100-80g, on_demand: 35.00/gpu-hour}]\n"
	}
	return head + example
}

// TestContractPage: every example of docs/contract.md is read, every field of the schema is shown in one, and what the page says
// is not yet there is refused by name.
func TestContractPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	examples := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	for _, m := range examples {
		shown.WriteString(m[1])
		if _, err := checked("docs/contract.md", []byte(wholeOf(m[1]))); err != nil {
			t.Errorf("%s\n%v", m[1], err)
		}
	}
	if len(examples) < 15 {
		t.Errorf("only %d examples", len(examples))
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(schemas.Contract()), &schema); err != nil {
		t.Fatal(err)
	}
	eachField(schema, func(name string) {
		if !regexp.MustCompile(`\b` + name + `:`).MatchString(shown.String()) {
			t.Errorf("no example shows %s", name)
		}
	})
	_, rest, _ := strings.Cut(string(text), "## Not yet\n")
	refused, _, _ := strings.Cut(rest, "; so are")
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(refused, -1) {
		_, err := contract.Parse("c", []byte(wholeOf(m[1]+": {}\n")))
		if err == nil || !strings.Contains(err.Error(), "`"+m[1]+":` is not supported by this version") {
			t.Errorf("%s is said to be refused: %v", m[1], err)
		}
	}
}

// eachField walks the names of a schema's fields.
func eachField(node any, visit func(string)) {
	switch v := node.(type) {
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		for name := range properties {
			visit(name)
		}
		for _, below := range v {
			eachField(below, visit)
		}
	case []any:
		for _, below := range v {
			eachField(below, visit)
		}
	}
}
