//go:build linux && cgo

package live_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
	"github.com/gpuhour/gpuhour/services/collector/nodekey"
	"github.com/gpuhour/gpuhour/services/collector/nvml/nvmltest"
)

// What a collector of eight GPUs may take of its node.
const (
	commandDevices = 8
	maxCPU         = 0.01 // of one core
	maxRSS         = 64 << 20
	maxJitter      = 50 * time.Millisecond
	judgedFrom     = time.Minute // a shorter run measures the start
	scrapeEvery    = 15 * time.Second
)

// BenchmarkCommand runs the collector as an operator does, and measures that process: gpuhour collector with a key, over a driver's library
// that plays eight GPUs, to a NATS server in this process, with its metrics read every 15 seconds. It takes five seconds a shape, or
// GPUHOUR_LIVE_SECONDS. From a minute on it fails beyond the limits.
func BenchmarkCommand(b *testing.B) {
	dir := b.TempDir()
	library, err := nvmltest.Compile(dir)
	nvmltest.Need(b, err)
	binary := filepath.Join(dir, "gpuhour")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/gpuhour/gpuhour/cmd/gpuhour").CombinedOutput(); err != nil {
		b.Fatalf("build the command: %v\n%s", err, out)
	}
	took := benchTime(b)
	for _, shape := range livetest.Shapes() {
		b.Run(string(shape), func(b *testing.B) {
			b.Logf("%s; %d GPUs: busy (GPM), memory, power, energy, throttle, faults once a second; one sync and one signed batch in 10 s; %s",
				machine(), commandDevices, took)
			for b.Loop() {
				c := newCommand(b, binary, library, shape)
				c.await("gpuhour_collector_seconds_total", 2)
				start := processCPU(b, c.cmd.Process.Pid)
				began := time.Now()
				c.sample(took)
				used := processCPU(b, c.cmd.Process.Pid) - start
				c.judge(start, used, time.Since(began))
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// command is a collector that runs.
type command struct {
	b       *testing.B
	cmd     *exec.Cmd
	said    strings.Builder // what it says on its standard error
	log     *natsbus.Embedded
	script  *nvmltest.Script
	fleet   *livetest.Fleet
	data    string
	address string
}

func newCommand(b *testing.B, binary, library string, shape livetest.Shape) *command {
	b.Helper()
	c := &command{b: b, data: b.TempDir(), fleet: livetest.NewFleet(shape, commandDevices), address: freeAddress(b)}
	var err error
	c.log, err = natsbus.Start(b.Context(), natsbus.Options{Dir: b.TempDir(), Port: -1})
	c.check(err)
	b.Cleanup(func() { _ = c.log.Close() })
	c.script, err = nvmltest.NewScript(b.TempDir())
	c.check(err)
	b.Cleanup(func() { _ = c.script.Close() })
	for i, r := range c.fleet.Readings {
		c.script.GPU(i).Hopper(r.Device)
	}
	c.play()
	key, err := nodekey.Generate()
	c.check(err)
	c.check(key.Write(filepath.Join(c.data, nodekey.FileName)))
	c.cmd = exec.Command(binary, "collector", "--node", "bench", "--data", c.data, "--nats-url", c.log.URL(),
		"--nvml-library", library, "--http-listen", c.address)
	settings := func(v string) bool { return strings.HasPrefix(v, "GPUHOUR_") }
	c.cmd.Env = append(slices.DeleteFunc(os.Environ(), settings), nvmltest.EnvScript+"="+c.script.Path())
	c.cmd.Stderr = &c.said
	c.check(c.cmd.Start())
	b.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

func (c *command) check(err error) {
	c.b.Helper()
	if err != nil {
		c.b.Fatal(err)
	}
}

// play is the next second of all GPUs.
func (c *command) play() {
	for i, r := range c.fleet.Next() {
		c.script.GPU(i).Set("gpm", r.Busy.Value*1000).Set("memory_used", r.Memory.Value).Set("power", r.Power.Value).
			Set("energy", r.Energy.Value).Set("throttle", r.Throttle.Value)
	}
	c.script.Play(c.b)
}

// sample lets it run. GPUs change in the middle of seconds: no sample sees half a change.
func (c *command) sample(d time.Duration) {
	end, scrape := time.Now().Add(d), time.Now().Add(scrapeEvery)
	for now := time.Now(); now.Before(end); now = time.Now() {
		next := now.Truncate(time.Second).Add(1500 * time.Millisecond)
		<-time.After(min(next.Sub(now), end.Sub(now)))
		c.play()
		if time.Now().After(scrape) {
			scrape = scrape.Add(scrapeEvery)
			c.metrics()
		}
	}
}

// metrics are the figures that it shows, by series.
func (c *command) metrics() map[string]float64 {
	c.b.Helper()
	response, err := http.Get("http://" + c.address + "/metrics")
	c.check(err)
	page, err := io.ReadAll(response.Body)
	c.check(err)
	c.check(response.Body.Close())
	return figures(string(page))
}

// delay is how late ticks came, which a page must show: a figure that is not there is no zero.
func (c *command) delay(shown map[string]float64, of string) float64 {
	c.b.Helper()
	v, ok := shown[`gpuhour_collector_tick_delay_seconds{of="`+of+`"}`]
	if !ok || v == 0 {
		c.b.Fatalf("/metrics tells no delay of ticks (%s): %v", of, shown)
	}
	return v
}

// await polls until it shows a figure of at least that much: from outside there is nothing else to wait for.
func (c *command) await(name string, least float64) {
	c.b.Helper()
	ctx, cancel := context.WithTimeout(c.b.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("tcp", c.address); err == nil {
			_ = conn.Close()
			if c.metrics()[name] >= least {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
			c.b.Fatalf("the collector does not come to %s %g; it says:\n%s", name, least, &c.said)
		}
	}
}

// judge reports what it took, ends it and reads what arrived.
func (c *command) judge(start, used, took time.Duration) {
	b := c.b
	b.Helper()
	memory, shown := processMemory(b, c.cmd.Process.Pid), c.metrics()
	p50, p99, most := c.delay(shown, "median"), c.delay(shown, "p99"), c.delay(shown, "max")
	c.check(c.cmd.Process.Signal(os.Interrupt))
	if err := c.cmd.Wait(); err != nil {
		b.Fatalf("the collector ends with %v; it says:\n%s", err, &c.said)
	}
	spool := folderBytes(b, filepath.Join(c.data, "spool"))
	samples, bytes := c.arrived()
	waiting, ok := shown["gpuhour_collector_spool_unsent_batches"]
	if least := commandDevices * (int(took/time.Second) - 1); samples < least || !ok || waiting > 1 {
		b.Fatalf("%d samples are in the log after %s, and %g batches wait; want %d; it says:\n%s", samples, took, waiting, least, &c.said)
	}
	cpu := used.Seconds() / took.Seconds()
	for unit, v := range map[string]float64{
		"%-of-a-core": cpu * 100, "ms-cpu-start": start.Seconds() * 1e3,
		"MiB-RSS-peak": mib(memory["VmHWM"]), "MiB-RSS-anon": mib(memory["RssAnon"]), "MiB-RSS-file": mib(memory["RssFile"]),
		"ms-jitter-p50": p50 * 1e3, "ms-jitter-p99": p99 * 1e3, "ms-jitter-max": most * 1e3,
		"B/sample-wire": float64(bytes) / float64(samples), "B/sample-spool": float64(spool) / float64(samples),
	} {
		b.ReportMetric(v, unit)
	}
	if took < judgedFrom {
		return
	}
	if cpu >= maxCPU || memory["VmHWM"] >= maxRSS || p99 >= maxJitter.Seconds() {
		b.Errorf("%.2f %% of a core, %.1f MiB at most in memory, ticks up to %.1f ms late (p99); want less than %g %%, %d MiB and %s",
			cpu*100, mib(memory["VmHWM"]), p99*1e3, maxCPU*100, maxRSS>>20, maxJitter)
	}
}

// arrived counts the samples in the log of which every metric is known, and the bytes of their messages.
func (c *command) arrived() (samples, bytes int) {
	c.b.Helper()
	for last := uint64(0); ; {
		messages, err := c.log.Read(c.b.Context(), bus.Usage, last, 1000)
		c.check(err)
		if len(messages) == 0 {
			return samples, bytes
		}
		for _, m := range messages {
			last = m.Seq
			batch, q := codec.DecodeBatch(m)
			if q != nil || len(batch.Signature) == 0 {
				c.b.Fatalf("message %d: %v, with a signature of %d bytes", m.Seq, q, len(batch.Signature))
			}
			bytes += len(m.Data)
			var block usage.Block
			for _, raw := range batch.Blocks {
				c.check(block.Decode(raw))
				samples += (block.Seen & block.Memory.Known & block.Power.Known & block.Energy.Known & block.Throttle.Known).Count()
			}
		}
	}
}
