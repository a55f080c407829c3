package price

import "math/big"

// listCap limits the price of (SKU, mode) before any factor: 35 x 135 % stays under a cap of 40, a book price of 44 becomes
// 40 x 135 % (page 3b, Order of prices).
func listCap(q *query, l *line) *Refusal { return l.limit(q, false) }

// finalCap limits what factors and window made of it.
func finalCap(q *query, l *line) *Refusal { return l.limit(q, true) }

func (l *line) limit(q *query, final bool) *Refusal {
	c := q.rate.Cap
	if c == nil || c.Final != final || l.price == nil {
		return nil
	}
	if most := q.perMilliGPUSecond(c.Price); l.price.Cmp(most) > 0 {
		l.set("cap", c.Price.Text(q.Contract.Currency), new(big.Rat).Set(most))
	}
	return nil
}
