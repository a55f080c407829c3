//go:build gpu && linux && cgo

package nvml

import (
	"bytes"
	"encoding/csv"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/services/collector"
)

// These tests need a GPU and nvidia-smi: go test -tags gpu -run TestGPU ./services/collector/nvml

// smi asks nvidia-smi for fields of every GPU, by UUID.
func smi(t *testing.T, fields ...string) map[string][]string {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--query-gpu=uuid,"+strings.Join(fields, ","), "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Fatalf("these tests need a GPU and nvidia-smi: %v", err)
	}
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	byUUID := map[string][]string{}
	for _, row := range rows {
		byUUID[row[0]] = row[1:]
	}
	return byUUID
}

func real(t *testing.T) (collector.Hardware, []collector.Unit) {
	t.Helper()
	h, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	units, err := h.Scan()
	if err != nil {
		t.Fatal(err)
	}
	return h, units
}

// TestGPUIdentity: the same GPUs with the same names, serials and addresses, and the same slices.
func TestGPUIdentity(t *testing.T) {
	h, units := real(t)
	want := smi(t, "pci.bus_id", "serial", "name", "memory.total", "driver_version")
	if len(units) != len(want) {
		t.Errorf("%d units, nvidia-smi lists %d", len(units), len(want))
	}
	top := h.Topology()
	slices := 0
	for _, d := range top.Devices {
		if d.Parent != "" {
			slices++
			continue
		}
		w, ok := want[d.Name]
		if !ok {
			t.Errorf("nvidia-smi knows no %s", d.Name)
			continue
		}
		if !strings.EqualFold(d.PCI, w[0]) || d.Serial != w[1] && !strings.Contains(w[1], "N/A") && w[1] != "0" || d.Model != w[2] || top.Driver != w[4] {
			t.Errorf("%+v with driver %s, nvidia-smi says %v", d, top.Driver, w)
		}
		near(t, d.Name+" memory in MiB", d.MemoryBytes>>20, w[3], 1024)
	}
	list, err := exec.Command("nvidia-smi", "-L").Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`MIG-[0-9a-f-]+`).FindAllString(string(list), -1)
	for _, uuid := range listed {
		if !strings.Contains(strings.Join(names(&top), " "), uuid) {
			t.Errorf("slice %s is missing", uuid)
		}
	}
	if slices != len(listed) {
		t.Errorf("%d slices, nvidia-smi lists %d", slices, len(listed))
	}
}

// TestGPUReadings samples five seconds, with nvidia-smi beside it.
func TestGPUReadings(t *testing.T) {
	_, units := real(t)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 5 {
		<-tick.C
		want := smi(t, "utilization.gpu", "memory.used", "power.draw")
		for _, u := range units {
			readings, err := u.Sample(nil)
			if err != nil {
				t.Error(err)
			}
			for i := range readings {
				t.Log(line(&readings[i]))
			}
			r, w := &readings[0], want[u.Name()]
			close := func(what string, m collector.Metric, unit int64, said string, within float64) {
				if m.Read() {
					near(t, u.Name()+" "+what, m.Value/unit, said, within)
				} else if _, err := strconv.ParseFloat(said, 64); err == nil && (what != "busy" || len(readings) == 1) {
					t.Errorf("%s: %s is unknown (reason %d), nvidia-smi says %s", u.Name(), what, m.Reason, said)
				}
			}
			close("busy", r.Busy, 1, w[0], 15)
			close("memory in MiB", r.Memory, 1<<20, w[1], 64)
			close("power in W", r.Power, 1000, w[2], 50)
		}
	}
	for _, u := range units {
		for _, c := range u.Capabilities() {
			t.Logf("%+v", c)
		}
	}
}

func near(t *testing.T, what string, got int64, said string, within float64) {
	t.Helper()
	want, err := strconv.ParseFloat(said, 64)
	if err == nil && math.Abs(float64(got)-want) > within {
		t.Errorf("%s: %d, nvidia-smi says %s", what, got, said)
	}
}
