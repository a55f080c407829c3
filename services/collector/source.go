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

// why is the reason of a second in which no metric was read: the gravest.
func (r *Reading) why() usage.GapReason {
	return usage.GapReason(max(r.Busy.Reason, r.Memory.Reason, r.Power.Reason, r.Energy.Reason, r.Throttle.Reason))
}

// Source is a node's devices. Sample appends one reading per device to into and returns it; a device that is left
// out did not exist for the collector in that second. An error means that the node answered nothing; a NoAnswer says why.
type Source interface {
	Sample(at span.Second, into []Reading) ([]Reading, error)
}

// Described is a Source that knows what its node consists of. The same pointer means the same topology.
type Described interface {
	Topology() *usage.Topology
}

// NoAnswer is the error of a node of which nothing can be said.
type NoAnswer struct {
	Reason usage.Reason
	Err    error
}

func (n *NoAnswer) Error() string { return n.Err.Error() }

// Unwrap gives the cause.
func (n *NoAnswer) Unwrap() error { return n.Err }

// failure is the gap that a source's error leaves.
func failure(err error) usage.GapReason {
	var n *NoAnswer
	switch {
	case err == nil:
		return 0
	case errors.As(err, &n) && n.Reason != usage.ReasonNone:
		return usage.GapReason(n.Reason)
	default:
		return usage.GapError
	}
}

// ErrSlept is a source's word that no collector ran in that second: the second is not spoken for. Only replays of
// recorded traces say it; a live collector that sleeps simply does not call Sample.
var ErrSlept = errors.New("nothing was recorded in this second")
