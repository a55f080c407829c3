package bill

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
)

// ItemCommitment is what the charges fall short of the spend that a customer commits to.
const ItemCommitment ItemKind = "commitment"

// spend bills max(0, commitment - C), C being the rounded charges so far: before credits, coupons, tax and prepaid
// (design page 3b, Order of closing). Of a partial period the commitment counts local days.
func (c *pricing) spend() error {
	var unit string // the same in all versions
	due, units, steps, inputs := c.byDays("spend", feeTime{Span: c.Period}, func(v *contract.Contract) *contract.Fee {
		if v.Spend != nil {
			unit = v.Spend.Unit.String()
		}
		return v.Spend
	})
	if units.Sign() == 0 {
		return nil
	}
	charges := money.FromMinor(new(big.Int), c.Contract.Currency)
	for _, l := range c.Lines {
		charges = charges.Add(l.Amount)
		inputs = c.input(inputs, Input{Kind: InputCharge, Line: l.Key, Counts: l.Amount.Amount().Rat()})
	}
	shortfall := due.Sub(due, charges.Amount().Rat())
	if shortfall.Sign() <= 0 {
		return nil
	}
	steps = append(steps, "charges "+charges.String())
	c.item(LineKey{Item: ItemCommitment, Name: string(ItemCommitment)}, Item{Quantity: units, Unit: unit, Steps: steps, Inputs: inputs}, shortfall)
	c.Lines[len(c.Lines)-1].Amount = c.rounded(shortfall)
	slices.SortFunc(c.Lines, func(a, b Line) int { return a.Key.compare(b.Key) })
	return nil
}
