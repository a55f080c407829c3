package sim

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// terms are a contract as its author thinks of it. The services read its document; the auditor reads this.
type terms struct {
	id, customer, currency, zone, cycle string
	anchor                              int
	from, to                            int64 // of the term
	grace                               int64 // -1 when the contract states none
	minimum, granularity                int64
	rounding                            string
	rates                               []rate
	fees                                []fee
	location                            *time.Location
	names                               map[int64]string // of periods, by the quarter of an hour: of all versions, see period
}

// rate is a price in hundredths of the currency per unit, with factors in percent.
type rate struct {
	sku       string
	hundredth int64
	unit      string
	region    map[string]int64 // nil: every region costs the same
	tier      map[string]int64 // nil: so does every service tier
	dedicated int64            // 0: not stated
}

// unitSeconds is what a unit lasts; the contracts of this world fix the month at 730 hours.
func unitSeconds(unit string) int64 {
	return map[string]int64{"gpu-second": 1, "gpu-minute": 60, "gpu-hour": 3600, "gpu-day": 86400, "gpu-week": 604800, "gpu-month": 730 * 3600}[unit]
}

func instantText(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }

func (t *terms) document() string {
	granularity := map[int64]string{1: "second", 60: "minute", 3600: "hour"}[t.granularity]
	billing := fmt.Sprintf("cycle: %s, minimum: %ds, granularity: %s, rounding: %s, month: 730h", t.cycle, t.minimum, granularity, t.rounding)
	if t.grace >= 0 {
		billing += fmt.Sprintf(", grace: %ds", t.grace)
	}
	if t.anchor > 1 {
		billing += fmt.Sprintf(", anchor: %d", t.anchor)
	}
	var rates []string
	for _, r := range t.rates {
		text := fmt.Sprintf("{sku: %s, on_demand: %d.%02d/%s", r.sku, r.hundredth/100, r.hundredth%100, r.unit)
		if r.region != nil {
			text += fmt.Sprintf(", region: {east: %d%%, west: %d%%}", r.region["east"], r.region["west"])
		}
		if r.tier != nil {
			text += fmt.Sprintf(", service_tier: {gold: %d%%, silver: %d%%}", r.tier["gold"], r.tier["silver"])
		}
		if r.dedicated != 0 {
			text += fmt.Sprintf(", dedicated: %d%%", r.dedicated)
		}
		rates = append(rates, text+"}")
	}
	reserved, addons := t.clauses()
	if reserved != "" {
		rates = append(rates, reserved)
	}
	return fmt.Sprintf("{contract: %s, customer: %s, currency: %s, timezone: %s, term: {from: %s, to: %s}, billing: {%s}, rates: [%s]%s}\n",
		t.id, t.customer, t.currency, t.zone, instantText(t.from), instantText(t.to), billing, strings.Join(rates, ", "), addons)
}

// price is the exact price of a milli-GPU-second, or why there is none.
func (t *terms) price(what goods) (*big.Rat, string) {
	for _, r := range t.rates {
		if r.sku != what.sku {
			continue
		}
		p := big.NewRat(r.hundredth, 100*1000*unitSeconds(r.unit))
		for _, step := range []struct {
			factors   map[string]int64
			key, none string
		}{{r.region, what.region, "no_region"}, {r.tier, what.tier, "no_service_tier"}} {
			if step.factors == nil {
				continue
			}
			percent, ok := step.factors[step.key]
			if !ok {
				return nil, step.none
			}
			p.Mul(p, big.NewRat(percent, 100))
		}
		if what.dedicated && r.dedicated != 0 {
			p.Mul(p, big.NewRat(r.dedicated, 100))
		}
		return p, ""
	}
	return nil, "no_rate"
}

// period names the billing period of a second. No offset drawn here is finer than a quarter of an hour, and no amendment changes
// what decides the name, so a quarter is looked at once for all versions.
func (t *terms) period(at int64) string {
	name, known := t.names[at/900]
	if !known {
		name = t.wallPeriod(at)
		t.names[at/900] = name
	}
	return name
}

// wallPeriod names the period by what a wall clock in the zone shows.
func (t *terms) wallPeriod(at int64) string {
	local := time.Unix(at, 0).In(t.location)
	switch t.cycle {
	case "hourly":
		return local.Format("2006-01-02T15-07:00")
	case "daily":
		return local.Format("2006-01-02")
	case "weekly":
		back := (int(local.Weekday()+6)%7 - (t.anchor - 1) + 7) % 7
		return local.AddDate(0, 0, -back).Format("week of 2006-01-02")
	default:
		last := time.Date(local.Year(), local.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		month := time.Date(local.Year(), local.Month(), 1, 0, 0, 0, 0, time.UTC)
		if local.Day() < min(t.anchor, last) {
			month = month.AddDate(0, -1, 0)
		}
		return month.Format("month of 2006-01")
	}
}

// round brings an exact amount to minor units.
func (t *terms) round(x *big.Rat) *big.Int {
	scaled, floor := new(big.Rat).Mul(x, new(big.Rat).SetInt(t.minor())), t.floor(x)
	rest := new(big.Rat).Sub(scaled, new(big.Rat).SetInt(floor))
	half := rest.Cmp(big.NewRat(1, 2))
	up := false
	switch t.rounding {
	case "half_away_from_zero":
		up = half >= 0
	case "half_even":
		up = half > 0 || half == 0 && floor.Bit(0) == 1
	case "up":
		up = rest.Sign() > 0
	}
	if up {
		floor.Add(floor, big.NewInt(1))
	}
	return floor
}

// floor is an exact amount in whole minor units, the rest left away. Amounts of whole statements are not negative.
func (t *terms) floor(x *big.Rat) *big.Int {
	scaled := new(big.Rat).Mul(x, new(big.Rat).SetInt(t.minor()))
	return new(big.Int).Div(scaled.Num(), scaled.Denom())
}

// minor is how many minor units make one of the currency.
func (t *terms) minor() *big.Int {
	return big.NewInt(map[string]int64{"USD": 100, "CNY": 100, "JPY": 1, "KWD": 1000}[t.currency])
}
