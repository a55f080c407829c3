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
	"github.com/prometheus/client_golang/prometheus/collectors"
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

// Metrics serves the figures of one process, and its health.
type Metrics struct {
	registry *prometheus.Registry
	ready    atomic.Bool
}

// NewMetrics has the figures of the build and of the operating system's process (memory, processor time, open files). What else a process
// counts it registers itself: what it does not count is not shown as zero.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpuhour_build_info", Help: "Always 1."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.registry.MustRegister(info, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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
