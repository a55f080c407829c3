package obs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Logger writes text or json at a level to w.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", level, err)
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

// Metrics are the figures of one process. Lag is told in time: the last tick's T against the wall clock.
type Metrics struct {
	registry *prometheus.Registry
	Steps    *prometheus.CounterVec // service, result: worked, idle, error
	Rated    *prometheus.CounterVec // kind: blocks, batches, minute_rows, differences
	Refusals prometheus.Counter
	LastTick *prometheus.GaugeVec // service: T of the last block it took
	Blocked  prometheus.Gauge
	ready    atomic.Bool
}

// NewMetrics registers the figures.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		Steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuhour_steps_total", Help: "Steps of each service's pump by result.",
		}, []string{"service", "result"}),
		Rated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuhour_rated_total", Help: "What the rater took and put, by kind.",
		}, []string{"kind"}),
		Refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuhour_refusals_total", Help: "Refusals raised or cleared: facts and messages that could not be taken.",
		}),
		LastTick: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuhour_last_tick_timestamp_seconds", Help: "Time of the last block each service took.",
		}, []string{"service"}),
		Blocked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuhour_blocked_periods", Help: "Billing periods that the last cut could not close.",
		}),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpuhour_build_info", Help: "Always 1."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.Steps, m.Rated, m.Refusals, m.LastTick, m.Blocked, info)
	return m
}

// Register adds figures that are read when they are asked for.
func (m *Metrics) Register(c prometheus.Collector) { m.registry.MustRegister(c) }

// Ready tells /readyz that the services run.
func (m *Metrics) Ready(ready bool) { m.ready.Store(ready) }

// Handler serves /metrics, /healthz and /readyz.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !m.ready.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

// Serve listens until ctx ends.
func (m *Metrics) Serve(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for metrics on %s: %w; name another address with --http-listen", address, err)
	}
	server := &http.Server{Handler: m.Handler(), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics on %s: %w", address, err)
	}
	return nil
}
