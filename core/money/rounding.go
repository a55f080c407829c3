package money

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/must"
)

// Rounding is a named way to drop a fraction of a minor unit. The zero value is the default of every contract.
type Rounding uint8

// The closed list of roundings. All are symmetric: a charge and its reversal always cancel (case B53).
const (
	HalfAwayFromZero Rounding = iota // nearest; a tie away from zero
	HalfEven                         // nearest; a tie to the even digit
	Up                               // any fraction away from zero
	Down                             // any fraction toward zero
)

// RoundingNames lists the names that ParseRounding accepts, in the order of the constants.
func RoundingNames() []string { return []string{"half_away_from_zero", "half_even", "up", "down"} }

// ParseRounding reads a rounding by its contract name.
func ParseRounding(name string) (Rounding, error) {
	for i, n := range RoundingNames() {
		if n == name {
			return Rounding(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rounding %q; write one of %s", name, strings.Join(RoundingNames(), ", "))
}

func (r Rounding) String() string {
	names := RoundingNames()
	must.True(int(r) < len(names), "rounding %d is not in the closed list", uint8(r))
	return names[r]
}

// MarshalText writes the contract name.
func (r Rounding) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText accepts what ParseRounding accepts.
func (r *Rounding) UnmarshalText(text []byte) error {
	parsed, err := ParseRounding(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// apply rounds x to an integer. It cuts toward zero first, so every rule only decides whether to step away from zero.
func (r Rounding) apply(x *big.Rat) *big.Int {
	quotient, remainder := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	if remainder.Sign() == 0 {
		return quotient
	}
	half := new(big.Int).Abs(remainder)
	half.Lsh(half, 1)
	toHalf := half.Cmp(x.Denom()) // -1 below a half, 0 a tie, +1 above
	if r.away(toHalf, quotient.Bit(0) == 1) {
		quotient.Add(quotient, big.NewInt(int64(x.Sign())))
	}
	return quotient
}

func (r Rounding) away(toHalf int, odd bool) bool {
	switch r {
	case HalfAwayFromZero:
		return toHalf >= 0
	case HalfEven:
		return toHalf > 0 || toHalf == 0 && odd
	case Up:
		return true
	case Down:
		return false
	}
	must.Never("rounding %d is not in the closed list", uint8(r))
	return false
}
