package exporter

import (
	"math"
	"slices"
	"strconv"

	"github.com/gpuhour/gpuhour/core/usage"
)

// count enters a line that counts or shows faults.
func (d *device) count(series string, s *Sample, c counter) {
	if s.Blank || blank(s.Value, c.what == rises) {
		return // among them -1, Ascend's word for a health that it does not know
	}
	k := count{series: series}
	switch {
	case c.what == lists:
		k.code = code(s.Value)
	case c.label != "":
		k.code, _ = strconv.ParseUint(s.label(c.label), 10, 64) // without a code the line says that there was none
	}
	if d.counts == nil {
		d.counts = map[count]float64{}
	}
	d.counts[k] = max(d.counts[k], s.Value) // several lines of one count are pods that share the device
	if d.told[c.kind-1] == 0 || c.rank+1 < d.told[c.kind-1] {
		d.told[c.kind-1] = c.rank + 1
	}
}

// memory is what a device's counts were, from page to page.
type memory struct {
	known  bool // a page before this one had the device
	counts map[count]float64
	codes  []uint64                 // that are listed now
	told   [usage.FaultVendor]uint8 // the best source of each kind so far
}

// faults compares a page with what was before and says what happened since. The first page of a device only says
// what stood.
func (m *memory) faults(d *device, counters map[string]counter) []usage.Fault {
	for k, rank := range d.told {
		if rank > 0 && (m.told[k] == 0 || rank < m.told[k]) {
			m.told[k] = rank
		}
	}
	var found []usage.Fault
	var codes []uint64
	family := map[string]bool{} // series with codes as labels: of one that is there, a code that is not stands at 0
	for k, v := range d.counts {
		c := counters[k.series]
		family[k.series] = c.label != ""
		if c.what == lists {
			if k.code > 0 && !slices.Contains(codes, k.code) {
				codes = append(codes, k.code)
			}
			continue
		}
		before, ok := m.counts[k]
		ok = ok || c.label != "" || c.what == becomes // these may be left out while there is nothing to tell
		if m.known && ok && m.told[c.kind-1] == c.rank+1 {
			found = appendFault(found, c, k, before, v)
		}
	}
	for _, code := range codes {
		if m.known && !slices.Contains(m.codes, code) {
			found = append(found, usage.Fault{Kind: usage.FaultVendor, Code: code})
		}
	}
	if m.counts == nil {
		m.counts = map[count]float64{}
	}
	for k := range m.counts {
		if _, ok := d.counts[k]; !ok && family[k.series] {
			delete(m.counts, k)
		}
	}
	for k, v := range d.counts {
		m.counts[k] = v
	}
	m.known, m.codes = true, codes
	slices.SortFunc(found, func(a, b usage.Fault) int {
		return slices.Compare([]uint64{uint64(a.Kind), a.Code}, []uint64{uint64(b.Kind), b.Code})
	})
	return slices.Compact(found)
}

func appendFault(found []usage.Fault, c counter, k count, before, v float64) []usage.Fault {
	more := v - before
	if c.what == rises && more < 0 {
		more = v // counted from 0 again, since
	}
	switch c.what {
	case rises, window:
		if more <= 0 {
			return found
		}
		if c.label != "" && k.code == 0 {
			return found
		}
		if c.label == "" {
			return append(found, usage.Fault{Kind: c.kind, Code: code(more)})
		}
		return append(found, usage.Fault{Kind: c.kind, Code: k.code})
	case becomes:
		if code := code(v); code > 0 && v != before {
			return append(found, usage.Fault{Kind: c.kind, Code: code})
		}
	case falls:
		if v == 0 && before != 0 {
			return append(found, usage.Fault{Kind: c.kind})
		}
	case lists:
	}
	return found
}

// code is a number that names or counts something; 0 where it cannot.
func code(v float64) uint64 {
	if v < 1 || v >= 1<<53 || v != math.Trunc(v) {
		return 0
	}
	return uint64(v)
}
