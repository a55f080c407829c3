package gpuhour_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// newFleet builds the program, and the library that plays a driver. Its log is started by whoever needs one.
func newFleet(t *testing.T, ctx context.Context) (s *site, library string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		if os.Getenv("REQUIRE_STACK") == "1" {
			t.Fatal("REQUIRE_STACK=1, and the library that plays a driver is one of Linux")
		}
		t.Skip("NOT TESTED: the library that plays a driver is one of Linux")
	}
	s = &site{ctx: ctx, dir: t.TempDir()}
	library, err := nvmltest.Compile(t.TempDir())
	nvmltest.Need(t, err)
	s.program = filepath.Join(s.dir, "gpuhour")
	build := exec.CommandContext(ctx, "go", "build", "-o", s.program, "./cmd/gpuhour")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return s, library
}

// withLog is the same program with a log of its own.
func (s *site) withLog(t *testing.T) (*site, *background) {
	t.Helper()
	own := &site{ctx: s.ctx, dir: t.TempDir(), program: s.program, nats: freePort(t), clickHouse: "1"}
	return own, own.engine(t, "nats", own.nats)
}

// gpuNode is a node with GPUs that a script plays.
type gpuNode struct {
	*site
	name, listen, library, dir string
	script                     *nvmltest.Script
}

func (s *site) gpuNode(t *testing.T, name, library string, gpus int) *gpuNode {
	t.Helper()
	n := &gpuNode{site: s, name: name, listen: "127.0.0.1:" + freePort(t), library: library, dir: t.TempDir()}
	script, err := nvmltest.NewScript(n.dir)
	must(t, err)
	t.Cleanup(func() { _ = script.Close() })
	n.script = script
	for i := range gpus {
		n.gpu(i)
	}
	script.Play(t)
	return n
}

func (n *gpuNode) device(i int) string { return fmt.Sprintf("GPU-%s-%d", n.name, i) }

func (n *gpuNode) devices(count int) (names []string) {
	for i := range count {
		names = append(names, n.device(i))
	}
	return names
}

// gpu is a GPU in use, of which every figure tells which one it is.
func (n *gpuNode) gpu(i int) *nvmltest.Scope {
	return n.script.GPU(i).Ampere(n.device(i)).Unset("ring").Set("util", 10+i).Set("memory_used", (i+1)<<20).
		Set("power", 100_000+i).Set("energy", 7000+i).Set("throttle", 4)
}

// says is what gpu plays.
func (n *gpuNode) says(i int) said {
	return said{busy: uint8(10 + i), memory: int64(i+1) << 20, power: int64(100_000 + i), energy: int64(7000 + i), throttle: 4}
}

// gpuhour is a call of the program on this node.
func (n *gpuNode) gpuhour(args ...string) *exec.Cmd {
	cmd := n.command(args...)
	cmd.Dir = n.dir
	cmd.Env = append(cmd.Env, nvmltest.EnvScript+"="+n.script.Path(), nvmltest.EnvNews+"="+n.script.News())
	return cmd
}

// collector starts one on this node.
func (n *gpuNode) collector(t *testing.T, args ...string) *background {
	t.Helper()
	args = append([]string{"collector", "--node", n.name, "--spool", "spool", "--nvml-library", n.library, "--http-listen", n.listen}, args...)
	return n.start(t, "collector of "+n.name, n.gpuhour(args...))
}

// figures are the numbers of /metrics, none while nobody serves them.
func (n *gpuNode) figures() map[string]float64 {
	ctx, cancel := context.WithTimeout(n.ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.listen+"/metrics", nil)
	if err != nil {
		return nil
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			all[strings.TrimPrefix(name, "gpuhour_collector_")] = v
		}
	}
	return all
}

// reaches waits until a figure of the collector is at least that much, and returns it.
func (n *gpuNode) reaches(t *testing.T, name string, least float64) (v float64) {
	t.Helper()
	eventually(t, n.ctx, fmt.Sprintf("%s of %s reaches %v", name, n.name, least), func() bool {
		v = n.figures()[name]
		return v >= least
	})
	return v
}

// moreSeconds waits until the collector has sampled some more, and returns how many it has.
func (n *gpuNode) moreSeconds(t *testing.T, more float64) float64 {
	t.Helper()
	return n.reaches(t, "seconds_total", n.figures()["seconds_total"]+more)
}

// said is what one device said in one second.
type said struct {
	busy                            uint8
	memory, power, energy, throttle int64
}

// deviceSecond is a second of a device, or of the node where the device is empty.
type deviceSecond struct {
	device string
	at     span.Second
}

// heard is all that the log holds of a node.
type heard struct {
	t       *testing.T
	batches []usage.Batch
	said    map[deviceSecond]said
	gaps    map[deviceSecond]usage.GapReason
	faults  map[string][]fault
}

type fault struct {
	at   span.Second
	kind usage.FaultKind
	code uint64
}

// hear reads a node's batches: their sequences have no gap, each run names the one before, no second is there twice.
func (n *gpuNode) hear(t *testing.T) *heard {
	t.Helper()
	h := &heard{t, nil, map[deviceSecond]said{}, map[deviceSecond]usage.GapReason{}, map[string][]fault{}}
	b := n.dial(t)
	for after := uint64(0); ; {
		messages, err := b.ReadSubject(n.ctx, bus.Usage, codec.UsageSubject(n.name), after, 1000)
		must(t, err)
		if len(messages) == 0 {
			return h
		}
		for _, m := range messages {
			after = m.Seq
			batch, q := codec.DecodeBatch(m)
			if q != nil {
				t.Fatalf("message %d is no batch: %v", m.Seq, q)
			}
			h.take(&batch)
		}
	}
}

func (h *heard) take(b *usage.Batch) {
	h.t.Helper()
	if n := len(h.batches); n > 0 {
		last := &h.batches[n-1]
		goesOn := b.Run == last.Run && b.Seq == last.Seq+1
		begins := b.Run > last.Run && b.Seq == 1 && b.PreviousRun == last.Run && b.PreviousSeq == last.Seq
		if !goesOn && !begins {
			h.t.Fatalf("run %d sequence %d (before it %d/%d) follows %d/%d", b.Run, b.Seq, b.PreviousRun, b.PreviousSeq, last.Run, last.Seq)
		}
	} else if b.Seq != 1 || b.PreviousRun != 0 {
		h.t.Fatalf("the first batch is %d/%d after %d/%d", b.Run, b.Seq, b.PreviousRun, b.PreviousSeq)
	}
	h.batches = append(h.batches, *b)
	var block usage.Block
	for _, raw := range b.Blocks {
		must(h.t, block.Decode(raw))
		for _, f := range block.Faults {
			h.faults[block.Device] = append(h.faults[block.Device], fault{b.Minute.Start() + span.Second(f.Second), f.Kind, f.Code})
		}
		block.Seen.Each(func(i int) {
			key := deviceSecond{block.Device, b.Minute.Start() + span.Second(i)}
			if _, twice := h.said[key]; twice {
				h.t.Errorf("%s said something twice in second %s", key.device, key.at)
			}
			h.said[key] = said{block.Busy[i], block.Memory.Values[i], block.Power.Values[i], block.Energy.Values[i], block.Throttle.Values[i]}
		})
	}
	for _, g := range b.Gaps {
		for at := g.From; at < g.To; at++ {
			h.gaps[deviceSecond{g.Device, at}] = g.Reason
		}
	}
}

// first and last are the seconds of a run that are spoken for.
func (h *heard) spoken(run int) (first, last span.Second) {
	h.t.Helper()
	runs := h.runs()
	if run >= len(runs) {
		h.t.Fatalf("the log holds %d runs", len(runs))
	}
	for _, b := range runs[run] {
		if first == 0 {
			first = b.Minute.Start() + span.Second(b.Spoken.First())
		}
		last = b.Last()
	}
	return first, last
}

// runs are the batches of each.
func (h *heard) runs() (runs [][]usage.Batch) {
	for i, b := range h.batches {
		if i == 0 || b.Run != h.batches[i-1].Run {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], b)
	}
	return runs
}

// why is the reason for which a device was not seen.
func (h *heard) why(device string, at span.Second) (usage.GapReason, bool) {
	if why, ok := h.gaps[deviceSecond{device, at}]; ok {
		return why, true
	}
	why, ok := h.gaps[deviceSecond{"", at}]
	return why, ok
}

// each walks over every second of a device and fails unless it was seen, or is in a gap for a reason that is allowed. That a busy
// machine stalls, sleeps or answers too late always is. It counts what was seen, and the gaps for the reasons given.
func (h *heard) each(device string, from, to span.Second, allowed ...usage.GapReason) (seen, given int) {
	h.t.Helper()
	stalls := 0
	for at := from; at < to; at++ {
		_, ok := h.said[deviceSecond{device, at}]
		why, gap := h.why(device, at)
		switch {
		case ok && gap:
			h.t.Errorf("%s is seen in second %s, and in a gap: %s", device, at, why)
		case ok:
			seen++
		case !gap:
			h.t.Errorf("of %s in second %s the log says nothing", device, at)
		case slices.Contains(allowed, why):
			given++
		case slices.Contains([]usage.GapReason{usage.GapStalled, usage.GapTimeout, usage.GapSuspended, usage.GapStepped}, why):
			stalls++
		default:
			h.t.Errorf("%s is in a gap in second %s: %s", device, at, why)
		}
	}
	if stalls > 0 {
		h.t.Logf("%s: %d of %d seconds were lost to the machine's load", device, stalls, to-from)
	}
	if to-from >= 10 && span.Second(stalls) > (to-from)/2 {
		h.t.Errorf("%s: %d of %d seconds are stalls: too many to show anything", device, stalls, to-from)
	}
	return seen, given
}

// topology is the last one that was stated up to a batch.
func (h *heard) topology() *usage.Topology {
	for _, b := range slices.Backward(h.batches) {
		if b.Topology != nil {
			return b.Topology
		}
	}
	return nil
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got)\n%s", what, d)
	}
}
