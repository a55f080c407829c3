package span

import (
	"fmt"
	"math"
	"time"
)

// Second is an instant in whole Unix seconds (UTC, no leap seconds). Its text form is RFC 3339 in UTC.
type Second int64

// Open is the end of a span that has not ended yet.
const Open Second = math.MaxInt64

// Lengths of time in seconds. Days and months are local (core/calendar).
const (
	SecondsPerMinute = 60
	SecondsPerHour   = 3600
)

// earliest and latest bound what a text may say: years 1970 to 9999. A sentinel such as 9999-12-31 is an
// ordinary instant here and does not wrap.
const (
	earliest Second = 0
	latest   Second = 253402300799
)

// String is RFC 3339 in UTC, or "open".
func (s Second) String() string {
	if s == Open {
		return "open"
	}
	return time.Unix(int64(s), 0).UTC().Format(time.RFC3339)
}

// MarshalText writes RFC 3339 in UTC; an open end has no text form and is an error.
func (s Second) MarshalText() ([]byte, error) {
	if s == Open {
		return nil, fmt.Errorf("write instant: an open end has no text form")
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads RFC 3339 with any offset and floors a fraction to the second (design page 3b, Starts).
func (s *Second) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// Parse reads RFC 3339 with any offset and floors a fraction to the second.
func Parse(text string) (Second, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("instant %q is not RFC 3339; write it like 2026-02-28T13:00:00Z", text)
	}
	v := Second(t.Unix())
	if v < earliest || v > latest {
		return 0, fmt.Errorf("instant %q lies outside 1970 to 9999", text)
	}
	return v, nil
}

// Span is the half-open interval [From, To). To may be Open.
type Span struct{ From, To Second }

// Empty tells whether the span holds no second.
func (s Span) Empty() bool { return s.To <= s.From }

// Seconds is the length of the span; an open span has none and is a programming error for the caller to avoid.
func (s Span) Seconds() int64 {
	if s.Empty() {
		return 0
	}
	return int64(s.To - s.From)
}

// Contains tells whether second t lies in the span.
func (s Span) Contains(t Second) bool { return s.From <= t && t < s.To }

// Overlaps tells whether the two spans share a second.
func (s Span) Overlaps(o Span) bool { return !s.Intersect(o).Empty() }

// Intersect is what both spans hold; it is Empty when they share nothing.
func (s Span) Intersect(o Span) Span { return Span{max(s.From, o.From), min(s.To, o.To)} }

func (s Span) String() string { return fmt.Sprintf("[%s, %s)", s.From, s.To) }

// Minute is a minute since the Unix epoch.
type Minute int64

// Minute is the epoch minute that holds s.
func (s Second) Minute() Minute { return Minute(floorDiv(int64(s), SecondsPerMinute)) }

// Start is the minute's first second.
func (m Minute) Start() Second { return Second(m) * SecondsPerMinute }

// End is the first second after the minute.
func (m Minute) End() Second { return (m + 1).Start() }

// Hour is the epoch hour that holds the minute.
func (m Minute) Hour() Hour { return Hour(floorDiv(int64(m), 60)) }

// Hour is an hour since the Unix epoch. It is a unit of work, not of billing: it follows no zone.
type Hour int64

// Hour is the epoch hour that holds s.
func (s Second) Hour() Hour { return Hour(floorDiv(int64(s), SecondsPerHour)) }

// Start is the hour's first second.
func (h Hour) Start() Second { return Second(h) * SecondsPerHour }

// End is the first second after the hour.
func (h Hour) End() Second { return (h + 1).Start() }

// Span is the hour as an interval.
func (h Hour) Span() Span { return Span{h.Start(), h.End()} }

// FirstMinute is the hour's first minute.
func (h Hour) FirstMinute() Minute { return Minute(h) * 60 }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
