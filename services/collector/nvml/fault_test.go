//go:build linux && cgo

package nvml

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// TestXIDs: each event is a fault of the GPU that it names, in the second after it came; two equal ones are two.
func TestXIDs(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b")
	n := start(t, s)
	s.Event(1, 8, 31)
	s.Event(1, 8, 31)
	s.Event(0, 8, 13)
	s.Play(t)
	s.Await(t, "event gpu0")
	s.Await(t, "waits")
	n.expect("GPU-a 40 1000 250000 7000 4 xid:13", "GPU-b 40 1000 250000 7000 4 xid:31 xid:31")
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 40 1000 250000 7000 4")
}

// TestAnXIDOfAGPUThatIsGone: what came while nobody had its handle is told when it is back.
func TestAnXIDOfAGPUThatIsGone(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b")
	n := start(t, s)
	s.Remove(s.GPU(1))
	n.found("GPU-a")
	s.Event(1, 8, 79)
	s.Play(t)
	s.Await(t, "event gpu1")
	s.Await(t, "waits")
	n.expect("GPU-a 40 1000 250000 7000 4")
	steady(s, 1, "GPU-b")
	n.found("GPU-a", "GPU-b")
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 40 1000 250000 7000 4 xid:79")
}

// TestGPUFallsOffTheBus: the XID and the loss are told once, with the XID as the loss's code; the other GPU goes on; the enumeration
// that does not find the GPU forgets it no more than one that finds it; and when it is back, it is sampled.
func TestGPUFallsOffTheBus(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b")
	n := start(t, s)
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 40 1000 250000 7000 4")

	s.Event(0, 8, 79)
	s.Play(t)
	s.Await(t, "waits")
	g.Fail("*", 15)
	n.expect("GPU-a lost lost lost lost lost xid:79 LOST:79", "GPU-b 40 1000 250000 7000 4")
	n.expect("GPU-a lost lost lost lost lost", "GPU-b 40 1000 250000 7000 4")

	n.scan()
	top := n.h.Topology()
	if got := names(&top); !slices.Equal(got, []string{"GPU-a", "GPU-b"}) || top.Source != "nvml 13.580.65.06" {
		t.Errorf("the scan found %v by %q", got, top.Source)
	}
	n.expect("GPU-a lost lost lost lost lost", "GPU-b 40 1000 250000 7000 4")
	g.Clear()
	n.expect("GPU-a 40 1000 250000 7000 4", "GPU-b 40 1000 250000 7000 4")
	g.Fail("nvmlDeviceGetUUID", 28)
	n.expect("GPU-a lost lost lost lost lost LOST:28", "GPU-b 40 1000 250000 7000 4")
}

// TestECCAndRecovery: what was before the collector is no fault of this second; an action that the driver already asks for is.
func TestECCAndRecovery(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a").Set("ecc", 5).Set("recovery", 2)
	n := start(t, s)
	n.expect("GPU-a 40 1000 250000 7000 4 recovery:2")
	n.expect("GPU-a 40 1000 250000 7000 4")
	g.Set("ecc", 7).Set("recovery", 1)
	n.expect("GPU-a 40 1000 250000 7000 4 ecc:2 recovery:1")
	g.Fail("field.4", 999).Fail("field.230", 3).Set("ecc", 8).Set("recovery", 0)
	n.expect("GPU-a 40 1000 250000 7000 4")
	g.Clear()
	n.expect("GPU-a 40 1000 250000 7000 4 ecc:1 recovery:0")
	g.Set("ecc", "0x7ffffffffffffff0")
	n.expect("GPU-a 40 1000 250000 7000 4")
}

// TestEventSetIsLost: another is made, each GPU registers for it with its next sample, and then XIDs are seen again.
func TestEventSetIsLost(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	n := start(t, s)
	s.Node().Fail("nvmlEventSetWait_v2", 15)
	s.Play(t)
	e := n.h.(*hardware).events
	set := func() *eventSet {
		now := e.use()
		defer e.unuse(now)
		return now
	}
	for first := set(); set() == first; {
		n.expect("GPU-a 40 1000 250000 7000 4")
	}
	s.Node().Clear()
	for now, waits := set(), 0; waits < 3; { // until the same set is waited for again and again
		heard := e.heard.Load()
		n.expect("GPU-a 40 1000 250000 7000 4")
		if e.heard.Load() != heard {
			waits++
		}
		if set() != now {
			now, waits = set(), 0
		}
	}
	n.expect("GPU-a 40 1000 250000 7000 4")
	if n.unit("GPU-a").(*unit).registered != set() {
		t.Fatal("the GPU did not register anew")
	}
	s.Event(0, 8, 48)
	s.Play(t)
	s.Await(t, "event gpu0 8 48")
	s.Await(t, "waits")
	n.expect("GPU-a 40 1000 250000 7000 4 xid:48")
}

// TestRemappedRows: no fault of their own; a person reads of them in the capability, at most a minute late.
func TestRemappedRows(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a")
	n := start(t, s)
	note := func() string { return capability(t, n.units[0], "remapped_rows").Note }
	if note() != "" {
		t.Errorf("at first: %q", note())
	}
	g.Set("remap_pending", 1)
	for range 60 {
		n.expect("GPU-a 40 1000 250000 7000 4")
	}
	if !strings.Contains(note(), "reset") {
		t.Errorf("a row waits: %q", note())
	}
	g.Set("remap_failure", 1)
	for range 60 {
		n.expect("GPU-a 40 1000 250000 7000 4")
	}
	if !strings.Contains(note(), "replaced") {
		t.Errorf("a row failed: %q", note())
	}
}

func capability(t *testing.T, u collector.Unit, metric string) collector.Capability {
	t.Helper()
	for _, c := range u.Capabilities() {
		if c.Device == u.Name() && c.Metric == metric {
			return c
		}
	}
	t.Fatalf("%s says nothing of %s", u.Name(), metric)
	return collector.Capability{}
}

// TestCapabilities names the call of each metric, or the reason why there is none.
func TestCapabilities(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a").Set("persistence", 0).Unset("energy", "ecc").Fail("nvmlDeviceGetPowerUsage", 4).Set("events", 0)
	n := start(t, s)
	for metric, want := range map[string]collector.Capability{
		"busy":          {Via: viaRates, Note: noteScrub},
		"memory":        {Via: "nvmlDeviceGetMemoryInfo_v2"},
		"power":         {Via: "nvmlDeviceGetPowerUsage", Reason: usage.ReasonPermission},
		"energy":        {Via: "nvmlDeviceGetTotalEnergyConsumption", Reason: usage.ReasonNotSupported},
		"throttle":      {Via: "nvmlDeviceGetCurrentClocksEventReasons"},
		"ecc":           {Via: "nvmlDeviceGetFieldValues", Reason: usage.ReasonNotSupported},
		"recovery":      {Via: "nvmlDeviceGetFieldValues"},
		"remapped_rows": {Via: "nvmlDeviceGetFieldValues"},
		"xid":           {Via: "nvmlDeviceRegisterEvents", Reason: usage.ReasonNotSupported, Note: "XIDs of this GPU are only in the kernel's log"},
	} {
		want.Device, want.Metric = "GPU-a", metric
		if got := capability(t, n.units[0], metric); got != want {
			t.Errorf("%s: %+v\nwant %+v", metric, got, want)
		}
	}
	g.Clear()
	n.expect("GPU-a 40 1000 250000 not_supported 4")
	if got := capability(t, n.units[0], "power"); got.Reason != usage.ReasonNone {
		t.Errorf("once it may: %+v", got)
	}
}
