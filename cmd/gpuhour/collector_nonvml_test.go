//go:build !linux || !cgo

package main

import (
	"os"
	"strings"
	"testing"
)

// TestOnceOfNVML: a build without NVML says so before it samples or records anything; what it prints of GPUs is not tested in it.
func TestOnceOfNVML(t *testing.T) {
	moved(t, nil)
	for _, args := range [][]string{{"--once"}, {"--nats-url", "nats://127.0.0.1:1"}, {"record", "--out", "r.csv"}} {
		got := call(t, "", append([]string{"collector"}, args...)...)
		if got.code != 1 || !strings.Contains(got.err, "has no NVML") || !strings.Contains(got.err, "--endpoint") {
			t.Errorf("%v: %v", args, got)
		}
	}
	for _, name := range []string{"gpuhour-data", "r.csv"} {
		if exists(name) {
			t.Errorf("it left %s behind", name)
		}
	}
	if os.Getenv("REQUIRE_STACK") == "1" {
		t.Fatal("REQUIRE_STACK=1 and this build has no NVML: it needs Linux and a C compiler")
	}
	t.Skip("NOT TESTED: this build has no NVML: it needs Linux and a C compiler")
}
