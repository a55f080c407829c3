//go:build linux && cgo

package nvml

import (
	"testing"

	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// TestEachValue changes one thing of a steady GPU, and holds the whole second against it: an error is a reason, never a zero, and
// takes nothing else away.
func TestEachValue(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(g *nvmltest.Scope)
		want []string
	}{
		{"all is well", func(*nvmltest.Scope) {}, []string{"GPU-a 40 1000 250000 7000 4"}},
		{"idle is a known zero", func(g *nvmltest.Scope) { g.Set("util", 0).Set("throttle", 1) }, []string{"GPU-a 0 1000 250000 7000 1"}},
		{"a driver that says 101", func(g *nvmltest.Scope) { g.Set("util", 101) }, []string{"GPU-a 100 1000 250000 7000 4"}},
		{"more than two full seconds", func(g *nvmltest.Scope) { g.Set("util", 201) }, []string{"GPU-a not_available 1000 250000 7000 4"}},

		{"blank busy", func(g *nvmltest.Scope) { g.Set("util", "0x7ffffff0") }, []string{"GPU-a not_available 1000 250000 7000 4"}},
		{"blank power", func(g *nvmltest.Scope) { g.Set("power", "0x7ffffff3") }, []string{"GPU-a 40 1000 not_available 7000 4"}},
		{"power of all ones", func(g *nvmltest.Scope) { g.Set("power", "0xffffffff") }, []string{"GPU-a 40 1000 not_available 7000 4"}},
		{"next to a blank", func(g *nvmltest.Scope) { g.Set("power", "0x7ffffff4") }, []string{"GPU-a 40 1000 2147483636 7000 4"}},
		{"blank energy", func(g *nvmltest.Scope) { g.Set("energy", "0x7ffffffffffffff2") }, []string{"GPU-a 40 1000 250000 not_available 4"}},
		{"a 32-bit blank is an energy", func(g *nvmltest.Scope) { g.Set("energy", "0x7ffffff0") }, []string{"GPU-a 40 1000 250000 2147483632 4"}},
		{"blank throttle", func(g *nvmltest.Scope) { g.Set("throttle", "0x7ffffffffffffff0") }, []string{"GPU-a 40 1000 250000 7000 not_available"}},
		{"more memory than there is", func(g *nvmltest.Scope) { g.Set("memory_used", int64(41)<<30) }, []string{"GPU-a 40 not_available 250000 7000 4"}},
		{"reserved memory is nobody's", func(g *nvmltest.Scope) { g.Set("memory_reserved", 500) }, []string{"GPU-a 40 1000 250000 7000 4"}},

		{"no utilisation", func(g *nvmltest.Scope) { g.Unset("util") }, []string{"GPU-a not_supported 1000 250000 7000 4"}},
		{"no memory", func(g *nvmltest.Scope) { g.Unset("memory_used") }, []string{"GPU-a 40 not_supported 250000 7000 4"}},
		{"memory of an older driver", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetMemoryInfo_v2", 25).Set("memory_reserved", 500) }, []string{"GPU-a 40 1500 250000 7000 4"}},
		{"no energy", func(g *nvmltest.Scope) { g.Unset("energy") }, []string{"GPU-a 40 1000 250000 not_supported 4"}},
		{"energy by its own call", func(g *nvmltest.Scope) { g.Fail("field.83", 3) }, []string{"GPU-a 40 1000 250000 7000 4"}},
		{"no fields", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetFieldValues", 3) }, []string{"GPU-a 40 1000 250000 7000 4"}},

		{"may not", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetPowerUsage", 4) }, []string{"GPU-a 40 1000 permission 7000 4"}},
		{"may nothing", func(g *nvmltest.Scope) { g.Fail("*", 4) }, []string{"GPU-a permission permission permission permission permission"}},
		{"unknown error", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetUtilizationRates", 999) }, []string{"GPU-a error 1000 250000 7000 4"}},
		{"unknown errors", func(g *nvmltest.Scope) { g.Fail("*", 999) }, []string{"GPU-a error error error error error"}},
		{"timeout", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetMemoryInfo_v2", 10) }, []string{"GPU-a 40 timeout 250000 7000 4"}},
		{"not ready", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetCurrentClocksEventReasons", 27) }, []string{"GPU-a 40 1000 250000 7000 not_available"}},

		{"lost", func(g *nvmltest.Scope) { g.Fail("*", 15) }, []string{"GPU-a lost lost lost lost lost LOST:15"}},
		{"lost in the middle of the second", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetCurrentClocksEventReasons", 15) }, []string{"GPU-a lost lost lost lost lost LOST:15"}},
		{"lost in one field", func(g *nvmltest.Scope) { g.Fail("field.4", 15) }, []string{"GPU-a lost lost lost lost lost LOST:15"}},
		{"needs a reset", func(g *nvmltest.Scope) { g.Fail("*", 16) }, []string{"GPU-a lost lost lost lost lost LOST:16"}},
		{"interrupt", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetPowerUsage", 11) }, []string{"GPU-a lost lost lost lost lost LOST:11"}},
		{"driver not loaded", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetPowerUsage", 9) }, []string{"GPU-a error error error error error", "session"}},
		{"version mismatch", func(g *nvmltest.Scope) { g.Fail("nvmlDeviceGetUUID", 18) }, []string{"GPU-a error error error error error", "session"}},
		{"another GPU under its handle", func(g *nvmltest.Scope) { g.Set("uuid", "GPU-b") }, []string{"GPU-a lost lost lost lost lost", "changed"}},
		{"a handle of nobody", func(g *nvmltest.Scope) { g.Fail("*", 2) }, []string{"GPU-a lost lost lost lost lost", "changed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := nvmltest.Start(t)
			g := steady(s, 0, "GPU-a")
			n := start(t, s)
			c.set(g)
			n.expect(c.want...)
		})
	}
}

// TestRing: each of the driver's samples counts once, their mean is rounded half up, and a second without news is the driver's
// own last period.
func TestRing(t *testing.T) {
	s := nvmltest.Start(t)
	g := use(s.GPU(0).Ampere("GPU-a")).Set("util", 77).Set("ring", "100:90 200:90")
	n := start(t, s)

	g.Set("ring", "100:90 200:90 300:10 400:11")
	n.expect("GPU-a 11 1000 250000 7000 4") // 10.5
	n.expect("GPU-a 77 1000 250000 7000 4") // nothing new
	g.Set("ring", "300:10 400:11 500:0 600:0 700:1")
	n.expect("GPU-a 0 1000 250000 7000 4")
	g.Set("ring", "700:1 800:0x7ffffff0 900:60")
	n.expect("GPU-a 60 1000 250000 7000 4") // a blank sample counts in nothing
	g.Set("ring", "950:0x7ffffff1")
	n.expect("GPU-a 77 1000 250000 7000 4")
	g.Set("ring", "1000:300 1100:102")
	n.expect("GPU-a 100 1000 250000 7000 4")
	g.Fail("nvmlDeviceGetSamples", 999)
	n.expect("GPU-a 77 1000 250000 7000 4")
	g.Clear().Set("ring", "1200:50 1300:30")
	n.expect("GPU-a 40 1000 250000 7000 4")
	g.Fail("nvmlDeviceGetSamples", 15)
	n.expect("GPU-a lost lost lost lost lost LOST:15")
}

// TestRingOfAStrangeDriver: samples that are given again, that come in no order, and that went over the ring's end.
func TestRingOfAStrangeDriver(t *testing.T) {
	s := nvmltest.Start(t)
	g := use(s.GPU(0).Ampere("GPU-a")).Set("util", 77).Set("ring_whole", 1).Set("ring", "300:90 100:90 200:90")
	n := start(t, s)
	g.Set("ring", "300:90 100:90 200:90 600:10 400:20 500:30")
	n.expect("GPU-a 20 1000 250000 7000 4")
	n.expect("GPU-a 77 1000 250000 7000 4") // all of them again
	g.Set("ring", "600:10 700:50 600:10 700:50")
	n.expect("GPU-a 50 1000 250000 7000 4") // one sample twice is still its own mean
	g.Set("ring", "9000:1 9100:3")          // what lay between is lost
	n.expect("GPU-a 2 1000 250000 7000 4")
}

// TestRingAfterTheClockWasSetBack: samples that carry an earlier time than the last one are found again after ten silent seconds.
func TestRingAfterTheClockWasSetBack(t *testing.T) {
	s := nvmltest.Start(t)
	g := use(s.GPU(0).Ampere("GPU-a")).Set("util", 77).Set("ring", "9000:5")
	n := start(t, s)
	g.Set("ring", "100:20")
	for range ringAnew + 1 {
		n.expect("GPU-a 77 1000 250000 7000 4")
	}
	g.Set("ring", "100:20 200:30")
	n.expect("GPU-a 30 1000 250000 7000 4")
}

// TestGPM: the mean over exactly the time between two samples; where GPM has none, the whole GPU's last period.
func TestGPM(t *testing.T) {
	s := nvmltest.Start(t)
	g := use(s.GPU(0).Hopper("GPU-a")).Set("util", 77).Set("gpm", 12_500).Set("ring", "100:90")
	n := start(t, s)
	n.expect("GPU-a 13 1000 250000 7000 4") // 12.5; the sample before was taken by the scan
	g.Set("gpm", 12_499)
	n.expect("GPU-a 12 1000 250000 7000 4")
	g.Set("gpm", 104_000)
	n.expect("GPU-a 100 1000 250000 7000 4")
	g.Set("gpm", 140_737_488_355_328_000) // the floating blank
	n.expect("GPU-a 77 1000 250000 7000 4")
	g.Set("gpm", 5000).Fail("nvmlGpmSampleGet", 999)
	n.expect("GPU-a 77 1000 250000 7000 4")
	g.Clear()
	n.expect("GPU-a 5 1000 250000 7000 4")

	g.Fail("gpm.1", 999).Set("gpm", 0) // the call succeeds, the metric did not
	n.expect("GPU-a 77 1000 250000 7000 4")
	g.Clear().Set("gpm", 5000)
	n.expect("GPU-a 5 1000 250000 7000 4")

	n.clock.Add(-950_000_000) // 50 ms after the one before: too soon for GPM
	g.Set("gpm", 6000)
	n.expect("GPU-a 77 1000 250000 7000 4")
	n.expect("GPU-a 6 1000 250000 7000 4")

	g.Fail("nvmlGpmMetricsGet", 4).Fail("nvmlGpmSampleGet", 4) // profiling is for administrators only
	n.expect("GPU-a 77 1000 250000 7000 4")
	n.expect("GPU-a 77 1000 250000 7000 4")
	g.Set("ring", "100:90 200:30")
	n.expect("GPU-a 30 1000 250000 7000 4")
}

// TestCountersThatBeginAnew: a driver that was loaded anew counts from zero; energy is what it says, errors are those since.
func TestCountersThatBeginAnew(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a").Set("energy", 9_000_000_000_000).Set("ecc", 3)
	n := start(t, s)
	n.expect("GPU-a 40 1000 250000 9000000000000 4")
	g.Set("energy", 12).Set("ecc", 2)
	n.expect("GPU-a 40 1000 250000 12 4 ecc:2")
	g.Set("energy", 13).Set("ecc", 0)
	n.expect("GPU-a 40 1000 250000 13 4")
}
