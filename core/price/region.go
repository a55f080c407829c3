package price

import "github.com/gpuhour/gpuhour/core/contract"

// region multiplies by the factor of where the GPU stands.
func region(_ *contract.Contract, rate contract.Rate, cond Condition, l *line) *Refusal {
	return l.factorOf("region", rate.Region, cond.Region, NoRegion)
}
