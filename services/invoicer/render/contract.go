package render

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Contract lays a contract out for people: its prices as a table, its windows as a week, what is committed to with its fees. What the
// document leaves out is shown with its default, and marked so.
func Contract(c *contract.Contract, o Options) string {
	s := &sheet{Options: o, contract: c, said: map[said]contract.Provision{}}
	s.colour = o.Colour
	for _, p := range c.Provisions() {
		s.said[said{p.Clause, p.Of, p.Field}] = p
	}
	s.paragraph(bold, s.say("CONTRACT %s", clean(c.ID)), room(o.Width))
	s.line(plain, "")
	head := []note{
		{s.say("Customer"), clean(c.Customer)},
		{s.say("Currency"), c.Currency.String()},
		{s.say("Term"), s.within(c.Term) + " (" + clean(c.Zone.String()) + ")"},
	}
	if !c.Trial.Empty() {
		head = append(head, note{s.say("Trial"), s.say("until %s: use costs nothing, and no fee, limit or commitment holds", glued(s.until()))})
	}
	if c.PriceBook != "" {
		head = append(head, note{s.say("Price book"), clean(c.PriceBook)})
	}
	s.pairs(&s.page, head)
	s.billing()
	s.rates()
	s.reserved()
	s.packages()
	s.week()
	s.relief()
	s.meters()
	s.charges()
	s.states()
	s.line(plain, "")
	s.paragraph(dim, s.say("* is not in the document: the default holds."), room(o.Width))
	return s.String()
}

// sheet is a page about one contract.
type sheet struct {
	page
	Options
	contract *contract.Contract
	said     map[said]contract.Provision
}

// said names a provision.
type said struct{ clause, of, field string }

// text is a provision in the reader's language, marked where it is a default; "" where the contract says nothing.
func (s *sheet) text(clause, of, field string) string {
	p, ok := s.said[said{clause, of, field}]
	if !ok {
		return ""
	}
	return s.provision(p.Text) + s.mark(clause, of, field)
}

// mark tells a default from what is stated.
func (s *sheet) mark(clause, of, field string) string {
	if s.said[said{clause, of, field}].Stated {
		return ""
	}
	return " *"
}

// provision is what a contract says in the reader's language.
func (o Options) provision(text string) string {
	if name, ok := strings.CutPrefix(text, "price book "); ok {
		return o.say("price book %s", clean(name))
	}
	if o.Language == Chinese {
		if said := o.chineseProvision(text); said != "" {
			return said
		}
	}
	if translated := o.say(text); translated != text {
		return translated
	}
	if shared := o.share(text); shared != text {
		return clean(shared)
	}
	return o.figures(text)
}

// lasting is a length of time as a contract writes it.
//
//tidy:const
var lasting = regexp.MustCompile(`^([1-9][0-9]*[dhms])+$`)

// chineseProvision is what needs more than a word for a word: methods whose names are those of clauses, a part of the price, lengths of
// time and lists of our own words; "" for all else.
func (o Options) chineseProvision(text string) string {
	switch text {
	case "volume":
		return o.say("all at the price of one tier")
	case "package":
		return o.say("by whole packages")
	}
	if part, ok := strings.CutSuffix(text, " of on_demand"); ok {
		return o.say("%s of the on-demand price", part)
	}
	if lasting.MatchString(text) {
		units := strings.NewReplacer("d", " "+o.say("day")+" ", "h", " "+o.say("hour")+" ", "m", " "+o.say("minute")+" ", "s", " "+o.say("second")+" ")
		return glued(strings.TrimSpace(units.Replace(text)))
	}
	words := strings.Split(text, ", ")
	for i, w := range words {
		if words[i] = o.say(w); words[i] == w {
			return ""
		}
	}
	return strings.Join(words, o.say(", "))
}

// windows are times of the week in the reader's language.
func (o Options) windows(text string) string {
	if o.Language != Chinese {
		return clean(text)
	}
	pairs := []string{"daily", o.say("every day"), ", ", "，"}
	for _, day := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		pairs = append(pairs, day+"-", o.say(day)+"至", day, o.say(day))
	}
	return strings.NewReplacer(pairs...).Replace(clean(text))
}

// within is a span by local dates, both included, or by instants.
func (s *sheet) within(in span.Span) string {
	c := s.contract
	from, to := c.BoundText(in.From), s.say("open")
	if in.To != span.Open {
		if to = c.BoundText(in.To); len(to) == len("2006-01-02") {
			to = c.Zone.DateOf(in.To - 1).String()
		}
	}
	return s.say("%s to %s", glued(from), glued(to))
}

// until is the trial's last local date, or the first instant after it.
func (s *sheet) until() string {
	c := s.contract
	if c.Zone.StartOfDay(c.Zone.DateOf(c.Trial.To)) == c.Trial.To {
		return s.say("the end of %s", c.Zone.DateOf(c.Trial.To-1).String())
	}
	return c.Zone.Text(c.Trial.To)
}

// heading begins a part.
func (s *sheet) heading(name string) {
	s.line(plain, "")
	s.line(bold, name)
	s.line(plain, "")
}

func (s *sheet) billing() {
	s.heading(s.say("Billing"))
	var list []note
	for _, f := range []struct{ field, label string }{
		{"cycle", s.say("Cycle")},
		{"anchor", s.say("Anchor day")},
		{"grace", s.say("Waits for late facts")},
		{"granularity", s.say("Granularity, per start")},
		{"minimum", s.say("Minimum, per start")},
		{"rounding", s.say("Rounding, per line")},
		{"month", s.say("Month of a monthly price")},
		{"fee_month", s.say("Month of a fee by days")},
		{"bill_by", s.say("Bills time that is")},
	} {
		if text := s.text("billing", "", f.field); text != "" {
			list = append(list, note{f.label, text})
		}
	}
	s.pairs(&s.page, list)
}

func (s *sheet) rates() {
	if len(s.contract.Rates) == 0 {
		return
	}
	s.heading(s.say("Prices"))
	t := Table{Width: s.Width, Colour: s.Colour, Indent: 4, Columns: []Column{
		{Head: s.say("SKU"), Fit: Wrap},
		{Head: s.say("On demand"), Align: Right, Fit: Wrap},
		{Head: s.say("Regions"), Fit: Wrap},
		{Head: s.say("Service tiers"), Fit: Wrap},
		{Head: s.say("Dedicated"), Align: Right},
		{Head: s.say("Cap"), Align: Right, Fit: Wrap},
	}}
	for _, r := range s.contract.Rates {
		get := func(field string) string { return s.text("rates", r.SKU, field) }
		limit := get("cap")
		if r.Cap != nil && r.Cap.Final {
			limit = s.say("%s, final price", limit)
		}
		t.Row(r.SKU, get("on_demand"), get("region"), get("service_tier"), get("dedicated"), limit)
		if r.SliceOf != "" {
			t.note(s.say("slice"), s.say("of %s", clean(r.SliceOf)))
		}
		if r.Spot != nil {
			text := s.say("index %s", clean(r.Spot.Index))
			if r.Spot.Max != nil {
				text += s.say(", at most %s of the on-demand price", money.PercentText(r.Spot.Max))
			}
			text += s.say(", lock: %s", get("spot lock"))
			if r.Spot.ReclaimedFreeSeconds > 0 {
				text += s.say(", free if reclaimed within %s", get("spot reclaimed_free_within"))
			}
			t.note(s.say("spot"), text)
		}
		if r.Volume != nil || r.AtOnce != nil {
			s.tiers(&t, "rates", r.SKU, "volume", get("volume by"))
		}
	}
	s.WriteString(t.String())
}

// tiers adds a table of tiers to the last row.
func (s *sheet) tiers(t *Table, clause, of, field, unit string) {
	var parts []string
	for _, p := range s.contract.Provisions() {
		if p.Clause == clause && p.Of == of && strings.HasPrefix(p.Field, field+" >") {
			parts = append(parts, glued(s.figures(strings.TrimPrefix(p.Field, field+" "))+" "+s.figures(p.Text)))
		}
	}
	list := strings.Join(parts, s.say("; "))
	text := s.say("by %s of a period, %s: %s", unit, s.text(clause, of, field), list)
	if s.said[said{clause, of, field + " by"}].Text == "gpus" {
		text = s.say("by GPUs held at once, %s: %s", s.text(clause, of, field), list)
	}
	if s.said[said{clause, of, field + "_by"}].Text == "level" {
		text = s.say("by the level at each second, %s: %s", s.text(clause, of, field), list)
	}
	if s.said[said{clause, of, field + " flat"}].Text == "always" {
		text += s.say("; ") + s.say("the first flat fee is always due")
	}
	if counted := s.text(clause, of, field+" count"); counted != "" {
		text += s.say("; ") + s.say("%s time counts too", counted)
	}
	t.note(s.say("tiers"), text)
}

func (s *sheet) reserved() {
	t := Table{Width: s.Width, Colour: s.Colour, Indent: 4, Columns: []Column{
		{Head: s.say("Capacity"), Fit: Wrap},
		{Head: s.say("SKU"), Fit: Wrap},
		{Head: s.say("GPUs"), Align: Right},
		{Head: s.say("Price of one"), Align: Right, Fit: Wrap},
		{Head: s.say("For"), Fit: Wrap},
		{Head: s.say("Fee (%s)", s.contract.Currency), Align: Right, Fit: Wrap},
	}}
	rows := 0
	add := func(kind, name, sku string, gpus int64, p contract.Price, in span.Span, region string, fee bool) {
		rows++
		label, total := s.say(kind), ""
		if name != kind {
			label += " " + clean(name)
		}
		if fee {
			total = s.fee(gpus, p)
		}
		t.row(false, label, clean(sku), group(fmt.Sprint(gpus)), s.figures(p.Text(s.contract.Currency)), s.within(in), total)
		if region != "" {
			t.note(s.say("region"), clean(region))
		}
	}
	for _, r := range s.contract.Rates {
		for _, x := range r.Reserved {
			add("reserved", x.Name, r.SKU, x.Quantity, x.Price, x.Span, x.Region, true)
			if x.Advance {
				t.note(s.say("paid"), s.say("when its period begins"))
			}
			if x.Slices {
				t.note(s.say("slices"), s.say("slices of it are covered too, by their share"))
			}
		}
		for _, x := range r.Forward {
			add("forward", x.Name, r.SKU, x.Quantity, x.Price, x.Span, x.Region, x.TakeOrPay)
			if x.TakeOrPay {
				t.note(s.say("take or pay"), s.say("what is not used is paid too"))
			}
		}
	}
	if rows > 0 {
		s.heading(s.say("Committed capacity"))
		s.WriteString(t.String())
	}
}

// fee is what a quantity costs per unit of its price: 967,680.00/month.
func (s *sheet) fee(gpus int64, p contract.Price) string {
	total := new(big.Rat).Mul(p.Amount, new(big.Rat).SetInt64(gpus))
	return s.amount(total) + "/" + s.say(strings.TrimPrefix(p.Unit.String(), "gpu-"))
}

func (s *sheet) amount(v *big.Rat) string {
	return group(money.DecimalText(v, s.contract.Currency.Digits(), money.MaxDigits))
}

func (s *sheet) packages() {
	if len(s.contract.Packages) == 0 {
		return
	}
	s.heading(s.say("Packages on sale"))
	t := Table{Width: s.Width, Colour: s.Colour, Indent: 4, Columns: []Column{
		{Head: s.say("Package"), Fit: Wrap},
		{Head: s.say("SKU"), Fit: Wrap},
		{Head: s.say("GPUs"), Align: Right},
		{Head: s.say("Runs for one")},
		{Head: s.say("Fee (%s)", s.contract.Currency), Align: Right},
	}}
	for _, p := range s.contract.Packages {
		t.Row(p.Name, p.SKU, group(fmt.Sprint(p.Quantity)), s.say(p.Unit.String()), s.amount(p.Price))
		if p.Region != "" {
			t.Note(s.say("region"), p.Region)
		}
		if p.EarlyEnd != contract.EarlyEndNone {
			t.Note(s.say("ended early"), s.say(earlyEnd(p.EarlyEnd)))
		}
	}
	s.WriteString(t.String())
}

// earlyEnd is what is due of a package that ended early.
func earlyEnd(rule contract.EarlyEnd) string {
	if rule == contract.EarlyEndClawback {
		return "the time until then on demand, at most the fee"
	}
	return "the local days before the end"
}
