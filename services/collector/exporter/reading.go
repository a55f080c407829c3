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
	shown  [fields]shown
	part   bool
	memory memory
}

// shown is how often a page had the same line of a field, told by the line's own time.
type shown struct {
	at int64
	collector.Repeats
}

// witness is what tells of a whole GPU without times whether its pages move.
type witness struct {
	collector.Repeats
	last   uint64
	counts bool // there is an energy counter
}

// freshness says when a page is stale.
type freshness struct {
	maxAge time.Duration
	now    func() time.Time
	seed   maphash.Seed
}

// watch compares a GPU and its slices with the page before and tells whether they are stale. The devices come in order of names.
func (f *freshness) watch(w *witness, group []*device) (stale bool) {
	var h maphash.Hash
	h.SetSeed(f.seed)
	w.counts = false
	for _, d := range group {
		h.WriteString(d.about.Name)
		for i := range d.cells {
			c := &d.cells[i]
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
		for _, energy := range [...]field{fieldEnergy, fieldWitness} {
			w.counts = w.counts || d.cells[energy].seen && !d.cells[energy].blank
		}
	}
	sum := h.Sum64()
	w.Look(sum == w.last)
	w.last = sum
	return w.counts && !w.Fresh()
}

// old tells whether a line's own time says that its value is not this second's.
func (f *freshness) old(s shown) bool {
	return s.at > 0 && (!s.Fresh() || f.now().Sub(time.UnixMilli(s.at)) > f.maxAge)
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
func (s *state) reading(d *device, counters map[string]counter, fresh *freshness, stale bool) collector.Reading {
	s.part = d.part
	for f := range d.cells {
		c := &d.cells[f]
		if !c.seen {
			continue
		}
		s.had[f] = true
		s.shown[f].Look(s.shown[f].at == c.at)
		s.shown[f].at = c.at
		if !c.blank {
			s.via[f] = c.via
			c.old = stale || fresh.old(s.shown[f])
		}
	}
	return collector.Reading{
		Device:   d.about.Name,
		Busy:     s.busy(d),
		Memory:   s.metric(d, fieldMemory),
		Power:    s.metric(d, fieldPower),
		Energy:   s.metric(d, fieldEnergy),
		Throttle: s.metric(d, fieldThrottle),
		Faults:   s.memory.faults(d, counters),
	}
}

// metric is a field's value. What the device never had is not supported: exporters leave out what they cannot read, and what
// their list does not name.
func (s *state) metric(d *device, f field) collector.Metric {
	c := &d.cells[f]
	switch {
	case c.old:
		return collector.Unknown(usage.ReasonStale)
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

// describe is the device as a topology has it. How much memory it has is kept from before: used, free and reserved are each
// rounded down to a MiB, and a sum of them that moves would be a new topology with every scan.
func (d *device) describe(before []usage.Device) usage.Device {
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
	for _, b := range before {
		if b.Name == about.Name && b.Profile == about.Profile && b.MemoryBytes > 0 {
			about.MemoryBytes = b.MemoryBytes
		}
	}
	return about
}
