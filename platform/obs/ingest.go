package obs

import "github.com/prometheus/client_golang/prometheus"

// Ingest are the figures of an ingest.
type Ingest struct {
	Requests *prometheus.CounterVec // result: an outcome, as services/ingest/wire names it
	Batches  prometheus.Counter
	Bytes    prometheus.Counter
	Commits  *prometheus.CounterVec // result: stored, conflict, unknown, failed
	Size     prometheus.Histogram   // batches of a commit
	Answer   prometheus.Histogram   // seconds
	Waiting  prometheus.Gauge       // bytes
	Lost     prometheus.Counter
}

// Ingest registers the figures of an ingest. Once per process.
func (m *Metrics) Ingest() *Ingest {
	i := &Ingest{
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuhour_ingest_requests_total", Help: "Requests of nodes by what was answered.",
		}, []string{"result"}),
		Batches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuhour_ingest_batches_total", Help: "Usage batches that were answered as stored.",
		}),
		Bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuhour_ingest_bytes_total", Help: "Bytes of the usage batches that were answered as stored.",
		}),
		Commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuhour_ingest_commits_total", Help: "Atomic batches sent to the log by their outcome.",
		}, []string{"result"}),
		Size: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuhour_ingest_commit_batches", Help: "Usage batches in one commit.",
			Buckets: []float64{1, 10, 30, 100, 300, 500, 700, 999, 1000},
		}),
		Answer: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuhour_ingest_answer_seconds", Help: "Time from a request's arrival to its answer.",
			Buckets: prometheus.ExponentialBucketsRange(0.001, 30, 14),
		}),
		Waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuhour_ingest_waiting_bytes", Help: "Requests that were taken and are not answered yet.",
		}),
		Lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuhour_ingest_lost_answers_total", Help: "Answers that could not be sent; the node asks what stands.",
		}),
	}
	m.registry.MustRegister(i.Requests, i.Batches, i.Bytes, i.Commits, i.Size, i.Answer, i.Waiting, i.Lost)
	return i
}
