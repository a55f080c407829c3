package meter

import "github.com/gpuhour/gpuhour/core/contract"

// sliced completes the key of time that has a price with the share of its slice, where the rate that prices it has a price per slice:
// the milli-GPUs of a slice share it.
func (c *classifier) sliced(key ChargeKey, each int64) ChargeKey {
	if key.Standing != Priced || !c.contracts.PricesSlices() {
		return key
	}
	if v, ok := c.contracts.Version(key.Version); ok && c.rateOf(v, key).PerSlice() {
		key.SliceMilli = each
	}
	return key
}

// rateOf is the rate that prices a key.
func (c *classifier) rateOf(v contract.Version, key ChargeKey) contract.Rate {
	rate, _ := v.Contract.RateFrom(c.contracts.Book(key.Book), key.SKU)
	return rate
}
