package price

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
)

// onDemand sets the price of (SKU, mode), turned into seconds of a milli-GPU.
func onDemand(c *contract.Contract, rate contract.Rate, cond Condition, l *line) *Refusal {
	if cond.PricingMode != OnDemand {
		return refuse(UnsupportedMode, "pricing mode %q is not supported by this version", cond.PricingMode)
	}
	per := new(big.Rat).SetInt64(unitSeconds(c, rate.OnDemand.Unit, cond.At) * milliPerGPU)
	l.price = per.Quo(rate.OnDemand.Amount, per)
	l.applied = append(l.applied, Applied{Name: OnDemand, Text: rate.OnDemand.Text(c.Currency)})
	return nil
}
