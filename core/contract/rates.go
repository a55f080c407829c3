package contract

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
	"github.com/gpuhour/gpuhour/core/money"
)

func rateFields() []string { return []string{"sku", "on_demand"} }

// rates reads a list of rates that may state the given clauses.
func (r *reader) rates(n ast.Node, may []clause[Rate]) []Rate {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.failf(n, "rates", "write `- sku: h100-80g`", "a list of rates is expected, not %s", emptyOr(kind(n), ok))
		return nil
	}
	var out []Rate
	known, unsupported := fields(rateFields(), may)
	for i, value := range list.Values {
		field := fmt.Sprintf("rates[%d]", i)
		s, ok := r.section(value, field, known, unsupported)
		if !ok {
			continue
		}
		rate := r.rate(s, may)
		if rate.SKU != "" && slices.ContainsFunc(out, func(o Rate) bool { return o.SKU == rate.SKU }) {
			r.failf(s.values["sku"], join(field, "sku"), "keep one rate per SKU", "%q has a rate already", rate.SKU)
		}
		out = append(out, rate)
	}
	for _, check := range r.later {
		check(out)
	}
	r.later = nil
	return out
}

func emptyOr(kind string, list bool) string {
	if list {
		return "an empty one"
	}
	return kind
}

func (r *reader) rate(s section, may []clause[Rate]) Rate {
	var rate Rate
	rate.SKU, _ = need(r, s, "sku", "name the SKU, such as h100-80g", parseName)
	if s.values["on_demand"] != nil || s.values["spot"] == nil && r.contract.PriceBook == "" {
		rate.OnDemand, _ = need(r, s, "on_demand", "write 35.00/gpu-hour", parseRatePrice)
	}
	clauses(r, s, may, &rate)
	return rate
}

func (r *reader) region(s section, rate *Rate) { rate.Region = r.factors(s, "region", "cn-east") }

func (r *reader) serviceTier(s section, rate *Rate) {
	rate.ServiceTier = r.factors(s, "service_tier", "t3")
}

func (r *reader) dedicated(s section, rate *Rate) {
	set(r, s, "dedicated", "write 125%", parseFactor, func(f *big.Rat) { rate.Dedicated = f })
}

// factors reads a map of percentages; nil when it is absent. An empty map would refuse every lease, so it is an error.
func (r *reader) factors(s section, key, example string) map[string]*big.Rat {
	n, ok := s.values[key]
	if !ok {
		return nil
	}
	field, remedy := join(s.field, key), fmt.Sprintf("write {%s: 100%%}", example)
	entries, ok := r.entries(n, field)
	if !ok {
		return nil
	}
	if len(entries) == 0 {
		r.failf(n, field, remedy+" or remove it", "the map has no entry")
	}
	out := make(map[string]*big.Rat, len(entries))
	for _, e := range entries {
		if _, err := parseName(e.key); err != nil {
			r.fail(e.keyAt, field, err.Error(), "")
		}
		out[e.key], _ = read(r, e.value, join(field, e.key), "write 100%", parseFactor)
	}
	return out
}

func parseFactor(text string) (*big.Rat, error) {
	factor, err := money.ParsePercent(text)
	switch {
	case err != nil:
		return nil, err
	case factor.Sign() < 0:
		return nil, fmt.Errorf("%.40q is negative; write 0%% or more", text)
	case factor.Cmp(big.NewRat(maxFactor, 1)) > 0:
		return nil, fmt.Errorf("%.40q is above %d%%; correct it", text, maxFactor*100)
	}
	return factor, nil
}

// Bounds of a price and of each factor. No GPU costs as much in any currency; without them an amount could grow beyond the
// money.MaxDigits digits that a reader of the invoice takes.
const (
	maxPrice  = 1_000_000_000_000
	maxFactor = 100
)

// ParsePrice reads "35.00/gpu-hour": an exact amount that is not negative, and its unit, which has no default.
func ParsePrice(text string) (Price, error) { return parseGPUPrice(text, UnitNames()) }

// parseGPUPrice reads a price per GPU, in one of some units.
func parseGPUPrice(text string, units []string) (Price, error) {
	p, err := parsePriceIn(text, units)
	if err == nil && p.PerSlice {
		return Price{}, fmt.Errorf("price %.60q is per slice, which only `on_demand:` and `cap:` of a rate can be; write it per %s", text, p.Unit)
	}
	return p, err
}

// parseRatePrice reads a price per GPU, or "0.55/slice-hour", one per slice.
func parseRatePrice(text string) (Price, error) { return parsePriceIn(text, UnitNames()) }

func parsePriceIn(text string, units []string) (Price, error) {
	number, unitName, found := strings.Cut(text, "/")
	amount, err := money.ParseDecimal(number)
	switch {
	case err != nil && namesCurrency(number):
		return Price{}, errors.New("the currency does not belong into a price; write 35.00/gpu-hour")
	case err != nil:
		return Price{}, fmt.Errorf("price %w", err)
	case amount.Sign() < 0:
		return Price{}, fmt.Errorf("price %.60q is negative; write 0 or more", text)
	case amount.Cmp(big.NewRat(maxPrice, 1)) > 0:
		return Price{}, fmt.Errorf("price %.60q is above %d; correct it", text, int64(maxPrice))
	case !found:
		return Price{}, fmt.Errorf("unit is missing; write %s/gpu-hour", text)
	}
	for i, name := range units {
		if name == unitName || sliceName(name) == unitName {
			return Price{Amount: amount, Unit: GPUSecond + Unit(i), PerSlice: name != unitName}, nil
		}
	}
	meant := "gpu-hour"
	if near, ok := nearest.Of(strings.ToLower("gpu-"+strings.TrimPrefix(strings.ToLower(unitName), "gpu-")), units); ok {
		meant = near
	}
	return Price{}, fmt.Errorf("unknown unit %.40q; write %s/%s", unitName, number, meant)
}

// namesCurrency tells an amount with a currency in it, which the contract names once for all.
func namesCurrency(number string) bool {
	words := strings.Fields(number)
	if len(words) > 1 {
		_, err := money.ParseCurrency(words[len(words)-1])
		return err == nil
	}
	return strings.ContainsAny(number, "$€£¥￥元")
}

// Text is the price with at least the currency's digits: "36.00/gpu-hour". Prices are finite decimals, so it is exact.
func (p Price) Text(currency money.Currency) string {
	unit := p.Unit.String()
	if p.PerSlice {
		unit = sliceName(unit)
	}
	return money.DecimalText(p.Amount, currency.Digits(), money.MaxDigits) + "/" + unit
}
