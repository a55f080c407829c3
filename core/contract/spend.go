package contract

import (
	"fmt"
	"math/big"

	"github.com/gpuhour/gpuhour/core/calendar"
)

func spendFields() []string { return []string{"spend", "shortfall"} }

// commitment reads the minimum that a customer commits to spend in a month, quarter or year; what the charges fall short of is billed
// (design page 3b, Order of closing).
func (r *reader) commitment(s section, c *Contract) {
	f, ok := r.section(s.values["commitment"], join(s.field, "commitment"), spendFields(), nil)
	if !ok {
		return
	}
	spend := func(text string) (*Fee, error) { return parseUnitFee(text, PerMonth, PerQuarter, PerYear) }
	if out, ok := need(r, f, "spend", "write 500000.00/month", spend); ok {
		r.refusesFee(f, "spend", out.Unit)
		c.Spend = out
	}
	need(r, f, "shortfall", "write bill", parseShortfall)
}

func parseShortfall(text string) (struct{}, error) {
	if text != "bill" {
		return struct{}{}, fmt.Errorf("unknown value %.40q; write bill", text)
	}
	return struct{}{}, nil
}

// mostCommitted is the most that a commitment asks for a period of the contract's cycle; nil where the cycle takes none.
func (c *Contract) mostCommitted() *big.Rat {
	months := map[calendar.Cycle]int64{calendar.Monthly: 1, calendar.Quarterly: 3, calendar.Yearly: 12}[c.Billing.Cycle]
	if of := map[FeeUnit]int64{PerMonth: 1, PerQuarter: 3, PerYear: 12}[c.Spend.Unit]; months%of == 0 && months > 0 {
		return new(big.Rat).Mul(c.Spend.Amount, big.NewRat(months/of, 1))
	}
	longest := map[calendar.Cycle]int64{calendar.Daily: 1, calendar.Weekly: 7, calendar.Biweekly: 14, calendar.Monthly: 31, calendar.Quarterly: 92}[c.Billing.Cycle]
	shortest := map[FeeUnit]int64{PerMonth: 28, PerQuarter: 89, PerYear: 365}[c.Spend.Unit]
	if c.Spend.Unit == PerMonth && c.Billing.FeeMonth == FeeMonth30d && longest > 0 {
		longest, shortest = longest+2, 30 // the last of a February counts for three days
	}
	if longest == 0 {
		return nil
	}
	return new(big.Rat).Mul(c.Spend.Amount, big.NewRat(longest, shortest))
}
