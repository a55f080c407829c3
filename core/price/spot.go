package price

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/must"
)

// spot replaces the on-demand price by the tick, which is absolute and takes no factor but the state's (page 3b, Order of prices). What
// stood until then is what the contract's max is a part of: the on-demand price with the factors of region, tier, dedicated and state,
// before any window.
func spot(q *query, l *line) *Refusal {
	if q.PricingMode != Spot {
		return nil
	}
	terms := q.rate.Spot
	if q.SpotPrice == "" {
		return refuse(NoSpotPrice, "index %q has no price in %s for region %q at or before this second", terms.Index, q.Contract.Currency, q.Region)
	}
	tick, err := contract.ParsePrice(q.SpotPrice)
	must.True(err == nil, "spot price %q: %v", q.SpotPrice, err)
	if terms.Max != nil {
		if l.price == nil {
			return refuse(NoRate, "contract %s has no on-demand price for SKU %q that its spot price could be limited by", q.Contract.ID, q.SKU)
		}
		l.multiply("spot_max", money.PercentText(terms.Max), terms.Max)
		l.max = &line{price: l.price, applied: l.applied}
	}
	l.applied = nil
	l.set(Spot, q.SpotPrice, perMilliGPUSecond(q.Contract, tick, q.At))
	return state(q, l)
}

// spotMax keeps a spot price within the contract's max; a window may have carried it above, so it applies again after one. Then the
// price is made by the steps of the max, whatever the tick was.
func spotMax(_ *query, l *line) *Refusal {
	if l.max != nil && l.price.Cmp(l.max.price) > 0 {
		l.price, l.applied = new(big.Rat).Set(l.max.price), slices.Clone(l.max.applied)
	}
	return nil
}
