package gpuhour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/run"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// Services that Serve can run.
const (
	ServiceClock    = "clock"
	ServiceRater    = "rater"
	ServiceInvoicer = "invoicer"
	ServiceAlerter  = "alerter"
)

// AllServices is what one process on day one runs.
func AllServices() []string {
	return []string{ServiceClock, ServiceRater, ServiceInvoicer, ServiceAlerter}
}

// Serve runs services until ctx ends, all of them when none is named. Other commands reach the inner engines while it
// runs. A service whose step fails starts again by itself; Serve returns an error when it cannot begin, and when the inner log
// server could not write and must be started again.
func (e *Engine) Serve(ctx context.Context, services ...string) error {
	if len(services) == 0 {
		services = AllServices()
	}
	steps := map[string]run.Step{ServiceRater: e.stepRater, ServiceInvoicer: e.stepInvoicer, ServiceAlerter: e.stepAlerter}
	for _, s := range services {
		if s != ServiceClock && steps[s] == nil {
			return fmt.Errorf("serve: there is no service %q", s)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	if err := e.publishRunFile(ctx, &running); err != nil {
		return err
	}
	if e.cfg.HTTP.Listen != "" {
		running.Go(func() {
			if err := e.metrics.Serve(ctx, e.cfg.HTTP.Listen); err != nil {
				e.log.Error("metrics are not served", "error", err)
			}
		})
	}
	for _, s := range services {
		if s == ServiceClock {
			if err := e.Declare(ctx, fact.Wall); err != nil {
				return err
			}
			running.Go(func() { e.clock(ctx) })
			continue
		}
		running.Go(func() { run.Loop(ctx, e.log, e.metrics, s, steps[s], e.wait) })
	}
	e.metrics.Ready(true)
	e.log.Info("serving", "services", services, "data", e.cfg.Data, "nats", e.natsURL)
	var err error
	select {
	case <-ctx.Done():
	case <-e.stores.Done():
		err = context.Cause(e.stores)
	}
	e.metrics.Ready(false)
	return err
}

func (e *Engine) stepRater(ctx context.Context) (bool, error) {
	before := e.rater.Counts()
	worked, err := e.step(ctx, e.rater.Step)
	now := e.rater.Counts()
	e.counts.Store(&now)
	for kind, n := range map[string]int64{
		"blocks": now.Blocks - before.Blocks, "batches": now.Batches - before.Batches, "minute_rows": now.Rows - before.Rows,
		"differences": now.Differences - before.Differences,
	} {
		e.metrics.Rated.WithLabelValues(kind).Add(float64(n))
	}
	e.metrics.Refusals.Add(float64(now.Refusals - before.Refusals))
	e.metrics.LastTick.WithLabelValues(ServiceRater).Set(float64(e.rater.Progress().At))
	return worked, err
}

func (e *Engine) stepInvoicer(ctx context.Context) (bool, error) {
	issued, _ := e.invoice.Issued()
	worked, err := e.step(ctx, e.invoice.Step)
	if now, last := e.invoice.Issued(); now > issued {
		e.log.Info("invoices issued", "count", now-issued, "last", last)
	}
	blocked := slices.Clone(e.invoice.Blocked())
	before := e.blocked.Swap(&blocked)
	e.metrics.Blocked.Set(float64(len(blocked)))
	if !slices.Equal(blocked, *before) { // once, not at every tick
		for _, b := range blocked {
			e.log.Warn("a period cannot close", "contract", b.Contract, "period", b.Period.String(), "reason", b.Reason)
		}
	}
	return worked, err
}

func (e *Engine) stepAlerter(ctx context.Context) (bool, error) { return e.step(ctx, e.alert.Step) }

// wait blocks until the usage stream moves: every block ends with a tick there. It looks again after a second anyway.
func (e *Engine) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	last, err := e.bus.LastSeq(ctx, bus.Usage)
	if err == nil {
		err = e.bus.Wait(ctx, bus.Usage, last)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// clock publishes wall time once a second. A jump of over an hour, such as after a night with the service down, is
// published only when a person has stated clock.resumed.v1 since; until then it says so and waits.
func (e *Engine) clock(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := e.tickWall(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("no tick", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// backSeconds is how far the clock may step back and ticks go on: a tick repeats the last time then, and readers refuse one
// that is further ahead of the server's stamp.
const backSeconds = 5

func (e *Engine) tickWall(ctx context.Context) error {
	now := span.Second(e.now().Unix())
	last, err := e.writer.LastTick(ctx)
	if err != nil {
		return err
	}
	if last.At-now > backSeconds {
		return fmt.Errorf("the machine's clock says %v, the log's last tick %v; no time is published until the clock is there again", now, last.At)
	}
	if last.At > 0 && now-last.At > span.SecondsPerHour {
		resumed, err := journal.ResumedAfter(ctx, e.bus, last.FactsSeq)
		if err != nil {
			return err
		}
		if !resumed {
			return fmt.Errorf("the clock stood still from %v to %v; check the machine's time, then run `gpuhour resume --by NAME`", last.At, now)
		}
	}
	_, err = e.writer.Tick(ctx, now)
	return err
}

// runInfo tells other commands where the inner engines of a running process are.
type runInfo struct {
	PID   int    `json:"pid"`
	NATS  string `json:"nats"`
	Store string `json:"store"`
}

func runFile(cfg Config) string { return cfg.Path("run.json") }

// readRunFile returns nil when no process runs the directory. A file left by a killed process is noticed by its socket.
func readRunFile(cfg Config) (*runInfo, error) {
	data, err := os.ReadFile(runFile(cfg))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a running gpuhour: %w", err)
	}
	var info runInfo
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("read %s: %w; delete the file if no gpuhour runs on this directory", runFile(cfg), err)
	}
	conn, err := net.DialTimeout("unix", info.Store, time.Second)
	if err != nil {
		return nil, nil //nolint:nilerr // nobody answers: the file is a killed process's
	}
	return &info, conn.Close()
}

// publishRunFile serves the inner engine on a socket and says so, until ctx ends.
func (e *Engine) publishRunFile(ctx context.Context, running *sync.WaitGroup) error {
	if e.engine == nil || e.natsURL == "" {
		return nil
	}
	dir, err := filepath.Abs(e.cfg.Data)
	if err != nil {
		return fmt.Errorf("find the data directory: %w", err)
	}
	info := runInfo{PID: os.Getpid(), NATS: e.natsURL, Store: filepath.Join(dir, "store.sock")}
	listener, err := embedded.Listen(info.Store)
	if err != nil {
		return err
	}
	running.Go(func() {
		if err := e.engine.Serve(ctx, listener); err != nil {
			e.log.Error("other commands cannot reach the tables", "error", err)
		}
	})
	data, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("write the run file: %w", err)
	}
	if err := os.WriteFile(runFile(e.cfg), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the run file: %w", err)
	}
	running.Go(func() { // Serve returns only when the file is gone
		<-ctx.Done()
		if err := os.Remove(runFile(e.cfg)); err != nil {
			e.log.Warn("the run file stays behind", "error", err)
		}
	})
	return nil
}

func splitListen(address string) (host string, port int, err error) {
	if address == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("nats.listen: %q; write 127.0.0.1:4222, 127.0.0.1:0 for any free port, or nothing", address)
	}
	if port == 0 {
		port = -1 // any free one
	}
	return host, port, nil
}
