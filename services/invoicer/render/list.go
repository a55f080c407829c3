package render

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/money"
)

// List is a table of invoices with totals for each currency; what is issued and what is only a preview never add up.
func List(documents []*bill.Document, o Options) string {
	if len(documents) == 0 {
		return o.say("No invoices.") + "\n"
	}
	t := Table{Width: o.Width, Colour: o.Colour, Columns: []Column{
		{Head: o.say("Invoice"), Fit: Wrap},
		{Head: o.say("Contract"), Fit: Clip},
		{Head: o.say("Customer"), Fit: Clip},
		{Head: o.say("Period"), Fit: Wrap},
		{Head: o.say("GPU-hours"), Align: Right},
		{Head: o.say("Total"), Align: Right},
	}}
	for _, d := range documents {
		t.Row(o.called(d), d.Contract, d.Customer, o.dates(d.Period), listHours(d.Quantity.MilliGPUSeconds), group(d.Total)+" "+d.Currency)
	}
	for _, s := range sums(documents) {
		name := "issued: %d"
		if s.preview {
			name = "previews: %d"
		}
		amount := o.say("unknown")
		if s.amount != nil {
			amount = group(money.DecimalText(s.amount, s.places, 12))
		}
		t.Total(o.say(name, s.count), "", "", "", listHours(s.milli), amount+" "+s.currency)
	}
	return t.String()
}

// called is the number, and the kind where it is no plain invoice.
func (o Options) called(d *bill.Document) string {
	switch d.Kind {
	case bill.KindInvoice:
		return d.Invoice
	case bill.KindCancellation:
		return d.Invoice + " " + o.say("cancellation of %s", d.Cancels)
	}
	return strings.TrimSpace(d.Invoice + " " + o.say(d.Kind))
}

// listHours has three digits, for an overview; the invoice itself has nine.
func listHours(milli int64) string { return group(big.NewRat(milli, 3600*1000).FloatString(3)) }

// dates are a period's local dates, both included: a whole month as 2026-02. A period that is not made of whole days
// shows its hours, the end excluded.
func (o Options) dates(p bill.DocumentPeriod) string {
	from, err := time.Parse(time.RFC3339, p.From)
	to, err2 := time.Parse(time.RFC3339, p.To)
	midnight := func(t time.Time) bool { return t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0 }
	const day, minute = "2006-01-02", "15:04"
	last := to.AddDate(0, 0, -1)
	switch {
	case err != nil || err2 != nil:
		return o.say("%s to %s", p.From, p.To)
	case !midnight(from) || !midnight(to):
		end := to.Format(minute)
		if from.Format(day) != to.Format(day) {
			end = to.Format(day + " " + minute)
		}
		return o.say("%s to %s", from.Format(day+" "+minute), end)
	case from.Day() == 1 && to.Day() == 1 && from.Format("2006-01") == last.Format("2006-01"):
		return from.Format("2006-01")
	case from.Format(day) == last.Format(day):
		return from.Format(day)
	default:
		return o.say("%s to %s", from.Format(day), last.Format(day))
	}
}

// sum adds documents of one currency.
type sum struct {
	currency string
	preview  bool
	count    int
	milli    int64
	amount   *big.Rat // nil when one of them cannot be read
	places   int
}

func sums(documents []*bill.Document) []*sum {
	var out []*sum
	for _, d := range documents {
		preview := d.Kind == bill.KindPreview
		i := slices.IndexFunc(out, func(s *sum) bool { return s.currency == d.Currency && s.preview == preview })
		if i < 0 {
			i = len(out)
			out = append(out, &sum{currency: d.Currency, preview: preview, amount: new(big.Rat)})
		}
		s := out[i]
		s.count++
		s.milli += d.Quantity.MilliGPUSeconds
		value, err := money.ParseDecimal(d.Total)
		if err != nil || s.amount == nil {
			s.amount = nil
			continue
		}
		s.amount.Add(s.amount, value)
		if c, err := money.ParseCurrency(d.Currency); err == nil {
			s.places = c.Digits()
		}
	}
	slices.SortFunc(out, func(a, b *sum) int {
		if a.preview != b.preview {
			return map[bool]int{true: 1, false: -1}[a.preview]
		}
		return cmp.Compare(a.currency, b.currency)
	})
	return out
}
