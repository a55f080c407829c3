package bill

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

// bundles lowers the prices of SKUs in a period in which enough of their meter was used (design page 3b, Order of closing). The
// quantity is the whole period's; each version's time is lowered by its own words.
func (c *pricing) bundles() error {
	used := map[string]*big.Rat{} // by meter
	for i := range c.Lines {
		l := &c.Lines[i]
		for k := range l.Rows {
			r := &l.Rows[k]
			for _, b := range bundlesOf(c.contracts, r.of) {
				if used[b.With] == nil {
					used[b.With] = c.metered(b.With).total
				}
				if used[b.With].Cmp(b.AtLeast) >= 0 && r.Price.PerMilliGPUSecond.Sign() > 0 {
					left := new(big.Rat).Sub(big.NewRat(1, 1), b.Off)
					r.scale("bundle", b.With+" "+money.PercentText(left), left)
				}
			}
		}
		if len(l.Rows) > 0 {
			l.sum()
		}
	}
	return nil
}

// bundlesOf are the bundles by which a version lowers a key's price.
func bundlesOf(contracts *contract.Register, k meter.ChargeKey) []contract.Bundle {
	v, ok := contracts.Version(k.Version)
	if !ok {
		return nil
	}
	var out []contract.Bundle
	for _, b := range v.Contract.Bundles {
		if b.On == k.SKU {
			out = append(out, b)
		}
	}
	return out
}
