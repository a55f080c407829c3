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
	minutes  [60]*usage.Minute   // nil where nothing is known
}

// minuteView gives what is known of a device's minute, or nil. The device "" is its node.
type minuteView func(device string, m span.Minute) *usage.Minute

// cover reads an hour and ten seconds around it. It returns nil when nothing was seen or spoken.
func cover(device string, hour span.Hour, view minuteView) *coverage {
	c := &coverage{hour: hour}
	first := hour.FirstMinute()
	known := false
	for k := range 60 {
		if m := view(device, first+span.Minute(k)); m != nil {
			c.seen[k], c.minutes[k] = m.Seen, m
			known = true
		}
		if n := view("", first+span.Minute(k)); n != nil {
			c.unseen[k] = n.Spoken &^ c.seen[k]
			known = true
		}
	}
	if !known {
		return nil
	}
	c.infer(device, view)
	for k := range c.unseen {
		c.unseen[k] &^= c.inferred[k]
	}
	return c
}

// busy is the number of seconds of s above LeakBusyPercent.
func (c *coverage) busy(s span.Span) (n int64) {
	for m := s.From.Minute(); m.Start() < s.To; m++ {
		minute := c.minutes[m-c.hour.FirstMinute()]
		if minute == nil {
			continue
		}
		(minute.Seen & span.MaskOf(m, s)).Each(func(i int) {
			if v := minute.Busy[i]; v != usage.BusyUnknown && v > LeakBusyPercent {
				n++
			}
		})
	}
	return n
}

// infer walks the stretches of seen seconds from ten before the hour to ten after it; the gap between two of one run is
// inferred as far as both lie within BridgeSeconds of it.
func (c *coverage) infer(device string, view minuteView) {
	var last span.Second
	var lastMinute *usage.Minute
	first := c.hour.FirstMinute()
	for m := first - 1; m <= first+60; m++ {
		minute := view(device, m)
		if minute == nil {
			continue
		}
		for rest := minute.Seen; rest != 0; {
			from := rest.First()
			length := (^(rest >> from)).First()
			at := m.Start() + span.Second(from)
			if lastMinute != nil && at > last+1 && lastMinute.SameRun(int(last-last.Minute().Start()), minute, from) {
				c.bridge(last, at)
			}
			last, lastMinute = at+span.Second(length)-1, minute
			rest &^= (span.Bit(length) - 1) << from
		}
	}
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
	var n int
	first := c.hour.FirstMinute()
	for m := s.From.Minute(); m.Start() < s.To; m++ {
		n += (masks[m-first] & span.MaskOf(m, s)).Count()
	}
	return int64(n)
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
