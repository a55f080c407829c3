//go:build linux && cgo

package live_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/nvml"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/collector/spool/spooltest"
)

func TestMain(m *testing.M) { os.Exit(nvmltest.Main(m)) }

// inUse is a GPU of which every figure is known: 1000 bytes, 250 W, 7 J, throttled by its power cap.
func inUse(s *nvmltest.Script, index int, uuid string, busy int) *nvmltest.Scope {
	return s.GPU(index).Ampere(uuid).Unset("ring").Set("util", busy).Set("memory_used", 1000).Set("power", 250_000).
		Set("energy", 7000).Set("throttle", 4)
}

// scripted is a fault: what the driver does before a second, and what ten seconds then say.
type scripted struct {
	do   map[int]func(*testing.T, *nvmltest.Script)
	want string
}

// driverFaults are written as told writes them down.
func driverFaults() map[string]scripted {
	type script = map[int]func(*testing.T, *nvmltest.Script)
	clear := func(_ *testing.T, s *nvmltest.Script) { s.GPU(0).Clear() }
	return map[string]scripted{
		"all is well": {nil, "a: 40*10 | b: 50*10"},
		"XID 79, and the GPU is lost; after a reset it is back": {script{
			3: func(t *testing.T, s *nvmltest.Script) {
				s.Event(0, 8, 79)
				s.Play(t)
				s.Await(t, "event gpu0 8 79")
				s.Await(t, "waits")
				s.GPU(0).Fail("*", 15)
			}, 6: clear,
		}, "a: 40*3 lost*3 40*4 faults 3:xid:79 3:lost:79 | b: 50*10"},
		"a call hangs": {script{
			3: func(_ *testing.T, s *nvmltest.Script) { s.GPU(0).Hang("nvmlDeviceGetPowerUsage") },
			6: func(t *testing.T, s *nvmltest.Script) { s.GPU(0).Clear(); s.Play(t); s.Await(t, "released gpu0") },
		}, "a: 40*3 timeout*3 40*4 | b: 50*10"},
		"utilisation is not supported": {script{
			0: func(_ *testing.T, s *nvmltest.Script) { s.GPU(0).Unset("util") },
		}, "a: ?*10 | b: 50*10"},
		"an error, then a sentinel, then idle": {script{
			2: func(_ *testing.T, s *nvmltest.Script) {
				s.GPU(0).Fail("nvmlDeviceGetUtilizationRates", 999).Set("util", 0)
			},
			4: func(_ *testing.T, s *nvmltest.Script) { s.GPU(0).Clear().Set("util", "0x7ffffff0") },
			6: func(_ *testing.T, s *nvmltest.Script) { s.GPU(0).Set("util", 0) },
		}, "a: 40*2 ?*4 0*4 | b: 50*10"},
		"nothing but errors and sentinels": {script{
			3: func(_ *testing.T, s *nvmltest.Script) { s.GPU(0).Fail("*", 999) },
			5: func(_ *testing.T, s *nvmltest.Script) {
				s.GPU(0).Clear().Set("util", "0x7ffffff1").Set("memory_used", "0x7ffffffffffffff0").Set("power", "0xffffffff").
					Set("energy", "0x7ffffffffffffff3").Set("throttle", "0x7ffffffffffffff1")
			},
			7: func(_ *testing.T, s *nvmltest.Script) { inUse(s, 0, "a", 40).Fail("*", 4) },
			9: clear,
		}, "a: 40*3 error*2 not_available*2 permission*2 40*1 | b: 50*10"},
		"two GPUs change their index": {script{
			3: func(_ *testing.T, s *nvmltest.Script) { inUse(s, 0, "b", 50); inUse(s, 1, "a", 40) },
		}, "a: 40*3 lost*1 40*6 | b: 50*3 lost*1 50*6"},
		"the driver is loaded anew": {script{
			3: func(_ *testing.T, s *nvmltest.Script) { s.Node().Set("session", 2) },
		}, "a: 40*3 error*1 40*6 | b: 50*3 error*1 50*6"},
		"the driver is away for three seconds; an attempt at the end of each finds it one later": {script{
			3: func(_ *testing.T, s *nvmltest.Script) { s.Node().Set("session", 2).Fail("nvmlInit_v2", 9) },
			6: func(_ *testing.T, s *nvmltest.Script) { s.Node().Clear() },
		}, "a: 40*3 error*4 40*3 | b: 50*3 error*4 50*3"},
		"a container gets its devices": {script{
			0: func(_ *testing.T, s *nvmltest.Script) { s.Node().Fail("nvmlInit_v2", 9) },
			3: func(_ *testing.T, s *nvmltest.Script) { s.Node().Clear().Fail("nvmlInit_v2", 4) },
			5: func(_ *testing.T, s *nvmltest.Script) { s.Node().Clear() },
		}, "node: not_available*3 permission*2 | a: -*5 40*5 | b: -*5 50*5"},
		"a GPU is plugged in, and pulled out": {script{
			3: func(_ *testing.T, s *nvmltest.Script) { inUse(s, 2, "c", 60) },
			7: func(_ *testing.T, s *nvmltest.Script) { s.Remove(s.GPU(2)) },
		}, "a: 40*10 | b: 50*10 | c: -*4 60*3 lost*1 -*2"},
		"a GPU is cut into slices, and they are cut anew": {script{
			3: func(_ *testing.T, s *nvmltest.Script) {
				s.GPU(0).Set("mig", 1).Unset("util")
				s.Slice(0, 0).MIG("s1", "1g.10gb", 3).Set("memory_used", 1000)
				s.Slice(0, 1).MIG("s2", "1g.10gb", 4).Set("memory_used", 1000)
			},
			7: func(_ *testing.T, s *nvmltest.Script) {
				s.Remove(s.Slice(0, 1))
				s.Slice(0, 0).MIG("s3", "2g.20gb", 5).Set("memory_used", 1000)
			},
		}, "a: 40*3 ?*7 | b: 50*10 | s1: -*4 ?*3 lost*1 -*2 | s2: -*4 ?*3 lost*1 -*2 | s3: -*8 ?*2"},
	}
}

// TestScriptedDriverFaults goes the whole way: a driver's library that plays a fault, loaded as the real one is, the sampler with its
// workers, and the batch that goes to the disk.
func TestScriptedDriverFaults(t *testing.T) {
	for name, c := range driverFaults() {
		t.Run(name, func(t *testing.T) {
			s := nvmltest.Start(t)
			inUse(s, 0, "a", 40)
			inUse(s, 1, "b", 50)
			options := nvml.Options{LibraryPath: nvmltest.Build(t), ScanWait: 20 * time.Second, EventWait: 20 * time.Millisecond, CloseWait: 20 * time.Second}
			deadline := 20 * time.Second
			if name == "a call hangs" { // what hangs is waited for until then, and what does not has to be quicker
				options.ScanWait, deadline = 200*time.Millisecond, 2*time.Second
			}
			sampler := live.NewSampler(live.SamplerConfig{
				Open: func() (collector.Hardware, error) { return nvml.Open(options) }, Deadline: deadline, Rescan: 1,
			})
			sp, err := spool.Open(spooltest.New(), spool.Options{})
			check(t, err)
			run := collector.NewRun(collector.Config{Boot: "b", FirstRun: 1}, []collector.Node{{Name: "n", Source: sampler}}, sp)
			var batches []usage.Batch
			for i := range 10 {
				do := c.do[i]
				if do != nil {
					do(t, s)
				}
				s.Play(t)
				sampler.Settle(do != nil && i == 6)
				batches = run.Sample(start+span.Second(i), batches)
				sampler.Settle(false)
			}
			equal(t, 1, len(batches))
			if diff := cmp.Diff(c.want, account(t, &batches[0])); diff != "" {
				t.Error(diff)
			}
			hung, err := closed(t, sampler)
			equal(t, 0, hung)
			check(t, err)
		})
	}
}

// account writes a batch of ten seconds down: for each device what each second says, busy in percent or ? where only that is unknown, a
// reason where it is in a gap, - where nothing is said; then its faults. The other figures must be inUse's, or unknown for a slice.
func account(t *testing.T, b *usage.Batch) string {
	t.Helper()
	check(t, b.Validate())
	check(t, b.ValidateBlocks())
	equal(t, span.SecondMask(0x3ff), b.Spoken)
	words, faults := map[string][]string{}, map[string]string{}
	say := func(device string, i int, word string) {
		if words[device] == nil {
			words[device] = slices.Repeat([]string{"-"}, 10)
		}
		if i < 0 || words[device][i] != "-" {
			t.Fatalf("second %d of %q says %s too", i, device, word)
		}
		words[device][i] = word
	}
	for _, g := range b.Gaps {
		for at := g.From; at < g.To; at++ {
			say(g.Device, int(at-start), g.Reason.String())
		}
	}
	var d usage.Block
	for _, raw := range b.Blocks {
		check(t, d.Decode(raw))
		whole := !strings.HasPrefix(d.Device, "s")
		d.Seen.Each(func(i int) {
			word := fmt.Sprint(d.Busy[i])
			if d.Busy[i] == usage.BusyUnknown {
				word = "?"
			}
			say(d.Device, i, word)
			figures := [4]int64{d.Memory.Values[i], d.Power.Values[i], d.Energy.Values[i], d.Throttle.Values[i]}
			if d.Power.Known.Has(i) != whole || d.Energy.Known.Has(i) != whole || whole && figures != [4]int64{1000, 250_000, 7000, 4} || figures[0] != 1000 {
				t.Errorf("second %d of %s: %v", i, d.Device, figures)
			}
		})
		for _, f := range d.Faults {
			kind := map[usage.FaultKind]string{usage.FaultXID: "xid", usage.FaultLost: "lost"}[f.Kind]
			faults[d.Device] += fmt.Sprintf(" %d:%s:%d", f.Second, kind, f.Code)
		}
	}
	var lines []string
	for _, device := range slices.Sorted(maps.Keys(words)) {
		line := strings.TrimSpace(device)
		if device == "" {
			line = "node"
			words[device] = slices.DeleteFunc(words[device], func(w string) bool { return w == "-" })
		}
		line += ":" + runs(words[device])
		if faults[device] != "" {
			line += " faults" + faults[device]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " | ")
}

// runs writes words with how often each comes in a row.
func runs(words []string) (out string) {
	for len(words) > 0 {
		n := 1
		for n < len(words) && words[n] == words[0] {
			n++
		}
		out += fmt.Sprintf(" %s*%d", words[0], n)
		words = words[n:]
	}
	return out
}
