package calendar_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
)

// special lists the days of a calendar that count as another weekday, as "02-14 Fri".
func special(t testing.TB, name string) string {
	t.Helper()
	h, err := calendar.LoadHolidays(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for d := date(t, "2024-01-01"); d.Year < 2028; d = d.AddDays(1) {
		if weekday, known := h.Weekday(d); known && weekday != d.Weekday() {
			out = append(out, d.String()+" "+[]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[weekday-1])
		}
	}
	return strings.Join(out, ", ")
}

func TestHolidays(t *testing.T) {
	for name, want := range map[string]string{
		"cn-2026": "2026-01-01 Sun, 2026-01-02 Sun, 2026-01-03 Sun, 2026-01-04 Fri, 2026-02-14 Fri, " +
			"2026-02-16 Sun, 2026-02-17 Sun, 2026-02-18 Sun, 2026-02-19 Sun, 2026-02-20 Sun, 2026-02-21 Sun, 2026-02-23 Sun, 2026-02-28 Mon, " +
			"2026-04-04 Sun, 2026-04-06 Sun, 2026-05-01 Sun, 2026-05-02 Sun, 2026-05-04 Sun, 2026-05-05 Sun, 2026-05-09 Tue, " +
			"2026-06-19 Sun, 2026-06-20 Sun, 2026-09-20 Tue, 2026-09-25 Sun, 2026-09-26 Sun, " +
			"2026-10-01 Sun, 2026-10-02 Sun, 2026-10-03 Sun, 2026-10-05 Sun, 2026-10-06 Sun, 2026-10-07 Sun, 2026-10-10 Wed",
		"us-federal-2026": "2026-01-01 Sun, 2026-01-19 Sun, 2026-02-16 Sun, 2026-05-25 Sun, 2026-06-19 Sun, 2026-07-03 Sun, 2026-07-04 Sun, " +
			"2026-09-07 Sun, 2026-10-12 Sun, 2026-11-11 Sun, 2026-11-26 Sun, 2026-12-25 Sun",
	} {
		if diff := cmp.Diff(want, special(t, name)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// Only a day of a weekend is worked, and in place of a weekday.
func TestMakeUpDaysReplaceDaysOff(t *testing.T) {
	for _, name := range calendar.HolidayNames() {
		for day := range strings.SplitSeq(special(t, name), ", ") {
			d, weekday := date(t, day[:10]), day[11:]
			if weekday == "Sat" || weekday != "Sun" && d.Weekday() < 6 {
				t.Errorf("%s: %s: no such day is worked", name, day)
			}
		}
	}
}

// What a released name says never changes: bills were made with it. What must be put right gets a new name.
func TestHolidaysAreFrozen(t *testing.T) {
	want := map[string]string{
		"cn-2025":         "18540ac73bc6",
		"cn-2026":         "14c92eaf7a7d",
		"us-federal-2026": "0a59bd6da6b8",
	}
	for _, name := range calendar.HolidayNames() {
		sum := sha256.Sum256([]byte(special(t, name)))
		if got := hex.EncodeToString(sum[:6]); got != want[name] {
			t.Errorf("%s says something else than it was released with: %s, want %s", name, got, want[name])
		}
	}
	if fmt.Sprint(calendar.HolidayNames()) != "[cn-2025 cn-2026 us-federal-2026]" {
		t.Errorf("calendars are %v", calendar.HolidayNames())
	}
}

func TestHolidaysSpeakOfTheirYear(t *testing.T) {
	h, err := calendar.LoadHolidays("cn-2026")
	if err != nil {
		t.Fatal(err)
	}
	for day, want := range map[string]bool{"2025-12-30": false, "2025-12-31": true, "2026-01-01": true, "2026-12-31": true, "2027-01-01": false} {
		if _, known := h.Weekday(date(t, day)); known != want {
			t.Errorf("%s: known %v, want %v", day, known, want)
		}
	}
	for name, want := range map[string]string{
		"cn2026":  `unknown holiday calendar "cn2026"; did you mean cn-2026?`,
		"cn-2016": `unknown holiday calendar "cn-2016"; did you mean cn-2026?`,
		"cn-2027": `unknown holiday calendar "cn-2027"; write one of cn-2025, cn-2026, us-federal-2026`,
		"cn-1999": `unknown holiday calendar "cn-1999"; write one of cn-2025, cn-2026, us-federal-2026`,
	} {
		if _, err := calendar.LoadHolidays(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// The clock shows the old date again where a midnight happens twice.
func TestClock(t *testing.T) {
	for _, c := range []struct{ zone, at, want string }{
		{"Asia/Shanghai", "2026-02-28T16:00:00Z", "2026-03-01 0s, open"},
		{"America/New_York", "2026-11-01T05:59:59Z", "2026-11-01 7199s, 2026-11-01T06:00:00Z"},
		{"America/New_York", "2026-11-01T06:00:00Z", "2026-11-01 3600s, 2027-03-14T07:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z", "2026-04-05 5400s, 2026-10-03T15:30:00Z"},
		{"America/Havana", "2026-11-01T05:00:00Z", "2026-11-01 0s, 2027-03-14T05:00:00Z"},
		{"Asia/Beirut", "2026-10-24T21:00:00Z", "2026-10-24 82800s, 2027-03-27T22:00:00Z"},
	} {
		got := zone(t, c.zone).Clock(at(t, c.at))
		if text := fmt.Sprintf("%s %ds, %s", got.Date, got.Second, got.Until); text != c.want {
			t.Errorf("%s at %s shows %s, want %s", c.zone, c.at, text, c.want)
		}
	}
}
