package price

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
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
	if table := q.atOnce(); table != nil && table.Absolute() {
		p := contract.Price{Amount: table.Average(gpus(q.AtOnceMilli)), Unit: contract.GPUHour}
		text := money.DecimalText(p.Amount, q.Contract.Currency.Digits(), 12) + "/" + p.Unit.String()
		l.set("volume", held(&table.Tiers, q.AtOnceMilli)+" "+text, perMilliGPUSecond(q.Contract, p, q.At))
		return nil
	}
	l.set(OnDemand, q.rate.OnDemand.Text(q.Contract.Currency), q.perMilliGPUSecond(q.rate.OnDemand))
	return nil
}

// perMilliGPUSecond turns a price of the rate into seconds of a milli-GPU. A slice costs its price whatever its share (design page 3b,
// Slices), so the share divides it. Where the share plays no part, because the time is covered or it is only asked whether there is a
// price, a slice is taken for a whole GPU.
func (q *query) perMilliGPUSecond(p contract.Price) *big.Rat {
	per := perMilliGPUSecond(q.Contract, p, q.At)
	if p.PerSlice && q.SliceMilli > 0 {
		per.Mul(per, big.NewRat(milliPerGPU, q.SliceMilli))
	}
	return per
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
