package price

import "github.com/gpuhour/gpuhour/core/contract"

// serviceTier multiplies by the factor of the promised service.
func serviceTier(_ *contract.Contract, rate contract.Rate, cond Condition, l *line) *Refusal {
	return l.factorOf("service_tier", rate.ServiceTier, cond.ServiceTier, NoServiceTier)
}
