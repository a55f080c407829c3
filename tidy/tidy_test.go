package tidy

import (
	"os"
	"slices"
	"testing"
)

// TestTidy reads the module's own files only: the go command watches those and
// forgets a cached result when one changes, which it does not do for files
// outside the module.
func TestTidy(t *testing.T) {
	files, err := load(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	// A walk that starts in the wrong place would find nothing wrong.
	for _, top := range []string{"core", "platform", "services", "cmd", "tidy"} {
		if !slices.ContainsFunc(files, func(s *source) bool { return s.in(top) }) {
			t.Errorf("no Go file found below %s/", top)
		}
	}
	for _, f := range check(files) {
		t.Error(f)
	}
}
