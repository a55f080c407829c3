package money

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/must"
)

// Allocate splits the amount in proportion to the weights by largest remainder: the parts sum to the amount exactly, and
// equal remainders are served in the order given, so every run gives the same parts. A negative amount splits as the
// mirror of its positive. Weights are not negative; when all are zero the amount must be zero too.
func (r Rounded) Allocate(weights []*big.Rat) []Rounded {
	total := new(big.Rat)
	for i, w := range weights {
		must.True(w.Sign() >= 0, "weight %d is negative", i)
		total.Add(total, w)
	}
	parts := make([]*big.Int, len(weights))
	if total.Sign() == 0 {
		must.True(r.IsZero(), "allocate %s over no weight", r)
		for i := range parts {
			parts[i] = new(big.Int)
		}
	} else {
		largestRemainder(parts, new(big.Int).Abs(r.whole()), weights, total)
	}
	out := make([]Rounded, len(parts))
	for i, p := range parts {
		if r.Sign() < 0 {
			p.Neg(p)
		}
		out[i] = Rounded{p, r.currency}
	}
	return out
}

// largestRemainder fills parts with whole shares of amount: first each share cut down, then one unit more for those that
// lost most.
func largestRemainder(parts []*big.Int, amount *big.Int, weights []*big.Rat, total *big.Rat) {
	lost := make([]*big.Rat, len(parts))
	order := make([]int, len(parts))
	left := new(big.Int).Set(amount)
	for i, w := range weights {
		share := new(big.Rat).Mul(new(big.Rat).SetInt(amount), w)
		share.Quo(share, total)
		parts[i] = Down.apply(share)
		lost[i] = share.Sub(share, new(big.Rat).SetInt(parts[i]))
		order[i] = i
		left.Sub(left, parts[i])
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(lost[b].Cmp(lost[a]), cmp.Compare(a, b)) })
	for _, i := range order[:left.Int64()] { // fewer units are left than there are parts
		parts[i].Add(parts[i], big.NewInt(1))
	}
}
