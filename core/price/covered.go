package price

import "math/big"

// covered replaces the price of time that a commitment covers: by a forward's price, which takes no factor but the state's, or by nothing, because
// the fee of a reservation or package pays for it. Time that has no price without the commitment was refused by the steps before.
func covered(q *query, l *line) *Refusal {
	if q.Commitment == "" {
		return nil
	}
	l.applied = nil
	if f, ok := q.rate.ForwardOf(q.Commitment); ok {
		l.set("forward", f.Price.Text(q.Contract.Currency), perMilliGPUSecond(q.Contract, f.Price, q.At))
		return state(q, l)
	}
	l.set("covered_by", q.Commitment, new(big.Rat))
	return nil
}
