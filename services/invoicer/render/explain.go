package render

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// What is shown before an explanation is made short: above it segments stand by lease, and lists end with what is left out.
const (
	shownSegments = 40
	shownPrices   = 12
	shownInputs   = 40
)

// Explanation says for one line why it is what it is: how its prices are made, which stretches of which leases it bills, or what a
// charge stands on. All lifts the limits on what is shown.
func Explanation(x *explain.Explanation, o Options, all bool) string {
	p := &page{colour: o.Colour}
	e := &explained{Options: o, x: x, p: p, all: all}
	e.header()
	switch {
	case x.Unbilled != nil:
		e.whyUnbilled()
		e.segments()
	case x.Item != nil:
		e.item()
	default:
		e.prices()
		e.unrelieved()
		e.segments()
	}
	return p.String()
}

// explained is an explanation on its way to a page.
type explained struct {
	Options
	x     *explain.Explanation
	p     *page
	all   bool
	names map[string]int // of prices, from 1
}

// most is a limit, or none where all is asked for.
func (e *explained) most(limit, n int) int {
	if e.all || n <= limit {
		return n
	}
	return limit
}

func (e *explained) paragraph(text string) { e.p.paragraph(plain, text, room(e.Width)) }

func (e *explained) heading(text string) {
	e.p.line(plain, "")
	e.p.line(bold, text)
	e.p.line(plain, "")
}

func (e *explained) header() {
	x, d := e.x, e.x.Document
	title := e.say("LINE %d OF %s", x.Name.Number, clean(d.Invoice))
	if x.Name.Unbilled {
		title = e.say("LINE u%d OF %s, NOT BILLED", x.Name.Number, clean(d.Invoice))
	}
	e.p.paragraph(bold, title, room(e.Width))
	e.p.line(plain, "")
	list := []note{
		{e.say("Customer"), clean(d.Customer)},
		{e.say("Contract"), clean(d.Contract)},
		{e.say("Period"), e.period(d)},
	}
	switch {
	case x.Unbilled != nil:
		list = append(list,
			note{e.say("Item"), e.say(string(x.Unbilled.Standing)) + " · " + clean(x.Unbilled.SKU)},
			note{e.say("Quantity"), e.hours(x.Unbilled.Quantity.MilliGPUSeconds)})
	case x.Line.Count != nil:
		list = append(list,
			note{e.say("Item"), e.itemName(x.Line)},
			note{e.say("Quantity"), strings.TrimSpace(group(x.Line.Count.Quantity) + " " + e.word(x.Line.Count.Unit))},
			note{e.say(amountWord(d)), group(x.Line.Amount) + " " + clean(d.Currency)})
	default:
		list = append(list,
			note{e.say("Item"), e.Options.item(x.Line)},
			note{e.say("Quantity"), e.hours(x.Line.Quantity.MilliGPUSeconds)},
			note{e.say(amountWord(d)), group(x.Line.Amount) + " " + clean(d.Currency)})
	}
	e.pairs(e.p, list)
	if x.TakesOff() {
		e.p.line(plain, "")
		e.paragraph(e.say("%s billed this in advance, as said below; this line takes it off the bill of the whole period.", clean(x.Line.Advance)))
	}
	if l := x.Line; l != nil && d.Kind == bill.KindCorrection {
		e.p.line(plain, "")
		if l.Before == "" {
			e.paragraph(e.say("This line corrects the period: not billed before, known now %s.", group(l.Amount)))
		} else {
			e.paragraph(e.say("This line corrects the period: billed before %s, known now %s. What carries a minus below is taken back.", group(l.Before), group(l.Now)))
		}
	}
}

func amountWord(d *bill.Document) string {
	if d.Kind == bill.KindCorrection {
		return "Difference"
	}
	return "Amount"
}

func (e *explained) whyUnbilled() {
	u := e.x.Unbilled
	e.heading(e.say("Why it is not billed"))
	why, remedy := e.explain(u.Reason)
	e.paragraph(why)
	switch u.Standing {
	case meter.Waived:
		e.paragraph(e.say("A person gave this time away for good: it is never billed."))
	case meter.Refused:
		e.paragraph(e.say("What to do: %s", remedy) + e.say(" A correction bills this time once the cause is gone."))
	default:
		e.paragraph(e.say("What to do: %s", remedy))
	}
}

// prices says how each unit price of the line is made, one sentence a step.
func (e *explained) prices() {
	e.names = map[string]int{}
	var list []*explain.Segment
	for i := range e.x.Segments {
		g := &e.x.Segments[i]
		if name := e.priceName(g); e.names[name] == 0 {
			list = append(list, g)
			e.names[name] = len(list)
		}
	}
	e.heading(e.say("How the price is made"))
	most := e.most(shownPrices, len(list))
	for i, g := range list[:most] {
		perHour := new(big.Rat).Mul(g.Price.PerMilliGPUSecond, big.NewRat(3600*1000, 1))
		head := note{fmt.Sprintf("#%d", i+1), glued(group(money.DecimalText(perHour, 2, 12)) + " " + clean(e.x.Document.Currency) + "/" + e.say("gpu-hour"))}
		e.p.pair(0, 3, bold, head, room(e.Width))
		for _, s := range e.sentences(g) {
			e.p.pair(0, 3, plain, note{"", s}, room(e.Width))
		}
	}
	e.more(len(list) - most)
}

// priceName tells prices apart that are made in another way, or under other words.
func (e *explained) priceName(g *explain.Segment) string {
	return g.Price.String() + "\n" + strings.Join(e.sentences(g), "\n")
}

// more says how much is left out.
func (e *explained) more(n int) {
	if n > 0 {
		e.p.pair(0, 3, dim, note{"", e.say("... and %d more; --all shows everything", n)}, room(e.Width))
	}
}

// unrelieved says why time of the line had no idle relief, where the contract has a rule.
func (e *explained) unrelieved() {
	u, rule := e.x.Unrelieved, e.x.Contract.Idle
	if u == (meter.Unrelieved{}) || rule == nil || e.x.Line.Idle {
		return
	}
	e.heading(e.say("Why this time has no idle relief"))
	after := e.duration(rule.AfterSeconds)
	e.paragraph(e.say("Relief begins once a GPU has stayed below %s utilisation for %s without a break.", fmt.Sprintf("%d%%", rule.BelowPercent), after))
	var list []note
	for _, part := range []struct {
		milli int64
		why   string
	}{
		{u.Busy, e.say("the GPU was busy")},
		{u.Early, e.say("the GPU was idle, but the run was shorter than %s or had not lasted that long yet", after)},
		{u.Shared, e.say("several leases shared the GPU: whose utilisation it was is unknown")},
		{u.Unknown, e.say("no sample tells the utilisation, and unknown is not idle")},
	} {
		if part.milli > 0 {
			list = append(list, note{e.hours(part.milli), part.why})
		}
	}
	e.pairs(e.p, list)
}

// row is segments of one lease that differ in the device only.
type segmentRow struct {
	explain.Segment
	devices []string
}

// rows puts the devices of a lease together that are billed alike.
func (e *explained) rows() []segmentRow {
	type of struct {
		lease string
		span  span.Span
		kind  meter.Kind
		price string
		minus bool
	}
	var out []segmentRow
	at := map[of]int{}
	for _, g := range e.x.Segments {
		k := of{g.Lease, g.Span, g.Key.Kind, "", g.MilliGPUSeconds < 0}
		if g.Exact != nil {
			k.price = e.priceName(&g)
		}
		i, known := at[k]
		if !known || e.all {
			at[k] = len(out)
			out = append(out, segmentRow{g, []string{g.Device}})
			continue
		}
		r := &out[i]
		if !slices.Contains(r.devices, g.Device) {
			r.devices = append(r.devices, g.Device)
		}
		r.Milli += g.Milli
		r.MilliGPUSeconds += g.MilliGPUSeconds
		if g.Exact != nil {
			r.Exact = new(big.Rat).Add(r.Exact, g.Exact)
		}
	}
	slices.SortStableFunc(out, func(a, b segmentRow) int {
		return cmp.Or(cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Span.From, b.Span.From), cmp.Compare(a.Span.To, b.Span.To))
	})
	return out
}

// segments is the table of stretches, or of leases when there are too many.
func (e *explained) segments() {
	rows := e.rows()
	e.heading(e.say("Which time it is"))
	if len(rows) > shownSegments && !e.all {
		e.paragraph(e.say("%s segments, shown by lease; --all shows each.", group(strconv.Itoa(len(rows)))))
		e.p.line(plain, "")
		e.byLease(rows)
	} else {
		e.bySegment(rows)
	}
	e.sum()
}

func (e *explained) bySegment(rows []segmentRow) {
	billed := e.x.Line != nil
	t := Table{Width: e.Width, Colour: e.Colour, Indent: 4, Columns: []Column{
		{Head: e.say("Lease"), Fit: Wrap},
		{Head: e.say("Device"), Fit: Wrap},
		{Head: e.say("From"), Fit: Wrap},
		{Head: e.say("To"), Fit: Wrap},
		{Head: e.say("Seconds"), Align: Right},
		{Head: e.say("GPUs"), Align: Right},
	}}
	if billed {
		t.Columns = append(t.Columns, Column{Head: e.say("Price"), Align: Right}, Column{Head: e.say(amountHead(e.x.Document), clean(e.x.Document.Currency)), Align: Right})
	}
	for i := range rows {
		r := &rows[i]
		cells := []string{
			clean(r.Lease), e.deviceCell(r), e.at(r.Span.From), e.at(r.Span.To),
			group(strconv.FormatInt(r.MilliGPUSeconds/r.Milli, 10)), group(money.DecimalText(big.NewRat(r.Milli, 1000), 0, 3)),
		}
		if billed {
			cells = append(cells, fmt.Sprintf("#%d", e.names[e.priceName(&r.Segment)]), group(money.DecimalText(r.Exact, 2, 12)))
		}
		t.row(false, cells...)
		if r.Key.Kind == meter.TopUp {
			t.note(e.say("top-up"), e.topUp(r))
		}
	}
	e.total(&t)
}

// total ends a table of segments with its exact amount.
func (e *explained) total(t *Table) {
	if e.x.Line != nil {
		cells := make([]string, len(t.Columns))
		cells[0], cells[len(cells)-1] = e.say("Total"), group(money.DecimalText(e.x.Exact, 2, 12))
		t.row(true, cells...)
	}
	e.p.WriteString(t.String())
}

func (e *explained) deviceCell(r *segmentRow) string {
	switch {
	case len(r.devices) > 1:
		return e.say("%d devices", len(r.devices))
	case r.Device == "":
		return "–"
	default:
		return clean(r.Device)
	}
}

// byLease is a row for each lease, the largest first.
func (e *explained) byLease(rows []segmentRow) {
	var list []*leaseRow
	of := map[string]*leaseRow{}
	for _, r := range rows {
		l := of[r.Lease]
		if l == nil {
			l = &leaseRow{lease: r.Lease, span: r.Span, exact: new(big.Rat)}
			of[r.Lease] = l
			list = append(list, l)
		}
		l.segments++
		l.milli += r.MilliGPUSeconds
		l.span = span.Span{From: min(l.span.From, r.Span.From), To: max(l.span.To, r.Span.To)}
		if r.Exact != nil {
			l.exact.Add(l.exact, r.Exact)
		}
	}
	slices.SortStableFunc(list, func(a, b *leaseRow) int { return cmp.Compare(b.milli, a.milli) })
	t := Table{Width: e.Width, Colour: e.Colour, Indent: 4, Columns: []Column{
		{Head: e.say("Lease"), Fit: Wrap},
		{Head: e.say("From"), Fit: Wrap},
		{Head: e.say("To"), Fit: Wrap},
		{Head: e.say("Segments"), Align: Right},
		{Head: e.say("GPU-hours"), Align: Right},
		{Head: e.say(amountHead(e.x.Document), clean(e.x.Document.Currency)), Align: Right},
	}}
	add := func(name, from, to string, l *leaseRow) {
		amount := ""
		if e.x.Line != nil {
			amount = group(money.DecimalText(l.exact, 2, 4)) // the total has all digits
		}
		t.row(false, name, from, to, group(strconv.Itoa(l.segments)), trimmedHours(l.milli), amount)
	}
	rest := &leaseRow{exact: new(big.Rat)}
	for i, l := range list {
		if i < shownSegments {
			add(clean(l.lease), e.at(l.span.From), e.at(l.span.To), l)
			continue
		}
		rest.segments, rest.milli = rest.segments+l.segments, rest.milli+l.milli
		rest.exact.Add(rest.exact, l.exact)
	}
	if n := len(list) - shownSegments; n > 0 {
		add(e.say("%d more leases", n), "", "", rest)
	}
	e.total(&t)
}

// leaseRow adds up what a lease has in the line.
type leaseRow struct {
	lease    string
	span     span.Span
	segments int
	milli    int64
	exact    *big.Rat
}

// sum says what the segments add up to and how that becomes the amount.
func (e *explained) sum() {
	x := e.x
	e.p.line(plain, "")
	if x.Unbilled != nil {
		e.paragraph(e.say("Together %s.", e.hours(x.Unbilled.Quantity.MilliGPUSeconds)))
		return
	}
	e.paragraph(e.say("Each amount is seconds × GPUs ÷ 3,600 × the price of a GPU-hour, exact. Together %s.", e.hours(x.Line.Quantity.MilliGPUSeconds)))
	e.rounded()
}

// rounded says how the exact sum becomes the line's amount. Of a correction each of the two amounts was rounded.
func (e *explained) rounded() {
	l, d := e.x.Line, e.x.Document
	if d.Kind == bill.KindCorrection {
		return
	}
	text := group(money.DecimalText(e.x.Exact, 2, 12))
	if to, ok := new(big.Rat).SetString(l.Amount); ok && to.Cmp(e.x.Exact) != 0 {
		if strings.HasSuffix(text, ellipsis) {
			text += " " + glued(e.say("(exactly %s)", e.x.Exact.RatString()))
		}
		if e.x.Item != nil {
			e.p.line(plain, "")
		}
		e.paragraph(e.say("The line is rounded once (%s): %s becomes %s %s.", e.phrase(d.Rounding), text, group(l.Amount), clean(d.Currency)))
	}
}

// at is an instant in the contract's local time: seconds and the distance from UTC are shown where they matter.
func (e *explained) at(s span.Second) string {
	if s == span.Open {
		return e.say("running")
	}
	t, err := time.Parse(time.RFC3339, e.x.Contract.Zone.Text(s))
	if err != nil {
		return s.String()
	}
	layout := "2006-01-02 15:04"
	if t.Second() != 0 {
		layout += ":05"
	}
	if e.x.Document.Period.From != "" && e.x.Document.Period.From[len(e.x.Document.Period.From)-6:] != e.x.Document.Period.To[len(e.x.Document.Period.To)-6:] {
		layout += " -07:00"
	}
	return glued(t.Format(layout))
}
