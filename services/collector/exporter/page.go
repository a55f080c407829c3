package exporter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/usage"
)

// field is a value of a device. busy to throttle are what a Reading has; engine and cores are second sources of busy.
type field uint8

const (
	fieldBusy field = iota
	fieldMemory
	fieldPower
	fieldEnergy
	fieldThrottle
	fieldEngine // percent: DCGM's graphics engine
	fieldCores  // percent: the mean over AMD's compute cores
	fieldTotal  // bytes of memory that the device has
	fieldFree
	fieldReserved
	fieldWitness // a GPU's energy, shown with a slice that does not say of which GPU it is: no value, and yet it moves
	fields
)

// rule says what a series is: its field, the factor to the field's unit, and how good a source it is (0 is best).
type rule struct {
	field field
	scale float64
	rank  uint8
	mean  bool // several lines of one device are parts, of which the mean counts
}

// counter says which faults a series counts or shows.
type counter struct {
	kind  usage.FaultKind
	what  change
	label string // that holds the code; "" when there is none, or the value is the code
	rank  uint8  // sources of one kind: only the best that a device has is listened to
}

// change is how a series tells of a fault.
type change uint8

const (
	rises   change = iota // a counter: an increase; a fall is a restart, after which it counts from 0
	window                // a count over the last minutes: an increase; a fall is no event
	becomes               // the value is the last code: a change to another one than 0
	lists                 // the value is a code that is there now: one that was not before
	falls                 // health: from something else to 0
)

// cell is a field's value in a page.
type cell struct {
	seen  bool // the page has a line of it
	blank bool
	old   bool  // the page shows it, and it is not this second's
	at    int64 // the line's own time in milliseconds; 0: it has none
	value float64
	rank  uint8
	parts float64 // of a mean
	via   string  // the series
}

// count names what a series counts of a device.
type count struct {
	series string
	code   uint64
}

// device is what a page says of one device.
type device struct {
	about  usage.Device
	whole  string // the device whose counter is the witness for this one: itself, or what a slice is cut from
	part   bool   // a slice, also where nobody says of what
	cells  [fields]cell
	counts map[count]float64
	told   [usage.FaultVendor]uint8 // of a fault kind: 1 + the best rank of its sources in this page
}

// page is a parsed page, put together by device.
type page struct {
	vendor   Vendor
	counters map[string]counter
	driver   string
	devices  map[string]*device
	bad      []BadLine
	more     int // further bad lines
	torn     bool
}

// mapping is what is known of a vendor's exporter.
type mapping struct {
	vendor   Vendor
	rules    map[string]rule
	counters map[string]counter
	// prepare looks at the whole page first, where one line alone does not say which device it is of.
	prepare func([]Sample) func(*Sample) (identity, error)
	// place may give a line's value to another device than the one that it stands with: its name, or "" for none.
	place func(id identity, f field) string
	base  func(series string) string // the series' name without what a configuration may put around it
}

// identity is the device that a line speaks of.
type identity struct {
	usage.Device
	part bool // a slice
}

// read puts the samples of a page together by device. vendor may be empty: then it is who has most lines.
func (ms mappings) read(text string, vendor Vendor) page {
	t := Parse(text)
	m := ms.of(vendor, t.Samples)
	p := page{vendor: m.vendor, counters: m.counters, devices: map[string]*device{}, bad: t.Bad, more: t.More, torn: t.Torn}
	if m.vendor == "" {
		return p
	}
	identify := m.prepare(t.Samples)
	for i := range t.Samples {
		s := &t.Samples[i]
		series := m.base(s.Name)
		r, valued := m.rules[series]
		c, counted := m.counters[series]
		if !valued && !counted {
			continue
		}
		if err := p.take(&m, s, identify, series, r, valued, c); err != nil {
			if len(p.bad) == maxBad {
				p.more++
				continue
			}
			p.bad = append(p.bad, badLine(s.Line, s.text(), err))
		}
	}
	slices.SortStableFunc(p.bad, func(a, b BadLine) int { return a.Line - b.Line })
	return p
}

// text is the line again, as far as it is needed to find it.
func (s *Sample) text() string {
	var b strings.Builder
	b.WriteString(s.Name)
	for i, l := range s.Labels {
		fmt.Fprintf(&b, "%c%s=%q", "{,"[min(i, 1)], l.Name, l.Value)
	}
	if len(s.Labels) > 0 {
		b.WriteByte('}')
	}
	return b.String()
}

func (p *page) take(m *mapping, s *Sample, identify func(*Sample) (identity, error), series string, r rule, valued bool, c counter) error {
	about, err := identify(s)
	if errors.Is(err, errNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := p.device(about)
	if err != nil {
		return err
	}
	if p.driver == "" {
		p.driver = plain(s.label("dcgm_fi_driver_version", "driver_version"))
	}
	if !valued {
		d.count(series, s, c)
		return nil
	}
	if about.part {
		switch to := m.place(about, r.field); to {
		case about.Name:
		case "":
			if r.field != fieldEnergy {
				return nil
			}
			r.field = fieldWitness
		default:
			r.rank++ // the GPU's own line is better than what a slice's says of it
			whole := usage.Device{Name: to, Vendor: about.Vendor, Model: about.Model, Serial: about.Serial, PCI: about.PCI}
			if d, err = p.device(identity{Device: whole}); err != nil {
				return err
			}
		}
	}
	return d.set(s, r)
}

// device finds or adds a device, and learns from each line what the ones before did not say.
func (p *page) device(about identity) (*device, error) {
	d, ok := p.devices[about.Name]
	if !ok {
		if plain(about.Name) == "" {
			return nil, errors.New("the device's name is empty, longer than 256 bytes, or not plain text")
		}
		if len(p.devices) == usage.MaxBlocks {
			return nil, fmt.Errorf("there are more than %d devices", usage.MaxBlocks)
		}
		d = &device{about: about.Device, whole: about.Name, part: about.part}
		if about.Parent != "" {
			d.whole = about.Parent
		}
		p.devices[about.Name] = d
	}
	for _, f := range [...]struct {
		to   *string
		from string
	}{
		{&d.about.Model, about.Model},
		{&d.about.Serial, about.Serial},
		{&d.about.PCI, about.PCI},
		{&d.about.Profile, about.Profile},
	} {
		if *f.to = plain(*f.to); *f.to == "" {
			*f.to = plain(f.from)
		}
	}
	return d, nil
}

// plain is a text as a topology may carry it, or nothing.
func plain(s string) string {
	if len(s) > usage.MaxNameBytes || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || blankWord(s) {
		return ""
	}
	return s
}

// set enters a line's value. The better source stands, of equal ones the first; a line that contradicts it is reported.
func (d *device) set(s *Sample, r rule) error {
	c := &d.cells[r.field]
	counter := r.field == fieldEnergy || r.field == fieldWitness
	is := cell{seen: true, blank: s.Blank || blank(s.Value, counter), at: s.At, value: s.Value * r.scale, rank: r.rank, parts: 1, via: s.Name}
	if percent := r.field == fieldBusy || r.field == fieldEngine || r.field == fieldCores; percent && is.value > maxPercents {
		is.blank = true
	}
	if r.field == fieldPower && s.Value == fullUint16 { // AMD's 16 bits, widened by older agents
		is.blank = true
	}
	switch {
	case !c.seen, c.blank && !is.blank, !is.blank && is.rank < c.rank:
		*c = is
	case is.blank || is.rank > c.rank:
	case r.mean:
		c.value += (is.value - c.value) / (c.parts + 1)
		c.parts++
	case is.value != c.value:
		return fmt.Errorf("device %s has this series twice, with other values; the first stands", d.about.Name)
	}
	return nil
}

// names are the devices of a page by rising name.
func (p *page) names() []string {
	names := make([]string, 0, len(p.devices))
	for name := range p.devices {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
