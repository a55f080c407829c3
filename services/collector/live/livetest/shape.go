package livetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/gpuhour/gpuhour/services/collector"
)

// Shape is what GPUs do all day. What a second costs in bytes depends on it, because batches hold differences.
type Shape string

// Shapes, from the one with the fewest bytes to the one with the most.
const (
	Idle   Shape = "idle"   // nothing runs: power flickers by a watt
	Steady Shape = "steady" // a training run at its power cap: 97 to 99 percent, power within two watts
	Noisy  Shape = "noisy"  // everything moves in every second: worse than what was seen of real work
)

// Shapes are all of them.
func Shapes() []Shape { return []Shape{Idle, Steady, Noisy} }

// Fleet is GPUs of one shape. The same number of them says the same in every process.
type Fleet struct {
	Readings []collector.Reading // of the latest second, by rising name
	shape    Shape
	random   *rand.Rand
}

// NewFleet is some GPUs, at most 100, whose names are as long as NVIDIA's.
func NewFleet(shape Shape, gpus int) *Fleet {
	f := &Fleet{shape: shape, random: rand.New(rand.NewPCG(uint64(gpus), 5))} //nolint:gosec // a test's, and to be had again
	for i := range gpus {
		f.Readings = append(f.Readings, collector.Reading{
			Device: fmt.Sprintf("GPU-6f1c9d2e-0a52-4a37-9d0f-5c2b7e8a1f%02d", i),
			Memory: collector.Known(74 << 30), Energy: collector.Known(9_000_000_000_000 + int64(i)),
		})
	}
	return f
}

// Next is the next second.
func (f *Fleet) Next() []collector.Reading {
	for i := range f.Readings {
		f.next(&f.Readings[i])
	}
	return f.Readings
}

func (f *Fleet) next(r *collector.Reading) {
	switch f.shape {
	case Idle:
		r.Busy, r.Power, r.Throttle = collector.Known(0), f.within(70_000, 500), collector.Known(1)
		r.Memory = collector.Known(1 << 20)
	case Steady:
		r.Busy, r.Power, r.Throttle = f.within(98, 1), f.within(690_000, 2_000), collector.Known(4)
	case Noisy:
		r.Busy, r.Power = f.within(50, 50), f.within(500_000, 100_000)
		r.Memory = collector.Known(40<<30 + f.within(0, 16<<10).Value<<20)
		r.Throttle = collector.Known([...]int64{0, 4, 8, 0x44, 0xc8}[f.random.IntN(5)])
	}
	r.Energy = collector.Known(r.Energy.Value + r.Power.Value) // milliwatt for a second are millijoule
}

func (f *Fleet) within(middle, way int64) collector.Metric {
	return collector.Known(middle - way + f.random.Int64N(2*way+1))
}
