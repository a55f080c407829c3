package price

import (
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
)

// dedicated multiplies for a lease that shares its node with nobody; a rate that states no factor charges no more.
func dedicated(_ *contract.Contract, rate contract.Rate, cond Condition, l *line) *Refusal {
	if cond.Dedicated && rate.Dedicated != nil {
		l.multiply("dedicated", money.PercentText(rate.Dedicated), rate.Dedicated)
	}
	return nil
}
