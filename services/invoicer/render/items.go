package render

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/money"
)

// parts splits the lines into GPU time, items and what was billed in advance, which stand in tables of their own: an item has another unit
// each.
func parts(list []bill.DocumentLine) (time, items, ahead []bill.DocumentLine) {
	for _, l := range list {
		switch {
		case l.Count == nil:
			time = append(time, l)
		case l.Advance != "":
			ahead = append(ahead, l)
		default:
			items = append(items, l)
		}
	}
	return time, items, ahead
}

// items is the table of what is billed besides GPU time, each line with the steps that made its amount.
func (o Options) items(d *bill.Document, list []bill.DocumentLine, totals func(*Table)) string {
	t := Table{Width: o.Width, Colour: o.Colour, Indent: 4, Columns: []Column{
		{Head: " #", Align: Right},
		{Head: o.say("Item"), Fit: Fill},
		{Head: o.say("Quantity"), Align: Right},
		{Head: o.say("Unit"), Fit: Clip},
		{Head: o.say(amountHead(d), clean(d.Currency)), Align: Right},
	}}
	for i := range list {
		l := &list[i]
		t.row(false, strconv.Itoa(l.Line), o.itemName(l), group(l.Count.Quantity), o.word(l.Count.Unit), group(l.Amount))
		o.itemSteps(&t, d, l)
	}
	totals(&t)
	return t.String()
}

func amountHead(d *bill.Document) string {
	if d.Kind == bill.KindCorrection {
		return "Difference (%s)"
	}
	return "Amount (%s)"
}

// itemName is what an item is: its name, its kind, its SKU.
func (o Options) itemName(l *bill.DocumentLine) string {
	kind := glued(o.word(kindName(l.Item)))
	if l.Item == bill.ItemCommitment || l.Item == bill.ItemCap || l.Item == bill.ItemTermination {
		return kind
	}
	parts := []string{clean(l.Name), kind}
	if l.Item == bill.ItemTier {
		parts = []string{kind + string(glue) + glued(o.figures(l.Name))}
	}
	if l.SKU != "" {
		parts = append(parts, clean(l.SKU))
	}
	return strings.Join(parts, string(glue)+"· ")
}

// kindName is what an item's kind is called; one that is not known keeps its name.
func kindName(kind bill.ItemKind) string {
	switch kind {
	case bill.ItemMeter:
		return "metered"
	case bill.ItemAddon:
		return "add-on"
	case bill.ItemTier:
		return "tier fee"
	case bill.ItemCommitment:
		return "commitment shortfall"
	case bill.ItemCap:
		return "beyond the cap"
	case bill.ItemClawback:
		return "on-demand difference"
	case bill.ItemTermination:
		return "termination fee"
	case bill.ItemReserved:
		return "reservation fee"
	case bill.ItemTakeOrPay:
		return "take or pay"
	default:
		return string(kind)
	}
}

// itemSteps adds each step of an item under its name, and how the amount was rounded or changed.
func (o Options) itemSteps(t *Table, d *bill.Document, l *bill.DocumentLine) {
	if l.Advance != "" {
		t.note(o.say("invoice"), clean(l.Advance))
	}
	for _, s := range l.Count.Steps {
		name, text, _ := strings.Cut(s, " ")
		if name == "state" {
			text = o.inState(text)
		}
		t.note(o.phrase(name), o.figures(text))
	}
	rounded := l.Amount
	if d.Kind == bill.KindCorrection && l.Now != "" {
		rounded = l.Now
	}
	exact, ok := new(big.Rat).SetString(l.Count.ExactFraction)
	if to, known := new(big.Rat).SetString(rounded); ok && known && to.Cmp(exact) != 0 {
		text := group(l.Count.Exact)
		if strings.HasSuffix(text, ellipsis) {
			text += " " + glued(o.say("(exactly %s)", clean(l.Count.ExactFraction)))
		}
		t.note(o.say("amount"), o.say("%s, rounded to %s", text, group(rounded)))
	}
	if d.Kind == bill.KindCorrection {
		o.change(t, d.Currency, l)
	}
}

// figures sets the figures and units of a step's text for the reader: "used 1200 gpu-hours" is "used 1,200 gpu-hours". Signs
// that open or close a figure stay with it.
func (o Options) figures(text string) string {
	words := strings.Fields(clean(text))
	for i, w := range words {
		open := w[:len(w)-len(strings.TrimLeft(w, "(>≤"))]
		w = w[len(open):]
		end := len(strings.TrimRight(w, "):,"))
		w, closing := w[:end], w[end:]
		if amount, unit, ok := strings.Cut(w, "/"); ok {
			w = group(amount) + "/" + o.measure(unit)
		} else {
			w = o.measure(w)
		}
		words[i] = open + w + closing
	}
	return strings.Join(words, " ")
}

// measure is a figure, or a word of ours in the reader's language.
func (o Options) measure(w string) string {
	if strings.Trim(w, ".0123456789"+ellipsis) == "" {
		return group(w)
	}
	return o.word(w)
}

// subtotal is the sum of the lines' amounts, or nothing when one of them is no amount.
func subtotal(d *bill.Document, list []bill.DocumentLine) string {
	sum := new(big.Rat)
	for i := range list {
		amount, ok := new(big.Rat).SetString(list[i].Amount)
		if !ok {
			return ""
		}
		sum.Add(sum, amount)
	}
	currency, err := money.ParseCurrency(d.Currency)
	if err != nil {
		return ""
	}
	return group(money.DecimalText(sum, currency.Digits(), 12))
}

// projected says what would be due too if the period ended like this.
func (o Options) projected(p *page, d *bill.Document) {
	if len(d.Projected) == 0 {
		return
	}
	p.line(plain, "")
	p.line(bold, o.say("Projected"))
	p.paragraph(plain, o.say("This would be due if nothing more was used in the period. It is not part of the total."), room(o.Width))
	p.line(plain, "")
	p.WriteString(o.items(d, d.Projected, func(*Table) {}))
}
