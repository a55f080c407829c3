package money_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/money"
)

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "36.00": "36", "-12.5": "-25/2", "1.5e3": "1500", "1E-3": "1/1000", "0.0015": "3/2000",
		"1e18": "1000000000000000000", "0.000000000000000001": "1/1000000000000000000",
		strings.Repeat("9", 38): strings.Repeat("9", 38), "-0": "0",
	} {
		got, err := money.ParseDecimal(text)
		if err != nil || got.RatString() != want {
			t.Errorf("%q = %v, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"1E1000000000":          "exponent outside -18 to 18",
		"1E-1000000000":         "exponent outside -18 to 18",
		"1e19":                  "exponent outside -18 to 18",
		"1.5e-18":               "exponent outside -18 to 18",
		strings.Repeat("9", 39): "more than 38 digits",
		strings.Repeat("9", 45): "longer than a number of 38 digits can be",
		"":                      "not a decimal number",
		"-":                     "not a decimal number",
		"+5":                    "not a decimal number",
		"--5":                   "not a decimal number",
		".5":                    "not a decimal number",
		"5.":                    "not a decimal number",
		"1e":                    "not a decimal number",
		"1e+-5":                 "not a decimal number",
		"1,234.56":              "not a decimal number",
		"1_000":                 "not a decimal number",
		"0x10":                  "not a decimal number",
		"NaN":                   "not a decimal number",
		"١":                     "not a decimal number",
		" 1":                    "not a decimal number",
		"007":                   "idle zero",
	} {
		if got, err := money.ParseDecimal(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q = %v, %v; want %q", text, got, err, want)
		}
	}
}

func giantNumbers() []string {
	return []string{"1E1000000000", "1e999999999999999999999", strings.Repeat("1", 1<<20), "0." + strings.Repeat("0", 1<<20) + "1"}
}

// Case B46: a giant number costs a few small allocations, whatever the text.
func TestGiantNumbersAreRefusedAtOnce(t *testing.T) {
	for _, text := range giantNumbers() {
		_, err := money.ParseDecimal(text)
		if err == nil || len(err.Error()) > 200 {
			t.Fatalf("%.20q: %v", text, err)
		}
		if n := testing.AllocsPerRun(10, func() { _, _ = money.ParseDecimal(text) }); n > 20 {
			t.Errorf("%.20q took %v allocations", text, n)
		}
	}
}

func BenchmarkGiantNumbers(b *testing.B) {
	texts := giantNumbers()
	for b.Loop() {
		for _, text := range texts {
			if _, err := money.ParseDecimal(text); err == nil {
				b.Fatal("accepted")
			}
		}
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]string{"88%": "22/25", "100%": "1", "0%": "0", "12.5%": "1/8", "-4%": "-1/25"} {
		got, err := money.ParsePercent(text)
		if err != nil || got.RatString() != want || money.PercentText(got) != text {
			t.Errorf("%s = %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"88", "%", "88 %", "0.88", "88%%", "1e99%"} {
		if got, err := money.ParsePercent(text); err == nil {
			t.Errorf("%q = %v", text, got)
		}
	}
}

func TestDecimalText(t *testing.T) {
	for _, c := range []struct {
		value    string
		min, max int
		want     string
	}{
		{"36", 2, 12, "36.00"},
		{"4.5", 0, 12, "4.5"},
		{"0.00123", 2, 12, "0.00123"},
		{"1/3", 2, 12, "0.333333333333…"},
		{"-1/3", 2, 12, "-0.333333333333…"},
		{"0.00999999999999", 2, 12, "0.009999999999…"},
		{"-0.00000000000001", 0, 12, "-0.000000000000…"},
		{"2/3", 0, 0, "0…"},
		{"-1.25", 0, 2, "-1.25"},
	} {
		if got := money.DecimalText(rat(t, c.value), c.min, c.max); got != c.want {
			t.Errorf("%s: %q, want %q", c.value, got, c.want)
		}
	}
}

// FuzzParseDecimal: what is accepted is inside the bounds, and is what math/big reads in the same text.
func FuzzParseDecimal(f *testing.F) {
	for _, seed := range []string{"36.00", "-0.5", "1E1000000000", "1.5e-3", "0x1p4", "1e+18", "9007199254740993"} {
		f.Add(seed)
	}
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(money.MaxDigits+money.MaxExponent), nil)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := money.ParseDecimal(text)
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(text)
		if !ok || got.Cmp(want) != 0 {
			t.Fatalf("%q = %v, want %v", text, got, want)
		}
		if got.Num().CmpAbs(limit) > 0 || got.Denom().Cmp(limit) > 0 {
			t.Fatalf("%q is out of bounds", text)
		}
	})
}
