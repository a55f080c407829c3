package money_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/must"
)

// rat reads an exact decimal or fraction of a test.
func rat(t testing.TB, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("bad number %q in the test", text)
	}
	return r
}

func amount(t testing.TB, text string, c money.Currency) money.Amount {
	t.Helper()
	return money.New(rat(t, text), c)
}

// Cases F70, B53, B51, B57, B55, F72: one amount, the default rounding.
func TestRoundHalfAwayFromZero(t *testing.T) {
	for _, c := range []struct {
		exact    string
		currency money.Currency
		want     string
	}{
		{"1.004", "USD", "1.00"},
		{"1.005", "USD", "1.01"},
		{"-0.994", "USD", "-0.99"},
		{"-0.995", "USD", "-1.00"},
		{"-0.996", "USD", "-1.00"},
		{"0.995", "USD", "1.00"},
		{"-0.0171", "USD", "-0.02"},
		{"-0.004", "USD", "0.00"},
		{"2147483.648", "USD", "2147483.65"},
		{"45004.5", "JPY", "45005"},
		{"60000/31", "JPY", "1935"},
		{"25.7057", "USD", "25.71"},
		{"1.0005", "KWD", "1.001"},
		{"36", "CNY", "36.00"},
		{"90071992547409930000.005", "USD", "90071992547409930000.01"},
	} {
		if got := amount(t, c.exact, c.currency).Round(money.HalfAwayFromZero).String(); got != c.want {
			t.Errorf("%s %s rounds to %s, want %s", c.exact, c.currency, got, c.want)
		}
	}
}

func TestEveryRounding(t *testing.T) {
	exact := []string{"0.005", "0.015", "0.025", "0.021", "0.029", "-0.005", "-0.015", "-0.021", "0.02"}
	want := map[string][]string{
		"half_away_from_zero": {"0.01", "0.02", "0.03", "0.02", "0.03", "-0.01", "-0.02", "-0.02", "0.02"},
		"half_even":           {"0.00", "0.02", "0.02", "0.02", "0.03", "0.00", "-0.02", "-0.02", "0.02"},
		"up":                  {"0.01", "0.02", "0.03", "0.03", "0.03", "-0.01", "-0.02", "-0.03", "0.02"},
		"down":                {"0.00", "0.01", "0.02", "0.02", "0.02", "0.00", "-0.01", "-0.02", "0.02"},
	}
	for _, name := range money.RoundingNames() {
		r, err := money.ParseRounding(name)
		if err != nil || r.String() != name {
			t.Fatalf("%s reads as %v, %v", name, r, err)
		}
		var got []string
		for _, e := range exact {
			got = append(got, amount(t, e, "USD").Round(r).String())
		}
		if diff := cmp.Diff(want[name], got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	var back money.Rounding
	if text, err := json.Marshal(money.Up); err != nil || json.Unmarshal(text, &back) != nil || back != money.Up {
		t.Errorf("up came back as %s", back)
	}
	if err := json.Unmarshal([]byte(`"half_up"`), &back); err == nil {
		t.Error("half_up was accepted")
	}
}

// Cases F68 and F69: lines are rounded, then summed.
func TestSumOfRoundedLines(t *testing.T) {
	repeat := func(text string, n int) (out []string) {
		for range n {
			out = append(out, text)
		}
		return out
	}
	for _, c := range []struct {
		currency money.Currency
		lines    []string
		want     string
	}{
		{"USD", repeat("10.333333", 3), "30.99"},
		{"USD", []string{"33.333333", "33.333333", "33.333334"}, "99.99"},
		{"USD", []string{"0.011", "0.012", "0.013", "0.014", "0.015"}, "0.06"},
		{"USD", repeat("0.011", 100), "1.00"},
		{"JPY", []string{"100.4", "200.5", "300.6"}, "602"},
	} {
		total := money.FromMinor(new(big.Int), c.currency)
		for _, l := range c.lines {
			total = total.Add(amount(t, l, c.currency).Round(money.HalfAwayFromZero))
		}
		if total.String() != c.want {
			t.Errorf("%v: %s, want %s", c.lines, total, c.want)
		}
	}
	for _, c := range [][4]string{{"123.456", "0.50", "USD", "61.73"}, {"1000", "0.003333", "USD", "3.33"}, {"50", "10.5", "JPY", "525"}} {
		got := amount(t, c[1], money.Currency(c[2])).Mul(rat(t, c[0])).Round(money.HalfAwayFromZero)
		if got.String() != c[3] {
			t.Errorf("%s x %s = %s, want %s", c[0], c[1], got, c[3])
		}
	}
}

// Case B37: 16 x 348.35 less 4 %, tax 22 % on the rounded line.
func TestTaxOnRoundedLine(t *testing.T) {
	line := amount(t, "348.35", "EUR").Mul(rat(t, "16")).Mul(rat(t, "0.96")).Round(money.HalfAwayFromZero)
	tax := line.Amount().Mul(rat(t, "0.22")).Round(money.HalfAwayFromZero)
	if line.String() != "5350.66" || tax.String() != "1177.15" || line.Add(tax).Format() != "6,527.81 EUR" {
		t.Fatalf("line %s, tax %s, total %s", line, tax, line.Add(tax).Format())
	}
}

// Cases F73 and B43: no digit passes through a float.
func TestExactInAndOut(t *testing.T) {
	sum := amount(t, "0.1", "USD").Add(amount(t, "0.2", "USD"))
	if !sum.Equal(amount(t, "0.3", "USD")) {
		t.Errorf("0.1 + 0.2 = %s", sum)
	}
	price, err := money.ParseDecimal("1.337")
	if err != nil {
		t.Fatal(err)
	}
	if got := money.New(price, "USD").Mul(rat(t, "1000")).String(); got != "1337 USD" {
		t.Errorf("1000 x 1.337 = %s", got)
	}
	big, err := money.ParseRounded("9007199254740993", "JPY")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"total": big, "exact": amount(t, "1/3", "USD")})
	if want := `{"exact":"1/3 USD","total":"9007199254740993"}`; err != nil || string(text) != want {
		t.Errorf("JSON %s, %v; want %s", text, err, want)
	}
	if _, err := json.Marshal(money.Rounded{}); err == nil {
		t.Error("an amount without currency was written")
	}
}

func TestAmountIsImmutable(t *testing.T) {
	value := rat(t, "1.5")
	a := money.New(value, "USD")
	value.SetInt64(9)
	a.Rat().SetInt64(9)
	a.Neg()
	a.Mul(rat(t, "2"))
	if a.String() != "1.5 USD" {
		t.Errorf("amount became %s", a)
	}
	r := a.Round(money.Down)
	r.Minor().SetInt64(9)
	if n, ok := r.Int64(); n != 150 || !ok || a.Sub(a).Sign() != 0 || a.Cmp(a.Neg()) != 1 {
		t.Errorf("rounded became %s", r)
	}
}

// Case B58 and design page 3: one invoice, one currency.
func TestMixingCurrenciesBreaksAnAssertion(t *testing.T) {
	usd, cny := amount(t, "1", "USD"), amount(t, "1", "CNY")
	for name, f := range map[string]func(){
		"add":     func() { usd.Add(cny) },
		"sub":     func() { usd.Sub(cny) },
		"cmp":     func() { usd.Cmp(cny) },
		"rounded": func() { usd.Round(money.Up).Add(cny.Round(money.Up)) },
		"zero":    func() { usd.Add(money.Amount{}) },
		"unknown": func() { money.Zero("ABC") },
		"nothing": func() { _ = money.Rounded{}.Sign() },
	} {
		if must.Catch(f) == nil {
			t.Errorf("%s went through", name)
		}
	}
	one := usd.Round(money.Up)
	if one.Equal(cny.Round(money.Up)) || !one.Equal(usd.Round(money.Up)) || one.Cmp(one.Neg()) != 1 || one.Currency() != usd.Currency() {
		t.Error("rounded amounts compare wrongly")
	}
	if usd.Equal(cny) || !(money.Amount{}).Equal(money.Amount{}) {
		t.Error("Equal is wrong across currencies")
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		text     string
		currency money.Currency
		want     string
	}{
		{"1234.56", "CNY", "1,234.56 CNY"},
		{"-1234567.8", "USD", "-1,234,567.80 USD"},
		{"999", "JPY", "999 JPY"},
		{"1000", "JPY", "1,000 JPY"},
		{"-0.02", "USD", "-0.02 USD"},
		{"0", "KWD", "0.000 KWD"},
	} {
		r, err := money.ParseRounded(c.text, c.currency)
		if err != nil || r.Format() != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.text, c.currency, r.Format(), err, c.want)
		}
	}
	if _, err := money.ParseRounded("1.005", "USD"); err == nil {
		t.Error("a tenth of a cent was taken for an amount to pay")
	}
}

// Case F74 and ISO 4217.
func TestCurrencies(t *testing.T) {
	digits := map[string]int{
		"USD": 2, "CNY": 2, "EUR": 2, "JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "RWF": 0, "BIF": 0,
		"JOD": 3, "KWD": 3, "BHD": 3, "CLF": 4,
	}
	for code, want := range digits {
		c, err := money.ParseCurrency(code)
		if err != nil || c.Digits() != want {
			t.Errorf("%s has %d digits, %v; want %d", code, c.Digits(), err, want)
		}
	}
	for code, want := range map[string]string{
		"RMB":  `unknown currency "RMB"; did you mean CNY?`,
		"yuan": `unknown currency "yuan"; did you mean CNY?`,
		"人民币":  `unknown currency "人民币"; did you mean CNY?`,
		"cny":  `unknown currency "cny"; did you mean CNY?`,
		"USDD": `unknown currency "USDD"; did you mean USD?`,
		"":     `unknown currency ""; write an active ISO 4217 code such as USD`,
		"P C":  `unknown currency "P C"; write an active ISO 4217 code such as USD`,
	} {
		_, err := money.ParseCurrency(code)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", code, err, want)
		}
	}
	var c money.Currency
	if err := json.Unmarshal([]byte(`"XXX"`), &c); err == nil || c != "" {
		t.Errorf("XXX decoded to %q", c)
	}
}

func TestAllocate(t *testing.T) {
	for _, c := range []struct {
		minor   int64
		weights []string
		want    []string
	}{
		{100, []string{"1", "1", "1"}, []string{"0.34", "0.33", "0.33"}},
		{-100, []string{"1", "1", "1"}, []string{"-0.34", "-0.33", "-0.33"}},
		{1000, []string{"1", "1", "1", "1", "1", "1", "1"}, []string{"1.43", "1.43", "1.43", "1.43", "1.43", "1.43", "1.42"}},
		{1, []string{"1/3", "2/3"}, []string{"0.00", "0.01"}},
		{5, []string{"0", "1"}, []string{"0.00", "0.05"}},
		{0, []string{"0", "0"}, []string{"0.00", "0.00"}},
	} {
		var weights []*big.Rat
		for _, w := range c.weights {
			weights = append(weights, rat(t, w))
		}
		var got []string
		for _, p := range money.FromMinor(big.NewInt(c.minor), "USD").Allocate(weights) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d over %v (-want +got)\n%s", c.minor, c.weights, diff)
		}
	}
	if must.Catch(func() { money.FromMinor(big.NewInt(1), "USD").Allocate(nil) }) == nil {
		t.Error("a cent was allocated to nobody")
	}
}

func TestAllocateIsExactAndFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := money.FromMinor(big.NewInt(rapid.Int64().Draw(t, "minor")), "USD")
		shares := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 12).Draw(t, "shares")
		var weights []*big.Rat
		sum := new(big.Rat)
		for _, s := range shares {
			weights = append(weights, big.NewRat(s, 7))
			sum.Add(sum, weights[len(weights)-1])
		}
		if sum.Sign() == 0 {
			return
		}
		left := total
		for i, p := range total.Allocate(weights) {
			left = left.Sub(p)
			exact := total.Amount().Mul(new(big.Rat).Quo(weights[i], sum))
			if gap := exact.Sub(p.Amount()).Rat(); gap.Abs(gap).Cmp(big.NewRat(1, 100)) >= 0 {
				t.Fatalf("part %d is %s, a minor unit or more off %s", i, p, exact)
			}
		}
		if !left.IsZero() {
			t.Fatalf("%s was lost", left)
		}
	})
}

// A charge and its reversal cancel under every rounding (case B53), and no rounding is a whole unit off.
func TestRoundingIsSymmetricAndNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exact := big.NewRat(rapid.Int64().Draw(t, "n"), rapid.Int64Range(1, 1_000_000).Draw(t, "d"))
		r := money.Rounding(rapid.IntRange(0, 3).Draw(t, "rounding"))
		a := money.New(exact, "USD")
		rounded := a.Round(r)
		if !rounded.Add(a.Neg().Round(r)).IsZero() {
			t.Fatalf("%s and its reversal leave %s", a, rounded.Add(a.Neg().Round(r)))
		}
		gap := a.Sub(rounded.Amount()).Rat()
		limit := big.NewRat(1, 100)
		if r <= money.HalfEven {
			limit = big.NewRat(5, 1000)
		}
		if c := gap.Abs(gap).Cmp(limit); c > 0 || c == 0 && r > money.HalfEven {
			t.Fatalf("%s rounds %s to %s", r, a, rounded)
		}
	})
}
