//go:build linux && cgo

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/services/collector/nvml"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// uuid is one as long as the real ones.
func uuid(kind string, n int) string {
	return fmt.Sprintf("%s-5d0e8c43-9d10-4a0a-8f3b-1f6e2c7a%04d", kind, n)
}

// busyGPU is a GPU in use that answers everything.
func busyGPU(s *nvmltest.Script, index int) *nvmltest.Scope {
	return s.GPU(index).Hopper(uuid("GPU", index)).Set("memory_used", int64(51)<<30).Set("power", 612_345).Set("energy", int64(98_765_432_100)).
		Set("gpm", 87_000).Set("util", 87).Set("throttle", 4)
}

// TestOnceOfNVML: what --once prints of GPUs and slices, of what they do not tell, of faults and of a GPU that hangs.
func TestOnceOfNVML(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		title string
		play  func(*nvmltest.Script)
	}{
		{"two GPUs, the second one in slices", func(s *nvmltest.Script) {
			busyGPU(s, 0)
			busyGPU(s, 1).Set("mig", 1).Unset("util").Set("throttle", 0)
			s.Slice(1, 0).MIG(uuid("MIG", 0), "3g.40gb", 1).Set("gpm", 25_000).Set("memory_used", 10<<30).Set("gi_slices", 3).Set("attribute_mb", 40192).Set("memory_total", int64(40192)<<20)
			s.Slice(1, 1).MIG(uuid("MIG", 1), "1g.10gb", 5).Set("gpm", 99_500).Set("memory_used", 512<<20)
		}},
		{"GPUs that tell little, with faults", func(s *nvmltest.Script) {
			s.GPU(0).Ampere(uuid("GPU", 0)).Unset("ring", "energy", "throttle", "ecc").Set("util", 3).Set("recovery", 2).Fail("nvmlDeviceGetPowerUsage", 4)
			s.GPU(1).Ampere(uuid("GPU", 1)).Unset("ring").Set("throttle", 0x60).Set("power", 71_000).Set("remap_pending", 1).Set("persistence", 0)
			s.GPU(2).Ampere(uuid("GPU", 2)).Fail("nvmlDeviceGetMemoryInfo_v2", 15)
		}},
		{"no GPU", func(*nvmltest.Script) {}},
		{"one of two hangs", func(s *nvmltest.Script) {
			busyGPU(s, 0).Hang("nvmlDeviceGetPowerUsage")
			busyGPU(s, 1)
		}},
	} {
		t.Run(c.title, func(t *testing.T) {
			s := nvmltest.Start(t)
			c.play(s)
			s.Play(t)
			h, err := nvml.Open(nvml.Options{LibraryPath: nvmltest.Build(t)})
			if err != nil {
				t.Fatal(err)
			}
			noteOnce(t, &out, c.title, h)
			if err := h.Close(); (err != nil) != strings.Contains(c.title, "hangs") {
				t.Error(err)
			}
		})
	}
	golden(t, "collector-once.golden", out.String())
}
