package live

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuhour/gpuhour/core/usage"
)

// Metrics shows a loop and its sampler to Prometheus, as of the moment that it asks. sampler may be nil: a recording has none.
type Metrics struct {
	Loop    *Loop
	Sampler *Sampler
}

// Describe implements prometheus.Collector: which figures there are is seen when they are collected.
func (Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(out chan<- prometheus.Metric) {
	w := metrics{out}
	w.loop(m.Loop.Stats())
	if m.Sampler != nil {
		w.sampler(m.Sampler.Stats())
	}
}

// metrics writes figures, all named gpuhour_collector_*.
type metrics struct{ out chan<- prometheus.Metric }

func (w metrics) put(kind prometheus.ValueType, name, help string, v float64, label string, value ...string) {
	var labels []string
	if label != "" {
		labels = []string{label}
	}
	w.out <- prometheus.MustNewConstMetric(prometheus.NewDesc("gpuhour_collector_"+name, help, labels, nil), kind, v, value...)
}

func (w metrics) count(name, help string, v uint64) {
	w.put(prometheus.CounterValue, name+"_total", help, float64(v), "")
}

func (w metrics) gauge(name, help string, v float64) {
	w.put(prometheus.GaugeValue, name, help, v, "")
}

func (w metrics) loop(st Stats) {
	w.count("seconds", "Seconds that were sampled.", st.Seconds)
	w.count("device_seconds", "Device-seconds that were seen.", st.DeviceSeconds)
	w.unseen("node_unseen_seconds", "Seconds in which nothing of the node was seen, by reason.", st.Unseen.Node)
	w.unseen("device_unseen_seconds", "Device-seconds that were not seen, by reason.", st.Unseen.Device)
	w.count("dropped", "Devices and faults that no batch can carry.", st.Dropped)
	w.count("clock_steps", "Times that the machine's clock was set.", st.ClockSteps)
	w.count("suspensions", "Times that the machine slept.", st.Suspensions)
	w.gauge("clock_synchronised", "1 when the kernel holds the clock against a source.", truth(st.Clock.State == usage.ClockSynchronised))
	w.gauge("clock_offset_seconds", "Kernel's estimate of the clock's offset.", time.Duration(st.Clock.OffsetNanos).Seconds())
	w.gauge("clock_error_bound_seconds", "Kernel's bound of the clock's error.", time.Duration(st.Clock.ErrorBoundNano).Seconds())
	for which, d := range map[string]time.Duration{"median": st.Jitter.P50, "p99": st.Jitter.P99, "max": st.Jitter.Max} { // not quantile: that is a summary's label
		w.put(prometheus.GaugeValue, "tick_delay_seconds", "How long after their second's edge ticks came, over ten minutes.", d.Seconds(), "of", which)
	}
	w.gauge("held_batches", "Closed batches that wait for the disk.", float64(st.Held))
	w.gauge("spool_bytes", "Bytes of the spool.", float64(st.Spool.Bytes))
	w.gauge("spool_limit_bytes", "Bytes beyond which the spool gives up its oldest unsent samples.", float64(st.Spool.Limit))
	w.gauge("spool_unsent_batches", "Batches in the spool that the log does not have yet.", float64(st.Spool.Unsent))
	w.count("spool_thinned_batches", "Unsent batches given up for gaps because the spool was full.", uint64(st.Spool.Thinned))
	w.count("spool_lost_seconds", "Seconds lost in them.", uint64(st.Spool.Lost))
	w.count("published_batches", "Batches that the log acknowledged.", st.Publisher.Published)
	w.count("adopted_batches", "Batches found in the log after a lost answer or a restart.", st.Publisher.Adopted)
	w.count("resent_batches", "Batches that the log had acknowledged and lost, sent again.", st.Publisher.Resent)
	w.count("gone_batches", "Batches that the log lost and the spool does not have any more.", st.Publisher.Gone)
	w.count("publish_errors", "Attempts to publish that failed.", st.PublishErrors)
	w.gauge("since_acknowledged_seconds", "Time since the log took something; means something only while batches wait.", st.SinceAck.Seconds())
	w.alarms(st.Alarms)
}

func (w metrics) sampler(st SamplerStats) {
	w.gauge("units", "GPUs or endpoints that are sampled.", float64(st.Units))
	w.gauge("devices", "Devices and slices in the last second.", float64(st.Devices))
	w.gauge("hung_units", "Calls into a driver or exporter that do not come back.", float64(st.Hung))
	w.count("timeouts", "Unit-seconds without an answer in time.", st.Timeouts)
	w.count("late_answers", "Answers that came too late and were thrown away.", st.Late)
	w.count("claimed_twice", "Device-seconds that two units claimed; the first one counts.", st.Doubles)
	w.count("unit_errors", "Errors of units that asked for nothing.", st.Errors)
	w.count("scans", "Times that the node's devices were looked for.", st.Scans)
	w.count("scan_errors", "Scans that failed.", st.ScanErrors)
	w.count("sessions", "Sessions with the driver; more than one: it was lost and came back.", st.Sessions)
	w.alarms(st.Alarms)
}

func (w metrics) unseen(name, help string, seconds map[usage.GapReason]uint64) {
	for why, n := range seconds {
		w.put(prometheus.CounterValue, name+"_total", help, float64(n), "reason", why.String())
	}
}

// alarms of loop and sampler are of different kinds, so no series comes twice.
func (w metrics) alarms(counts map[string]uint64) {
	for kind, n := range counts {
		w.put(prometheus.CounterValue, "alarms_total", "Alarms by kind; each is also in the process's log, at most once a minute.", float64(n), "kind", kind)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
