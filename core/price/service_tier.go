package price

// serviceTier multiplies by the factor of the promised service.
func serviceTier(q *query, l *line) *Refusal {
	return l.factorOf("service_tier", q.rate.ServiceTier, q.ServiceTier, NoServiceTier)
}
