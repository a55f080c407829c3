package meter

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/occupancy"
)

// cell is an amount under its entry.
type cell struct {
	Entry
	Amounts
}

// add puts an amount under its entry. An hour has few cells, so they are summed by sorting and not by looking each up.
func (c *classifier) add(uh UnitHour, l *occupancy.Lease, key ChargeKey, a Amounts) {
	if a.IsZero() {
		return
	}
	e := Entry{Lease: l.ID, Device: uh.Unit.Device, Hour: uh.Hour, Key: key}
	if n := len(c.cells); n > 0 && c.cells[n-1].Entry == e {
		c.cells[n-1].Amounts = c.cells[n-1].Plus(a)
		return
	}
	c.cells = append(c.cells, cell{e, a})
}

// summed sorts cells and adds up those of one entry.
func summed(cells []cell) []cell {
	if len(cells) < 2 {
		return cells
	}
	slices.SortFunc(cells, func(a, b cell) int { return compareEntries(&a.Entry, &b.Entry) })
	out := cells[:1]
	for _, x := range cells[1:] {
		if last := &out[len(out)-1]; last.Entry == x.Entry {
			last.Amounts = last.Plus(x.Amounts)
		} else {
			out = append(out, x)
		}
	}
	return out
}
