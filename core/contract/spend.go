package contract

import (
	"fmt"
	"math/big"
)

// Spend is a minimum that a customer commits to spend in a month; what the charges fall short of is billed (design page 3b,
// Order of closing).
type Spend struct {
	Monthly *big.Rat
}

func spendFields() []string { return []string{"spend", "shortfall"} }

func (r *reader) commitment(s section, c *Contract) {
	f, ok := r.section(s.values["commitment"], join(s.field, "commitment"), spendFields(), nil)
	if !ok {
		return
	}
	var out Spend
	if out.Monthly, ok = need(r, f, "spend", "write 500000.00/month", parseMonthly); ok {
		r.refusesMonthly(f, "spend")
	}
	need(r, f, "shortfall", "write bill", parseShortfall)
	c.Spend = &out
}

func parseShortfall(text string) (struct{}, error) {
	if text != "bill" {
		return struct{}{}, fmt.Errorf("unknown value %.40q; write bill", text)
	}
	return struct{}{}, nil
}
