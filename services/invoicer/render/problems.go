package render

import (
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

// remedy adds a reason in words, the detail as it was recorded, and what to do.
func (o Options) remedy(t *Table, code, detail string) {
	why, remedy := o.explain(code)
	for _, n := range []note{{"why", why}, {"detail", clean(detail)}, {"what to do", remedy}} {
		if n.text != "" {
			t.note(o.say(n.label), n.text)
		}
	}
}

func instant(s span.Second) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.Replace(s.String(), "T", " ", 1), "Z"), ":00")
}
