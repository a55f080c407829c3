package calendar

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// Cycle is how long a billing period is. The zero value is no cycle.
type Cycle uint8

// The closed list of cycles.
const (
	Hourly Cycle = iota + 1
	Daily
	Weekly
	Biweekly
	Monthly
	Quarterly
	Yearly
)

// CycleNames lists the names that ParseCycle accepts, in the order of the constants.
func CycleNames() []string {
	return []string{"hourly", "daily", "weekly", "biweekly", "monthly", "quarterly", "yearly"}
}

// ParseCycle reads a cycle by its contract name.
func ParseCycle(name string) (Cycle, error) {
	for i, n := range CycleNames() {
		if n == name {
			return Hourly + Cycle(i), nil
		}
	}
	return 0, fmt.Errorf("unknown cycle %.40q; write one of %s", name, strings.Join(CycleNames(), ", "))
}

func (c Cycle) String() string {
	must.True(Hourly <= c && c <= Yearly, "cycle %d is not in the closed list", uint8(c))
	return CycleNames()[c-Hourly]
}

// MaxAnchor is the highest anchor of the cycle: a day of the month, an ISO weekday, or only 1 where nothing is anchored.
func (c Cycle) MaxAnchor() int {
	switch c {
	case Monthly, Quarterly, Yearly:
		return 31
	case Weekly, Biweekly:
		return 7
	default:
		return 1
	}
}

// Period is one billing period. Periods tile the term: the next one's From is this one's To.
type Period struct {
	Span span.Span // what is billed: Full cut at the start and the end of the term
	Full span.Span // the whole anchored period, which a price per month or year is divided by
}

// PeriodAt is the period that holds t, which must lie in the term.
//
// Nothing is stored between calls, so a clamped date never becomes the next anchor.
func PeriodAt(cycle Cycle, anchor int, term span.Span, zone Zone, t span.Second) Period {
	if !term.Contains(t) {
		must.Never("instant %s lies outside the term %s", t, term)
	}
	full := Whole(cycle, anchor, term.From, zone, t)
	return Period{Span: full.Intersect(term), Full: full}
}

// Whole is the whole anchored period around t, whatever the term cuts off.
//
// Hourly periods are local clock hours; daily ones local days; weekly ones begin on ISO weekday anchor; biweekly ones on every other
// of them, counted from the first one on or after the local date of start; monthly ones on day anchor of every month; quarterly and
// yearly ones likewise every 3 or 12 months counted from the month of start. An anchor past the end of a month is its last day and
// returns.
func Whole(cycle Cycle, anchor int, start span.Second, z Zone, t span.Second) span.Span {
	if anchor < 1 || anchor > cycle.MaxAnchor() {
		must.Never("anchor %d does not fit a %s cycle", anchor, cycle)
	}
	today := z.DateOf(t)
	var first, next Date
	switch cycle {
	case Hourly:
		return z.hourOf(t)
	case Daily:
		first, next = today, today.AddDays(1)
	case Weekly:
		first = today.AddDays(-mod(today.Weekday()-anchor, 7))
		next = first.AddDays(7)
	case Biweekly:
		rhythm := z.DateOf(start)
		rhythm = rhythm.AddDays(mod(anchor-rhythm.Weekday(), 7))
		first = today.AddDays(-mod(DaysBetween(rhythm, today), 14))
		next = first.AddDays(14)
	case Monthly:
		first, next = anchored(today, today.month(), anchor, 1)
	case Quarterly:
		first, next = anchored(today, z.DateOf(start).month(), anchor, 3)
	case Yearly:
		first, next = anchored(today, z.DateOf(start).month(), anchor, 12)
	}
	return span.Span{From: z.StartOfDay(first), To: z.StartOfDay(next)}
}

// anchored is the last anchor date not after today and the one after it, in steps of months that meet month base.
func anchored(today Date, base month, anchor int, step month) (first, next Date) {
	m := today.month() - mod(today.month()-base, step)
	if m.day(anchor).Compare(today) > 0 {
		m -= step
	}
	return m.day(anchor), (m + step).day(anchor)
}
