package contract

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
)

// Fee is an amount for a unit of time, or one that is due once.
type Fee struct {
	Amount *big.Rat
	Unit   FeeUnit
}

// FeeUnit is what a fee is for. The zero value is no unit.
type FeeUnit uint8

// The closed list of units, from the shortest.
const (
	PerDay FeeUnit = iota + 1
	PerWeek
	PerMonth
	PerQuarter
	PerYear
	Once
)

// FeeUnitNames lists the units as a fee writes them, in the order of the constants.
func FeeUnitNames() []string { return []string{"day", "week", "month", "quarter", "year", "once"} }

func (u FeeUnit) String() string { return nameOf(FeeUnitNames(), int(u)-1) }

// cycle is the billing cycle whose periods are the unit; none for a fee that is due once.
func (u FeeUnit) cycle() calendar.Cycle {
	return map[FeeUnit]calendar.Cycle{
		PerDay: calendar.Daily, PerWeek: calendar.Weekly, PerMonth: calendar.Monthly, PerQuarter: calendar.Quarterly, PerYear: calendar.Yearly,
	}[u]
}

// Same tells whether two fees are the same amount for the same unit.
func (f *Fee) Same(o *Fee) bool { return f.Unit == o.Unit && f.Amount.Cmp(o.Amount) == 0 }

// Text writes a fee as a contract does: "3000.00/month".
func (f *Fee) Text(currency money.Currency) string {
	return money.DecimalText(f.Amount, currency.Digits(), money.MaxDigits) + "/" + f.Unit.String()
}

// feeUnitOf is the unit that a price ends with, where that is a fee's.
func feeUnitOf(text string) (number string, unit FeeUnit, ok bool) {
	number, name, _ := strings.Cut(text, "/")
	i := slices.Index(FeeUnitNames(), name)
	return number, PerDay + FeeUnit(max(i, 0)), i >= 0
}

// parseUnitFee reads 3000.00/month.
func parseUnitFee(text string, units ...FeeUnit) (*Fee, error) {
	number, unit, ok := feeUnitOf(text)
	if !ok || !slices.Contains(units, unit) {
		names := make([]string, len(units))
		for i, u := range units {
			names[i] = u.String()
		}
		return nil, fmt.Errorf("%.60q is not per one of %s; write 3000.00/month", text, quotedList(names))
	}
	amount, err := parseMoney(number)
	return &Fee{amount, unit}, err
}

// refusesFee refuses a fee by local days under a cycle shorter than a day, of which they say nothing.
func (r *reader) refusesFee(f section, key string, unit FeeUnit) bool {
	if r.contract.Billing.Cycle != calendar.Hourly || unit == Once {
		return false
	}
	r.failf(f.values[key], join(f.field, key), "write a longer cycle", "an hourly cycle has no local days to share a %s by", unit)
	return true
}

// FeeMonth is how many parts the month of a fee has that is charged by local days. The zero value is the default.
type FeeMonth uint8

// The closed list of months of fees.
const (
	FeeMonthActual FeeMonth = iota // its local days
	FeeMonth30d
	FeeMonth28d
)

// FeeMonthNames lists the months of fees as a contract writes them, in the order of the constants.
func FeeMonthNames() []string { return []string{"actual", "30d", "28d"} }

func (m FeeMonth) String() string { return nameOf(FeeMonthNames(), int(m)) }

// Days is how many days a month of a fixed length has; 0 for the real one.
func (m FeeMonth) Days() int { return map[FeeMonth]int{FeeMonth30d: 30, FeeMonth28d: 28}[m] }

func (r *reader) feeMonth(s section, b *Billing) {
	month := func(text string) (int, error) { return parseChoice(text, FeeMonthNames()) }
	set(r, s, "fee_month", "write actual", month, func(v int) { b.FeeMonth = FeeMonth(v) })
}

// feeChange names what an amendment must not change of add-ons and the commitment: fees of different units and a price on time are
// different lines of a bill, and a line has one name and one unit. The amounts may change.
func feeChange(versions []Version, c *Contract) string {
	for _, v := range versions {
		for _, a := range c.Addons {
			if before, ok := v.Contract.Addon(a.Name); ok && before.unit() != a.unit() {
				return "the unit of add-on " + a.Name
			}
		}
		if before := v.Contract.Spend; before != nil && c.Spend != nil && before.Unit != c.Spend.Unit {
			return "the unit of the commitment"
		}
	}
	return ""
}
