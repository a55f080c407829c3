package render

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

// Blocked lists the periods that cannot close, why, and what to do. Their instants are UTC: a block names no zone.
func Blocked(blocks []bill.Block, o Options) string {
	if len(blocks) == 0 {
		return o.say("Nothing blocks a close.") + "\n"
	}
	t := Table{Width: o.Width, Colour: o.Colour, Indent: 4, Columns: []Column{
		{Head: o.say("Contract"), Fit: Fill},
		{Head: o.say("Customer"), Fit: Wrap},
		{Head: o.say("Period (UTC)")},
	}}
	for _, b := range blocks {
		t.Row(b.Contract, b.Customer, o.say("%s to %s", instant(b.Period.From), instant(b.Period.To)))
		o.remedy(&t, codeIn(b.Reason), b.Reason)
	}
	return t.String()
}

// Refusals lists statements and messages that could not be taken, why, and what to do.
func Refusals(refusals []meter.Refusal, o Options) string {
	if len(refusals) == 0 {
		return o.say("Nothing is refused.") + "\n"
	}
	t := Table{Width: o.Width, Colour: o.Colour, Indent: 4, Columns: []Column{
		{Head: o.say("Reason"), Fit: Wrap},
		{Head: o.say("Customer"), Fit: Wrap},
		{Head: o.say("Lease"), Fit: Fill},
		{Head: o.say("At (UTC)")},
	}}
	for _, r := range refusals {
		at := ""
		if r.At != 0 {
			at = instant(r.At)
		}
		t.Row(r.Reason, r.Customer, r.Lease, at)
		t.note(o.say("statement"), clean(r.ID))
		o.remedy(&t, r.Reason, r.Detail)
	}
	return t.String()
}

// Uncontracted lists leased time that found no contract, by customer and reason, or is empty: no invoice can show it.
func Uncontracted(totals []meter.Total, o Options) string {
	type cell struct{ customer, reason string }
	sums, leases := map[cell]int64{}, map[cell]map[string]bool{}
	for _, t := range totals {
		if t.Key.Contract != "" || t.Quantity == 0 {
			continue
		}
		c := cell{t.Key.Customer, t.Key.Reason}
		if leases[c] == nil {
			leases[c] = map[string]bool{}
		}
		sums[c] += t.Quantity
		leases[c][t.Lease] = true
	}
	if len(sums) == 0 {
		return ""
	}
	t := Table{Width: o.Width, Colour: o.Colour, Indent: 4, Columns: []Column{
		{Head: o.say("Customer"), Fit: Fill},
		{Head: o.say("Leases"), Align: Right},
		{Head: o.say("GPU-hours"), Align: Right},
	}}
	for _, c := range slices.SortedFunc(maps.Keys(sums), func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.customer, b.customer), cmp.Compare(a.reason, b.reason))
	}) {
		t.Row(c.customer, strconv.Itoa(len(leases[c])), group(bill.GPUHours(sums[c])))
		o.remedy(&t, c.reason, "")
	}
	return o.say("Leased time under no contract: it is on no invoice.") + "\n\n" + t.String()
}

// remedy adds a reason in words, the detail as it was recorded, and what to do.
func (o Options) remedy(t *Table, code, detail string) {
	why, remedy := o.explain(code)
	for _, n := range []note{{"why", why}, {"detail", clean(strings.ReplaceAll(detail, "\n", "; "))}, {"what to do", remedy}} {
		if n.text != "" {
			t.note(o.say(n.label), n.text)
		}
	}
}

func instant(s span.Second) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.Replace(s.String(), "T", " ", 1), "Z"), ":00")
}
