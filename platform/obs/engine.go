package obs

import "github.com/prometheus/client_golang/prometheus"

// Engine are the figures of a process that runs services over the log. Lag is told in time: the last tick's T against the wall clock.
type Engine struct {
	*Metrics
	Steps    *prometheus.CounterVec // service, result: worked, idle, error
	Rated    *prometheus.CounterVec // kind: blocks, batches, minute_rows, differences
	Refusals prometheus.Counter
	LastTick *prometheus.GaugeVec // service: T of the last block it took
	Blocked  prometheus.Gauge
}

// NewEngine registers the figures.
func NewEngine(version string) *Engine {
	e := &Engine{
		Metrics: NewMetrics(version),
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
	e.registry.MustRegister(e.Steps, e.Rated, e.Refusals, e.LastTick, e.Blocked)
	return e
}
