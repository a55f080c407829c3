package usage

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
)

func drawMask(t *rapid.T, label string) span.SecondMask {
	return span.SecondMask(rapid.Uint64().Draw(t, label)) & span.FullMinute
}

// drawSeries is known nowhere, wherever the device was seen, or in a part of that.
func drawSeries(t *rapid.T, seen span.SecondMask, label string) Series {
	known := rapid.SampledFrom([]span.SecondMask{0, seen, drawMask(t, label+" known") & seen}).Draw(t, label)
	value := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, -1, 81920 << 20, math.MaxInt64, math.MinInt64}), rapid.Int64())
	var s Series
	known.Each(func(i int) {
		v := value.Draw(t, label+" value")
		if i > 0 && rapid.Bool().Draw(t, label+" same") {
			v = s.Values[i-1]
		}
		s.Set(i, v)
	})
	return s
}

// drawFaults are different from each other, as faults of a device are a set.
func drawFaults(t *rapid.T, in span.SecondMask) []Fault {
	if in == 0 {
		return nil
	}
	var seconds []int
	in.Each(func(i int) { seconds = append(seconds, i) })
	one := rapid.Custom(func(t *rapid.T) Fault {
		return Fault{
			Second: uint8(rapid.SampledFrom(seconds).Draw(t, "second")), Kind: FaultKind(rapid.IntRange(1, int(faultEnd)-1).Draw(t, "kind")),
			Code: rapid.OneOf(rapid.SampledFrom([]uint64{0, 79, 127, 128, math.MaxUint64}), rapid.Uint64()).Draw(t, "code"),
		}
	})
	faults := rapid.SliceOfNDistinct(one, 0, 3, rapid.ID[Fault]).Draw(t, "faults")
	return slices.Clip(faults)
}

// drawBlock is a block of a device whose values lie in the spoken seconds.
func drawBlock(t *rapid.T, device string, spoken span.SecondMask) Block {
	b := Block{Device: device, Seen: spoken & drawMask(t, "seen"), Reason: Reason(rapid.IntRange(0, int(reasonEnd)-1).Draw(t, "reason"))}
	if rapid.Bool().Draw(t, "all seen") {
		b.Seen = spoken
	}
	busy := rapid.OneOf(rapid.Uint8Range(0, 100), rapid.Just(uint8(BusyUnknown)))
	b.Seen.Each(func(i int) { b.Busy[i] = busy.Draw(t, "busy") })
	b.Memory, b.Power = drawSeries(t, b.Seen, "memory"), drawSeries(t, b.Seen, "power")
	b.Energy, b.Throttle = drawSeries(t, b.Seen, "energy"), drawSeries(t, b.Seen, "throttle")
	b.Faults = drawFaults(t, spoken)
	return b
}
