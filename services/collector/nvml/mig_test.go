//go:build linux && cgo

package nvml

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// TestSlices: each slice has its own busy and memory, the GPU in MIG mode none of the first, and nothing of the GPU is the slices'.
func TestSlices(t *testing.T) {
	s := nvmltest.Start(t)
	g := sliced(s)
	s.Slice(0, 0).Set("power", 250_000).Set("energy", 7000).Set("throttle", 4) // a driver that gives the GPU's figures for its slices
	n := start(t, s)
	top := n.h.Topology()
	want := usage.Topology{Source: "nvml 13.580.65.06", Driver: "580.65.06", Devices: []usage.Device{
		{Name: "GPU-a", Vendor: "nvidia", Model: "NVIDIA H100 80GB HBM3", Serial: "S-GPU-a", PCI: "00000000:10:00.0", MemoryBytes: 80 << 30},
		{Name: "MIG-1", Parent: "GPU-a", Vendor: "nvidia", Model: "NVIDIA H100 80GB HBM3", Profile: "1g.10gb", MemoryBytes: 9856 << 20},
		{Name: "MIG-2", Parent: "GPU-a", Vendor: "nvidia", Model: "NVIDIA H100 80GB HBM3", Profile: "1g.10gb", MemoryBytes: 9856 << 20},
	}}
	if diff := cmp.Diff(want, top); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 25 10 not_supported not_supported not_supported",
		"MIG-2 100 20 not_supported not_supported not_supported",
	)
	s.Slice(0, 1).Fail("nvmlDeviceGetMemoryInfo_v2", 4).Set("gpm", 0)
	g.Fail("nvmlDeviceGetPowerUsage", 3)
	n.expect(
		"GPU-a not_supported 1000 not_supported 7000 4",
		"MIG-1 25 10 not_supported not_supported not_supported",
		"MIG-2 0 permission not_supported not_supported not_supported",
	)
	s.Slice(0, 0).Fail("gpm.1", 999).Fail("nvmlDeviceGetMemoryInfo_v2", 2) // it was cut away between two calls
	g.Clear()
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 error error not_supported not_supported not_supported",
		"MIG-2 0 permission not_supported not_supported not_supported",
		"changed",
	)
	s.Slice(0, 0).Clear()
	g.Fail("nvmlGpmMigSampleGet", 15)
	n.expect(
		"GPU-a lost lost lost lost lost LOST:15",
		"MIG-1 lost lost lost lost lost LOST:15",
		"MIG-2 lost lost lost lost lost LOST:15",
	)
	n.expect(
		"GPU-a lost lost lost lost lost",
		"MIG-1 lost lost lost lost lost",
		"MIG-2 lost lost lost lost lost",
	)
}

// TestSlicesWithoutGPM: nothing measures a slice of an Ampere GPU but dcgm-exporter, and the capability says so.
func TestSlicesWithoutGPM(t *testing.T) {
	s := nvmltest.Start(t)
	sliced(s).Set("gpm_support", 0)
	n := start(t, s)
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 not_supported 10 not_supported not_supported not_supported",
		"MIG-2 not_supported 20 not_supported not_supported not_supported",
	)
	for _, c := range n.units[0].Capabilities() {
		if c.Device == "MIG-1" && c.Metric == "busy" && (c.Note != noteAmpere || c.Reason != usage.ReasonNotSupported) {
			t.Errorf("a person is told %+v", c)
		}
	}
}

// TestSlicesOfOneInstance: GPM measures a GPU instance; of two compute instances in it, neither may be said to be busy.
func TestSlicesOfOneInstance(t *testing.T) {
	s := nvmltest.Start(t)
	sliced(s)
	s.Slice(0, 1).Set("gi", 3).Set("ci", 1)
	n := start(t, s)
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 not_supported 10 not_supported not_supported not_supported",
		"MIG-2 not_supported 20 not_supported not_supported not_supported",
	)
}

// TestReconfiguration: a slice that is no more is lost without a fault, a handle that is another slice's gives that one nothing of
// it, and the next scan has the new slices in the same unit.
func TestReconfiguration(t *testing.T) {
	s := nvmltest.Start(t)
	sliced(s)
	n := start(t, s)
	unit := n.units[0]

	s.Slice(0, 0).Set("uuid", "MIG-9").Set("gi", 7)
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 lost lost lost lost lost",
		"MIG-2 100 20 not_supported not_supported not_supported",
		"changed",
	)
	s.Remove(s.Slice(0, 1))
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 lost lost lost lost lost",
		"MIG-2 lost lost lost lost lost",
		"changed",
	)
	n.scan()
	if n.units[0] != unit {
		t.Error("the GPU is another unit")
	}
	top := n.h.Topology()
	if diff := cmp.Diff([]string{"GPU-a", "MIG-9"}, names(&top)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GPU-a", "MIG-9"}, unit.Devices()); diff != "" {
		t.Error(diff)
	}
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-9 25 10 not_supported not_supported not_supported",
	)
	s.Remove(s.Slice(0, 0))
	s.GPU(0).Set("mig", 0).Set("util", 0).Set("gpm", 50_000)
	n.s.Play(t)
	n.scan()
	n.expect("GPU-a 0 1000 250000 7000 4") // GPM begins
	n.expect("GPU-a 50 1000 250000 7000 4")
}

// TestASliceInAnotherInstance: one name is measured where it is now.
func TestASliceInAnotherInstance(t *testing.T) {
	s := nvmltest.Start(t)
	sliced(s)
	n := start(t, s)
	s.Slice(0, 0).Set("gi", 9)
	n.found("GPU-a", "MIG-1", "MIG-2")
	n.expect(
		"GPU-a not_supported 1000 250000 7000 4",
		"MIG-1 25 10 not_supported not_supported not_supported",
		"MIG-2 100 20 not_supported not_supported not_supported",
	)
}

// TestMIGEvent: the driver's word alone asks for a scan.
func TestMIGEvent(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	n := start(t, s)
	s.Event(0, 0x100, 0)
	s.Play(t)
	s.Await(t, "waits")
	n.expect("GPU-a 40 1000 250000 7000 4", "changed")
	n.expect("GPU-a 40 1000 250000 7000 4")
}

// TestProfileWithoutName: drivers that do not name slices give their parts.
func TestProfileWithoutName(t *testing.T) {
	s := nvmltest.Start(t)
	sliced(s)
	s.Slice(0, 0).Unset("name")
	s.Slice(0, 1).Unset("name").Set("gi_slices", 3).Set("ci_slices", 1).Set("attribute_mb", 20096)
	n := start(t, s)
	top := n.h.Topology()
	if got := []string{top.Devices[1].Profile, top.Devices[2].Profile}; !cmp.Equal(got, []string{"1g.10gb", "1c.3g.20gb"}) {
		t.Errorf("profiles %v", got)
	}
}
