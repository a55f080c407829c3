package render

import (
	"math/big"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
)

// limit says how much of the contract's spend limit is used, and in a preview what it can come to before anybody looks again.
func (o Options) limit(d *bill.Document) string {
	l := d.Limit
	if l == nil {
		return ""
	}
	of := func(amount string) string { return glued(group(amount) + " " + clean(d.Currency)) }
	during := o.period(&bill.Document{Period: l.Span, Timezone: d.Timezone})
	parts := []string{o.say("%s of %s spent (%s), %s.", of(l.Spent), glued(o.figures(l.Spend)), clean(l.Used), during)}
	if len(l.Reached) > 0 {
		parts = append(parts, o.say("Reached: %s.", clean(strings.Join(l.Reached, ", "))))
	}
	if a := l.Ahead; a != nil {
		parts = append(parts, o.say("If all that runs goes on, it will be %s at %s, %s beyond the limit.", of(a.Spent), localTime(a.At), of(a.Overshoot)))
	}
	if l.Accepted != "" {
		said := "Up to %s beyond it is accepted."
		if l.Ahead != nil && exceeds(l.Ahead.Overshoot, l.Accepted) {
			said = "That is more than the %s that is accepted: stop earlier."
		}
		parts = append(parts, o.say(said, of(l.Accepted)))
	}
	return o.prose(parts)
}

// localTime is an instant of a document as its local clock shows it.
func localTime(instant string) string {
	at, err := time.Parse(time.RFC3339, instant)
	if err != nil {
		return clean(instant)
	}
	return glued(at.Format("2006-01-02 15:04:05"))
}

// exceeds compares two decimals of a document; what is none exceeds nothing.
func exceeds(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok && ok2 && x.Cmp(y) > 0
}
