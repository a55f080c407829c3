//go:build linux && cgo

package nvml

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// What a capability is told of. The first sliceMetrics are a slice's too.
const (
	metricBusy = iota
	metricMemory
	metricPower
	metricEnergy
	metricThrottle
	sliceMetrics
)

const (
	metricECC = sliceMetrics + iota
	metricRecovery
	metricRemaps
	metricXID
	metrics
)

//tidy:const
var metricNames = [metrics]string{"busy", "memory", "power", "energy", "throttle", "ecc", "recovery", "remapped_rows", "xid"}

// status is how a metric was had in the last second.
type status struct {
	via, note string
	reason    usage.Reason
}

// publish shows what is new. It is kept apart so that whoever asks does not wait for a GPU that hangs.
func (u *unit) publish() {
	news := false
	for _, d := range u.devices {
		news = news || d.status != d.shown
		d.shown = d.status
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !news && u.shown == u.is.Load() {
		return
	}
	u.shown = u.is.Load()
	u.abilities = u.abilities[:0:0]
	for _, d := range u.devices {
		n := metrics
		if d.isSlice {
			n = sliceMetrics
		}
		for i := range n {
			s := &d.status[i]
			c := collector.Capability{Device: d.name, Metric: metricNames[i], Via: s.via, Reason: s.reason, Note: s.note}
			if i == metricBusy && d.isSlice && c.Note == "" {
				c.Note = fmt.Sprintf("GPU instance %d", d.gi)
			}
			u.abilities = append(u.abilities, c)
		}
	}
}

// Capabilities are as of the last Sample, or of the Scan that found the device.
func (u *unit) Capabilities() []collector.Capability {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := append([]collector.Capability(nil), u.abilities...)
	if silent := u.h.events.silent(); silent != "" {
		for i := range out {
			if out[i].Metric == metricNames[metricXID] && out[i].Reason == usage.ReasonNone {
				out[i].Reason, out[i].Note = usage.ReasonTimeout, silent
			}
		}
	}
	return out
}
