package render

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/quote"
)

// Quote lays a quote out: what the span comes to under each contract, line beside line, then the ways to buy the same use, the cheapest
// first, with what each risks.
func Quote(r *quote.Result, o Options) string {
	p := &quotePage{Options: o, r: r}
	p.colour = o.Colour
	p.paragraph(bold, o.say("QUOTE FOR %s", clean(r.Customer)), room(o.Width))
	p.line(plain, "")
	span := &bill.Document{Timezone: r.Zone.String(), Period: bill.DocumentPeriod{From: r.Zone.Text(r.Span.From), To: r.Zone.Text(r.Span.To)}}
	p.pairs(&p.page, []note{{o.say("Span"), o.period(span)}, {o.say("Currency"), r.Currency.String()}})
	p.totals()
	p.lines()
	switch {
	case r.Modes != nil:
		p.modes()
	case !used(r):
		p.line(plain, "")
		p.text(o.say("No GPU was held in the span: there are only fees to compare."))
	default:
		p.line(plain, "")
		p.text(o.say("The customer had several contracts in the span: name one with --contract to compare ways to buy."))
	}
	return p.String()
}

// quotePage is a quote on its way to a page.
type quotePage struct {
	page
	Options
	r *quote.Result
}

func (p *quotePage) text(text string) { p.paragraph(plain, text, room(p.Width)) }

func (p *quotePage) heading(text string) {
	p.line(plain, "")
	p.line(bold, text)
	p.line(plain, "")
}

// offers are all, the own ones first.
func offers(r *quote.Result) []*quote.Offer {
	if r.Own == nil {
		return r.Others
	}
	return append([]*quote.Offer{r.Own}, r.Others...)
}

func used(r *quote.Result) bool {
	return slices.ContainsFunc(offers(r), func(o *quote.Offer) bool { return o.Billed > 0 || len(o.Unpriced) > 0 })
}

// name is a column's or row's: the contract, and whether it is the customer's own.
func (p *quotePage) name(o *quote.Offer) string {
	names := make([]string, len(o.Names))
	for i, n := range o.Names {
		names[i] = clean(n)
	}
	text := strings.Join(names, " + ")
	if o == p.r.Own {
		text = p.say("%s, as billed", text)
	}
	return text
}

// totals is a row for each contract: what it bills, and what that is beside the own ones.
func (p *quotePage) totals() {
	p.heading(p.say("What the span comes to"))
	t := Table{Width: p.Width, Colour: p.Colour, Indent: 4, Columns: []Column{
		{Head: p.say("Contract"), Fit: Fill},
		{Head: p.say("GPU-hours"), Align: Right},
		{Head: p.say("Total"), Align: Right},
		{Head: p.say("Difference"), Align: Right},
		{Head: "%", Align: Right},
	}}
	for _, o := range offers(p.r) {
		difference, part := "", ""
		if p.r.Own != nil && o != p.r.Own {
			more := o.Total.Sub(p.r.Own.Total)
			difference = signed(more)
			if !p.r.Own.Total.IsZero() {
				part = signedPart(new(big.Rat).Quo(more.Amount().Rat(), p.r.Own.Total.Amount().Rat()))
			}
		}
		t.row(false, p.name(o), listHours(o.Billed), group(o.Total.String()), difference, part)
		p.notes(&t, o)
	}
	p.WriteString(t.String())
	if p.r.Own == nil {
		p.text(p.say("No contract of the customer's own was in force."))
	}
}

// notes say what an offer is made of, and what it leaves out.
func (p *quotePage) notes(t *Table, o *quote.Offer) {
	if len(o.Statements) > 1 {
		for _, s := range o.Statements {
			d := bill.DocumentPeriod{From: s.Contract.Zone.Text(s.Period.From), To: s.Contract.Zone.Text(s.Period.To)}
			label := p.dates(d)
			if len(o.Names) > 1 {
				label = clean(s.Contract.ID) + " " + label
			}
			t.note(label, group(s.Total.String()))
		}
	}
	for _, u := range o.Unpriced {
		why, _ := p.explain(u.Reason)
		text := p.say("%s: %s", p.hours(u.MilliGPUSeconds), why)
		if u.Standing == meter.Refused {
			text += p.say(" The total is without this time.")
		}
		t.note(p.say(string(u.Standing)), text)
	}
	for _, x := range o.Problems {
		why, _ := p.explain(x.Reason)
		t.note(p.say("statement"), p.say("%s: %s", clean(x.ID), why))
	}
}

// line is one of the table that sets contracts beside each other.
type quoteLine struct {
	key     bill.LineKey
	item    string
	amounts []*money.Rounded // by offer, nil where it has no such line
}

// lines sets what each contract bills side by side, all periods of the span together.
func (p *quotePage) lines() {
	list := offers(p.r)
	var rows []quoteLine
	for i, o := range list {
		for _, s := range o.Statements {
			d := bill.NewDocument(s, nil, 1)
			for k := range d.Lines {
				key := d.Lines[k].Key()
				at := slices.IndexFunc(rows, func(l quoteLine) bool { return l.key == key })
				if at < 0 {
					at = len(rows)
					rows = append(rows, quoteLine{key, p.lineName(&d.Lines[k]), make([]*money.Rounded, len(list))})
				}
				if l := s.Line(key); l != nil {
					sum := l.Amount
					if before := rows[at].amounts[i]; before != nil {
						sum = sum.Add(*before)
					}
					rows[at].amounts[i] = &sum
				}
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b quoteLine) int { return strings.Compare(string(a.key.Item), string(b.key.Item)) })
	p.heading(p.say("Line by line"))
	t := Table{Width: p.Width, Colour: p.Colour, Columns: []Column{{Head: p.say("Item"), Fit: Fill}}}
	total := []string{p.say("Total")}
	for _, o := range list {
		t.Columns = append(t.Columns, Column{Head: p.name(o), Align: Right})
		total = append(total, group(o.Total.String()))
	}
	for _, r := range rows {
		cells := []string{r.item}
		for _, a := range r.amounts {
			if a == nil {
				cells = append(cells, "–")
			} else {
				cells = append(cells, group(a.String()))
			}
		}
		t.row(false, cells...)
	}
	t.row(true, total...)
	p.WriteString(t.String())
}

func (p *quotePage) lineName(l *bill.DocumentLine) string {
	if l.Count != nil {
		return p.itemName(l)
	}
	return p.item(l)
}

// modes is a row for each way to buy, the cheapest first.
func (p *quotePage) modes() {
	m := p.r.Modes
	p.heading(p.say("Ways to buy the same use under %s", clean(m.Contract)))
	t := Table{Width: p.Width, Colour: p.Colour, Indent: 4, Columns: []Column{
		{Head: "#", Align: Right},
		{Head: p.say("Way"), Fit: Fill},
		{Head: p.say("Whole bill"), Align: Right},
		{Head: p.say("Saving"), Align: Right},
		{Head: "%", Align: Right},
	}}
	for i := range m.List {
		x := &m.List[i]
		rank, total, saving, part := "–", "–", "–", "–"
		if x.Why == "" {
			rank, total, saving = fmt.Sprint(i+1), group(x.Total.String()), group(x.Saving.String())
			if x.Part != nil {
				part = percentOf(x.Part)
			}
			if x.Name == quote.OffPeak {
				total, saving, part = "≥ "+total, "≤ "+saving, "≤ "+part
			}
		}
		t.row(false, rank, p.wayName(x), total, saving, part)
		for _, n := range p.about(x) {
			if n.text != "" {
				t.note(p.say(n.label), n.text)
			}
		}
	}
	p.WriteString(t.String())
	p.line(plain, "")
	if refused := m.List[0].Offer.Refused(); m.List[0].Why == "" && refused > 0 {
		p.text(p.say("Every way with a rank leaves %s out, which the contract cannot price.", p.hours(refused)))
	}
	p.paragraph(dim, p.say("Each whole bill is exact, other charges of the span included, and rounded line by line as the contract says; savings are against on demand, percentages rounded half away from zero. The contract counts as it was in force at the end of the span, without its commitments but for the reservation that is tried."), room(p.Width))
}

// signed shows a difference with its sign.
func signed(m money.Rounded) string {
	if m.Sign() > 0 {
		return "+" + group(m.String())
	}
	return group(m.String())
}

// percentOf is a part in per cent with one digit, half away from zero.
func percentOf(part *big.Rat) string {
	return group(new(big.Rat).Mul(part, big.NewRat(100, 1)).FloatString(1))
}

func signedPart(part *big.Rat) string {
	if part.Sign() > 0 {
		return "+" + percentOf(part)
	}
	return percentOf(part)
}
