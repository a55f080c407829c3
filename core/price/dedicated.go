package price

import "github.com/gpuhour/gpuhour/core/money"

// dedicated multiplies for a lease that shares its node with nobody; a rate that states no factor charges no more.
func dedicated(q *query, l *line) *Refusal {
	if q.Dedicated && q.rate.Dedicated != nil {
		l.multiply("dedicated", money.PercentText(q.rate.Dedicated), q.rate.Dedicated)
	}
	return nil
}
