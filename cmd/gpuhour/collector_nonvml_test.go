//go:build !linux || !cgo

package main

import (
	"os"
	"strings"
	"testing"
)

// TestOnceOfNVML: a build without NVML says so; what it prints of GPUs is not tested in it.
func TestOnceOfNVML(t *testing.T) {
	if got := call(t, "", "collector", "--once"); got.code != 1 || !strings.Contains(got.err, "open the hardware") || !strings.Contains(got.err, "--endpoint") {
		t.Errorf("%v", got)
	}
	if os.Getenv("REQUIRE_STACK") == "1" {
		t.Fatal("REQUIRE_STACK=1 and this build has no NVML: it needs Linux and a C compiler")
	}
	t.Skip("NOT TESTED: this build has no NVML: it needs Linux and a C compiler")
}
