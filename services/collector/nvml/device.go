//go:build linux && cgo

package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// remapsEvery is how often row remaps are read: they change with an error or a reset.
const remapsEvery = time.Minute

// Fields of one batch. The last two are asked for once a minute.
const (
	fieldEnergy = iota
	fieldECC
	fieldRecovery
	fieldPending
	fieldFailure
	fieldCount
)

//tidy:const
var fieldIDs = [fieldCount]uint32{
	gonvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION,
	gonvml.FI_DEV_ECC_DBE_VOL_TOTAL,
	gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION,
	gonvml.FI_DEV_REMAPPED_PENDING,
	gonvml.FI_DEV_REMAPPED_FAILURE,
}

// device is a GPU or a slice, and what has to be remembered of it from one second to the next.
type device struct {
	u              *unit
	name           string
	handle         gonvml.Device
	isSlice        bool
	gi             int  // of a slice
	sharesInstance bool // of a slice
	mig            bool // of a GPU: its slices are measured, not it
	detached       bool // of a GPU
	primed         bool

	trouble  trouble       // of the second that is read
	lostWith gonvml.Return // the code that said so
	gpm      gpm
	ring     ring
	fields   [fieldCount]gonvml.FieldValue
	faults   []usage.Fault // not told yet; of a GPU

	ecc, recovery counter
	remapsAt      time.Time

	status, shown [metrics]status
}

// counter is a value whose changes are told.
type counter struct {
	known bool
	last  int64
}

// prime reads once, for what needs a value before the first one. Its faults are kept.
func (d *device) prime() {
	d.trouble = fine
	d.read(d.u.h.opts.now())
}

// fail notes what a return code says and is the metric that it leaves.
func (d *device) fail(ret gonvml.Return) collector.Metric {
	why, t := judge(ret)
	if t == fine && d.isSlice && ret == gonvml.ERROR_INVALID_ARGUMENT {
		t = changed // between two calls of this second
	}
	if t > d.trouble {
		d.trouble, d.lostWith = t, ret
	}
	return collector.Unknown(why)
}

// read is one second of one device. It stops at the first sign that there is no use in going on; then the reading is worth nothing.
func (d *device) read(now time.Time) collector.Reading {
	r := collector.Reading{Device: d.name}
	if !d.isWhoItWas() {
		gone := collector.Unknown(usage.ReasonLost)
		r.Busy, r.Memory, r.Power, r.Energy, r.Throttle = gone, gone, gone, gone, gone
		return r
	}
	r.Busy = d.busy(now)
	if d.trouble < lost {
		r.Memory = d.memory()
	}
	if d.trouble < lost {
		r.Power = d.power()
	}
	if d.trouble < lost {
		r.Energy = d.counters(now)
	}
	if d.trouble < lost {
		r.Throttle = d.throttle()
	}
	d.primed = d.primed || d.trouble == fine
	return r
}

// isWhoItWas holds the handle against the name: the driver uses handles of slices again, and no second may be another's.
func (d *device) isWhoItWas() bool {
	uuid, ret := d.handle.GetUUID()
	switch {
	case ret == gonvml.SUCCESS && plain(uuid) == d.name:
		return true
	case ret == gonvml.SUCCESS || ret == gonvml.ERROR_INVALID_ARGUMENT || ret == gonvml.ERROR_NOT_FOUND:
		d.trouble = max(d.trouble, changed)
	default:
		d.fail(ret)
		return d.trouble == fine // an error about the name alone: the values may still come
	}
	return false
}

// done notes where a metric comes from, or why it does not.
func (d *device) done(metric int, via string, m collector.Metric, note string) collector.Metric {
	d.status[metric] = status{via: via, note: note, reason: m.Reason}
	return m
}

const wholeOnly = "the driver measures it for the whole GPU; see there"

func (d *device) memory() collector.Metric {
	c := &d.u.h.calls
	via, used, total, ret := "", uint64(0), uint64(0), gonvml.ERROR_FUNCTION_NOT_FOUND
	if c.memory2 {
		var m gonvml.Memory_v2
		m, ret = d.handle.GetMemoryInfo_v2()
		via, used, total = "nvmlDeviceGetMemoryInfo_v2", m.Used, m.Total
	}
	note := ""
	if why, t := judge(ret); ret != gonvml.SUCCESS && t == fine && why == usage.ReasonNotSupported && c.memory1 {
		var m gonvml.Memory
		m, ret = d.handle.GetMemoryInfo()
		via, used, total = "nvmlDeviceGetMemoryInfo", m.Used, m.Total
		note = "with what the driver reserves"
	}
	if ret != gonvml.SUCCESS {
		return d.done(metricMemory, via, d.fail(ret), "")
	}
	m := known64(used)
	if used > total {
		m = collector.Unknown(usage.ReasonNotAvailable)
	}
	return d.done(metricMemory, via, m, note)
}

func (d *device) power() collector.Metric {
	const via = "nvmlDeviceGetPowerUsage"
	switch {
	case d.isSlice:
		return d.done(metricPower, "", collector.Unknown(usage.ReasonNotSupported), wholeOnly)
	case !d.u.h.calls.power:
		return d.done(metricPower, via, collector.Unknown(usage.ReasonNotSupported), "")
	}
	mw, ret := d.handle.GetPowerUsage()
	if ret != gonvml.SUCCESS {
		return d.done(metricPower, via, d.fail(ret), "")
	}
	return d.done(metricPower, via, known32(mw), "")
}

func (d *device) throttle() collector.Metric {
	var via string
	var bits uint64
	var ret gonvml.Return
	switch c := &d.u.h.calls; {
	case d.isSlice:
		return d.done(metricThrottle, "", collector.Unknown(usage.ReasonNotSupported), wholeOnly)
	case c.eventReasons:
		via = "nvmlDeviceGetCurrentClocksEventReasons"
		bits, ret = d.handle.GetCurrentClocksEventReasons()
	case c.throttleReasons:
		via = "nvmlDeviceGetCurrentClocksThrottleReasons"
		bits, ret = d.handle.GetCurrentClocksThrottleReasons() // all that drivers before 535 have
	default:
		return d.done(metricThrottle, via, collector.Unknown(usage.ReasonNotSupported), "")
	}
	if ret != gonvml.SUCCESS {
		return d.done(metricThrottle, via, d.fail(ret), "")
	}
	return d.done(metricThrottle, via, known64(bits), "")
}

// counters reads energy and the counters of faults in one call.
func (d *device) counters(now time.Time) collector.Metric {
	switch {
	case d.isSlice:
		return d.done(metricEnergy, "", collector.Unknown(usage.ReasonNotSupported), wholeOnly)
	case !d.u.h.calls.fields:
		missing := status{via: "nvmlDeviceGetFieldValues", reason: usage.ReasonNotSupported, note: "this library has no such call"}
		d.status[metricECC], d.status[metricRecovery], d.status[metricRemaps] = missing, missing, missing
		return d.energy()
	}
	n := fieldPending
	if now.Sub(d.remapsAt) >= remapsEvery {
		n = fieldCount
	}
	for i := range n {
		d.fields[i] = gonvml.FieldValue{FieldId: fieldIDs[i]}
	}
	if ret := d.handle.GetFieldValues(d.fields[:n]); ret != gonvml.SUCCESS {
		m := d.fail(ret)
		if m.Reason == usage.ReasonNotSupported {
			return d.energy()
		}
		return d.done(metricEnergy, "nvmlDeviceGetFieldValues", m, "")
	}
	energy := d.field(metricEnergy, fieldEnergy)
	d.uncorrected(d.field(metricECC, fieldECC))
	d.action(d.field(metricRecovery, fieldRecovery))
	if n == fieldCount {
		d.remapsAt = now
		d.remapped()
	}
	if energy.Reason == usage.ReasonNotSupported {
		return d.energy()
	}
	return energy
}

func (d *device) field(metric, i int) collector.Metric {
	const via = "nvmlDeviceGetFieldValues"
	f := &d.fields[i]
	if ret := gonvml.Return(f.NvmlReturn); ret != gonvml.SUCCESS {
		return d.done(metric, via, d.fail(ret), "")
	}
	return d.done(metric, via, fieldValue(f), "")
}

func (d *device) energy() collector.Metric {
	const via = "nvmlDeviceGetTotalEnergyConsumption"
	if !d.u.h.calls.energy {
		return d.done(metricEnergy, via, collector.Unknown(usage.ReasonNotSupported), "")
	}
	mj, ret := d.handle.GetTotalEnergyConsumption()
	if ret != gonvml.SUCCESS {
		return d.done(metricEnergy, via, d.fail(ret), "")
	}
	return d.done(metricEnergy, via, known64(mj), "")
}

// uncorrected tells how many errors came since the last look. A count that fell began anew with the driver.
func (d *device) uncorrected(m collector.Metric) {
	if !m.Read() {
		return
	}
	rise := m.Value - d.ecc.last
	if rise < 0 {
		rise = m.Value
	}
	if d.ecc.known && rise > 0 {
		d.faults = append(d.faults, usage.Fault{Kind: usage.FaultECC, Code: uint64(rise)})
	}
	d.ecc = counter{known: true, last: m.Value}
}

// action tells each change of what the driver asks for. Before the first look it asked for nothing.
func (d *device) action(m collector.Metric) {
	if m.Read() && m.Value != d.recovery.last {
		d.faults = append(d.faults, usage.Fault{Kind: usage.FaultRecovery, Code: uint64(m.Value)})
		d.recovery.last = m.Value
	}
}

func (d *device) remapped() {
	pending, failed := d.field(metricRemaps, fieldPending), d.field(metricRemaps, fieldFailure)
	switch {
	case failed.Read() && failed.Value != 0:
		d.status[metricRemaps].note = "a row could not be remapped: the GPU has to be replaced"
	case pending.Read() && pending.Value != 0:
		d.status[metricRemaps].note = "a row waits to be remapped: the GPU has to be reset"
	}
}
