package bill

import (
	"math/big"
	"strconv"

	"github.com/gpuhour/gpuhour/core/contract"
)

// eachReading charges the readings of versions that price every one by itself: quantity x price + flat, within min and max. Their amounts
// are added up exactly, and the line is rounded. The steps count the readings at either bound and between them.
func (c *pricing) eachReading(q metered) (amount *big.Rat, steps []string) {
	amount = new(big.Rat)
	var all []*eachRows
	known := map[eachWords]*eachRows{}
	for _, p := range q.parts {
		if len(p.readings) == 0 {
			continue
		}
		words := c.eachWords(p.Meter)
		if known[words] == nil {
			known[words] = &eachRows{eachWords: words, quantity: new(big.Rat)}
			all = append(all, known[words])
		}
		for _, quantity := range p.readings {
			amount.Add(amount, known[words].add(p.Meter, quantity))
		}
	}
	for _, rows := range all {
		steps = append(steps, rows.steps()...)
	}
	return amount, steps
}

// eachWords are what prices a reading, as it is written; "" for what is not stated.
type eachWords struct{ per, flat, min, max string }

func (c *pricing) eachWords(m contract.Meter) eachWords {
	text := func(v *big.Rat) string {
		if v == nil {
			return ""
		}
		return c.amount(v)
	}
	return eachWords{m.PriceText(m.Price, c.Contract.Currency), text(m.Each.Flat), text(m.Each.Min), text(m.Each.Max)}
}

// eachRows are the readings that the same words price.
type eachRows struct {
	eachWords
	atMin, between, atMax int64
	quantity              *big.Rat // of those between
}

// add counts a reading and is what it costs.
func (r *eachRows) add(m contract.Meter, quantity *big.Rat) *big.Rat {
	amount, beyond := readingCosts(m, quantity)
	switch {
	case beyond < 0:
		r.atMin++
	case beyond > 0:
		r.atMax++
	default:
		r.between++
		r.quantity.Add(r.quantity, quantity)
	}
	return amount
}

// readingCosts is what a reading costs by itself, and whether a bound made it so: -1 the minimum, 1 the maximum.
func readingCosts(m contract.Meter, quantity *big.Rat) (amount *big.Rat, beyond int) {
	amount = new(big.Rat).Quo(quantity, m.Size)
	amount.Mul(amount, m.Price)
	if m.Each.Flat != nil {
		amount.Add(amount, m.Each.Flat)
	}
	switch {
	case m.Each.Min != nil && amount.Cmp(m.Each.Min) < 0:
		return m.Each.Min, -1
	case m.Each.Max != nil && amount.Cmp(m.Each.Max) > 0:
		return m.Each.Max, 1
	}
	return amount, 0
}

// steps add up to the amount: "readings 3", "at_min 1 × 1.75", "by_price 1: 80 × 0.0299/yuan + 1 × 2.00", "at_max 1 × 12.00".
func (r *eachRows) steps() []string {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	out := []string{"readings " + count(r.atMin+r.between+r.atMax)}
	if r.atMin > 0 {
		out = append(out, "at_min "+count(r.atMin)+" × "+r.min)
	}
	if r.between > 0 {
		priced := "by_price " + count(r.between) + ": " + number(r.quantity) + " × " + r.per
		if r.flat != "" {
			priced += " + " + count(r.between) + " × " + r.flat
		}
		out = append(out, priced)
	}
	if r.atMax > 0 {
		out = append(out, "at_max "+count(r.atMax)+" × "+r.max)
	}
	return out
}
