package money

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
	"github.com/gpuhour/gpuhour/core/must"
)

// Active currencies and funds of ISO 4217, by minor digits. CLDR repeats these digits except for some currencies whose
// coins are out of use (AFN, IQD, IRR and a dozen more show 0 there); payments and e-invoices settle in the ISO minor
// unit, so ISO wins here.
const (
	currencies0 = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
	currencies2 = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF " +
		"CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD " +
		"HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU " +
		"MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG " +
		"SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST " +
		"XCD XCG YER ZAR ZMW ZWG"
	currencies3 = "BHD IQD JOD KWD LYD OMR TND"
	currencies4 = "CLF UYW"
)

// Currency is an active ISO 4217 code. The zero value is no currency; a decoded value is always a real one.
type Currency string

// ParseCurrency accepts exactly an active ISO 4217 code in capitals.
func ParseCurrency(code string) (Currency, error) {
	if _, ok := minorDigits(code); ok {
		return Currency(code), nil
	}
	switch strings.ToUpper(code) {
	case "RMB", "YUAN", "元", "人民币": // everyday names of CNY; the nearest code to RMB by letters would be RUB
		return "", fmt.Errorf("unknown currency %q; did you mean CNY?", code)
	}
	all := strings.Fields(currencies0 + " " + currencies2 + " " + currencies3 + " " + currencies4)
	if near, ok := nearest.Of(strings.ToUpper(code), all); ok {
		return "", fmt.Errorf("unknown currency %q; did you mean %s?", code, near)
	}
	return "", fmt.Errorf("unknown currency %q; write an active ISO 4217 code such as USD", code)
}

// Digits is the number of decimal digits of the minor unit: 2 for USD, 0 for JPY, 3 for KWD.
func (c Currency) Digits() int {
	digits, ok := minorDigits(string(c))
	must.True(ok, "currency %q is not an active ISO 4217 code", string(c))
	return digits
}

func (c Currency) String() string { return string(c) }

// UnmarshalText accepts what ParseCurrency accepts.
func (c *Currency) UnmarshalText(text []byte) error {
	parsed, err := ParseCurrency(string(text))
	if err != nil {
		return err
	}
	*c = parsed
	return nil
}

func minorDigits(code string) (int, bool) {
	if len(code) != 3 || strings.Contains(code, " ") {
		return 0, false
	}
	switch {
	case strings.Contains(currencies2, code):
		return 2, true
	case strings.Contains(currencies0, code):
		return 0, true
	case strings.Contains(currencies3, code):
		return 3, true
	case strings.Contains(currencies4, code):
		return 4, true
	default:
		return 0, false
	}
}
