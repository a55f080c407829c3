package recorded

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Series is one device's recording. At fills in what the device said in a second and returns false when it was not
// among the node's devices then. Seconds are asked for in rising order, each at most once in a replay; a second that is
// not above the last one begins a new replay.
type Series interface {
	At(at span.Second, r *collector.Reading) bool
}

// Source is one node's recording. Slept tells in which seconds no collector ran, Failed in which it ran and the node
// answered nothing; nil means never. Both are functions of the second alone.
type Source struct {
	Window        span.Span // what was recorded; outside it no collector ran
	Slept, Failed func(at span.Second) bool
	Devices       []Series
	// Found is what the recording collector knew of the devices in a second; nil when nobody wrote it down.
	Found func(at span.Second) *usage.Topology

	found *usage.Topology // in the second that was sampled last
}

// Topology implements collector.Described.
func (s *Source) Topology() *usage.Topology { return s.found }

// Sample implements collector.Source.
func (s *Source) Sample(at span.Second, into []collector.Reading) ([]collector.Reading, error) {
	if !s.Window.Contains(at) || s.Slept != nil && s.Slept(at) {
		return into, collector.ErrSlept
	}
	if s.Found != nil {
		s.found = s.Found(at)
	}
	if s.Failed != nil && s.Failed(at) {
		return into, fmt.Errorf("second %s was recorded as a failure", at)
	}
	for _, d := range s.Devices {
		into = append(into, collector.Reading{})
		if !d.At(at, &into[len(into)-1]) {
			into = into[:len(into)-1]
		}
	}
	return into, nil
}

// Table is a series held in memory, in which seconds that were not recorded are absent.
type Table map[span.Second]collector.Reading

// At implements Series.
func (t Table) At(at span.Second, r *collector.Reading) bool {
	v, ok := t[at]
	*r = v
	return ok
}
