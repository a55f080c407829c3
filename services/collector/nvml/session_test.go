//go:build linux && cgo

package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// TestDriverIsLoadedAnew: nothing is known until the hardware is opened anew, which is asked for; then all goes on.
func TestDriverIsLoadedAnew(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a")
	n := start(t, s)
	n.expect("GPU-a 40 1000 250000 7000 4")
	g.Fail("nvmlDeviceGetHandleByIndex_v2", 1) // the count was before it
	s.Play(t)
	if _, err := n.h.Scan(); !errors.Is(err, collector.ErrSession) {
		t.Errorf("a scan in which the session ends says %v", err)
	}
	g.Clear()
	s.Node().Set("session", 2)
	g.Set("energy", 3)
	n.expect("GPU-a error error error error error", "session")
	if _, err := n.h.Scan(); !errors.Is(err, collector.ErrSession) {
		t.Errorf("a scan says %v", err)
	}
	if err := n.h.Close(); err != nil {
		t.Error(err)
	}
	s.Await(t, "shutdown 0")
	if got := n.sample(); len(got) != 2 || got[0] != "GPU-a error error error error error" || got[1] != "session" {
		t.Errorf("a unit of the closed session says %q", got)
	}
	if _, err := n.h.Scan(); !errors.Is(err, collector.ErrSession) {
		t.Errorf("a scan of the closed session says %v", err)
	}
	s.Node().Fail("nvmlInit_v2", 9)
	s.Play(t)
	if _, err := Open(options(t)); !errors.Is(err, collector.ErrSession) || !strings.Contains(err.Error(), "kernel module") {
		t.Errorf("without a driver: %v", err)
	}
	s.Node().Clear()
	s.Play(t)
	n.open()
	n.scan()
	n.expect("GPU-a 40 1000 250000 3 4")
}

// TestAnotherLibrary: a process has one, and the second path is refused by name.
func TestAnotherLibrary(t *testing.T) {
	s := nvmltest.Start(t)
	start(t, s)
	_, err := Open(Options{LibraryPath: "/elsewhere/libnvidia-ml.so.1"})
	if err == nil || !strings.Contains(err.Error(), "one NVML library") || errors.Is(err, collector.ErrSession) {
		t.Errorf("%v", err)
	}
}

// TestHangingSample: one GPU hangs in the driver. The others are sampled, a scan ends in time with the same units, Close ends in
// time and leaves the session open, and the last one out ends it.
func TestHangingSample(t *testing.T) {
	s := nvmltest.Start(t)
	g := steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b")
	n := startIn(t, s, hurried)
	a := n.unit("GPU-a")
	g.Hang("nvmlDeviceGetPowerUsage")
	s.Play(t)
	back := make(chan []collector.Reading)
	go func() {
		readings, _ := a.Sample(nil)
		back <- readings
	}()
	s.Await(t, "hang gpu0 nvmlDeviceGetPowerUsage")

	steady(s, 2, "GPU-c")
	n.found("GPU-a", "GPU-b", "GPU-c")
	if n.unit("GPU-a") != a || a.Devices()[0] != "GPU-a" || len(a.Capabilities()) != int(metrics) {
		t.Error("the GPU that hangs is not what it was")
	}
	for _, name := range []string{"GPU-b", "GPU-c"} {
		readings, err := n.unit(name).Sample(nil)
		if err != nil || !readings[0].Busy.Read() {
			t.Errorf("%s: %v %v", name, readings, err)
		}
	}
	n.h.(*hardware).opts.CloseWait = 1
	if err := n.h.Close(); err == nil || !strings.Contains(err.Error(), "GPU-a") {
		t.Errorf("Close says %v", err)
	}
	g.Clear()
	s.Play(t)
	if readings := <-back; line(&readings[0]) != "GPU-a 40 1000 250000 7000 4" {
		t.Errorf("the call came back with %s", line(&readings[0]))
	}
	s.Await(t, "shutdown 0")
}

// TestHangingScan: a GPU that hangs while it is looked at for the first time hides no other, and is there once it answers.
func TestHangingScan(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	steady(s, 1, "GPU-b").Hang("nvmlDeviceGetMemoryInfo_v2")
	steady(s, 2, "GPU-c").Hang("nvmlDeviceGetHandleByIndex_v2")
	n := startIn(t, s, hurried)
	n.found("GPU-a")
	n.found("GPU-a") // nothing is asked again of who hangs
	if top := n.h.Topology(); !strings.HasSuffix(top.Source, "GPUs that cannot be read: 2") {
		t.Errorf("source %q", top.Source)
	}
	n.expect("GPU-a 40 1000 250000 7000 4")
	s.GPU(1).Clear()
	s.GPU(2).Clear()
	s.Play(t)
	n.found("GPU-a", "GPU-b", "GPU-c") // it waits for those that are let go
	n.close()
	var hung, released int
	for _, line := range s.Until(t, "shutdown 0") {
		if strings.HasPrefix(line, "hang gpu") {
			hung++
		}
		if strings.HasPrefix(line, "released gpu") {
			released++
		}
	}
	if hung != 2 || released != 2 {
		t.Errorf("two calls hang, and %d were made; %d came back", hung, released)
	}
}

// TestHangingCount: a driver that does not even count leaves the units as they were.
func TestHangingCount(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	n := startIn(t, s, hurried)
	s.Node().Hang("nvmlDeviceGetCount_v2")
	n.found("GPU-a")
	n.expect("GPU-a 40 1000 250000 7000 4")
	s.Node().Clear().Fail("nvmlDeviceGetCount_v2", 999)
	s.Play(t)
	s.Await(t, "released")
	if _, err := n.h.Scan(); err == nil || errors.Is(err, collector.ErrSession) {
		t.Errorf("a scan says %v", err)
	}
}

// TestHangingRegistration: a GPU that hangs while it registers for events keeps no other from having them.
func TestHangingRegistration(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a").Hang("nvmlDeviceRegisterEvents")
	steady(s, 1, "GPU-b")
	n := startIn(t, s, hurried)
	s.Await(t, "registered gpu1")
	s.Event(1, 8, 94)
	s.Play(t)
	s.Await(t, "waits")
	readings, err := n.unit("GPU-b").Sample(nil)
	if err != nil || line(&readings[0]) != "GPU-b 40 1000 250000 7000 4 xid:94" {
		t.Errorf("%v %v", readings, err)
	}
	s.GPU(0).Clear()
	s.Play(t)
	s.Await(t, "registered gpu0")
}

// TestStormOfXIDs: what comes while a GPU is not sampled is held, up to a bound.
func TestStormOfXIDs(t *testing.T) {
	s := nvmltest.Start(t)
	steady(s, 0, "GPU-a")
	n := start(t, s)
	for range 200 {
		s.Event(0, 8, 31)
	}
	s.Event(0, 8, 32)
	s.Play(t)
	s.Await(t, "event gpu0 8 32")
	s.Await(t, "waits")
	readings, _ := n.unit("GPU-a").Sample(nil)
	if got := readings[0].Faults; len(got) != 201 || got[200] != (usage.Fault{Kind: usage.FaultXID, Code: 32}) {
		t.Errorf("%d faults", len(got))
	}
}
