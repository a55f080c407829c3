package bill

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// chargedDays are local days next to each other, and how many days of a fee's unit they count for.
type chargedDays struct {
	span.Span
	days int
}

// then appends a day, which goes on the last ones where it begins at their end.
func then(list []chargedDays, day chargedDays) []chargedDays {
	if n := len(list); n > 0 && list[n-1].To == day.From {
		list[n-1].To, list[n-1].days = day.To, list[n-1].days+day.days
		return list
	}
	return append(list, day)
}

// byDays is a fee per unit over some time: each version's own for its own local days. Versions that state none charge none. The steps call
// the fee by the given name.
//
// The day of a switch belongs to the new version (design page 3, Exact meanings), and to its period where it closes a stub. A day on which
// the term ends is whole, whenever that is known.
func (c *pricing) byDays(name string, over feeTime, fee func(*contract.Contract) *contract.Fee) (exact, units *big.Rat, steps []string, inputs []Input) {
	type run struct {
		fee      *contract.Fee
		days, of int
		spans    []chargedDays
	}
	var runs []run
	for _, day := range c.contracts.Periods(c.Contract.ID).Days(over.Span) {
		day = day.Intersect(over.Span)
		pieces := c.feePieces(over, day)
		if len(pieces) == 0 {
			continue
		}
		rule := pieces[len(pieces)-1]
		f := fee(rule.Contract)
		if f == nil {
			continue
		}
		days, of := price.FeeDay(rule.Contract, f.Unit, rule.Span.To-1)
		if n := len(runs); n == 0 || runs[n-1].of != of || !runs[n-1].fee.Same(f) {
			runs = append(runs, run{fee: f, of: of})
		}
		last := &runs[len(runs)-1]
		last.days, last.spans = last.days+days, then(last.spans, chargedDays{day, days})
	}
	exact, units = new(big.Rat), new(big.Rat)
	for _, r := range runs {
		share := big.NewRat(int64(r.days), int64(r.of))
		units.Add(units, share)
		exact.Add(exact, new(big.Rat).Mul(r.fee.Amount, share))
		steps = append(steps, name+" "+r.fee.Text(c.Contract.Currency), fmt.Sprintf("days %d of %d", r.days, r.of))
		inputs = c.inputDays(inputs, r.spans)
	}
	return exact, units, steps, inputs
}

// named lists the names that the versions of the period state, each once, in the order in which they do.
func named[T any](c *pricing, list func(*contract.Contract) []T, name func(T) string) []string {
	var out []string
	for _, p := range c.contracts.Pieces(c.Contract.ID, c.Period) {
		for _, x := range list(p.Contract) {
			if !slices.Contains(out, name(x)) {
				out = append(out, name(x))
			}
		}
	}
	return out
}
