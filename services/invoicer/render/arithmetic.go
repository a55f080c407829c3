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
		price := priceName(&l.Rows[i])
		if slices.Contains(done, price) {
			continue
		}
		done = append(done, price)
		t.note(o.say("price"), o.price(&l.Rows[i]))
		for k := range l.Rows {
			r := &l.Rows[k]
			if priceName(r) == price {
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

// priceName tells prices apart. Slices of one price have it together, whatever their shares.
func priceName(r *bill.DocumentRow) string {
	per, unit := perHour(r)
	return per + "/" + unit + " " + strings.Join(r.Steps, " ")
}

// perHour is the unit price of a row and its unit: a slice's where it has a price of its own.
func perHour(r *bill.DocumentRow) (price, unit string) {
	if r.SliceMilli > 0 {
		return r.PerSliceHour, "slice-hour"
	}
	return r.PerGPUHour, "gpu-hour"
}

// price is the unit price as arithmetic: 18.00/gpu-hour × region cn-west 88% = 15.84/gpu-hour. A cap is no factor: what stands
// before it is too much, and what follows counts from it.
func (o Options) price(r *bill.DocumentRow) string {
	var text, given string // given is the unit of the price the steps begin with
	for i, s := range r.Steps {
		name, of, _ := strings.Cut(s, " ")
		amount, unit, priced := strings.Cut(of, "/")
		step, by := glued(strings.TrimSpace(o.phrase(name)+" "+o.share(clean(of)))), times
		switch {
		case name == "state":
			step = glued(o.phrase(name) + " " + o.inState(of))
		case name == "volume":
			step, given = o.volume(of, i == 0), "gpu-hour"
		case name == "cap" && i > 0:
			step, by = glued(o.phrase(name)+" "+group(amount)+"/"+o.word(unit)), "; "
		case priced && i == 0 && name != "covered_by": // a commitment may be called base/2026
			step, given = glued(group(amount)+"/"+o.word(unit)), unit
		}
		if i > 0 {
			text += by
		}
		text += step
	}
	if per, unit := perHour(r); len(r.Steps) != 1 || given != unit {
		text += equals + glued(group(per)+"/"+o.say(unit))
	}
	return text
}

// inState is a lease state in the reader's language, with what follows it: "suspended 30%".
func (o Options) inState(text string) string {
	state, rest, _ := strings.Cut(text, " ")
	return strings.TrimSpace(o.word(state) + " " + clean(rest))
}

// volume is a factor of volume tiers, or their price where the steps begin with it.
func (o Options) volume(text string, first bool) string {
	if held, rest, ok := strings.Cut(text, atOnce); ok {
		text = o.say("%s GPUs at once: %s", o.figures(held), o.figures(rest))
	} else {
		text = o.figures(text)
	}
	if first {
		return text
	}
	return glued(o.say("volume") + " " + text)
}

// atOnce stands in a step behind how many GPUs were held.
const atOnce = " gpus at once "

// share says in the reader's language what a step takes off or adds: "night 40% off".
func (o Options) share(text string) string {
	for _, change := range []string{"%s off", "%s more"} {
		if rest, ok := strings.CutSuffix(text, strings.TrimPrefix(change, "%s")); ok {
			i := strings.LastIndex(rest, " ") + 1
			return rest[:i] + o.say(change, rest[i:])
		}
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
	if r.SliceMilli > 0 {
		o.sliceProduct(t, r)
		return
	}
	if places, finite := big.NewRat(r.MilliGPUSeconds, 3600*1000).FloatPrec(); !finite || places > 9 {
		seconds := money.DecimalText(big.NewRat(r.MilliGPUSeconds, 1000), 0, 3)
		text = o.say("%s GPU-s", group(seconds)) + " ÷ 3,600"
	}
	o.productNote(t, r, glued(text)+times+group(r.PerGPUHour))
}

// sliceProduct is slice-hours × price of a slice = exact, with the share that a slice has of its GPU.
func (o Options) sliceProduct(t *Table, r *bill.DocumentRow) {
	hours := big.NewRat(r.MilliGPUSeconds, 3600*r.SliceMilli)
	text := o.say("%s slice-hours", group(money.DecimalText(hours, 0, 9)))
	if places, finite := hours.FloatPrec(); !finite || places > 9 {
		text = o.say("%s slice-s", group(money.DecimalText(big.NewRat(r.MilliGPUSeconds, r.SliceMilli), 0, 9))) + " ÷ 3,600"
	}
	text += " " + glued(o.say("(each %s of a GPU)", money.DecimalText(big.NewRat(r.SliceMilli, 1000), 0, 3)))
	o.productNote(t, r, glued(text)+times+group(r.PerSliceHour))
}

// productNote adds what a product gives.
func (o Options) productNote(t *Table, r *bill.DocumentRow, product string) {
	text := product + equals + group(r.Exact)
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
