package money

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/must"
)

// Rounded is an immutable amount in whole minor units of one currency: what an invoice line says and what is paid. The
// zero value belongs to no currency.
type Rounded struct {
	minor    *big.Int
	currency Currency
}

// FromMinor is an amount given in minor units: FromMinor(3600, "USD") is 36.00. The integer is copied.
func FromMinor(minor *big.Int, currency Currency) Rounded {
	currency.Digits() // an unknown currency stops here
	return Rounded{new(big.Int).Set(minor), currency}
}

// ParseRounded reads a decimal such as "36.00" that must be whole in minor units of the currency.
func ParseRounded(text string, currency Currency) (Rounded, error) {
	value, err := ParseDecimal(text)
	if err != nil {
		return Rounded{}, err
	}
	scaled := value.Mul(value, new(big.Rat).SetInt(pow10(currency.Digits())))
	if !scaled.IsInt() {
		return Rounded{}, fmt.Errorf("amount %q has more digits than %s has; write at most %d after the point",
			text, currency, currency.Digits())
	}
	return Rounded{new(big.Int).Set(scaled.Num()), currency}, nil
}

// Currency is the amount's currency.
func (r Rounded) Currency() Currency { return r.currency }

// Minor is a copy of the amount in minor units.
func (r Rounded) Minor() *big.Int { return new(big.Int).Set(r.whole()) }

// Int64 is the amount in minor units, or false when it does not fit.
func (r Rounded) Int64() (int64, bool) { return r.whole().Int64(), r.whole().IsInt64() }

// Amount is the same amount as an exact one.
func (r Rounded) Amount() Amount {
	return Amount{new(big.Rat).SetFrac(r.whole(), pow10(r.currency.Digits())), r.currency}
}

// Add is r + o. Two currencies break an assertion, as for Amount.
func (r Rounded) Add(o Rounded) Rounded {
	same(r.currency, o.currency)
	return Rounded{new(big.Int).Add(r.whole(), o.whole()), r.currency}
}

// Sub is r - o.
func (r Rounded) Sub(o Rounded) Rounded { return r.Add(o.Neg()) }

// Neg is -r.
func (r Rounded) Neg() Rounded { return Rounded{new(big.Int).Neg(r.whole()), r.currency} }

// Cmp is -1, 0 or +1 as r is less than, equal to or greater than o.
func (r Rounded) Cmp(o Rounded) int {
	same(r.currency, o.currency)
	return r.whole().Cmp(o.whole())
}

// Sign is -1, 0 or +1.
func (r Rounded) Sign() int { return r.whole().Sign() }

// IsZero tells whether the amount is nothing.
func (r Rounded) IsZero() bool { return r.Sign() == 0 }

// Equal tells whether both amount and currency are the same.
func (r Rounded) Equal(o Rounded) bool {
	return r.currency == o.currency && (r.currency == "" || r.whole().Cmp(o.whole()) == 0)
}

// String has exactly the currency's digits and no grouping: "36.00", "-0.02", "1935".
func (r Rounded) String() string {
	if r.currency == "" {
		return "no amount"
	}
	return r.Amount().value.FloatString(r.currency.Digits())
}

// Format is for people: "1,234.56 CNY".
func (r Rounded) Format() string {
	whole, fraction, _ := strings.Cut(new(big.Rat).Abs(r.Amount().value).FloatString(r.currency.Digits()), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if r.Sign() < 0 {
		whole = "-" + whole
	}
	return whole + " " + r.currency.String()
}

// MarshalText writes String, so that JSON holds a string that no reader turns into a float. The currency stands beside it.
func (r Rounded) MarshalText() ([]byte, error) {
	if r.currency == "" {
		return nil, fmt.Errorf("write amount: it has no currency")
	}
	return []byte(r.String()), nil
}

func (r Rounded) whole() *big.Int {
	must.True(r.minor != nil, "a rounded amount without currency was used")
	return r.minor
}
