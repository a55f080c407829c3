package price

import (
	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

const (
	secondsPerHour = span.SecondsPerHour
	secondsPerDay  = 24 * secondsPerHour
)

// unitSeconds is how many seconds a price's unit lasts at an instant (design page 3b, Units). A day is 86,400 seconds and
// a week seven of them whatever the clocks do; only months and years follow the calendar.
func unitSeconds(c *contract.Contract, unit contract.Unit, at span.Second) int64 {
	switch unit {
	case contract.GPUSecond:
		return 1
	case contract.GPUMinute:
		return span.SecondsPerMinute
	case contract.GPUHour:
		return secondsPerHour
	case contract.GPUDay:
		return secondsPerDay
	case contract.GPUWeek:
		return 7 * secondsPerDay
	case contract.GPUMonth:
		return monthSeconds(c, at)
	case contract.GPUYear:
		return yearSeconds(c, at)
	}
	must.Never("unit %d is not in the closed list", unit)
	return 0
}

// monthSeconds is the month of a monthly price. A period that the term cuts short still divides by its whole month, so
// that half a month costs half the price.
func monthSeconds(c *contract.Contract, at span.Second) int64 {
	switch c.Billing.Month {
	case contract.Month30d:
		return 30 * secondsPerDay
	case contract.Month720h:
		return 720 * secondsPerHour
	case contract.Month730h:
		return 730 * secondsPerHour
	case contract.MonthActual:
	}
	if c.Billing.Cycle == calendar.Monthly {
		return c.Period(at).Full.Seconds()
	}
	return calendar.PeriodAt(calendar.Monthly, 1, c.Term, c.Zone, at).Full.Seconds()
}

// yearSeconds is the anchored year of a yearly price: the yearly billing period, else the year from one anniversary of
// the term's start to the next.
func yearSeconds(c *contract.Contract, at span.Second) int64 {
	if c.Billing.Cycle == calendar.Yearly {
		return c.Period(at).Full.Seconds()
	}
	anniversary := c.Zone.DateOf(c.Term.From).Day
	return calendar.PeriodAt(calendar.Yearly, anniversary, c.Term, c.Zone, at).Full.Seconds()
}
