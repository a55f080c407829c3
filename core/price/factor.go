package price

import (
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/money"
)

// set replaces the price.
func (l *line) set(name, text string, perMilliGPUSecond *big.Rat) {
	l.price = perMilliGPUSecond
	l.applied = append(l.applied, Applied{Name: name, Text: text})
}

// multiply applies a factor, exactly. The line's price is its own, so it changes in place. A SKU that is sold as spot only has no
// price to multiply.
func (l *line) multiply(name, text string, factor *big.Rat) {
	if l.price == nil {
		return
	}
	l.price.Mul(l.price, factor)
	l.applied = append(l.applied, Applied{Name: name, Text: text, Factor: new(big.Rat).Set(factor)})
}

// factorOf applies the key's entry of a map of factors. An absent map is 1; a map without the key has no price for it,
// and never 1 (design page 3b, Order of prices).
func (l *line) factorOf(name string, factors map[string]*big.Rat, key string, missing Reason) *Refusal {
	if factors == nil {
		return nil
	}
	factor, ok := factors[key]
	if !ok {
		return refuse(missing, "the rate has no %s %q; it has %q", name, key, sortedKeys(factors))
	}
	l.multiply(name, key+" "+money.PercentText(factor), factor)
	return nil
}

// FactorText is a percentage, with the exact fraction where its digits do not end: "98.333333333333…% (59/60)".
func FactorText(factor *big.Rat) string {
	text := money.PercentText(factor)
	if strings.Contains(text, "…") {
		text += " (" + factor.RatString() + ")"
	}
	return text
}

func sortedKeys(factors map[string]*big.Rat) []string {
	keys := make([]string, 0, len(factors))
	for k := range factors {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
