package collector

import (
	"errors"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Metric is one value of one second, or the reason why there is none. The zero value is a known zero.
type Metric struct {
	Value  int64
	Reason usage.Reason // usage.ReasonNone when Value was read
}

// Known is a metric that was read.
func Known(v int64) Metric { return Metric{Value: v} }

// Unknown is a metric that could not be read.
func Unknown(why usage.Reason) Metric { return Metric{Reason: why} }

// Read tells whether the metric has a value.
func (m Metric) Read() bool { return m.Reason == usage.ReasonNone }

// Reading is what one device said in one second. Units are those of the wire: percent, bytes, milliwatt, the
// device's running counter in millijoule, and NVML's bit set of clock event reasons.
type Reading struct {
	Device                                string
	Busy, Memory, Power, Energy, Throttle Metric
	Faults                                []usage.Fault // Second is filled in by the recorder
}

// Seen tells whether any metric answered.
func (r *Reading) Seen() bool {
	return r.Busy.Read() || r.Memory.Read() || r.Power.Read() || r.Energy.Read() || r.Throttle.Read()
}

// Source is a node's devices. Sample appends one reading per device to into and returns it; a device that is left
// out did not exist for the collector in that second. An error means that the node answered nothing.
type Source interface {
	Sample(at span.Second, into []Reading) ([]Reading, error)
}

// ErrSlept is a source's word that no collector ran in that second: the second is not spoken for. Only replays of
// recorded traces say it; a live collector that sleeps simply does not call Sample.
var ErrSlept = errors.New("nothing was recorded in this second")
