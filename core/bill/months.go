package bill

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
)

// monthPart is a run of the period's local days under one version, and how many days the month has that they lie in.
type monthPart struct {
	contract *contract.Contract
	days, of int
	span     span.Span // of the days, within the period
}

// share is the part of a month that the days are.
func (p monthPart) share() *big.Rat { return big.NewRat(int64(p.days), int64(p.of)) }

// monthParts counts local days by which fees per month are prorated: the real days of the billing month, else of the calendar month. The
// day of a switch belongs to the new version (design page 3, Exact meanings), and to its period where it closes a stub. A day on which
// the term ends is whole, whenever that is known.
func (c *pricing) monthParts(over feeTime) []monthPart {
	var out []monthPart
	for _, day := range c.contracts.Periods(c.Contract.ID).Days(over.Span) {
		day = day.Intersect(over.Span)
		pieces := c.feePieces(over, day)
		if len(pieces) == 0 {
			continue
		}
		rule := pieces[len(pieces)-1]
		v, of := rule.Contract, monthDays(rule.Contract, rule.Span.To-1)
		if n := len(out); n > 0 && out[n-1].contract == v && out[n-1].of == of {
			out[n-1].days++
			out[n-1].span.To = day.To
		} else {
			out = append(out, monthPart{v, 1, of, day})
		}
	}
	return out
}

// monthDays is how many local days the month around an instant has.
func monthDays(c *contract.Contract, at span.Second) int {
	month := c.Period(at).Full
	if c.Billing.Cycle != calendar.Monthly {
		month = calendar.PeriodAt(calendar.Monthly, 1, c.Term, c.Zone, at).Full
	}
	return calendar.DaysBetween(c.Zone.DateOf(month.From), c.Zone.DateOf(month.To))
}

// monthly is a fee per month over some time: each version's own for its own days. Versions that state none charge none. The steps
// call the fee by the given name.
func (c *pricing) monthly(name string, over feeTime, fee func(*contract.Contract) *big.Rat) (exact, months *big.Rat, steps []string, inputs []Input) {
	type run struct {
		monthPart
		fee   *big.Rat
		spans []span.Span
	}
	var runs []run
	for _, p := range c.monthParts(over) {
		f := fee(p.contract)
		if n := len(runs); n > 0 && f != nil && runs[n-1].of == p.of && runs[n-1].fee.Cmp(f) == 0 {
			runs[n-1].days += p.days
			runs[n-1].spans = joined(runs[n-1].spans, p.span)
		} else if f != nil {
			runs = append(runs, run{p, f, []span.Span{p.span}})
		}
	}
	exact, months = new(big.Rat), new(big.Rat)
	for _, r := range runs {
		months.Add(months, r.share())
		exact.Add(exact, new(big.Rat).Mul(r.fee, r.share()))
		steps = append(steps, name+" "+contract.MonthlyText(r.fee, c.Contract.Currency), fmt.Sprintf("days %d of %d", r.days, r.of))
		inputs = c.inputDays(inputs, r.spans)
	}
	return exact, months, steps, inputs
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
