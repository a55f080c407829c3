package calendar_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

func zone(t testing.TB, name string) calendar.Zone {
	t.Helper()
	z, err := calendar.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func at(t testing.TB, text string) span.Second {
	t.Helper()
	s, err := span.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func date(t testing.TB, text string) calendar.Date {
	t.Helper()
	d, err := calendar.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// from is an open term that begins on a local date, or at an instant.
func from(t testing.TB, z calendar.Zone, start string) span.Span {
	t.Helper()
	if strings.Contains(start, "T") {
		return span.Span{From: at(t, start), To: span.Open}
	}
	return span.Span{From: z.StartOfDay(date(t, start)), To: span.Open}
}

// chain is the local dates of the first n periods' starts and of the last one's end.
func chain(t testing.TB, z calendar.Zone, c calendar.Cycle, anchor int, start string, n int) []string {
	t.Helper()
	term := from(t, z, start)
	next := term.From
	var dates []string
	for range n {
		p := calendar.PeriodAt(c, anchor, term, z, next)
		if p.Span.From != next {
			t.Fatalf("the period at %s begins at %s", next, p.Span.From)
		}
		dates = append(dates, z.DateOf(next).String())
		next = p.Span.To
	}
	return append(dates, z.DateOf(next).String())
}

// A close records TZVersion, so the bytes must not change under it.
func TestDatabaseIsPinned(t *testing.T) {
	data, err := os.ReadFile("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	const want = "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"
	if got := hex.EncodeToString(sum[:]); got != want || calendar.TZVersion != "2025c" {
		t.Errorf("tz database %s has sha256 %s; change TZVersion and this pin together", calendar.TZVersion, got)
	}
}

func TestLoadZone(t *testing.T) {
	for name, want := range map[string]string{
		"asia/shanghai":  `unknown timezone "asia/shanghai"; did you mean Asia/Shanghai?`,
		"Shanghai":       `unknown timezone "Shanghai"; did you mean Asia/Shanghai?`,
		"Asia/Shangai":   `unknown timezone "Asia/Shangai"; did you mean Asia/Shanghai?`,
		"Local":          `unknown timezone "Local"; write an IANA name such as Asia/Shanghai`,
		"":               `unknown timezone ""; write an IANA name such as Asia/Shanghai`,
		"../etc/passwd":  `unknown timezone "../etc/passwd"; write an IANA name such as Asia/Shanghai`,
		"Asia/Beijing":   `unknown timezone "Asia/Beijing"; did you mean Asia/Shanghai?`,
		"beijing":        `unknown timezone "beijing"; did you mean Asia/Shanghai?`,
		"CST":            `unknown timezone "CST"; write an IANA name such as Asia/Shanghai`,
		"GMT+8":          `unknown timezone "GMT+8": an offset is no place, whose clock may change; write an IANA name such as Asia/Shanghai`,
		"+08:00":         `unknown timezone "+08:00": an offset is no place, whose clock may change; write an IANA name such as Asia/Shanghai`,
		"UTC+8 Beijing ": `unknown timezone "UTC+8 Beijing "; write an IANA name such as Asia/Shanghai`,
	} {
		if z, err := calendar.LoadZone(name); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v; want %s", name, z, err, want)
		}
	}
	if z := zone(t, "Asia/Shanghai"); z.String() != "Asia/Shanghai" || !z.Equal(zone(t, "Asia/Shanghai")) || z.Equal(calendar.Zone{}) {
		t.Errorf("zone is %s", z)
	}
	if must.Catch(func() { calendar.Zone{}.DateOf(0) }) == nil {
		t.Error("no zone has dates")
	}
	if must.Catch(func() { zone(t, "UTC").DateOf(span.Open) }) == nil {
		t.Error("an open end has a date")
	}
}

// Cases B01, B02, B07, F56 and days that a clock change begins or ends.
func TestStartOfDay(t *testing.T) {
	for _, c := range []struct{ zone, date, want string }{
		{"America/New_York", "2026-04-01", "2026-04-01T04:00:00Z"}, // EDT, however early the customer came
		{"America/Juneau", "2026-11-01", "2026-11-01T08:00:00Z"},
		{"America/Juneau", "2026-12-01", "2026-12-01T09:00:00Z"},
		{"Asia/Kolkata", "2026-03-01", "2026-02-28T18:30:00Z"},
		{"UTC", "2024-03-01", "2024-03-01T00:00:00Z"},
		{"Asia/Kolkata", "2024-03-01", "2024-02-29T18:30:00Z"},
		{"Asia/Kolkata", "2024-04-01", "2024-03-31T18:30:00Z"},
		{"America/New_York", "2024-03-01", "2024-03-01T05:00:00Z"},
		{"America/New_York", "2024-04-01", "2024-04-01T04:00:00Z"},
		{"America/Los_Angeles", "2024-03-01", "2024-03-01T08:00:00Z"},
		{"America/Los_Angeles", "2024-04-01", "2024-04-01T07:00:00Z"},
		{"Asia/Kathmandu", "2026-01-01", "2025-12-31T18:15:00Z"},
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"},   // midnight skipped: the day begins at 01:00
		{"America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00:00Z"},   // 24:00 went back to 23:00 of the day before
		{"America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"},      // 01:00 goes back to midnight: the first one counts
		{"Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z"},         // midnight skipped
		{"America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z"},    // 00:01 went back to 23:01: the first midnight counts
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"},        // skipped: as empty as
		{"Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"},        // the day after it is whole
		{"Africa/Casablanca", "2026-02-15", "2026-02-14T23:00:00Z"},   // +01 before Ramadan
		{"Africa/Casablanca", "2026-02-16", "2026-02-16T00:00:00Z"},   // +00 within
		{"Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00:00Z"}, // +11
		{"Australia/Lord_Howe", "2026-04-06", "2026-04-05T13:30:00Z"}, // +10:30
	} {
		z, d := zone(t, c.zone), date(t, c.date)
		got := z.StartOfDay(d)
		if got.String() != c.want {
			t.Errorf("%s begins at %s in %s, want %s", d, got, z, c.want)
		}
		if today := z.DateOf(got); today != d && c.date != "2011-12-30" {
			t.Errorf("%s in %s is %s, want %s", got, z, today, d)
		}
	}
}

func TestDateOf(t *testing.T) {
	for _, c := range []struct{ zone, instant, want string }{
		{"UTC", "2026-02-28T20:00:00Z", "2026-02-28"},          // B07
		{"Asia/Kolkata", "2026-02-28T20:00:00Z", "2026-03-01"}, // B07
		{"America/Juneau", "2026-12-01T08:09:02Z", "2026-11-30"},
		{"America/New_York", "2027-02-28T04:00:00Z", "2027-02-27"},
		{"America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07"}, // the clock shows Nov 6 23:30 again
		{"Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31"},
	} {
		if got := zone(t, c.zone).DateOf(at(t, c.instant)); got != date(t, c.want) {
			t.Errorf("%s in %s is %s, want %s", c.instant, c.zone, got, c.want)
		}
	}
}

// Case F53: days, not multiples of 86,400 seconds.
func TestDaysBetween(t *testing.T) {
	z := zone(t, "America/New_York")
	for _, c := range []struct {
		from, to string
		want     int
	}{
		{"2026-03-09T12:00:00-04:00", "2026-03-11T12:00:00-04:00", 2},
		{"2026-03-07T23:00:00-05:00", "2026-03-08T23:00:00-04:00", 1},
		{"2026-11-02T12:00:00-05:00", "2026-11-04T12:00:00-05:00", 2},
		{"2026-11-01T00:30:00-04:00", "2026-11-02T00:00:00-05:00", 1},
		{"2026-07-15T12:30:00-04:00", "2026-07-16T08:15:00-04:00", 1},
		{"2026-07-15T00:00:00-04:00", "2026-07-15T23:59:59-04:00", 0},
		{"2026-08-01T23:00:00-04:00", "2026-08-03T01:00:00-04:00", 2},
	} {
		a, b := z.DateOf(at(t, c.from)), z.DateOf(at(t, c.to))
		if got := calendar.DaysBetween(a, b); got != c.want || calendar.DaysBetween(b, a) != -c.want {
			t.Errorf("%s to %s is %d days, want %d", c.from, c.to, got, c.want)
		}
	}
}

// The days of a month are those that there were, whatever clocks do at its ends and in it.
func TestLocalDays(t *testing.T) {
	for _, c := range []struct {
		zone, from, to string
		want           int
	}{
		{"America/New_York", "2026-03-01", "2026-04-01", 31},
		{"America/New_York", "2026-11-01", "2026-11-02", 1},
		{"Africa/Cairo", "2026-04-24", "2026-04-25", 1},         // 23 hours, from 01:00
		{"Australia/Lord_Howe", "2026-10-01", "2026-11-01", 31}, // half an hour less
		{"Pacific/Apia", "2011-12-01", "2012-01-01", 30},        // without December 30
		{"Pacific/Apia", "2011-12-30", "2011-12-31", 0},         // which is no day
		{"Pacific/Kwajalein", "1993-08-01", "1993-09-01", 30},   // without August 21
		{"Pacific/Kiritimati", "1994-01-01", "1995-01-01", 364}, // without December 31
	} {
		z := zone(t, c.zone)
		s := span.Span{From: z.StartOfDay(date(t, c.from)), To: z.StartOfDay(date(t, c.to))}
		if got := calendar.LocalDays(s); got != c.want {
			t.Errorf("%s: %s to %s is %d days, want %d", c.zone, c.from, c.to, got, c.want)
		}
	}
}

func TestDate(t *testing.T) {
	d := date(t, "2028-02-29")
	if d.AddDays(1).String() != "2028-03-01" || d.Weekday() != 2 || date(t, "2026-03-01").Weekday() != 7 {
		t.Errorf("date arithmetic is off for %s, weekday %d", d, d.Weekday())
	}
	if d.Compare(d.AddDays(1)) != -1 || d.Compare(date(t, "2028-02-29")) != 0 || d.Compare(date(t, "2027-12-31")) != 1 {
		t.Error("dates compare wrongly")
	}
	var back calendar.Date
	if text, err := d.MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != d {
		t.Errorf("%s came back as %s", d, back)
	}
	for _, text := range []string{"2026-02-29", "2026-2-3", "2026-13-01", "", "tomorrow"} {
		if got, err := calendar.ParseDate(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

// Cases B18, B19, B20, B21, B22, F54 and F57: anchors clamp to the month and come back.
func TestAnchors(t *testing.T) {
	for _, c := range []struct {
		name   string
		cycle  calendar.Cycle
		anchor int
		start  string
		want   string
	}{
		{"B18", calendar.Monthly, 31, "2027-01-31", "2027-01-31 2027-02-28 2027-03-31 2027-04-30 2027-05-31 2027-06-30"},
		{"B21", calendar.Monthly, 31, "2026-02-10", "2026-02-10 2026-02-28 2026-03-31 2026-04-30"},
		{"B22", calendar.Yearly, 29, "2028-02-29", "2028-02-29 2029-02-28 2030-02-28 2031-02-28 2032-02-29 2033-02-28"},
		{"F54", calendar.Monthly, 23, "2026-07-19", "2026-07-19 2026-07-23"},
		{"F54", calendar.Monthly, 17, "2026-07-19", "2026-07-19 2026-08-17"},
		{"F54", calendar.Monthly, 31, "2022-02-19", "2022-02-19 2022-02-28 2022-03-31"},
		{"F54", calendar.Weekly, 1, "2026-02-02", "2026-02-02 2026-02-09 2026-02-16 2026-02-23"},
		{"F54", calendar.Biweekly, 3, "2022-02-02", "2022-02-02 2022-02-16 2022-03-02"},
		{"biweekly behind a stub", calendar.Biweekly, 1, "2026-02-03", "2026-02-03 2026-02-09 2026-02-23 2026-03-09 2026-03-23 2026-04-06"},
		{"weekly from Sunday", calendar.Weekly, 7, "2026-02-02", "2026-02-02 2026-02-08 2026-02-15"},
		{"F57", calendar.Monthly, 10, "2021-01-01", "2021-01-01 2021-01-10 2021-02-10 2021-03-10"},
		{"F57", calendar.Quarterly, 1, "2021-01-10", "2021-01-10 2021-04-01 2021-07-01"},
		{"F57", calendar.Yearly, 1, "2021-01-10", "2021-01-10 2022-01-01 2023-01-01"},
		{"quarter from November", calendar.Quarterly, 30, "2026-11-30", "2026-11-30 2027-02-28 2027-05-30 2027-08-30"},
		{"anchor after the start", calendar.Quarterly, 15, "2026-01-10", "2026-01-10 2026-01-15 2026-04-15"},
		{"daily over a change of clocks", calendar.Daily, 1, "2026-03-28", "2026-03-28 2026-03-29 2026-03-30"},
	} {
		want := strings.Fields(c.want)
		got := chain(t, zone(t, "Europe/Berlin"), c.cycle, c.anchor, c.start, len(want)-1)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s %d from %s (-want +got)\n%s", c.name, c.cycle, c.anchor, c.start, diff)
		}
	}
}

// Cases B02, B05, B26: whole elapsed seconds of local periods.
func TestPeriodSeconds(t *testing.T) {
	for _, c := range []struct {
		name, zone, term, at string
		cycle                calendar.Cycle
		anchor               int
		want                 int64
	}{
		{"B02 November", "America/Juneau", "2026-10-01", "2026-12-01T08:09:02Z", calendar.Monthly, 1, 721 * 3600},
		{"B26 September", "UTC", "2026-01-01", "2026-09-30T23:59:59Z", calendar.Monthly, 1, 2_592_000},
		{"spring day", "Europe/Berlin", "2026-01-01", "2026-03-29T12:00:00Z", calendar.Daily, 1, 23 * 3600},
		{"autumn day", "Europe/Berlin", "2026-01-01", "2026-10-25T12:00:00Z", calendar.Daily, 1, 25 * 3600},
		{"last day of a leap year", "Europe/Berlin", "2020-01-01", "2020-12-31T12:00:00Z", calendar.Daily, 1, 24 * 3600},
		{"last month of a leap year", "Australia/Sydney", "2028-01-01", "2028-12-31T08:00:00Z", calendar.Monthly, 1, 31 * 86400},
		{"half-hour day", "Australia/Lord_Howe", "2026-01-01", "2026-04-05T00:00:00Z", calendar.Daily, 1, 24*3600 + 1800},
		{"day before none", "Pacific/Apia", "2011-01-01", "2011-12-30T09:59:59Z", calendar.Daily, 1, 86400},
		{"December of 30 days", "Pacific/Apia", "2011-01-01", "2011-12-15T00:00:00Z", calendar.Monthly, 1, 30 * 86400},
	} {
		z := zone(t, c.zone)
		p := calendar.PeriodAt(c.cycle, c.anchor, from(t, z, c.term), z, at(t, c.at))
		if got := p.Span.Seconds(); got != c.want {
			t.Errorf("%s: %s has %d s, want %d", c.name, p.Span, got, c.want)
		}
	}
	// B05: an anniversary period that starts inside a day keeps its last hours.
	z := zone(t, "UTC")
	term := span.Span{From: at(t, "2026-07-01T15:00:00Z"), To: at(t, "2026-08-01T15:00:00Z")}
	first := calendar.PeriodAt(calendar.Monthly, 1, term, z, term.From)
	last := calendar.PeriodAt(calendar.Monthly, 1, term, z, term.To-1)
	if sum := first.Span.Seconds() + last.Span.Seconds(); sum != 2_678_400 || last.Span.Seconds() != 54_000 {
		t.Errorf("B05: %s and %s hold %d s", first.Span, last.Span, sum)
	}
	if first.Full.Seconds() != 31*86400 || last.Full.To != at(t, "2026-09-01T00:00:00Z") {
		t.Errorf("B05: whole periods are %s and %s", first.Full, last.Full)
	}
}

// Case B06: 10 h, 20 h, 10 h and 30 h fall into two periods and none into a third.
func TestUsageFallsIntoOnePeriodEach(t *testing.T) {
	z := zone(t, "America/Los_Angeles")
	term := from(t, z, "2026-03-04")
	hours := map[string]int{}
	for _, u := range []struct {
		at    string
		hours int
	}{
		{"2026-03-15T02:00:00Z", 10},
		{"2026-04-04T06:30:00Z", 20},
		{"2026-04-04T07:30:00Z", 10},
		{"2026-04-04T08:30:00Z", 30},
	} {
		hours[calendar.PeriodAt(calendar.Monthly, 4, term, z, at(t, u.at)).Span.String()] += u.hours
	}
	want := map[string]int{
		"[2026-03-04T08:00:00Z, 2026-04-04T07:00:00Z)": 30,
		"[2026-04-04T07:00:00Z, 2026-05-04T07:00:00Z)": 40,
	}
	if diff := cmp.Diff(want, hours); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Case B09: four local days are left of the first week, not three UTC ones.
func TestFirstShortWeek(t *testing.T) {
	z := zone(t, "America/Denver")
	term := from(t, z, "2023-06-16T05:00:00Z")
	p := calendar.PeriodAt(calendar.Weekly, 1, term, z, term.From)
	left := calendar.DaysBetween(z.DateOf(p.Span.From), z.DateOf(p.Span.To))
	whole := calendar.DaysBetween(z.DateOf(p.Full.From), z.DateOf(p.Full.To))
	if left != 4 || whole != 7 || p.Span.To != at(t, "2023-06-19T06:00:00Z") {
		t.Errorf("%d of %d days, until %s", left, whole, p.Span.To)
	}
}

// Case B25: the local date anchors, not the UTC one that happens to end its month.
func TestAnchorIsLocal(t *testing.T) {
	z := zone(t, "America/New_York")
	term := from(t, z, "2027-02-28T04:00:00Z") // Feb 27 23:00 local
	first := calendar.PeriodAt(calendar.Monthly, z.DateOf(term.From).Day, term, z, term.From)
	if first.Span.To != at(t, "2027-03-27T04:00:00Z") {
		t.Errorf("the month from Feb 27 ends at %s", first.Span.To)
	}
}

func TestHours(t *testing.T) {
	for _, c := range []struct{ name, zone, at, from, to string }{
		{"half-hour zone", "Asia/Kolkata", "2026-01-01T00:00:00Z", "2025-12-31T23:30:00Z", "2026-01-01T00:30:00Z"},
		{"45-minute zone", "Asia/Kathmandu", "2026-01-01T00:20:00Z", "2026-01-01T00:15:00Z", "2026-01-01T01:15:00Z"},
		{"first 02:00", "Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"second 02:00", "Europe/Berlin", "2026-10-25T01:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"before the gap", "Europe/Berlin", "2026-03-29T00:59:59Z", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"after the gap", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"whole 01:00", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"repeated half of 01:00", "Australia/Lord_Howe", "2026-04-04T15:10:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"},
		{"02:30 to 03:00", "Australia/Lord_Howe", "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},
		{"skipped day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"},
		{"Ramadan ends", "Africa/Casablanca", "2026-03-22T02:00:00Z", "2026-03-22T02:00:00Z", "2026-03-22T03:00:00Z"},
	} {
		z := zone(t, c.zone)
		got := calendar.PeriodAt(calendar.Hourly, 1, from(t, z, "2010-01-01"), z, at(t, c.at)).Span
		if want := (span.Span{From: at(t, c.from), To: at(t, c.to)}); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}

func TestCycles(t *testing.T) {
	for _, name := range calendar.CycleNames() {
		if c, err := calendar.ParseCycle(name); err != nil || c.String() != name {
			t.Errorf("%s reads as %v, %v", name, c, err)
		}
	}
	if _, err := calendar.ParseCycle("fortnightly"); err == nil {
		t.Error("fortnightly was accepted")
	}
	z := zone(t, "UTC")
	term := span.Span{From: at(t, "2026-01-01T00:00:00Z"), To: at(t, "2026-02-01T00:00:00Z")}
	for name, f := range map[string]func(){
		"after the term": func() { calendar.PeriodAt(calendar.Monthly, 1, term, z, term.To) },
		"anchor 8":       func() { calendar.PeriodAt(calendar.Weekly, 8, term, z, term.From) },
		"no cycle":       func() { calendar.PeriodAt(0, 1, term, z, term.From) },
	} {
		if must.Catch(f) == nil {
			t.Errorf("%s went through", name)
		}
	}
}
