//go:build linux && cgo

package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

const (
	viaGPM   = "nvmlGpmMetricsGet, graphics utilisation"
	viaRing  = "nvmlDeviceGetSamples, GPU utilisation"
	viaRates = "nvmlDeviceGetUtilizationRates"

	noteMIG    = "in MIG mode the slices are measured"
	noteAmpere = "NVML does not measure slices of this GPU: run dcgm-exporter and use its DCGM_FI_PROF_GR_ENGINE_ACTIVE"
	noteShared = "several compute instances share this GPU instance, and GPM measures only the whole instance"
	noteScrub  = "persistence mode is off: the first seconds after the GPU was attached may show the clearing of its memory; run nvidia-persistenced"
)

// busy is the share of time in which a kernel ran since the sample before, by the best source that answers.
func (d *device) busy(now time.Time) collector.Metric {
	note := ""
	if d.detached {
		note = noteScrub
	}
	switch {
	case d.isSlice && d.sharesInstance:
		return d.done(metricBusy, "", collector.Unknown(usage.ReasonNotSupported), noteShared)
	case d.isSlice:
		return d.ofSlice(now)
	case d.mig:
		return d.done(metricBusy, "", collector.Unknown(usage.ReasonNotSupported), noteMIG)
	case d.supportsGPM():
		m := d.byGPM(now)
		if m.Read() || d.trouble >= lost {
			return d.done(metricBusy, viaGPM, m, note)
		}
		if m.Reason == usage.ReasonNotSupported || m.Reason == usage.ReasonPermission {
			d.gpm.why = m.Reason // from the next second on by the driver's samples
		}
	case d.ring.works() && d.trouble < lost:
		if m := d.ring.next(d); m.Read() || d.trouble >= lost {
			return d.done(metricBusy, viaRing, m, note)
		}
	}
	if d.trouble >= lost {
		return collector.Unknown(usage.ReasonError) // of no account: nothing of this second is believed
	}
	return d.rates(note)
}

func (d *device) ofSlice(now time.Time) collector.Metric {
	whole := d.u.devices[0]
	if !whole.supportsGPM() {
		d.trouble, d.lostWith = max(d.trouble, whole.trouble), whole.lostWith
		note := ""
		if whole.gpm.why == usage.ReasonNotSupported {
			note = noteAmpere
		}
		return d.done(metricBusy, "", collector.Unknown(whole.gpm.why), note)
	}
	return d.done(metricBusy, viaGPM, d.byGPM(now), "")
}

func (d *device) rates(note string) collector.Metric {
	if !d.u.h.calls.rates {
		return d.done(metricBusy, viaRates, collector.Unknown(usage.ReasonNotSupported), "")
	}
	u, ret := d.handle.GetUtilizationRates()
	if ret != gonvml.SUCCESS {
		return d.done(metricBusy, viaRates, d.fail(ret), "")
	}
	return d.done(metricBusy, viaRates, percent(float64(u.Gpu)), note)
}

// gpm is the state of GPM for one device: two buffers in turn, and when the older one was filled.
type gpm struct {
	answered      bool         // of a GPU: the driver has said whether it has GPM
	why           usage.Reason // and why it has none, or has not said
	before, after gonvml.GpmSample
	at            time.Time
	begun         bool
	metrics       gonvml.GpmMetricsGetType // 19 KB, so it is not made anew each second
}

// gpmApart is the least time between two samples; the driver refreshes them no faster.
const gpmApart = 100 * time.Millisecond

// supportsGPM asks until the driver has said yes or no.
func (d *device) supportsGPM() bool {
	g := &d.gpm
	if !d.u.h.calls.gpm {
		g.answered, g.why = true, usage.ReasonNotSupported
	}
	if g.answered {
		return g.why == usage.ReasonNone
	}
	support, ret := d.handle.GpmQueryDeviceSupport()
	switch {
	case ret != gonvml.SUCCESS:
		g.why = d.fail(ret).Reason
		g.answered = g.why == usage.ReasonNotSupported || g.why == usage.ReasonPermission
	case support.IsSupportedDevice == 0:
		g.answered, g.why = true, usage.ReasonNotSupported
	default:
		g.answered, g.why = true, usage.ReasonNone
	}
	return g.answered && g.why == usage.ReasonNone
}

// byGPM is the mean over exactly the time since the call before. A call that comes too soon after it leaves that time to the next.
func (d *device) byGPM(now time.Time) collector.Metric {
	g := &d.gpm
	if g.begun && now.Sub(g.at) <= gpmApart {
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	if ret := g.alloc(d.u.h.lib); ret != gonvml.SUCCESS {
		return d.fail(ret)
	}
	if ret := d.fill(g.after); ret != gonvml.SUCCESS {
		return d.fail(ret)
	}
	defer func() {
		g.before, g.after = g.after, g.before
		g.at, g.begun = now, true
	}()
	if !g.begun {
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	g.metrics.NumMetrics, g.metrics.Sample1, g.metrics.Sample2 = 1, g.before, g.after
	g.metrics.Metrics[0] = gonvml.GpmMetric{MetricId: uint32(gonvml.GPM_METRIC_GRAPHICS_UTIL)}
	if ret := d.u.h.lib.GpmMetricsGet(&g.metrics); ret != gonvml.SUCCESS {
		return d.fail(ret)
	}
	if ret := gonvml.Return(g.metrics.Metrics[0].NvmlReturn); ret != gonvml.SUCCESS {
		return d.fail(ret)
	}
	return percent(g.metrics.Metrics[0].Value)
}

func (d *device) fill(sample gonvml.GpmSample) gonvml.Return {
	if d.isSlice {
		return d.u.devices[0].handle.GpmMigSampleGet(d.gi, sample)
	}
	return d.handle.GpmSampleGet(sample)
}

func (g *gpm) alloc(lib gonvml.Interface) gonvml.Return {
	for _, at := range []*gonvml.GpmSample{&g.before, &g.after} {
		if *at == nil {
			sample, ret := lib.GpmSampleAlloc()
			if ret != gonvml.SUCCESS {
				return ret
			}
			*at = sample
		}
	}
	return gonvml.SUCCESS
}

func (g *gpm) free() {
	for _, at := range []*gonvml.GpmSample{&g.before, &g.after} {
		if *at != nil {
			_ = (*at).Free() // nothing can be done about it
			*at = nil
		}
	}
	g.begun = false
}

// ring is the driver's own buffer of utilisation samples, six in a second or more.
type ring struct {
	off     bool   // not supported
	last    uint64 // microseconds of the newest sample that was taken
	begun   bool
	unheard int // seconds in a row in which nothing was newer
}

// ringAnew is after how many silent seconds the newest sample is looked up again: the driver stamps them with the machine's clock,
// which may have been set back behind the last one.
const ringAnew = 10

func (r *ring) works() bool { return !r.off }

// next is the mean of what came since the sample before.
func (r *ring) next(d *device) collector.Metric {
	if !d.u.h.calls.ring {
		r.off = true
		return collector.Unknown(usage.ReasonNotSupported)
	}
	if !r.begun || r.unheard >= ringAnew {
		return r.begin(d)
	}
	kind, samples, ret := d.handle.GetSamples(gonvml.GPU_UTILIZATION_SAMPLES, r.last)
	if ret != gonvml.SUCCESS {
		return r.nothing(d, ret)
	}
	newest, sum, n := r.last, int64(0), int64(0)
	for i := range samples {
		if samples[i].TimeStamp <= r.last {
			continue
		}
		newest = max(newest, samples[i].TimeStamp)
		if m := sampleValue(kind, &samples[i]); m.Read() {
			sum, n = sum+m.Value, n+1
		}
	}
	if r.last = newest; n == 0 {
		r.unheard++
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	r.unheard = 0
	return collector.Known((2*sum + n) / (2 * n)) // half up
}

// begin only finds the newest sample: what is in the buffer is of seconds before.
func (r *ring) begin(d *device) collector.Metric {
	if !d.u.h.calls.ring {
		r.off = true
		return collector.Unknown(usage.ReasonNotSupported)
	}
	_, samples, ret := d.handle.GetSamples(gonvml.GPU_UTILIZATION_SAMPLES, 0)
	if ret != gonvml.SUCCESS && ret != gonvml.ERROR_NOT_FOUND {
		return r.nothing(d, ret)
	}
	r.last, r.begun, r.unheard = 0, true, 0
	for i := range samples {
		r.last = max(r.last, samples[i].TimeStamp)
	}
	return collector.Unknown(usage.ReasonNotAvailable)
}

func (r *ring) nothing(d *device, ret gonvml.Return) collector.Metric {
	m := d.fail(ret)
	r.off = m.Reason == usage.ReasonNotSupported
	r.unheard++
	return m
}

func sampleValue(kind gonvml.ValueType, s *gonvml.Sample) collector.Metric {
	m := fieldValue(&gonvml.FieldValue{ValueType: uint32(kind), Value: s.SampleValue})
	if m.Read() {
		return percent(float64(m.Value))
	}
	return m
}
