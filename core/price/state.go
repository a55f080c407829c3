package price

import "github.com/gpuhour/gpuhour/core/money"

// state multiplies by the part that bills in the lease's state (design page 3, states). It belongs to the on-demand price and so to what
// spot's max is a part of; a forward's price and a spot tick, which replace that price and take no other factor, are scaled too,
// because it says what bills and not what it costs.
func state(q *query, l *line) *Refusal {
	if q.State != "" {
		part := q.Contract.GPUIn(q.State)
		l.multiply("state", string(q.State)+" "+money.PercentText(part), part)
	}
	return nil
}
