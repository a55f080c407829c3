package contract

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/money"
)

// Bounds of what a table, an allowance or a fee may state: beyond them is a slip of the pen.
const (
	maxTiers    = 100
	maxQuantity = 1_000_000_000_000_000
)

// Tiers is a table of prices by quantity, in the unit of what it prices. Tier i holds the quantities above the bound of the one
// before up to its own bound, that one included; the last has no bound.
type Tiers struct {
	Graduated  bool // each part at the price of its own tier; else all at the price of the tier that the whole quantity reaches
	FlatAlways bool // the first tier's flat fee is due without any use too
	List       []Tier
}

// Tier is one row of the table. A table states its prices all as percentages or all as amounts.
type Tier struct {
	Above   *big.Rat // its lower bound, 0 for the first
	UpTo    *big.Rat // nil for the last
	Percent *big.Rat // factor on the price before tiers, or nil
	Price   *big.Rat // amount per unit, or nil
	Flat    *big.Rat // once when the tier is used, or nil
}

// Absolute tells whether the table states amounts and not percentages.
func (t *Tiers) Absolute() bool { return t.List[0].Price != nil }

// Interval is ">0 ≤1000" or ">10000": the lower bound is not in the tier, the upper one is.
func (t Tier) Interval() string {
	lower := ">" + decimalText(t.Above)
	if t.UpTo == nil {
		return lower
	}
	return lower + " ≤" + decimalText(t.UpTo)
}

func decimalText(v *big.Rat) string { return money.DecimalText(v, 0, money.MaxDigits) }

// Part is what one used tier prices of a quantity.
type Part struct {
	Tier
	Quantity *big.Rat
}

// Parts lists the tiers that a quantity uses, from the lowest, with what each prices of it; the parts sum to the quantity. With
// FlatAlways the first tier is used by no quantity too.
func (t *Tiers) Parts(quantity *big.Rat) []Part {
	if quantity.Sign() == 0 {
		if t.FlatAlways {
			return []Part{{t.List[0], new(big.Rat)}}
		}
		return nil
	}
	var out []Part
	for _, tier := range t.List {
		reached := quantity.Cmp(tier.Above) > 0
		last := tier.UpTo == nil || quantity.Cmp(tier.UpTo) <= 0
		switch {
		case !reached:
			return out
		case t.Graduated && last:
			out = append(out, Part{tier, new(big.Rat).Sub(quantity, tier.Above)})
		case t.Graduated:
			out = append(out, Part{tier, new(big.Rat).Sub(tier.UpTo, tier.Above)})
		case last:
			out = append(out, Part{tier, new(big.Rat).Set(quantity)})
		}
	}
	return out
}

// Average is the mean factor or price over a quantity that is not zero: sum of part x price / quantity.
func (t *Tiers) Average(quantity *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, p := range t.Parts(quantity) {
		rate := p.Percent
		if rate == nil {
			rate = p.Price
		}
		sum.Add(sum, new(big.Rat).Mul(p.Quantity, rate))
	}
	return sum.Quo(sum, quantity)
}

func tierFields() []string { return []string{"upto", "price", "flat"} }

// methods lists the methods as a contract writes them, graduated first.
func methods() []string { return []string{"graduated", "volume"} }

// tiers reads the list of tiers under s; parse reads an absolute price.
func (r *reader) tiers(s section, into *Tiers, parse func(string) (*big.Rat, error)) {
	field := join(s.field, "tiers")
	n, ok := r.required(s, "tiers", "write [{upto: 1000, price: 100%}, {price: 90%}]")
	if !ok {
		return
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 || len(list.Values) > maxTiers {
		r.failf(n, field, "write [{upto: 1000, price: 100%}, {price: 90%}]", "a list of 1 to %d tiers is expected, not %s", maxTiers, emptyOr(kind(n), ok))
		return
	}
	above := new(big.Rat)
	for i, value := range list.Values {
		f, ok := r.section(value, fmt.Sprintf("%s[%d]", field, i), tierFields(), nil)
		if !ok {
			return
		}
		tier := r.tier(f, above, i == len(list.Values)-1, parse)
		if tier.UpTo != nil {
			above = tier.UpTo
		}
		into.List = append(into.List, tier)
	}
	for i := range into.List {
		if (into.List[i].Price == nil) != (into.List[0].Price == nil) {
			r.failf(list.Values[i], field, "write all prices of a table as percentages, or none", "percentages and amounts stand in one table")
		}
	}
}

func (r *reader) tier(s section, above *big.Rat, last bool, parse func(string) (*big.Rat, error)) Tier {
	t := Tier{Above: above}
	bound, stated := s.values["upto"]
	switch {
	case last && stated:
		r.failf(bound, join(s.field, "upto"), "add a last tier without it", "the last tier has a bound: what is beyond would have no price")
	case !last && !stated:
		r.failf(s.node, s.field, "write upto: 1000", "`upto:` is missing; only the last tier goes without")
	}
	set(r, s, "upto", "write 1000", parseQuantity, func(v *big.Rat) {
		if v.Cmp(above) <= 0 {
			r.failf(bound, join(s.field, "upto"), "let bounds rise", "the bound is not above %s", decimalText(above))
		}
		t.UpTo = v
	})
	price := func(text string) (struct{}, error) {
		var err error
		if strings.HasSuffix(text, "%") {
			t.Percent, err = parseFactor(text)
		} else {
			t.Price, err = parse(text)
		}
		return struct{}{}, err
	}
	need(r, s, "price", "write 90%", price)
	set(r, s, "flat", "write 500.00", parseMoney, func(v *big.Rat) { t.Flat = v })
	return t
}

// flat reads whether the first flat fee is due without use.
func (r *reader) flat(s section, into *Tiers) {
	choice := func(text string) (int, error) { return parseChoice(text, flatNames()) }
	set(r, s, "flat", "write used", choice, func(v int) { into.FlatAlways = v == 1 })
}

func flatNames() []string { return []string{"used", "always"} }

// method reads how the tiers price.
func (r *reader) method(s section, key string, names []string) (index int) {
	index, _ = need(r, s, key, "write "+names[0], func(text string) (int, error) { return parseChoice(text, names) })
	return index
}

// parseQuantity reads a quantity of 0 or more, such as a bound or an allowance.
func parseQuantity(text string) (*big.Rat, error) {
	v, err := money.ParseDecimal(text)
	switch {
	case err != nil:
		return nil, err
	case v.Sign() < 0:
		return nil, fmt.Errorf("%.40q is negative; write 0 or more", text)
	case v.Cmp(big.NewRat(maxQuantity, 1)) > 0:
		return nil, fmt.Errorf("%.40q is above %d; correct it", text, int64(maxQuantity))
	}
	return v, nil
}

// parseMoney reads an amount of the contract's currency of 0 or more.
func parseMoney(text string) (*big.Rat, error) {
	v, err := money.ParseDecimal(text)
	switch {
	case err != nil && strings.ContainsAny(text, "$€£¥"):
		return nil, errors.New("the currency does not belong into an amount; write 500.00")
	case err != nil:
		return nil, err
	case v.Sign() < 0:
		return nil, fmt.Errorf("%.40q is negative; write 0 or more", text)
	case v.Cmp(big.NewRat(maxPrice, 1)) > 0:
		return nil, fmt.Errorf("%.40q is above %d; correct it", text, int64(maxPrice))
	}
	return v, nil
}
