//go:build linux && cgo

package nvml

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// found scans and holds the devices of units and topology against what is expected.
func (n *node) found(want ...string) {
	n.t.Helper()
	n.s.Play(n.t)
	n.scan()
	var got []string
	for _, u := range n.units {
		got = append(got, u.Devices()...)
	}
	top := n.h.Topology()
	if !slices.Equal(got, want) || !slices.Equal(names(&top), want) {
		n.t.Errorf("found %v, topology %v, want %v", got, names(&top), want)
	}
}

func (n *node) unit(name string) collector.Unit {
	n.t.Helper()
	for _, u := range n.units {
		if u.Name() == name {
			return u
		}
	}
	n.t.Fatalf("no unit %s", name)
	return nil
}

// TestWhoIsThere goes through what may happen to a node's GPUs: a name keeps its unit wherever the driver lists it, and an index
// means nothing.
func TestWhoIsThere(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b").Set("util", 50)
	n := start(t, s)
	n.found("GPU-a", "GPU-b")
	a, b := n.unit("GPU-a"), n.unit("GPU-b")

	n.found("GPU-a", "GPU-b")
	if n.unit("GPU-a") != a || n.unit("GPU-b") != b {
		t.Error("without a change there are other units")
	}

	steady(s, 0, "GPU-b").Set("util", 50)
	steady(s, 1, "GPU-a")
	n.expect("GPU-a lost lost lost lost lost", "changed", "GPU-b lost lost lost lost lost", "changed")
	n.found("GPU-a", "GPU-b")
	if n.unit("GPU-a") != a || n.unit("GPU-b") != b {
		t.Error("in another order there are other units")
	}
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 50 1000 250000 7000 4")
	s.Event(1, 8, 13)
	s.Play(t)
	s.Await(t, "waits")
	n.expect("GPU-a 40 1000 250000 7000 4 xid:13", "GPU-b 50 1000 250000 7000 4")

	steady(s, 2, "GPU-c").Set("util", 60)
	n.found("GPU-a", "GPU-b", "GPU-c")
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 50 1000 250000 7000 4", "GPU-c 60 1000 250000 7000 4")

	s.GPU(2).Set("uuid", "GPU-d") // another card in the same place
	n.found("GPU-a", "GPU-b", "GPU-d")
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 50 1000 250000 7000 4", "GPU-d 60 1000 250000 7000 4")

	s.Remove(s.GPU(2))
	n.found("GPU-a", "GPU-b")
	s.Remove(s.GPU(1))
	s.Remove(s.GPU(0))
	n.found()
	steady(s, 0, "GPU-a")
	n.found("GPU-a")
	n.expect("GPU-a 40 1000 250000 7000 4")
}

// TestWhoCannotBeRead: a GPU without a name is told with the source, and while there is one nobody who was known is forgotten.
func TestWhoCannotBeRead(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b").Fail("nvmlDeviceGetHandleByIndex_v2", 15)
	n := start(t, s)
	n.found("GPU-a")
	if top := n.h.Topology(); top.Source != "nvml 13.580.65.06; GPUs that cannot be read: 1" {
		t.Errorf("source %q", top.Source)
	}
	s.GPU(1).Clear()
	n.found("GPU-a", "GPU-b")
	if top := n.h.Topology(); top.Source != "nvml 13.580.65.06" {
		t.Errorf("source %q", top.Source)
	}
	s.Remove(s.GPU(1))
	s.GPU(0).Fail("nvmlDeviceGetUUID", 999)
	n.found("GPU-a", "GPU-b") // the one that cannot be read may be either
	s.GPU(0).Clear()
	n.found("GPU-a")
}

// TestIdentityOfALostGPU keeps what was read while it answered, its slices too.
func TestIdentityOfALostGPU(t *testing.T) {
	s := nvmltest.Start(t)
	g := sliced(s)
	n := start(t, s)
	before := n.h.Topology()
	for _, call := range []string{"nvmlDeviceGetSerial", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode"} {
		g.Fail(call, 15)
	}
	n.found("GPU-a", "MIG-1", "MIG-2")
	if diff := cmp.Diff(before, n.h.Topology()); diff != "" {
		t.Errorf("it became (-want +got):\n%s", diff)
	}
	n.expect(
		"GPU-a lost lost lost lost lost LOST:15",
		"MIG-1 lost lost lost lost lost LOST:15",
		"MIG-2 lost lost lost lost lost LOST:15",
	)
}

// TestNamesThatAreNoText: a batch with them would be refused whole.
func TestNamesThatAreNoText(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a").Set("name", "NVIDIA \x07\xff A100").Set("serial", "")
	n := start(t, s)
	if d := n.h.Topology().Devices[0]; d.Model != "NVIDIA  A100" || d.Serial != "" {
		t.Errorf("%q %q", d.Model, d.Serial)
	}
}
