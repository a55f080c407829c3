package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/schemas"
)

// TestScenarioPage: every example of docs/scenario.md is rated as it expects, and the page names every field of the schema.
func TestScenarioPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "scenario.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for i, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		files[fmt.Sprintf("example-%d.yaml", i+1)] = m[1]
	}
	if len(files) < 3 {
		t.Errorf("only %d examples", len(files))
	}
	moved(t, files)
	for name := range files {
		if got := call(t, "", "rate", name); got.code != 0 || !strings.Contains(got.out, "\nas expected: 1 scenario, ") {
			t.Errorf("%s: %v", name, got)
		}
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(schemas.Scenario()), &schema); err != nil {
		t.Fatal(err)
	}
	eachField(schema, func(name string) {
		if !regexp.MustCompile("`" + name + "[`:]|\\b" + name + ":").Match(text) {
			t.Errorf("the page does not name %s", name)
		}
	})
}
