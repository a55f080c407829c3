package bill

import (
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
)

// ItemTier is the flat fee of a volume tier.
const ItemTier ItemKind = "tier"

// volume applies volume tiers (design page 3b, Volume tiers): a row of on-demand time is priced by its own version's table at
// the period's whole quantity of the SKU, so that neither the order of use nor an amendment restarts the count.
func (c *pricing) volume() error {
	used := c.volumes()
	for i := range c.Lines {
		l := &c.Lines[i]
		if !onDemand(l.Key) {
			continue
		}
		for k := range l.Rows {
			if err := c.tier(&l.Rows[k], used[l.Key.SKU]); err != nil {
				return err
			}
		}
		l.sum()
	}
	for _, rate := range c.Contract.Rates {
		// What is no period any more, or was taken out of the term, has no fees.
		if rate.Volume != nil && !c.Period.Empty() && c.Contract.Term.Overlaps(c.Period) {
			c.tierFees(rate, used[rate.SKU].counted(rate.Volume))
		}
	}
	return nil
}

// onDemand tells time that is priced on demand, burst of a commitment included.
func onDemand(k LineKey) bool { return k.PricingMode == price.OnDemand && k.Commitment == "" }

// volumes are priced milli-GPU-seconds of a SKU.
type volumes struct{ onDemand, covered, spot int64 }

func (c *pricing) volumes() map[string]volumes {
	out := map[string]volumes{}
	for i := range c.Lines {
		l := &c.Lines[i]
		v := out[l.Key.SKU]
		switch {
		case l.Key.Commitment != "":
			v.covered += l.Quantity
		case onDemand(l.Key):
			v.onDemand += l.Quantity
		default:
			v.spot += l.Quantity
		}
		out[l.Key.SKU] = v
	}
	return out
}

// counted is what a table counts, in GPU-hours.
func (v volumes) counted(table *contract.Volume) *big.Rat {
	milli := new(big.Int).SetInt64(v.onDemand)
	if table.Covered {
		milli.Add(milli, big.NewInt(v.covered))
	}
	if table.Spot {
		milli.Add(milli, big.NewInt(v.spot))
	}
	return new(big.Rat).SetFrac(milli, big.NewInt(milliGPUSecondsPerHour))
}

// volumeOf is the table by which a version scales a key's time, or nil.
func volumeOf(contracts *contract.Register, k meter.ChargeKey) *contract.Volume {
	v, ok := contracts.Version(k.Version)
	if !ok {
		return nil
	}
	rate, _ := v.Contract.Rate(k.SKU)
	return rate.Volume
}

// scales tells whether a version scales a key's time by words of its own.
func scales(contracts *contract.Register, k meter.ChargeKey) bool {
	return volumeOf(contracts, k) != nil || len(bundlesOf(contracts, k)) > 0
}

// tier scales a row by the factor f of its table, or prices it anew where the table states amounts.
func (c *pricing) tier(r *Row, used volumes) error {
	table := volumeOf(c.contracts, r.of)
	if table == nil || r.Quantity == 0 {
		return nil
	}
	quantity := used.counted(table)
	average := table.Average(quantity)
	hours := money.DecimalText(quantity, 0, 12) + " gpu-hours"
	if !table.Absolute() {
		r.scale("volume", hours+" "+price.FactorText(average), average)
		return nil
	}
	unit, err := unitPrice(c.contracts, r.of, &price.Tiered{PerGPUHour: average, Text: c.averageText(table, quantity, average)})
	r.Price = unit
	return err
}

// scale multiplies a row's unit price, as one more step of it.
func (r *Row) scale(name, text string, factor *big.Rat) {
	steps := append([]price.Applied{}, r.Price.Steps...)
	r.Price = price.UnitPrice{
		PerMilliGPUSecond: new(big.Rat).Mul(r.Price.PerMilliGPUSecond, factor),
		Steps:             append(steps, price.Applied{Name: name, Text: text, Factor: factor}),
	}
}

// averageText shows the mean of absolute prices: "(1000 × 30.00 + 200 × 20.00) ÷ 1200 = 28.333333333333…/gpu-hour".
func (c *pricing) averageText(table *contract.Volume, quantity, average *big.Rat) string {
	number := func(v *big.Rat) string { return money.DecimalText(v, 0, 12) }
	text := c.amount(average) + "/gpu-hour"
	parts := table.Parts(quantity)
	if len(parts) == 1 {
		return text
	}
	sum := make([]string, len(parts))
	for i, p := range parts {
		sum[i] = number(p.Quantity) + " × " + c.amount(p.Price)
	}
	return "(" + strings.Join(sum, " + ") + ") ÷ " + number(quantity) + " = " + text
}

// tierFees charges the flat fees of used tiers, by the table in force at the period's end: a fee belongs to the period and not
// to a part of it.
func (c *pricing) tierFees(rate contract.Rate, quantity *big.Rat) {
	for _, p := range rate.Volume.Parts(quantity) {
		if p.Flat == nil {
			continue
		}
		key := LineKey{Item: ItemTier, Name: p.Interval(), SKU: rate.SKU}
		steps := []string{"used " + money.DecimalText(quantity, 0, 12) + " gpu-hours", "flat " + c.amount(p.Flat)}
		c.item(key, Item{Quantity: big.NewRat(1, 1), Steps: steps, Inputs: c.countedTime(rate)}, p.Flat)
	}
}

// amount writes an exact amount with at least the currency's digits.
func (c *pricing) amount(v *big.Rat) string {
	return money.DecimalText(v, c.Contract.Currency.Digits(), 12)
}
