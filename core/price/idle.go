package price

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/money"
)

// idle lowers the price of time in an idle run that has lasted long enough (design page 3b, Idle).
func idle(q *query, l *line) *Refusal {
	if relief := q.Contract.Idle; q.Idle && relief != nil {
		l.multiply("idle_relief", money.PercentText(relief.Off)+" off", new(big.Rat).Sub(big.NewRat(1, 1), relief.Off))
	}
	return nil
}
