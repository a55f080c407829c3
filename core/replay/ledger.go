package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// ledger is the tables in memory: sums, not differences, because a replay never looks back behind the last block.
type ledger struct {
	rows     map[string][]usage.Row // by device, or "node\x00" + node
	entries  map[hourKey]map[meter.Entry]meter.Amounts
	devices  map[hourKey]map[meter.DeviceEntry]meter.DeviceSeconds
	refusals map[string]*meter.Refusal
	periods  map[periodKey]map[cell]meter.Amounts // entries summed over their hours; no contract is a period too
	lost     map[meter.Entry]meter.Amounts        // entries that found no contract, by hour
	changed  map[periodKey]bool
}

// cell is what a total is of.
type cell struct {
	lease, device string
	key           meter.ChargeKey
}

// hourKey names a unit's hour; lease is empty for a device.
type hourKey struct {
	device, lease string
	hour          span.Hour
}

func newLedger() *ledger {
	return &ledger{
		rows: map[string][]usage.Row{}, entries: map[hourKey]map[meter.Entry]meter.Amounts{},
		devices: map[hourKey]map[meter.DeviceEntry]meter.DeviceSeconds{}, refusals: map[string]*meter.Refusal{},
		periods: map[periodKey]map[cell]meter.Amounts{}, lost: map[meter.Entry]meter.Amounts{}, changed: map[periodKey]bool{},
	}
}

func rowKey(node, device string) string {
	if device == "" {
		return "node\x00" + node
	}
	return device
}

func entryHour(e meter.Entry) hourKey {
	if e.Device != "" {
		return hourKey{device: e.Device, hour: e.Hour}
	}
	return hourKey{lease: e.Lease, hour: e.Hour}
}

func (l *ledger) put(o *meter.Outcome) {
	for _, r := range o.Rows {
		k := rowKey(r.Node, r.Device)
		l.rows[k] = append(l.rows[k], r)
	}
	for _, d := range o.Ledger {
		k := entryHour(d.Entry)
		if l.entries[k] == nil {
			l.entries[k] = map[meter.Entry]meter.Amounts{}
		}
		l.entries[k][d.Entry] = l.entries[k][d.Entry].Plus(d.Amounts)
		l.add(d)
	}
	for _, d := range o.Devices {
		k := hourKey{device: d.Device, hour: d.Hour}
		if l.devices[k] == nil {
			l.devices[k] = map[meter.DeviceEntry]meter.DeviceSeconds{}
		}
		l.devices[k][d.DeviceEntry] = l.devices[k][d.DeviceEntry].Plus(d.DeviceSeconds)
	}
	for _, r := range o.Refusals {
		k := r.ID + "\x00" + r.Reason + "\x00" + r.Detail
		if l.refusals[k] == nil {
			first := r
			first.Delta = 0
			l.refusals[k] = &first
		}
		l.refusals[k].Delta += r.Delta
	}
}

// add keeps the sums of a period beside the entries, so that a close does not walk the whole ledger.
func (l *ledger) add(d meter.Difference) {
	k, c := periodKey{d.Key.Contract, d.Key.PeriodStart}, cell{d.Lease, d.Device, d.Key}
	if l.periods[k] == nil {
		l.periods[k] = map[cell]meter.Amounts{}
	}
	l.periods[k][c] = l.periods[k][c].Plus(d.Amounts)
	l.changed[k] = true
	if d.Key.Contract == "" {
		l.lost[d.Entry] = l.lost[d.Entry].Plus(d.Amounts)
	}
}

func (l *ledger) read(n meter.Needs) meter.Reads {
	r := meter.Reads{Ledger: map[meter.Entry]meter.Amounts{}, Devices: map[meter.DeviceEntry]meter.DeviceSeconds{}}
	taken := map[string]map[span.Minute]bool{}
	for _, m := range n.Minutes {
		k := rowKey(m.Node, m.Device)
		if taken[k] == nil {
			taken[k] = map[span.Minute]bool{}
		}
		for _, row := range l.rows[k] {
			if m.From <= row.Minute && row.Minute < m.To && !taken[k][row.Minute] {
				r.Rows = append(r.Rows, row)
			}
		}
		for at := m.From; at < m.To; at++ {
			taken[k][at] = true
		}
	}
	for _, uh := range n.Standing {
		k := hourKey{device: uh.Unit.Device, hour: uh.Hour}
		if uh.Unit.Device == "" {
			k.lease = uh.Unit.Lease
		}
		for e, a := range l.entries[k] {
			r.Ledger[e] = a
		}
		for e, a := range l.devices[k] {
			r.Devices[e] = a
		}
	}
	return r
}

// ordered lists sums that are not zero in a fixed order.
func ordered(sums map[cell]meter.Amounts) []meter.Total {
	var out []meter.Total
	for c, a := range sums {
		if !a.IsZero() {
			out = append(out, meter.Total{Lease: c.lease, Device: c.device, Key: c.key, Amounts: a})
		}
	}
	slices.SortFunc(out, func(a, b meter.Total) int {
		return cmp.Or(meter.CompareKeys(a.Key, b.Key), cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Device, b.Device))
	})
	return out
}

func (l *ledger) totals() []meter.Total {
	all := map[cell]meter.Amounts{}
	for _, sums := range l.periods {
		maps.Copy(all, sums)
	}
	return ordered(all)
}

func (l *ledger) period(contract string, start span.Second) []meter.Total {
	return ordered(l.periods[periodKey{contract, start}])
}

func (l *ledger) uncontracted(customer string, within span.Span) []meter.Total {
	sums := map[cell]meter.Amounts{}
	for e, a := range l.lost {
		if e.Key.Customer == customer && e.Key.Standing == meter.Refused && e.Hour.Span().Overlaps(within) {
			c := cell{e.Lease, e.Device, e.Key}
			sums[c] = sums[c].Plus(a)
		}
	}
	return ordered(sums)
}

func (l *ledger) openRefusals() []meter.Refusal {
	var out []meter.Refusal
	for _, r := range l.refusals {
		if r.Delta > 0 {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b meter.Refusal) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

// takeChanged lists the periods that got differences since it was last asked, in order.
func (l *ledger) takeChanged() []periodKey {
	out := make([]periodKey, 0, len(l.changed))
	for k := range l.changed {
		out = append(out, k)
	}
	clear(l.changed)
	slices.SortFunc(out, func(a, b periodKey) int {
		return cmp.Or(cmp.Compare(a.contract, b.contract), cmp.Compare(a.start, b.start))
	})
	return out
}

func (l *ledger) deviceTotals() map[string]meter.DeviceSeconds {
	out := map[string]meter.DeviceSeconds{}
	for _, entries := range l.devices {
		for e, a := range entries {
			out[e.Device] = out[e.Device].Plus(a)
		}
	}
	return out
}
