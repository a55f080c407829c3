package price

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
)

// onDemand sets the on-demand price of the SKU, turned into seconds of a milli-GPU. A spot price has its limit from it.
func onDemand(q *query, l *line) *Refusal {
	switch {
	case q.PricingMode != OnDemand && q.PricingMode != Spot:
		return refuse(UnsupportedMode, "pricing mode %q is not supported by this version", q.PricingMode)
	case q.PricingMode == Spot && q.rate.Spot == nil, q.PricingMode == OnDemand && q.rate.OnDemand.Amount == nil:
		return refuse(NoRate, "contract %s has no %s price for SKU %q%s", q.Contract.ID, q.PricingMode, q.SKU, q.bookText())
	case q.rate.OnDemand.Amount == nil:
		return nil
	}
	if t := q.Tiered; t != nil {
		l.set("volume", t.Text, perMilliGPUSecond(q.Contract, contract.Price{Amount: t.PerGPUHour, Unit: contract.GPUHour}, q.At))
		return nil
	}
	l.set(OnDemand, q.rate.OnDemand.Text(q.Contract.Currency), perMilliGPUSecond(q.Contract, q.rate.OnDemand, q.At))
	return nil
}

// perMilliGPUSecond turns a price into seconds of a milli-GPU at an instant.
func perMilliGPUSecond(c *contract.Contract, p contract.Price, at span.Second) *big.Rat {
	per := new(big.Rat).SetInt64(UnitSeconds(c, p.Unit, at) * milliPerGPU)
	return per.Quo(p.Amount, per)
}

// OfTime is the amount that a price gives for so many milli-GPU-seconds around an instant.
func OfTime(c *contract.Contract, p contract.Price, at span.Second, milliGPUSeconds int64) *big.Rat {
	amount := perMilliGPUSecond(c, p, at)
	return amount.Mul(amount, big.NewRat(milliGPUSeconds, 1))
}
