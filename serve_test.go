package gpuhour_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/buslog"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/rater"
)

// previewChild is what `gpuhour invoice preview` does, from another process.
func previewChild(ctx context.Context, dir string) error {
	cfg := gpuhour.DefaultConfig()
	cfg.Data = dir
	e, err := gpuhour.Attach(ctx, cfg, quiet())
	if err != nil {
		return err
	}
	d, at, err := e.Preview(ctx, "now-1", 0)
	if err == nil {
		fmt.Println(d.Quantity.MilliGPUSeconds, int64(at))
	}
	return errors.Join(err, e.Close())
}

// preview asks until the answer is enough: it waits for ticks in between.
func preview(t *testing.T, e *gpuhour.Engine, enough func(milli, measured int64) bool) (milli int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		last, err := e.Bus().LastSeq(ctx, bus.Usage)
		if err != nil {
			t.Fatal(err)
		}
		d, _, err := e.Preview(ctx, "now-1", 0)
		switch {
		case err != nil && !errors.Is(err, rater.ErrNothingYet) && !strings.Contains(err.Error(), "not in force"):
			t.Fatal(err)
		case err == nil && enough(d.Quantity.MilliGPUSeconds, d.Quantity.Coverage.Measured):
			return d.Quantity.MilliGPUSeconds
		}
		if err := e.Bus().Wait(ctx, bus.Usage, last); err != nil {
			t.Fatalf("the preview is still at %+v, %v", d, err)
		}
	}
}

// TestServe runs the services at the wall clock on the real engines: a preview grows while another process looks on.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some seconds of wall time; left out of -short")
	}
	dir := t.TempDir()
	cfg := embeddedConfig(t, dir)
	cfg.NATS.Listen = "127.0.0.1:0"
	e := open(t, cfg, quiet())
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	now := span.Second(time.Now().Unix())
	text := strings.ReplaceAll(document("now-1", "acme", "CNY", "UTC", "cycle: monthly", "  - {sku: h100, on_demand: 36.00/gpu-hour}\n"),
		"2026-02-01", time.Now().UTC().Format(time.DateOnly))
	text = strings.ReplaceAll(text, "2027-02-01", "open")
	if err := e.State(t.Context(),
		fact.Fact{Key: "c/now", Body: signed("now-1", "acme", text)},
		fact.Fact{Key: "l/now", Body: lease("now", "acme", "h100", now, share("n-a", 0, 1000))}); err != nil {
		t.Fatal(err)
	}
	first := preview(t, e, func(milli, _ int64) bool { return milli > 0 })
	collectUntil(t, e, dir, now, func() bool {
		return preview(t, e, func(int64, int64) bool { return true }) >= first+2000
	})
	measured := preview(t, e, func(_, measured int64) bool { return measured > 0 })

	var milli, at int64
	looker := start(t, "preview", dir)
	for looker.lines.Scan() {
		if _, err := fmt.Sscan(looker.lines.Text(), &milli, &at); err != nil {
			t.Fatal(err)
		}
	}
	if err := looker.Wait(); err != nil {
		t.Fatalf("a second process: %v\n%s", err, looker.said)
	}
	after := preview(t, e, func(milli, _ int64) bool { return milli >= measured })
	if milli < measured || milli > after || milli != (at-int64(now))*1000 {
		t.Fatalf("the second process saw %d milli-GPU-seconds up to %d, between %d and %d here; the lease began at %d", milli, at, measured, after, now)
	}
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	for _, left := range []string{"run.json", "store.sock"} {
		if _, err := os.Stat(filepath.Join(dir, left)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays behind: %v", left, err)
		}
	}
	e, err := gpuhour.Attach(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if again := preview(t, e, func(int64, int64) bool { return true }); again < milli {
		t.Errorf("after the stop the preview is %d, before it was %d", again, milli)
	}
	closed(t, e)
}

// collectUntil samples a recording at the pace of the log's ticks, as a collector samples a node, until enough is there.
func collectUntil(t *testing.T, e *gpuhour.Engine, dir string, from span.Second, enough func() bool) {
	t.Helper()
	lines := recorded.Header + "\n0,n-a/gpu-0,50,1024,70000,1\n1,n-a/gpu-0,60,1024,70000,2\n"
	rec, err := recorded.ReadCSV("recording", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	files, err := spool.Dir(filepath.Join(dir, "spool"))
	if err != nil {
		t.Fatal(err)
	}
	sp, err := spool.Open(files, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := collector.New(collector.Config{Boot: "test", FirstRun: 1, Clock: usage.ClockEvidence{State: usage.ClockFree}},
		[]collector.Node{{Name: "n-a", Source: rec.From(from, true)}}, sp, buslog.New(e.Bus()))
	for at := from; !enough(); {
		last, err := e.Bus().LastSeq(t.Context(), bus.Usage)
		if err != nil {
			t.Fatal(err)
		}
		for ; at < span.Second(time.Now().Unix()); at++ {
			if err := c.Step(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Bus().Wait(t.Context(), bus.Usage, last); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Stop(t.Context()), sp.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestClockThatStepsBackTicksNothing: a tick cannot go back, and one ahead of the server's stamp would stop every reader.
func TestClockThatStepsBackTicksNothing(t *testing.T) {
	e := gpuhour.OpenOn(membus.New(time.Now), memstore.New())
	now := span.Second(time.Now().Unix())
	for _, step := range []error{
		e.Declare(t.Context(), fact.Wall), e.Tick(t.Context(), now+60),
		e.State(t.Context(), fact.Fact{Key: "l/a", Body: lease("a", "acme", "h100", now, share("n-a", 0, 1000))}),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if err := e.TickWall(t.Context()); err == nil || !strings.Contains(err.Error(), "no time is published") {
		t.Fatalf("error is %v", err)
	}
	if last, err := e.Bus().LastSeq(t.Context(), bus.Usage); last != 1 || err != nil {
		t.Fatalf("the log holds %d ticks, %v", last, err)
	}
}
