package meter

import (
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// BridgeSeconds: an unseen second is inferred when seconds of the same run were seen within so many on both sides
// (design page 2, The meter). The rest is missing.
const BridgeSeconds = 10

// LeakBusyPercent: an unleased second busier than this is a leak: somebody computes and nobody pays.
const LeakBusyPercent = 5

// coverage is what samples say of one device's hour, as sixty masks each.
type coverage struct {
	hour     span.Hour
	seen     [60]span.SecondMask
	inferred [60]span.SecondMask
	unseen   [60]span.SecondMask // the node spoke and the device was neither seen nor inferred
	minutes  *sampledHour        // nil where nothing is known of the device
	device   string
	samples  *samples // of the hours around it
}

// cover reads an hour of a device and ten seconds around it. It returns nil when nothing was seen or spoken.
func (c *coverage) cover(u Unit, hour span.Hour, from *samples) *coverage {
	*c = coverage{hour: hour, device: u.Device, samples: from}
	c.minutes = c.around(hour)
	spoken := from.nodes[nodeHour{u.Node, hour}]
	if c.minutes == nil && spoken == nil {
		return nil
	}
	if c.minutes != nil {
		for k := range c.seen {
			c.seen[k] = c.minutes[k].Seen
		}
	}
	c.infer()
	if spoken != nil {
		for k := range c.unseen {
			c.unseen[k] = spoken[k] &^ c.seen[k] &^ c.inferred[k]
		}
	}
	return c
}

// SlowSourceSeconds: so many seen seconds in an hour, more than half of them without a seen second beside them, tell a source that does not
// look every second. Losses of one that does leave neighbours; a slow one has some too, where two clocks drift past each other.
const SlowSourceSeconds = 10

// slow tells whether what saw the device in the hour looks less often than once a second.
func (c *coverage) slow() bool {
	seen, alone := 0, 0
	for k, m := range c.seen {
		beside := m<<1 | m>>1
		if k > 0 {
			beside |= c.seen[k-1] >> (span.SecondsPerMinute - 1)
		}
		if k+1 < len(c.seen) {
			beside |= c.seen[k+1] << (span.SecondsPerMinute - 1)
		}
		seen += m.Count()
		alone += (m &^ beside).Count()
	}
	return seen >= SlowSourceSeconds && 2*alone > seen
}

// around is what is known of the device in an hour, or nil.
func (c *coverage) around(h span.Hour) *sampledHour {
	return c.samples.devices[deviceHour{c.device, h}]
}

// busy is the number of seconds of s above LeakBusyPercent.
func (c *coverage) busy(s span.Span) (n int64) {
	if c.minutes == nil {
		return 0
	}
	for m := s.From.Minute(); m.Start() < s.To; m++ {
		minute := &c.minutes[m-c.hour.FirstMinute()]
		n += int64((minute.BusyKnown() &^ minute.BusyBelow(LeakBusyPercent+1) & span.MaskOf(m, s)).Count())
	}
	return n
}

// infer walks the stretches of seen seconds from ten before the hour to ten after it; the gap between two of one run is
// inferred as far as both lie within BridgeSeconds of it.
func (c *coverage) infer() {
	var before run
	if h := c.around(c.hour - 1); h != nil {
		before = c.follow(before, c.hour.FirstMinute()-1, &h[59])
	}
	if c.minutes != nil {
		for k := range c.minutes {
			before = c.follow(before, c.hour.FirstMinute()+span.Minute(k), &c.minutes[k])
		}
	}
	if h := c.around(c.hour + 1); h != nil {
		c.follow(before, c.hour.FirstMinute()+60, &h[0])
	}
}

// run is the last second that was seen, and its minute; none while that is nil.
type run struct {
	last   span.Second
	minute *usage.Minute
}

// follow infers the gaps in front of the seen stretches of a minute, and returns its last seen second.
func (c *coverage) follow(before run, m span.Minute, minute *usage.Minute) run {
	if minute.Seen == span.FullMinute && before.minute != nil && before.last+1 == m.Start() { // as most minutes: no gap
		return run{m.End() - 1, minute}
	}
	for rest := minute.Seen; rest != 0; {
		from := rest.First()
		length := (^(rest >> from)).First()
		at := m.Start() + span.Second(from)
		if before.minute != nil && at > before.last+1 && before.minute.SameRun(int(before.last-before.last.Minute().Start()), minute, from) {
			c.bridge(before.last, at)
		}
		before = run{at + span.Second(length) - 1, minute}
		rest &^= (span.Bit(length) - 1) << from
	}
	return before
}

// anyBelow tells whether a second of the hours that s touches was measured below a utilisation.
func (c *coverage) anyBelow(limit uint8, s span.Span) bool {
	for h := s.From.Hour(); h.Start() < s.To; h++ {
		if hour := c.around(h); hour != nil {
			for k := range hour {
				if m := &hour[k]; m.Seen != 0 && m.Seen&m.BusyBelow(limit) != 0 {
					return true
				}
			}
		}
	}
	return false
}

// bridge marks the seconds between two seen ones that have both within BridgeSeconds.
func (c *coverage) bridge(before, after span.Second) {
	from, to := max(before+1, after-BridgeSeconds), min(after, before+BridgeSeconds+1)
	gap := span.Span{From: from, To: to}.Intersect(c.hour.Span())
	for at := gap.From; at < gap.To; at++ {
		m := at.Minute()
		c.inferred[m-c.hour.FirstMinute()] |= span.Bit(int(at - m.Start()))
	}
}

// count is the number of seconds of s that the masks hold.
func (c *coverage) count(masks *[60]span.SecondMask, s span.Span) int64 {
	if c == nil || s.Empty() {
		return 0
	}
	first := c.hour.FirstMinute()
	from, to := s.From.Minute(), (s.To - 1).Minute()
	n := (masks[from-first] & span.MaskOf(from, s)).Count()
	if from == to {
		return int64(n)
	}
	for _, mask := range masks[from-first+1 : to-first] { // whole minutes
		n += mask.Count()
	}
	return int64(n + (masks[to-first] & span.MaskOf(to, s)).Count())
}

// within splits the seconds of s that a mask holds into measured, inferred and missing.
func (c *coverage) within(s span.Span, mask *reliefMask) (a Amounts) {
	first := c.hour.FirstMinute()
	for m := s.From.Minute(); m.Start() < s.To; m++ {
		in := mask[m-first] & span.MaskOf(m, s)
		a.Quantity += int64(in.Count())
		a.Measured += int64((in & c.seen[m-first]).Count())
		a.Inferred += int64((in & c.inferred[m-first]).Count())
	}
	a.Missing = a.Quantity - a.Measured - a.Inferred
	return a
}

// of splits the seconds of s into measured, inferred and missing.
func (c *coverage) of(s span.Span) Amounts {
	a := Amounts{Quantity: s.Seconds()}
	if c != nil {
		a.Measured, a.Inferred = c.count(&c.seen, s), c.count(&c.inferred, s)
	}
	a.Missing = a.Quantity - a.Measured - a.Inferred
	return a
}
