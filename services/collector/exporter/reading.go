package exporter

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// state is what is remembered of a device from page to page.
type state struct {
	had    [fields]bool // was in a page before
	via    [fields]string
	part   bool
	memory memory
}

// witness is what tells of a whole GPU whether its pages move.
type witness struct {
	pages    int // in a row that showed the same
	last     uint64
	times    int // in a row that had the same newest time
	at       int64
	counts   bool // there is an energy counter
	hasTimes bool
}

// freshness says when a page is stale.
type freshness struct {
	after  int // pages that show the same
	maxAge time.Duration
	now    func() time.Time
	seed   maphash.Seed
}

// watch compares a GPU and its slices with the page before and tells whether they are stale. The devices come in order of names.
func (f *freshness) watch(w *witness, group []*device) (stale bool) {
	var h maphash.Hash
	h.SetSeed(f.seed)
	var at int64
	w.counts = false
	for _, d := range group {
		h.WriteString(d.about.Name)
		for _, c := range d.cells {
			number(&h, c.value)
			h.WriteByte(bit(c.seen) | bit(c.blank)<<1)
		}
		for _, k := range slices.SortedFunc(maps.Keys(d.counts), func(a, b count) int {
			return cmp.Or(strings.Compare(a.series, b.series), cmp.Compare(a.code, b.code))
		}) {
			h.WriteString(k.series)
			number(&h, float64(k.code))
			number(&h, d.counts[k])
		}
		at = max(at, d.at)
		energy := &d.cells[fieldEnergy]
		w.counts = w.counts || energy.seen && !energy.blank
	}
	if sum := h.Sum64(); sum == w.last && w.pages > 0 {
		w.pages++
	} else {
		w.last, w.pages = sum, 1
	}
	if at == w.at {
		w.times++
	} else {
		w.at, w.times = at, 1
	}
	w.hasTimes = at > 0
	if w.hasTimes && (w.times >= f.after || f.now().Sub(time.UnixMilli(at)) > f.maxAge) {
		return true
	}
	return w.counts && w.pages >= f.after
}

func number(h *maphash.Hash, v float64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
	h.Write(b[:])
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// reading turns what a page says of a device into a reading.
func (s *state) reading(d *device, counters map[string]counter, stale bool) collector.Reading {
	s.part = d.part
	for f := range d.cells {
		if c := &d.cells[f]; c.seen {
			s.had[f] = true
			if !c.blank {
				s.via[f] = c.via
			}
		}
	}
	r := collector.Reading{
		Device:   d.about.Name,
		Busy:     s.busy(d),
		Memory:   s.metric(d, fieldMemory),
		Power:    s.metric(d, fieldPower),
		Energy:   s.metric(d, fieldEnergy),
		Throttle: s.metric(d, fieldThrottle),
		Faults:   s.memory.faults(d, counters),
	}
	if stale {
		for _, m := range [...]*collector.Metric{&r.Busy, &r.Memory, &r.Power, &r.Energy, &r.Throttle} {
			if m.Read() {
				*m = collector.Unknown(usage.ReasonStale)
			}
		}
	}
	return r
}

// metric is a field's value. What the device never had is not supported: exporters leave out what they cannot read, and what
// their list does not name.
func (s *state) metric(d *device, f field) collector.Metric {
	c := &d.cells[f]
	switch {
	case c.seen && !c.blank:
		return known(c.value)
	case s.had[f]:
		return collector.Unknown(usage.ReasonNotAvailable)
	default:
		return collector.Unknown(usage.ReasonNotSupported)
	}
}

// busy is the first source that can be read, else the reason of the one that is nearest to it.
func (s *state) busy(d *device) collector.Metric {
	why := usage.ReasonNotSupported
	for _, f := range busySources(d.part) {
		m := s.metric(d, f)
		if m.Read() {
			return m
		}
		why = max(why, m.Reason)
	}
	return collector.Unknown(why)
}

// busySources: of a part its own cores and engine come before what may be the whole GPU's.
func busySources(part bool) [3]field {
	if part {
		return [3]field{fieldCores, fieldEngine, fieldBusy}
	}
	return [3]field{fieldBusy, fieldEngine, fieldCores}
}

// unknown is a device of which nothing can be said.
func unknown(name string, why usage.Reason) collector.Reading {
	u := collector.Unknown(why)
	return collector.Reading{Device: name, Busy: u, Memory: u, Power: u, Energy: u, Throttle: u}
}

// describe is the device as a topology has it.
func (d *device) describe() usage.Device {
	about := d.about
	total := d.cells[fieldTotal]
	if !total.seen || total.blank {
		total = cell{}
		used, free := d.cells[fieldMemory], d.cells[fieldFree]
		if used.seen && free.seen && !used.blank && !free.blank {
			total.value = used.value + free.value
			if reserved := d.cells[fieldReserved]; !reserved.blank {
				total.value += reserved.value
			}
		}
	}
	if bytes := known(total.value); bytes.Read() {
		about.MemoryBytes = bytes.Value
	}
	about.Parent = plain(about.Parent)
	return about
}
