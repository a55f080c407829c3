package money

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/must"
)

// Amount is an exact, immutable amount of one currency. Amounts of two currencies never meet: adding or comparing them
// breaks an assertion, because by then an invoice already mixes currencies. The zero value belongs to no currency.
type Amount struct {
	value    *big.Rat
	currency Currency
}

// New is the exact amount value of a currency, in major units. The value is copied.
func New(value *big.Rat, currency Currency) Amount {
	currency.Digits() // an unknown currency stops here
	return Amount{new(big.Rat).Set(value), currency}
}

// Zero is nothing, of a currency.
func Zero(currency Currency) Amount { return New(new(big.Rat), currency) }

// Currency is the amount's currency.
func (a Amount) Currency() Currency { return a.currency }

// Rat is a copy of the exact value in major units.
func (a Amount) Rat() *big.Rat { return new(big.Rat).Set(a.exact()) }

// Add is a + b.
func (a Amount) Add(b Amount) Amount {
	same(a.currency, b.currency)
	return Amount{new(big.Rat).Add(a.exact(), b.exact()), a.currency}
}

// Sub is a - b.
func (a Amount) Sub(b Amount) Amount { return a.Add(b.Neg()) }

// Mul is a times an exact factor.
func (a Amount) Mul(factor *big.Rat) Amount {
	return Amount{new(big.Rat).Mul(a.exact(), factor), a.currency}
}

// Neg is -a.
func (a Amount) Neg() Amount { return Amount{new(big.Rat).Neg(a.exact()), a.currency} }

// Cmp is -1, 0 or +1 as a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int {
	same(a.currency, b.currency)
	return a.exact().Cmp(b.exact())
}

// Sign is -1, 0 or +1.
func (a Amount) Sign() int { return a.exact().Sign() }

// IsZero tells whether the amount is exactly nothing.
func (a Amount) IsZero() bool { return a.Sign() == 0 }

// Equal tells whether both value and currency are the same; unlike Cmp it may be asked of two currencies.
func (a Amount) Equal(b Amount) bool {
	return a.currency == b.currency && (a.currency == "" || a.exact().Cmp(b.exact()) == 0)
}

// Round is the amount in whole minor units. An invoice rounds once, per line (design page 3b, Lines and rounding).
func (a Amount) Round(r Rounding) Rounded {
	scaled := new(big.Rat).Mul(a.exact(), new(big.Rat).SetInt(pow10(a.currency.Digits())))
	return Rounded{r.apply(scaled), a.currency}
}

// String is exact: a finite decimal as such, anything else as a fraction ("0.007 USD", "1/3 USD").
func (a Amount) String() string {
	if a.currency == "" {
		return "no amount"
	}
	if places, finite := a.value.FloatPrec(); finite {
		return a.value.FloatString(places) + " " + a.currency.String()
	}
	return a.value.String() + " " + a.currency.String()
}

// MarshalText writes String, so that JSON holds the exact amount as a string and never a float.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a Amount) exact() *big.Rat {
	must.True(a.value != nil, "an amount without currency was used")
	return a.value
}

func same(a, b Currency) { must.True(a == b, "amounts of %q and %q were mixed", string(a), string(b)) }

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
