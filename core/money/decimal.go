package money

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
)

// Bounds of a decimal that enters from outside (design page 3): a giant exponent would otherwise cost gigabytes before
// anyone could refuse it (case B46).
const (
	MaxDigits   = 38 // digits written, before and after the point
	MaxExponent = 18 // absolute value of the power of ten that the last digit stands for

	maxBytes = MaxDigits + len("-.e+18")
)

// ParseDecimal reads a decimal such as "-12.50" or "1.5e3" exactly. The text is checked against the bounds before any
// library sees it.
func ParseDecimal(text string) (*big.Rat, error) {
	if err := checkDecimal(text); err != nil {
		return nil, err
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a decimal number: %w", text, err)
	}
	return d.Rat(), nil
}

// ParsePercent reads a percentage such as "88%" as the exact factor 0.88.
func ParsePercent(text string) (*big.Rat, error) {
	number, ok := strings.CutSuffix(text, "%")
	if !ok {
		return nil, fmt.Errorf("%s is not a percentage; write it like 88%%", quote(text))
	}
	value, err := ParseDecimal(number)
	if err != nil {
		return nil, err
	}
	return value.Quo(value, big.NewRat(100, 1)), nil
}

// DecimalText writes a rational for people with at least minPlaces and at most maxPlaces digits after the point. When
// that is not the exact value the digits are cut and "…" says so: 1/3 at most 12 is "0.333333333333…".
func DecimalText(value *big.Rat, minPlaces, maxPlaces int) string {
	places, finite := value.FloatPrec()
	if finite && places <= maxPlaces {
		return value.FloatString(max(places, minPlaces))
	}
	scale := new(big.Rat).SetInt(pow10(maxPlaces))
	cut := new(big.Rat).SetInt(Down.apply(new(big.Rat).Mul(value, scale)))
	text := cut.Quo(cut, scale).FloatString(maxPlaces)
	if value.Sign() < 0 && cut.Sign() == 0 {
		text = "-" + text
	}
	return text + "…"
}

// PercentText writes a factor as a percentage: 0.88 is "88%".
func PercentText(factor *big.Rat) string {
	return DecimalText(new(big.Rat).Mul(factor, big.NewRat(100, 1)), 0, 12) + "%"
}

// checkDecimal accepts -?digits[.digits][e[+-]digits] within the bounds and without idle leading zeros, which some
// readers take for octal.
func checkDecimal(text string) error {
	if len(text) > maxBytes {
		return fmt.Errorf("%s is longer than a number of %d digits can be", quote(text), MaxDigits)
	}
	mantissa, exponent, hasExponent := cutExponent(strings.TrimPrefix(text, "-"))
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	switch {
	case len(whole)+len(fraction) > MaxDigits:
		return fmt.Errorf("%s has more than %d digits", quote(text), MaxDigits)
	case !isDigits(whole), hasPoint && !isDigits(fraction), hasExponent && !isDigits(strings.TrimLeft(exponent, "+-")):
		return fmt.Errorf("%s is not a decimal number; write it like 1234.56", quote(text))
	case len(whole) > 1 && whole[0] == '0':
		return fmt.Errorf("%s starts with an idle zero; write it without", quote(text))
	}
	power := 0
	if hasExponent {
		var err error
		if len(exponent) > 3 {
			return fmt.Errorf("%s has an exponent outside -%d to %d", quote(text), MaxExponent, MaxExponent)
		}
		if power, err = strconv.Atoi(exponent); err != nil {
			return fmt.Errorf("%s is not a decimal number; write it like 1234.56", quote(text))
		}
	}
	if power -= len(fraction); power < -MaxExponent || power > MaxExponent {
		return fmt.Errorf("%s has an exponent outside -%d to %d", quote(text), MaxExponent, MaxExponent)
	}
	return nil
}

func cutExponent(text string) (mantissa, exponent string, found bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// quote shows a text from outside in an error, cut so that a giant one does not fill a log.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	return strconv.Quote(text)
}
