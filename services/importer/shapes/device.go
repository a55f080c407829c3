package shapes

import (
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

const (
	idleMilliwatt = 55_000
	wattPerBusy   = 3_450 // milliwatt for each percent
	mebibyte      = 1 << 20
	idleMemory    = 512 * mebibyte
	leaseMemory   = 72 << 30 // of a whole device, at full scale
	leakBusy      = 93
)

// load is one lease's share of a device.
type load struct {
	lease      string
	shareMilli int64
	seed       uint64
}

func (l *load) scalePermille() int64 { return 300 + int64(l.seed>>8%701) }
func (l *load) steady() bool         { return l.seed%4 == 0 }
func (l *load) phase() int64         { return int64(l.seed >> 20 % seriesMinutes) }

// stretch is a time in which the same leases hold the device.
type stretch struct {
	span.Span
	loads []load
}

// device generates one device's series. It walks the window once, because energy is a sum.
type device struct {
	name                    string
	seed                    uint64
	series                  *series
	window                  span.Span
	stretches               []stretch // back to back over the whole window
	ghost, leak, unreadable span.Span

	next   span.Second // the second to be generated next
	at     int         // its stretch
	energy int64
	minute minute
}

// minute is what does not change within a minute of a stretch.
type minute struct {
	of     span.Minute
	at     int
	busy   int64 // percent times 1000
	memory int64
	noise  int64 // percent, upwards and downwards
	leased bool
}

// At implements recorded.Series.
func (d *device) At(at span.Second, r *collector.Reading) bool {
	if at < d.next {
		d.next, d.at, d.energy, d.minute = d.window.From, 0, 0, minute{at: -1}
	}
	var busy, power int64
	for d.next <= at { // unspoken seconds use energy too
		busy, power = d.second(d.next)
		d.energy += power
		d.next++
	}
	r.Device = d.name
	r.Busy, r.Memory = collector.Known(busy), collector.Known(d.minute.memory)
	r.Power, r.Energy = collector.Known(power), collector.Known(d.energy)
	r.Throttle = collector.Known(0)
	if d.unreadable.Contains(at) {
		r.Busy = collector.Unknown(usage.ReasonNotSupported)
	}
	return !d.ghost.Contains(at)
}

// second returns busy percent and milliwatt.
func (d *device) second(at span.Second) (busy, power int64) {
	for at >= d.stretches[d.at].To {
		d.at++
	}
	if m := at.Minute(); m != d.minute.of || d.at != d.minute.at {
		d.minute = d.newMinute(m)
	}
	h := hash(d.seed, uint64(at))
	m := &d.minute
	switch {
	case d.leak.Contains(at):
		busy = leakBusy + int64(h%5)
		return busy, idleMilliwatt + busy*wattPerBusy + int64(h>>8%4_000)
	case !m.leased:
		if h%16 == 0 {
			busy = 1
		}
		return busy, idleMilliwatt
	case m.noise == 0:
		busy = m.busy / 1000
		return busy, idleMilliwatt + busy*wattPerBusy
	}
	busy = m.busy/1000 + int64(h%uint64(2*m.noise+1)) - m.noise
	if (uint64(at)+d.seed)%41 < 3 {
		busy /= 4 // waiting for input
	}
	busy = min(max(busy, 0), 100)
	return busy, idleMilliwatt + busy*wattPerBusy + int64(h>>8%4_000)
}

func (d *device) newMinute(of span.Minute) minute {
	m := minute{of: of, at: d.at, memory: idleMemory}
	for i := range d.stretches[d.at].loads {
		l := &d.stretches[d.at].loads[i]
		run := d.series[(int64(of)+l.phase())%seriesMinutes]
		m.leased = true
		m.busy += run * l.scalePermille() * l.shareMilli / 10_000
		m.memory += leaseMemory / 1_000_000 * l.scalePermille() * l.shareMilli / mebibyte * mebibyte
		if !l.steady() {
			m.noise = 6
			m.memory += int64(hash(l.seed, uint64(of))%256) * mebibyte
		}
	}
	return m
}
