package calendar_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/span"
)

func TestLater(t *testing.T) {
	for _, c := range []struct {
		name, zone, from string
		months, days     int
		want             string
	}{
		{"B25: a month after a local February 27", "America/New_York", "2027-02-28T04:00:00Z", 1, 0, "2027-03-28T03:00:00Z"},
		{"the last day of a shorter month", "UTC", "2026-01-31T10:00:00Z", 1, 0, "2026-02-28T10:00:00Z"},
		{"a year after a leap day", "UTC", "2028-02-29T10:00:00Z", 12, 0, "2029-02-28T10:00:00Z"},
		{"a day of 23 hours", "Europe/Berlin", "2027-03-27T11:00:00Z", 0, 1, "2027-03-28T10:00:00Z"},
		{"a day of 25 hours", "Europe/Berlin", "2026-10-24T10:00:00Z", 0, 1, "2026-10-25T11:00:00Z"},
		{"a time that is skipped", "Europe/Berlin", "2027-03-27T01:30:00Z", 0, 1, "2027-03-28T01:00:00Z"},
		{"the first of a time that comes twice", "Europe/Berlin", "2026-10-24T00:30:00Z", 0, 1, "2026-10-25T00:30:00Z"},
		{"from the second of such a time", "Europe/Berlin", "2026-10-25T01:30:00Z", 0, 7, "2026-11-01T01:30:00Z"},
		{"a day that never was", "Pacific/Apia", "2011-12-29T20:00:00Z", 0, 1, "2011-12-30T10:00:00Z"},
		{"a week over a year's end", "Asia/Shanghai", "2026-12-30T16:00:00Z", 0, 7, "2027-01-06T16:00:00Z"},
	} {
		zone, err := calendar.LoadZone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := span.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := zone.Later(from, c.months, c.days).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Time always moves on, and the clock shows the same time again unless it jumped over it.
func TestLaterIsLater(t *testing.T) {
	names := []string{"America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata", "Pacific/Apia"}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := calendar.LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		from := span.Second(rapid.Int64Range(0, 7_000_000_000).Draw(t, "from"))
		to := zone.Later(from, rapid.SampledFrom([]int{0, 1, 12}).Draw(t, "months"), rapid.IntRange(1, 7).Draw(t, "days"))
		if to <= from {
			t.Fatalf("%s is not after %s", to, from)
		}
		a, b := zone.Clock(from), zone.Clock(to)
		if b.Second != a.Second && zone.Clock(to-1).Until != to {
			t.Fatalf("%s shows %d, %s shows %d, and the clock did not jump", from, a.Second, to, b.Second)
		}
	})
}
