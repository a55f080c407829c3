package render

import (
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

// arithmetic adds the rows under a line: each unit price with its steps, what was leased and topped up at it, the sum
// and its rounding, and the change in a correction.
func (o Options) arithmetic(t *Table, d *bill.Document, l *bill.DocumentLine) {
	var done []string
	exact := new(big.Rat)
	for i := range l.Rows {
		price := l.Rows[i].PerGPUHour + " " + strings.Join(l.Rows[i].Steps, " ")
		if slices.Contains(done, price) {
			continue
		}
		done = append(done, price)
		t.note(o.say("price"), o.price(&l.Rows[i]))
		for k := range l.Rows {
			r := &l.Rows[k]
			if r.PerGPUHour+" "+strings.Join(r.Steps, " ") == price {
				o.product(t, r)
				if e, ok := new(big.Rat).SetString(r.ExactFraction); ok {
					exact.Add(exact, e)
				}
			}
		}
	}
	rounded := l.Amount
	if d.Kind == bill.KindCorrection && l.Now != "" {
		rounded = l.Now
	}
	o.sum(t, l, exact, rounded)
	if d.Kind == bill.KindCorrection {
		o.change(t, d.Currency, l)
	}
}

// price is the unit price as arithmetic: 18.00/gpu-hour × region cn-west 88% = 15.84/gpu-hour.
func (o Options) price(r *bill.DocumentRow) string {
	steps := make([]string, len(r.Steps))
	given := "" // the unit of the price the steps begin with
	for i, s := range r.Steps {
		name, text, _ := strings.Cut(s, " ")
		amount, unit, ok := strings.Cut(text, "/")
		if ok && i == 0 {
			given = unit
			steps[i] = glued(group(amount) + "/" + o.word(unit))
		} else {
			steps[i] = glued(strings.TrimSpace(o.phrase(name) + " " + clean(text)))
		}
	}
	text := strings.Join(steps, times)
	if len(steps) != 1 || given != "gpu-hour" {
		text += equals + glued(group(r.PerGPUHour)+"/"+o.say("gpu-hour"))
	}
	return text
}

// Operators stay with what follows them.
const (
	times  = " ×" + string(glue)
	equals = " =" + string(glue)
)

// product is quantity × price = exact. A quantity that is no round number of GPU-hours stands in GPU-seconds, so that
// the figures shown give the figure shown.
func (o Options) product(t *Table, r *bill.DocumentRow) {
	text := o.hours(r.MilliGPUSeconds)
	if places, finite := big.NewRat(r.MilliGPUSeconds, 3600*1000).FloatPrec(); !finite || places > 9 {
		seconds := money.DecimalText(big.NewRat(r.MilliGPUSeconds, 1000), 0, 3)
		text = o.say("%s GPU-s", group(seconds)) + " ÷ 3,600"
	}
	text = glued(text) + times + group(r.PerGPUHour) + equals + group(r.Exact)
	if strings.HasSuffix(r.Exact, ellipsis) {
		text += " " + glued(o.say("(exactly %s)", clean(r.ExactFraction)))
	}
	label := "leased"
	if r.Kind == meter.TopUp {
		label, text = "top-up", o.say("start minimum or granularity: ")+text
	}
	t.note(o.say(label), text)
}

// sum is said when it is not one row's product already.
func (o Options) sum(t *Table, l *bill.DocumentLine, exact *big.Rat, rounded string) {
	if len(l.Rows) == 0 {
		return
	}
	text := group(money.DecimalText(exact, 2, 12))
	if to, ok := new(big.Rat).SetString(rounded); ok && to.Cmp(exact) != 0 {
		text = o.say("%s, rounded to %s", text, group(rounded))
	} else if len(l.Rows) == 1 {
		return
	}
	t.note(o.say("amount"), text)
}

// change is what a correction's line does to what was billed. A line that is gone is known as 0, without digits.
func (o Options) change(t *Table, currency string, l *bill.DocumentLine) {
	if l.Before == "" {
		t.note(o.say("change"), o.say("not billed before, known now %s, difference %s", group(l.Amount), group(l.Amount)))
		return
	}
	now := l.Now
	if r, err := money.ParseRounded(now, money.Currency(currency)); err == nil {
		now = r.String()
	}
	t.note(o.say("change"), o.say("billed before %s, known now %s, difference %s", group(l.Before), group(now), group(l.Amount)))
}
