//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// childLibrary makes this binary another process that opens the library of that path: a process has one.
const childLibrary = "GPUHOUR_NVML_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childLibrary); path != "" {
		os.Exit(child(path))
	}
	os.Exit(nvmltest.Main(m))
}

// node is a session on the stub, with a clock that the test moves.
type node struct {
	t     testing.TB
	s     *nvmltest.Script
	h     collector.Hardware
	units []collector.Unit
	clock atomic.Int64
	wait  time.Duration // of a Scan
}

// Scans of tests wait as long as a slow machine needs, unless something hangs in them.
const (
	patient = 20 * time.Second
	hurried = 500 * time.Millisecond
)

func options(t testing.TB) Options {
	return Options{LibraryPath: nvmltest.Build(t), ScanWait: patient, EventWait: 20 * time.Millisecond, CloseWait: 20 * time.Second}
}

// start plays the script and opens a session on it, which ends with the test.
func start(t testing.TB, s *nvmltest.Script) *node {
	t.Helper()
	return startIn(t, s, patient)
}

func startIn(t testing.TB, s *nvmltest.Script, wait time.Duration) *node {
	t.Helper()
	s.Play(t)
	n := &node{t: t, s: s, wait: wait}
	n.open()
	t.Cleanup(func() { _ = n.h.Close() })
	n.scan()
	return n
}

func (n *node) open() {
	n.t.Helper()
	o := options(n.t)
	o.ScanWait = n.wait
	o.now = func() time.Time { return time.Unix(1_700_000_000, n.clock.Load()) }
	h, err := Open(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.h = h
}

func (n *node) close() {
	n.t.Helper()
	if err := n.h.Close(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) scan() {
	n.t.Helper()
	units, err := n.h.Scan()
	if err != nil {
		n.t.Fatal(err)
	}
	n.units = units
}

// sample is what all units say in the second that follows, a line each, and what they advise.
func (n *node) sample() []string {
	n.clock.Add(int64(time.Second))
	var lines []string
	for _, u := range n.units {
		readings, err := u.Sample(nil)
		for i := range readings {
			lines = append(lines, line(&readings[i]))
		}
		if err != nil {
			lines = append(lines, word(err))
		}
	}
	return lines
}

// expect plays the script as it is now and compares a second with it.
func (n *node) expect(want ...string) {
	n.t.Helper()
	n.s.Play(n.t)
	if diff := cmp.Diff(want, n.sample()); diff != "" {
		n.t.Errorf("(-want +got):\n%s", diff)
	}
}

func word(err error) string {
	switch {
	case errors.Is(err, collector.ErrSession):
		return "session"
	case errors.Is(err, collector.ErrChanged):
		return "changed"
	default:
		return err.Error()
	}
}

// line is a reading as `DEVICE busy memory power energy throttle faults`.
func line(r *collector.Reading) string {
	parts := []string{r.Device}
	for _, m := range []collector.Metric{r.Busy, r.Memory, r.Power, r.Energy, r.Throttle} {
		if m.Read() {
			parts = append(parts, fmt.Sprint(m.Value))
			continue
		}
		parts = append(parts, usage.GapReason(m.Reason).String())
	}
	for _, f := range r.Faults {
		kind := map[usage.FaultKind]string{
			usage.FaultXID: "xid", usage.FaultECC: "ecc", usage.FaultLost: "LOST", usage.FaultRecovery: "recovery",
		}[f.Kind]
		parts = append(parts, fmt.Sprintf("%s:%d", kind, f.Code))
	}
	return strings.Join(parts, " ")
}

// steady is an Ampere GPU in use: 40 percent, 1000 bytes, 250 W, 7 J, throttled by its power cap.
func steady(s *nvmltest.Script, index int, uuid string) *nvmltest.Scope {
	return use(s.GPU(index).Ampere(uuid)).Set("util", 40).Unset("ring")
}

func use(g *nvmltest.Scope) *nvmltest.Scope {
	return g.Set("memory_used", 1000).Set("power", 250_000).Set("energy", 7000).Set("throttle", 4)
}

// sliced is a Hopper GPU in MIG mode with two slices, 1 and 2.
func sliced(s *nvmltest.Script) *nvmltest.Scope {
	g := use(s.GPU(0).Hopper("GPU-a")).Set("mig", 1).Unset("util", "ring")
	s.Slice(0, 0).MIG("MIG-1", "1g.10gb", 3).Set("gpm", 25_000).Set("memory_used", 10)
	s.Slice(0, 1).MIG("MIG-2", "1g.10gb", 5).Set("gpm", 99_500).Set("memory_used", 20)
	return g
}

func names(t *usage.Topology) []string {
	var out []string
	for _, d := range t.Devices {
		out = append(out, d.Name)
	}
	return out
}
