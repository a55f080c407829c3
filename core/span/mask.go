package span

import "math/bits"

// SecondMask is a minute of a device as a machine word: bit i is second i of the minute; the top four bits are
// always 0. AND and Count over masks are second-exact metering.
type SecondMask uint64

// FullMinute has all sixty seconds.
const FullMinute SecondMask = 1<<SecondsPerMinute - 1

// Bit is the mask of second i of a minute, 0 to 59.
func Bit(i int) SecondMask { return 1 << i }

// MaskOf is the part of minute m that lies in s.
func MaskOf(m Minute, s Span) SecondMask {
	if s.From <= m.Start() && m.End() <= s.To { // as most minutes: cheap where it is called
		return FullMinute
	}
	return partOf(m, s)
}

func partOf(m Minute, s Span) SecondMask {
	in := s.Intersect(Span{m.Start(), m.End()})
	if in.Empty() {
		return 0
	}
	from, to := uint(in.From-m.Start()), uint(in.To-m.Start())
	return FullMinute & (1<<to - 1) &^ (1<<from - 1)
}

// Has tells whether second i is in the mask.
func (m SecondMask) Has(i int) bool { return m>>i&1 == 1 }

// Count is the number of seconds in the mask, 0 to 60.
func (m SecondMask) Count() int { return bits.OnesCount64(uint64(m)) }

// Valid tells whether only real seconds are set.
func (m SecondMask) Valid() bool { return m&^FullMinute == 0 }

// First is the lowest second set, or 64 for an empty mask.
func (m SecondMask) First() int { return bits.TrailingZeros64(uint64(m)) }

// Last is the highest second set, or -1 for an empty mask.
func (m SecondMask) Last() int { return 63 - bits.LeadingZeros64(uint64(m)) }

// Each calls f with every set second in rising order.
func (m SecondMask) Each(f func(i int)) {
	for rest := m; rest != 0; rest &= rest - 1 {
		f(rest.First())
	}
}
