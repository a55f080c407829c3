package gpuhour_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/rater"
)

// TestCollectorProcesses runs `gpuhour collector` as a node does, against a driver that plays a script and a NATS server as it is
// deployed, and holds what the log has against the script, second by second. The nodes run side by side, for seconds take
// their time; what a busy machine does not get to is in the log as a stall, and allowed.
func TestCollectorProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts a dozen processes; left out of -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s, library := newFleet(t, ctx)
	shared, _ := s.withLog(t)
	var running sync.WaitGroup
	for name, test := range map[string]func(*testing.T, *site, string){
		"stopped": collectorStopped, "killed": collectorKilled, "broker away": collectorWithoutBroker, "faults": collectorFaults,
		"driver reload": collectorDriverReload, "signed": collectorSigned, "ingest": collectorBehindIngest, "recording": collectorReplays,
	} {
		running.Go(func() { t.Run(name, func(t *testing.T) { test(t, shared, library) }) })
	}
	running.Wait()
}

// collectorStopped: every second of eight GPUs is in the log with what was played, and the figures move; after a stop the next run
// says so.
func collectorStopped(t *testing.T, s *site, library string) {
	n := s.gpuNode(t, "stopped", library, 8)
	p := n.collector(t)
	n.reaches(t, "seconds_total", 3)
	first := n.scrape(t)
	n.moreSeconds(t, 9)
	for i := range 8 {
		n.gpu(i).Set("util", 50+i)
	}
	n.script.Play(t)
	n.reaches(t, "published_batches_total", 1)
	sampled := n.reaches(t, "seconds_total", 22)
	second := n.scrape(t)
	p.end(t)
	for _, name := range []string{"seconds_total", "device_seconds_total", "published_batches_total", "scans_total"} {
		if second[name] <= first[name] {
			t.Errorf("%s went from %v to %v", name, first[name], second[name])
		}
	}
	p = n.collector(t)
	n.reaches(t, "seconds_total", 2)
	p.end(t)

	h := n.hear(t)
	from, stop := h.spoken(0)
	again, to := h.spoken(1)
	if got := float64(stop + 1 - from); got < sampled {
		t.Errorf("the log speaks for %v seconds of the first run, which had sampled %v", got, sampled)
	}
	for i, device := range n.devices(8) {
		h.each(device, from, stop+1)
		if _, gone := h.each(device, stop+1, again, usage.GapStopped); gone != int(again-stop-1) {
			t.Errorf("%s: %d seconds are said to be stopped, want %d", device, gone, again-stop-1)
		}
		h.each(device, again, to+1)
		changed := false
		for at := from; at <= to; at++ {
			got, ok := h.said[deviceSecond{device, at}]
			before, after := n.says(i), n.says(i)
			after.busy += 40
			changed = changed || got == after
			if ok && got != after && (changed || got != before) {
				t.Errorf("%s said %+v in second %s; want %+v, and %+v later", device, got, at, before, after)
			}
		}
		if !changed {
			t.Errorf("%s never said %d", device, 50+i)
		}
	}
	var want []usage.Device
	for i, name := range n.devices(8) {
		want = append(want, usage.Device{
			Name: name, Vendor: "nvidia", Model: "NVIDIA A100-SXM4-40GB", Serial: "S-" + name, PCI: fmt.Sprintf("00000000:%02X:00.0", 0x10+i), MemoryBytes: 40 << 30,
		})
	}
	for _, run := range h.runs() {
		if run[0].Topology == nil {
			t.Fatal("the first batch of a run has no topology")
		}
		same(t, "devices", want, run[0].Topology.Devices)
	}
}

// scrape reads the figures and holds their form against Prometheus' rules.
func (n *gpuNode) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/metrics": http.StatusOK} {
		request, err := http.NewRequestWithContext(n.ctx, http.MethodGet, "http://"+n.listen+path, nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(request)
		must(t, err)
		if answer.StatusCode != want {
			t.Errorf("%s: %s", path, answer.Status)
		}
		if path == "/metrics" {
			page, err := io.ReadAll(answer.Body)
			must(t, err)
			if problems, err := promlint.New(bytes.NewReader(page)).Lint(); err != nil || len(problems) > 0 {
				t.Errorf("promlint: %v, %v", problems, err)
			}
			if strings.Contains(string(page), "gpuhour_refusals_total") {
				t.Error("a collector, which refuses nothing, shows a figure of refusals")
			}
		}
		must(t, answer.Body.Close())
	}
	figures := n.figures()
	for _, name := range []string{
		"seconds_total", "device_seconds_total", "dropped_total", "clock_steps_total", "clock_synchronised", `tick_delay_seconds{of="p99"}`,
		"held_batches", "spool_bytes", "spool_unsent_batches", "published_batches_total", "publish_errors_total", "since_acknowledged_seconds",
		"spool_limit_bytes", "process_resident_memory_bytes", "units", "devices", "hung_units", "timeouts_total", "scans_total", "sessions_total",
	} {
		if _, ok := figures[name]; !ok {
			t.Errorf("/metrics has no %s", name)
		}
	}
	return figures
}

// collectorKilled: after kill -9 the next run says which seconds are missing, and nothing is there twice.
func collectorKilled(t *testing.T, s *site, library string) {
	n := s.gpuNode(t, "killed", library, 2)
	p := n.collector(t)
	n.reaches(t, "published_batches_total", 1)
	n.moreSeconds(t, 3) // of the next batch, which is lost
	p.kill(t)
	p = n.collector(t)
	n.reaches(t, "published_batches_total", 1) // by itself, while it runs
	p.end(t)
	h := n.hear(t)
	from, last := h.spoken(0)
	again, to := h.spoken(1)
	for _, device := range n.devices(2) {
		h.each(device, from, last+1)
		if seen, gone := h.each(device, last+1, again, usage.GapKilled); seen > 0 || gone != int(again-last-1) || gone == 0 {
			t.Errorf("%s: between %s and %s %d seconds are seen and %d killed", device, last+1, again, seen, gone)
		}
		h.each(device, again, to+1)
	}
}

// collectorWithoutBroker: while nobody takes usage it is sampled all the same, and is in the log once it is back.
func collectorWithoutBroker(t *testing.T, s *site, library string) {
	s, broker := s.withLog(t)
	n := s.gpuNode(t, "away", library, 2)
	s.dial(t) // makes the streams
	p := n.collector(t)
	n.reaches(t, "published_batches_total", 1)
	broker.kill(t)
	n.reaches(t, "spool_unsent_batches", 1)
	s.engine(t, "nats", s.nats)
	n.reaches(t, "published_batches_total", 2)
	n.moreSeconds(t, 2)
	p.end(t)
	h := n.hear(t)
	from, to := h.spoken(0)
	for i, device := range n.devices(2) {
		h.each(device, from, to+1)
		for at := from; at <= to; at++ {
			if got, ok := h.said[deviceSecond{device, at}]; ok && got != n.says(i) {
				t.Errorf("%s said %+v in second %s", device, got, at)
			}
		}
	}
	if len(h.runs()) != 1 {
		t.Errorf("%d runs", len(h.runs()))
	}
}

// collectorFaults: a GPU falls off the bus, one hangs and comes back, one is cut into slices, and the last one is well all the time.
func collectorFaults(t *testing.T, s *site, library string) {
	n := s.gpuNode(t, "faults", library, 4)
	n.script.GPU(2).Set("gpm_support", 1).Set("gpm", 12_000)
	n.script.Play(t)
	p := n.collector(t)
	n.reaches(t, "device_seconds_total", 8)
	n.script.Event(0, 8, 79)
	n.script.Play(t)
	n.script.Await(t, "event gpu0 8 79")
	n.script.GPU(0).Fail("*", 15)
	n.script.GPU(1).Hang("nvmlDeviceGetPowerUsage")
	n.script.Play(t)
	n.script.Await(t, "hang gpu1")
	n.script.GPU(2).Set("mig", 1).Unset("util").Set("gpm", 0)
	for i := range 2 {
		n.script.Slice(2, i).MIG(fmt.Sprintf("MIG-%d", i), "1g.10gb", 3+i).Set("gpm", 30_000+10_000*i)
	}
	n.script.Event(2, 0x100, 0)
	n.script.Play(t)
	n.reaches(t, "timeouts_total", 3)
	n.reaches(t, "devices", 6)
	n.script.GPU(1).Clear()
	n.script.Play(t)
	n.script.Await(t, "released gpu1")
	n.moreSeconds(t, 3)
	p.end(t)

	h := n.hear(t)
	from, to := h.spoken(0)
	to++
	lost := slices.IndexFunc(h.faults[n.device(0)], func(f fault) bool { return f.kind == usage.FaultLost })
	if faults := h.faults[n.device(0)]; len(faults) != 2 || faults[0].kind != usage.FaultXID || faults[0].code != 79 || lost != 1 || faults[1].at < faults[0].at {
		t.Fatalf("%s: faults %+v, want the XID 79 and the loss", n.device(0), faults)
	}
	at := h.faults[n.device(0)][lost].at
	if seen, gone := h.each(n.device(0), at, to, usage.GapLost); seen > 0 || gone == 0 {
		t.Errorf("%s is seen in %d seconds after it was lost, and lost in %d", n.device(0), seen, gone)
	}
	h.each(n.device(0), from, at)
	if seen, hung := h.each(n.device(1), from, to, usage.GapTimeout); hung == 0 || seen < 4 {
		t.Errorf("%s is seen in %d seconds and hangs in %d", n.device(1), seen, hung)
	}
	if !slices.ContainsFunc([]span.Second{to - 1, to - 2, to - 3}, func(at span.Second) bool { _, ok := h.said[deviceSecond{n.device(1), at}]; return ok }) {
		t.Errorf("%s did not come back", n.device(1))
	}
	h.each(n.device(2), from, to)
	h.each(n.device(3), from, to)
	if len(h.faults) != 1 {
		t.Errorf("faults of others: %+v", h.faults)
	}
	h.sliced(n, to)
}

// sliced holds the topology and the slices, from the first second on in which each is seen.
func (h *heard) sliced(n *gpuNode, to span.Second) {
	h.t.Helper()
	var names []string
	for _, d := range h.topology().Devices {
		names = append(names, d.Name+"<"+d.Parent)
	}
	want := []string{n.device(0) + "<", n.device(1) + "<", n.device(2) + "<", n.device(3) + "<", "MIG-0<" + n.device(2), "MIG-1<" + n.device(2)}
	same(h.t, "topology", want, names)
	for i := range 2 {
		slice, first := fmt.Sprintf("MIG-%d", i), to
		for key := range h.said {
			if key.device == slice {
				first = min(first, key.at)
			}
		}
		if seen, _ := h.each(slice, first, to); seen < 2 {
			h.t.Errorf("%s is seen in %d seconds", slice, seen)
		}
		busy := map[uint8]int{}
		for at := first + 1; at < to; at++ {
			if got, ok := h.said[deviceSecond{slice, at}]; ok {
				busy[got.busy]++
			}
		}
		if len(busy) != 1 || busy[uint8(30+10*i)] == 0 {
			h.t.Errorf("%s says %v percent", slice, busy)
		}
	}
}

// collectorDriverReload: between two sessions the devices are gaps, and then seen again; the energy counter that begins anew is passed on.
func collectorDriverReload(t *testing.T, s *site, library string) {
	n := s.gpuNode(t, "reload", library, 2)
	p := n.collector(t)
	n.reaches(t, "device_seconds_total", 6)
	n.script.Node().Set("session", 2).Fail("nvmlInit_v2", 9)
	n.script.Play(t)
	n.reaches(t, `device_unseen_seconds_total{reason="error"}`, 4)
	n.script.Node().Clear()
	n.script.GPU(0).Set("energy", 3)
	n.script.Play(t)
	n.reaches(t, "sessions_total", 2)
	n.moreSeconds(t, 3)
	p.end(t)
	h := n.hear(t)
	from, to := h.spoken(0)
	for _, device := range n.devices(2) {
		if seen, gone := h.each(device, from, to+1, usage.GapError); seen < 5 || gone < 2 {
			t.Errorf("%s is seen in %d seconds and an error in %d", device, seen, gone)
		}
	}
	energy := map[int64]bool{}
	for key, v := range h.said {
		if key.device == n.device(0) {
			energy[v.energy] = true
		}
	}
	if d := gocmp.Diff(map[int64]bool{3: true, 7000: true}, energy); d != "" {
		t.Errorf("energy counters: %s", d)
	}
}

// collectorSigned: what a node with a key signs is measured, what is sent in its name without it is set aside, and a person sees both.
func collectorSigned(t *testing.T, s *site, library string) {
	embeddedConfig(t, t.TempDir()) // is there an engine at all, for the commands?
	s, _ = s.withLog(t)
	b := s.dial(t)
	writer := journal.NewWriter(b)
	must(t, writer.Declare(t.Context(), fact.Scripted))
	n := s.gpuNode(t, "signed", library, 2)
	person := func(args ...string) string {
		t.Helper()
		cmd := n.gpuhour(args...)
		cmd.Env = append(cmd.Env, "GPUHOUR_CLICKHOUSE_URL=", "HOME="+os.Getenv("HOME"), "XDG_CACHE_HOME="+os.Getenv("XDG_CACHE_HOME"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("gpuhour %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	person("node", "keygen", "--out", "node.pem")
	if out := person("node", "enrol", n.name, "--key", "node.pem.pub", "--by", "ops-2"); !strings.Contains(out, "node signed may sign with key") {
		t.Errorf("enrol says %s", out)
	}
	p := n.collector(t, "--key", "node.pem")
	n.reaches(t, "seconds_total", 4)
	p.end(t)
	if !strings.Contains(p.text(), "batches are signed") {
		t.Errorf("the collector says %s", p.text())
	}
	p = n.collector(t)
	n.reaches(t, "seconds_total", 2)
	p.end(t)

	h := n.hear(t)
	seen := 0
	for key := range h.said {
		if _, last := h.spoken(0); key.at <= last {
			seen++
		}
	}
	_, to := h.spoken(1)
	tables := memstore.New()
	rate := rater.New(b, tables)
	_, err := writer.Tick(t.Context(), to+2*span.SecondsPerHour)
	must(t, err)
	for more := true; more; {
		more, err = rate.Step(t.Context())
		must(t, err)
	}
	if got, err := tables.SeenSeconds(t.Context(), span.Span{From: 0, To: span.Open}, ^uint64(0)); err != nil || got != int64(seen) || seen < 4 {
		t.Errorf("%d seconds of devices are measured, %v; the signed run saw %d", got, err, seen)
	}
	refusals, err := tables.OpenRefusals(t.Context(), ^uint64(0))
	must(t, err)
	for _, r := range refusals {
		if r.Reason != string(usage.BadSignature) || !strings.Contains(r.Detail, "is not signed, and the node is enrolled") {
			t.Errorf("a refusal: %+v", r)
		}
	}
	if runs := h.runs(); len(refusals) != len(runs[1]) {
		t.Errorf("%d batches are set aside, %d were not signed", len(refusals), len(runs[1]))
	}
	shown := person("node", "show", n.name)
	for _, want := range []string{
		"Node signed", "enrolled", "ops-2", "signed     no", "set aside (bad_signature)", n.device(0), n.device(1), "nvidia NVIDIA A100-SXM4-40GB", "40.0 GiB",
		"by nvml 13.580.65.06, driver 580.65.06", "the whole node", "stopped",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("node show does not say %q:\n%s", want, shown)
		}
	}
}

// collectorBehindIngest: the same through an ingest, to which alone the collector speaks.
func collectorBehindIngest(t *testing.T, s *site, library string) {
	n := s.gpuNode(t, "behind", library, 8)
	door := s.service(t, "ingest")
	door.await(t, s.ctx, "taking usage from nodes")
	p := n.collector(t, "--ingest")
	n.reaches(t, "published_batches_total", 1)
	sampled := n.moreSeconds(t, 2)
	p.end(t)
	h := n.hear(t)
	from, to := h.spoken(0)
	if got := float64(to + 1 - from); got < sampled {
		t.Errorf("the log speaks for %v seconds, %v were sampled", got, sampled)
	}
	for i, device := range n.devices(8) {
		h.each(device, from, to+1)
		if got := h.said[deviceSecond{device, to}]; got != n.says(i) && got != (said{}) {
			t.Errorf("%s said %+v", device, got)
		}
	}
	door.end(t)
}

// collectorReplays: what is recorded on a node and played back is in the log as it was recorded, with the topology.
func collectorReplays(t *testing.T, s *site, library string) {
	n := s.gpuNode(t, "recording", library, 3)
	out, err := n.gpuhour("collector", "record", "--nvml-library", library, "--out", "r.csv", "--for", "6s").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "seconds recorded") {
		t.Fatalf("record: %v\n%s", err, out)
	}
	name := filepath.Join(n.dir, "r.csv")
	f, err := os.Open(name)
	must(t, err)
	rec, err := recorded.ReadCSV(name, f)
	must(t, err)
	must(t, f.Close())
	same(t, "devices of the recording", n.devices(3), rec.Devices())
	out, err = n.gpuhour("collector", "replay", "r.csv", "--node", n.name, "--spool", "spool").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "GPU-seconds sampled; the log took ") {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	h := n.hear(t)
	from, to := h.spoken(0)
	if got := to + 1 - from; got > rec.Seconds || got < rec.Seconds/2 {
		t.Errorf("the log speaks for %d seconds, the recording has %d", got, rec.Seconds)
	}
	same(t, "topology", rec.Topology(0), h.topology())
	for i, device := range n.devices(3) {
		h.each(device, from, to+1)
		for at := from; at <= to; at++ {
			if got, ok := h.said[deviceSecond{device, at}]; ok && got != n.says(i) {
				t.Errorf("%s said %+v in second %s", device, got, at)
			}
		}
	}
}
