package calendar

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
)

const (
	secondsPerHour = span.SecondsPerHour
	secondsPerDay  = 24 * secondsPerHour

	// The years 1 to 9999: beyond them time.Time and text forms no longer agree.
	firstSecond span.Second = -62135596800
	endSecond   span.Second = 253402300800
)

// Date is a day of the Gregorian calendar, in no zone. Dates compare with ==.
type Date struct {
	Year  int
	Month time.Month
	Day   int // 1 to 31
}

// ParseDate reads "2026-02-28"; a day that its month does not have is an error.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Date{}, fmt.Errorf("%.40q is not a date; write it like 2026-02-28", text)
	}
	return dateOf(t), nil
}

// String is "2026-02-28".
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// MarshalText writes String.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts what ParseDate accepts.
func (d *Date) UnmarshalText(text []byte) error {
	parsed, err := ParseDate(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Compare is -1, 0 or +1 as d is earlier than, equal to or later than o.
func (d Date) Compare(o Date) int {
	return cmp.Or(cmp.Compare(d.Year, o.Year), cmp.Compare(d.Month, o.Month), cmp.Compare(d.Day, o.Day))
}

// AddDays is the date n calendar days later.
func (d Date) AddDays(n int) Date { return dateOf(d.utc().AddDate(0, 0, n)) }

// Weekday is the ISO weekday: Monday 1 to Sunday 7.
func (d Date) Weekday() int { return int(d.utc().Weekday()+6)%7 + 1 }

// DaysBetween is the number of calendar days from a to b; a day of 23 or 25 hours is one day.
func DaysBetween(a, b Date) int { return int((b.utc().Unix() - a.utc().Unix()) / secondsPerDay) }

// utc stands for the date in day arithmetic, where no day is longer than another.
func (d Date) utc() time.Time { return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC) }

func dateOf(t time.Time) Date { return Date{t.Year(), t.Month(), t.Day()} }

// month counts months since year 0, so that anchors step by plain addition.
type month int

func (d Date) month() month { return month(d.Year*12 + int(d.Month) - 1) }

// day is the given day of the month, or its last day when it has fewer. Each month clamps on its own: an anchor of 31
// is February 28 and then March 31 again (cases B18, B19).
func (m month) day(day int) Date {
	year, index := int(m)/12, time.Month(int(m)%12+1)
	last := time.Date(year, index+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return Date{year, index, min(day, last)}
}

// mod is the remainder that is never negative.
func mod[T ~int | ~int64](a, b T) T { return (a%b + b) % b }
