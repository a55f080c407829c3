package exporter

import (
	"math"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// What drivers and exporters print for "no value". NVML and DCGM have four numbers for each width, of which the first is blank
// and the others say why; amd-smi fills the field with ones.
const (
	blankInt32  = 0x7ffffff0      // to blankInt32 + 3
	blankFloat  = 140737488355328 // to blankFloat + 3
	blankInt64  = 0x1p63          // 0x7ffffffffffffff0 to ..f3, as a float rounds them; 64 ones lie above
	fullUint32  = math.MaxUint32
	fullUint16  = math.MaxUint16
	maxPercents = 200
)

// blank tells whether a number means that there is none. Counters run through every number, so only those that they
// never reach mean blank there.
func blank(v float64, counter bool) bool {
	switch {
	case math.IsNaN(v) || v < 0 || v >= blankInt64:
		return true
	case v >= blankFloat && v < blankFloat+4:
		return true
	case counter:
		return false
	}
	return v >= blankInt32 && v < blankInt32+4 || v == fullUint32
}

// known rounds a value in its unit half up.
func known(v float64) collector.Metric {
	v = math.Floor(v + 0.5)
	if v < 0 || v >= blankInt64 {
		return collector.Unknown(usage.ReasonNotAvailable)
	}
	return collector.Known(int64(v))
}
