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

// UnitSeconds is how many seconds a price's unit lasts at an instant (design page 3b, Units). A day is 86,400 seconds and
// a week seven of them whatever the clocks do; only months and years follow the calendar.
func UnitSeconds(c *contract.Contract, unit contract.Unit, at span.Second) int64 {
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
		return year(c, at).Seconds()
	case contract.GPUQuarter: // of fees only
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
	return month(c, at).Seconds()
}

// month is the whole billing period if the cycle is monthly, else the local calendar month.
func month(c *contract.Contract, at span.Second) span.Span {
	if c.Billing.Cycle == calendar.Monthly {
		return c.Period(at).Full
	}
	return calendar.PeriodAt(calendar.Monthly, 1, c.Term, c.Zone, at).Full
}

// year is the anchored year of a yearly price: the yearly billing period, else the year from one anniversary of
// the term's start to the next.
func year(c *contract.Contract, at span.Second) span.Span {
	if c.Billing.Cycle == calendar.Yearly {
		return c.Period(at).Full
	}
	anniversary := c.Zone.DateOf(c.Term.From).Day
	return calendar.PeriodAt(calendar.Yearly, anniversary, c.Term, c.Zone, at).Full
}

// SameUnits tells whether every unit lasts as long at b as at a, as in one month and one year: then a condition that has a price at a
// has the same price at b.
func SameUnits(c *contract.Contract, a, b span.Second) bool {
	return c.Term.Contains(b) && month(c, a).Contains(b) && year(c, a).Contains(b)
}

// FeeDay is the part of a fee that is charged for the local day around an instant: so many days of so many. A fixed fee is whole per unit
// (page 3b, Units), so a month costs the same whatever its length; the contract's month rule is for prices by time. Quarters and years
// are those of a billing period, from the month in which the term starts or its trial ends.
func FeeDay(c *contract.Contract, unit contract.FeeUnit, at span.Second) (days, of int) {
	switch unit {
	case contract.PerDay:
		return 1, 1
	case contract.PerWeek:
		return 1, 7
	case contract.PerMonth:
		return monthDay(c, at)
	case contract.PerQuarter:
		return 1, calendar.LocalDays(anchored(c, calendar.Quarterly, at))
	case contract.PerYear:
		return 1, calendar.LocalDays(anchored(c, calendar.Yearly, at))
	case contract.Once:
	}
	must.Never("a fee per unit %d has no days", unit)
	return 0, 0
}

// ReservedDay is FeeDay of a reservation, whose year is that of a price of time.
func ReservedDay(c *contract.Contract, unit contract.Unit, at span.Second) (days, of int) {
	switch unit {
	case contract.GPUDay:
		return FeeDay(c, contract.PerDay, at)
	case contract.GPUWeek:
		return FeeDay(c, contract.PerWeek, at)
	case contract.GPUMonth:
		return FeeDay(c, contract.PerMonth, at)
	case contract.GPUQuarter:
		return FeeDay(c, contract.PerQuarter, at)
	case contract.GPUYear:
		return 1, calendar.LocalDays(year(c, at))
	case contract.GPUSecond, contract.GPUMinute, contract.GPUHour:
	}
	must.Never("a fee per %s has no days", unit)
	return 0, 0
}

// monthDay is a day of a month of real or of fixed length.
func monthDay(c *contract.Contract, at span.Second) (days, of int) {
	whole := month(c, at)
	n := c.Billing.FeeMonth.Days()
	if n == 0 {
		return 1, calendar.LocalDays(whole)
	}
	date, end := c.Zone.Day(at)
	return calendar.FixedDays(n, c.Zone.DateOf(whole.From), c.Zone.DateOf(whole.To), date, c.Zone.DateOf(end)), n
}

// anchored is the period of a cycle around an instant, on the anchor of the bills where that is a day of the month.
func anchored(c *contract.Contract, cycle calendar.Cycle, at span.Second) span.Span {
	anchor := 1
	if c.Billing.Cycle.MaxAnchor() == cycle.MaxAnchor() {
		anchor = c.Billing.Anchor
	}
	return calendar.Whole(cycle, anchor, c.Counted(), c.Zone, at)
}
