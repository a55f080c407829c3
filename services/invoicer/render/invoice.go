package render

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

// Invoice sets one document for a person: what it is, each line with its arithmetic and coverage, what is not billed
// and why, the total and how far rounding can reach.
func Invoice(d *bill.Document, o Options) string {
	p := &page{colour: o.Colour}
	o.header(p, d)
	switch {
	case len(d.Lines) > 0:
		o.billed(p, d)
	case d.Kind == bill.KindCancellation:
		p.paragraph(plain, o.say("Invoice %s billed nothing: there is nothing to take back.", clean(d.Cancels)), room(o.Width))
	case len(d.Unbilled) > 0:
		p.paragraph(plain, o.say("Nothing is billed in this period: all leased time is unbilled."), room(o.Width))
	default:
		p.paragraph(plain, o.say("Nothing was used in this period: there is nothing to bill."), room(o.Width))
	}
	if len(d.Unbilled) > 0 {
		p.line(plain, "")
		p.line(bold, o.say("Not billed"))
		p.line(plain, "")
		p.WriteString(o.unbilled(d))
	}
	o.projected(p, d)
	o.remarks(p, d)
	return p.String()
}

func (o Options) header(p *page, d *bill.Document) {
	name, due, about := clean(d.Invoice), "Total due", ""
	var of []any
	switch d.Kind {
	case bill.KindPreview:
		p.paragraph(yellow, o.say("PREVIEW")+" · "+o.say("provisional"), room(o.Width))
		due, about = "Total", "This is not an invoice: it has no number, and its amounts may change until the period closes."
	case bill.KindCorrection:
		p.paragraph(bold, o.say("CORRECTION %s", name), room(o.Width))
		due, about = "Difference", "Amounts are differences to what was billed for this period before; the arithmetic shows what is known now."
	case bill.KindAdvance:
		p.paragraph(bold, o.say("INVOICE IN ADVANCE %s", name), room(o.Width))
		about = "These are fees that the contract has paid when the period begins. The invoice of the whole period takes them off."
	case bill.KindCancellation:
		p.paragraph(bold, o.say("CANCELLATION %s", name), room(o.Width))
		due, about, of = "Total", "This takes invoice %s back, line by line; its arithmetic stands there. What is due for the period is billed anew.", []any{clean(d.Cancels)}
	default:
		p.paragraph(bold, o.say("INVOICE %s", name), room(o.Width))
	}
	if about != "" {
		p.paragraph(plain, o.say(about, of...), room(o.Width))
	}
	p.line(plain, "")
	closing := o.say("open: the period is not closed")
	switch {
	case d.Kind == bill.KindCancellation:
		closing = o.say("none: this closes nothing")
	case d.Kind == bill.KindAdvance:
		closing = o.say("none: the period begins")
	case d.Closing > 0:
		closing = o.say("number %d of this period", d.Closing)
	}
	list := []note{
		{o.say("Customer"), clean(d.Customer)},
		{o.say("Contract"), clean(d.Contract)},
		{o.say("Period"), o.period(d)},
	}
	if d.TrialUntil != "" {
		list = append(list, note{o.say("Trial"), o.say("until %s: use costs nothing", glued(o.local(d.TrialUntil)))})
	}
	o.pairs(p, append(list, note{o.say("Closing"), closing}, note{o.say(due), glued(group(d.Total) + " " + clean(d.Currency))}))
	p.line(plain, "")
}

// local is an instant of a document by the contract's clock.
func (o Options) local(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return clean(text)
	}
	return at.Format("2006-01-02 15:04")
}

// pairs sets labels in a column of their own.
func (o Options) pairs(p *page, list []note) {
	label := 0
	for _, n := range list {
		label = max(label, columns(n.label))
	}
	for _, n := range list {
		p.pair(0, label, bold, n, room(o.Width))
	}
}

// period is both ends in the contract's local time, with the zone and its distance from UTC; where clocks change in
// between, each end has its own.
func (o Options) period(d *bill.Document) string {
	from, err := time.Parse(time.RFC3339, d.Period.From)
	to, err2 := time.Parse(time.RFC3339, d.Period.To)
	if err != nil || err2 != nil {
		return clean(o.say("%s to %s", d.Period.From, d.Period.To))
	}
	const local, offset = "2006-01-02 15:04", "UTC-07:00"
	a, b, zone := from.Format(local), to.Format(local), clean(d.Timezone)
	switch {
	case d.Timezone == "UTC":
	case from.Format(offset) == to.Format(offset):
		zone += ", " + from.Format(offset)
	default:
		a, b = from.Format(local+" "+offset), to.Format(local+" "+offset)
	}
	return o.say("%s (%s)", o.say("%s to %s", glued(a), glued(b)), zone)
}

// devices is how many a line's leases held; leases that name none hold some all the same.
func devices(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}

// billed is what is billed: GPU time, below it the other charges, then what was billed in advance, and the total of all.
func (o Options) billed(p *page, d *bill.Document) {
	time, items, ahead := parts(d.Lines)
	switch {
	case len(time) == len(d.Lines):
		p.WriteString(o.lines(d, time, "Total", group(d.Total)))
	case len(time) > 0:
		p.WriteString(o.lines(d, time, "Subtotal", subtotal(d, time)))
	}
	shown := len(time)
	for _, part := range []struct {
		heading string
		list    []bill.DocumentLine
	}{{o.say("Other charges"), items}, {o.say("Billed in advance"), ahead}} {
		if len(part.list) == 0 {
			continue
		}
		if shown > 0 {
			p.line(plain, "")
			p.line(bold, part.heading)
			p.line(plain, "")
		}
		shown += len(part.list)
		p.WriteString(o.items(d, part.list, func(t *Table) {
			if len(part.list) < len(d.Lines) {
				t.Total("", o.say("Subtotal"), "", "", subtotal(d, part.list))
			}
			if shown == len(d.Lines) {
				t.Total("", o.say("Total"), "", "", group(d.Total))
			}
		}))
	}
}

// lines is the table of billed GPU time, with its sum under the given name.
func (o Options) lines(d *bill.Document, list []bill.DocumentLine, name, total string) string {
	t := Table{Width: o.Width, Colour: o.Colour, Indent: 4, Columns: []Column{
		{Head: " #", Align: Right},
		{Head: o.say("Item"), Fit: Fill},
		{Head: o.say("Leases"), Align: Right},
		{Head: o.say("Devices"), Align: Right},
		{Head: o.say("GPU-hours"), Align: Right},
		{Head: o.say(amountHead(d), clean(d.Currency)), Align: Right},
	}}
	for i := range list {
		l := &list[i]
		t.row(false, strconv.Itoa(l.Line), o.item(l), strconv.Itoa(l.Leases), devices(l.Devices), group(l.Quantity.GPUHours), group(l.Amount))
		o.arithmetic(&t, d, l)
		if c := o.coverage(l.Quantity.Coverage, difference(d), false); c != "" {
			t.note(o.say("coverage"), c)
		}
	}
	t.Total("", o.say(name), "", "", group(d.Quantity.GPUHours), total)
	if c := o.coverage(d.Quantity.Coverage, difference(d), true); c != "" && len(list) > 1 {
		t.note(o.say("coverage"), c)
	}
	return t.String()
}

// difference tells that a document's quantities are differences to what was billed before.
func difference(d *bill.Document) bool {
	return d.Kind == bill.KindCorrection || d.Kind == bill.KindCancellation
}

// Complete says until when a preview knows everything.
func Complete(until string, o Options) string { return o.say("provisional: complete until %s", until) }

// item is what a line bills, in one phrase.
func (o Options) item(l *bill.DocumentLine) string {
	parts := []string{glued(o.phrase(l.PricingMode))}
	if l.SKU != "" {
		parts = []string{clean(l.SKU), parts[0]}
	}
	if l.Region != "" {
		parts = append(parts, clean(l.Region))
	}
	if l.ServiceTier != "" {
		parts = append(parts, glued(o.say("tier %s", clean(l.ServiceTier))))
	}
	if l.Dedicated {
		parts = append(parts, glued(o.say("dedicated")))
	}
	if l.Commitment != "" {
		parts = append(parts, glued(o.say("covered by %s", clean(l.Commitment))))
	}
	if l.Window != "" {
		parts = append(parts, glued(o.say("window %s", clean(l.Window))))
	}
	if l.Idle {
		parts = append(parts, glued(o.say("idle")))
	}
	return strings.Join(parts, string(glue)+"· ")
}

// coverage says how much of leased time samples prove, in GPU-hours and per cent. Of a difference there is no per cent.
func (o Options) coverage(c bill.Coverage, difference, whole bool) string {
	leased := c.Measured + c.Inferred + c.Missing
	var parts []string
	add := func(name string, milli, of int64) {
		text := trimmedHours(milli)
		if len(parts) == 0 {
			text = o.hours(milli)
		}
		if difference && milli > 0 {
			text = "+" + text
		}
		text = o.say(name) + " " + text
		if milli != 0 && of > 0 {
			text += " (" + percent(milli, of) + ")"
		}
		parts = append(parts, glued(text))
	}
	if difference {
		leased = 0
	}
	if c.Measured != 0 || c.Inferred != 0 || c.Missing != 0 { // top-ups alone have nothing to cover
		add("measured", c.Measured, leased)
		add("inferred", c.Inferred, leased)
		add("missing", c.Missing, leased)
	}
	if whole && c.TopUp != 0 {
		add("start minimum", c.TopUp, 0)
	}
	return strings.Join(parts, string(glue)+"· ")
}

// percent has two digits, and neither hides a rest nor claims the whole.
func percent(part, whole int64) string {
	share := big.NewRat(part, whole)
	text := new(big.Rat).Mul(share, big.NewRat(100, 1)).FloatString(2)
	switch {
	case part > 0 && text == "0.00":
		return "<0.01%"
	case part < whole && text == "100.00":
		return ">99.99%"
	case part == 0 || part == whole:
		return strings.TrimSuffix(text, ".00") + "%"
	default:
		return text + "%"
	}
}

// hours is a quantity with its unit.
func (o Options) hours(milli int64) string {
	if text := trimmedHours(milli); text != "1" {
		return o.say("%s GPU-hours", text)
	}
	return o.say("1 GPU-hour")
}

// trimmedHours is GPU-hours without idle zeros.
func trimmedHours(milli int64) string {
	return group(strings.TrimSuffix(strings.TrimRight(bill.GPUHours(milli), "0"), "."))
}

// unbilled is the table of leased time that has no amount, with the reason in words and what to do.
func (o Options) unbilled(d *bill.Document) string {
	t := Table{Width: o.Width, Colour: o.Colour, Indent: 4, Columns: []Column{
		{Head: o.say("Standing")},
		{Head: o.say("SKU"), Fit: Fill},
		{Head: o.say("Leases"), Align: Right},
		{Head: o.say("GPU-hours"), Align: Right},
	}}
	after := " A correction bills this time once the cause is gone."
	if d.Kind == bill.KindPreview {
		after = " Until then the period does not close."
	}
	for _, l := range d.Unbilled {
		t.Row(o.say(string(l.Standing)), l.SKU, strconv.Itoa(l.Leases), group(l.Quantity.GPUHours))
		why, remedy := o.explain(l.Reason)
		switch l.Standing {
		case meter.Waived:
			remedy = o.say("Nothing: a person gave this time away for good, and it is never billed.")
		case meter.Refused:
			remedy = strings.TrimSpace(remedy + o.say(after))
		case meter.Free, meter.Unobserved, meter.Priced: // nothing is left to do
		}
		t.note(o.say("why"), why)
		t.note(o.say("what to do"), remedy)
	}
	return t.String()
}

// remarks are the sentences below the table: samples that are missing, and the reach of rounding.
func (o Options) remarks(p *page, d *bill.Document) {
	var notes []note
	if s := o.limit(d); s != "" {
		notes = append(notes, note{o.say("Limit"), s})
	}
	if s := o.missing(d); s != "" {
		notes = append(notes, note{o.say("Samples"), s})
	}
	if s := o.rounding(d); s != "" {
		notes = append(notes, note{o.say("Rounding"), s})
	}
	if len(notes) > 0 {
		p.line(plain, "")
		o.pairs(p, notes)
	}
}

// missing is said when more than a tenth of a line is. A difference may be negative: then there is no such part.
func (o Options) missing(d *bill.Document) string {
	var lines []string
	if d.Kind == bill.KindCancellation {
		return "" // said in the invoice
	}
	for _, l := range d.Lines {
		c := l.Quantity.Coverage
		if leased := c.Measured + c.Inferred + c.Missing; min(c.Measured, c.Inferred) >= 0 && c.Missing > leased/10 {
			lines = append(lines, glued(strconv.Itoa(l.Line)+" ("+percent(c.Missing, leased)+")"))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return o.say("Samples are missing for a large part of line %s: no collector ran, or its data never came. Leases bill, samples prove: the amount is the same.",
		strings.Join(lines, ", "))
}

// rounding states how far the total can be from the exact sum.
func (o Options) rounding(d *bill.Document) string {
	if len(d.Lines) == 0 || d.Kind == bill.KindCancellation {
		return ""
	}
	rule := o.phrase(d.Rounding)
	if d.Kind == bill.KindCorrection {
		return o.say("What was billed before and what is known now are each rounded once a line, %s; their difference adds no rounding.", rule)
	}
	bound, ok := new(big.Rat).SetString(d.RoundingBound)
	if !ok {
		return ""
	}
	sentence := "Each line is rounded once, %s: at most %s a line, %s in all."
	if d.Rounding == money.Up.String() || d.Rounding == money.Down.String() {
		sentence = "Each line is rounded once, %s: less than %s a line, less than %s in all."
	}
	line := new(big.Rat).Quo(bound, big.NewRat(int64(len(d.Lines)), 1))
	of := func(r *big.Rat) string { return glued(group(money.DecimalText(r, 0, 12)) + " " + clean(d.Currency)) }
	return o.say(sentence, rule, of(line), of(bound))
}
