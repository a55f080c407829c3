package price

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
)

// atOnce scales the price by the tiers of the GPUs held at once (design page 3b, Volume tiers). Tiers that state amounts have taken the
// place of the SKU's own price already.
func atOnce(q *query, l *line) *Refusal {
	if table := q.atOnce(); table != nil && !table.Absolute() {
		average := table.Average(gpus(q.AtOnceMilli))
		l.multiply("volume", held(&table.Tiers, q.AtOnceMilli)+" "+FactorText(average), average)
	}
	return nil
}

// atOnce is the table that prices the condition by the GPUs held at once, or nil.
func (q *query) atOnce() *contract.Volume {
	if q.AtOnceMilli == 0 {
		return nil
	}
	return q.rate.AtOnce
}

func gpus(milli int64) *big.Rat { return big.NewRat(milli, milliPerGPU) }

// held is "10 gpus at once", or the tier where the number in it changes nothing: ">9 gpus at once".
func held(t *contract.Tiers, milli int64) string {
	text := money.DecimalText(gpus(milli), 0, money.MaxDigits)
	if parts := t.Parts(gpus(milli)); len(parts) == 1 {
		text = parts[0].Interval()
	}
	return text + " gpus at once"
}
