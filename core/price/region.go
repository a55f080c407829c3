package price

// region multiplies by the factor of where the GPU stands.
func region(q *query, l *line) *Refusal {
	return l.factorOf("region", q.rate.Region, q.Region, NoRegion)
}
