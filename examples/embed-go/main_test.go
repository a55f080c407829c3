package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

func text(t *testing.T, data string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), data, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestExample: 2 GPUs for 9.5 days and one more for 2.5 of them are 516 GPU-hours at 2.50, and a start of 20 seconds is a
// minute at 92 %.
func TestExample(t *testing.T) {
	got := text(t, "")
	for _, want := range []string{"GH-000001", "516.000000000", "1290.00", "0.04", "1290.04"} {
		if !strings.Contains(strings.ReplaceAll(got, ",", ""), want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// TestExampleTwiceOnOneDirectory keeps the real engines' data: the second run states the same facts and changes nothing.
func TestExampleTwiceOnOneDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse; left out of -short")
	}
	if _, err := embedded.Library(t.Context(), nil); err != nil {
		if os.Getenv("REQUIRE_STACK") == "1" {
			t.Fatalf("REQUIRE_STACK=1 and no engine: %v", err)
		}
		t.Skipf("NOT TESTED on the embedded engines: %v", err)
	}
	dir := t.TempDir()
	first := text(t, dir)
	if second := text(t, dir); first != second || first != text(t, "") {
		t.Errorf("two runs on one directory and one in memory differ:\n%s\n%s", first, second)
	}
}
