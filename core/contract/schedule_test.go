package contract_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/parser"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/schemas"
)

func scheduled(zone, schedule string) string {
	return fmt.Sprintf("{contract: c1, customer: acme, currency: USD, timezone: %s, term: {from: 1970-01-02, to: open}, rates: [{sku: a, on_demand: 1/gpu-hour}], schedule: [%s]}",
		zone, schedule)
}

func parseSchedule(t testing.TB, zone, schedule string) *contract.Contract {
	t.Helper()
	c, err := contract.Parse("c1.yaml", []byte(scheduled(zone, schedule)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSchedule(t *testing.T) {
	c := parseSchedule(t, "Asia/Shanghai", `{name: 夜间, for: [on_demand, spot], windows: [Mon-Fri 22:00-08:00, Sat-Sun 00:00-24:00, Fri-Mon 12:00-00:00], holidays: [cn-2025, cn-2026], off: 40%},
		{name: us-daytime, for: [forward], windows: [daily 22:30-06:00], add: 12.5%}, {name: free, for: [spot], windows: [Wed 00:00-00:01], holidays: us-federal-2026, off: 100%}`)
	type window struct {
		Name, Text, Factor, Modes, Ranges, Holidays string
	}
	var got []window
	for _, w := range c.Schedule.Windows {
		row := window{Name: w.Name, Text: w.Text, Factor: w.Factor.RatString(), Modes: fmt.Sprint(w.Modes)}
		for _, r := range w.Ranges {
			for day, in := range r.Weekdays {
				if in {
					row.Ranges += fmt.Sprint(day)
				}
			}
			row.Ranges += fmt.Sprintf(" %d-%d ", r.From, r.To)
		}
		for _, h := range w.Holidays {
			row.Holidays += h.Name + " "
		}
		got = append(got, row)
	}
	want := []window{
		{"夜间", "40% off", "3/5", "[on_demand spot]", "12345 1320-1920 67 0-1440 1567 720-1440 ", "cn-2025 cn-2026 "},
		{"us-daytime", "12.5% more", "9/8", "[forward]", "1234567 1350-1800 ", ""},
		{"free", "100% off", "0", "[spot]", "3 0-1 ", "us-federal-2026 "},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if w := c.Schedule.Window("us-daytime"); w == nil || w.Factor.Cmp(big.NewRat(9, 8)) != 0 || c.Schedule.Window("day") != nil {
		t.Errorf("window us-daytime is %v", w)
	}
	if (*contract.Schedule)(nil).Window("x") != nil {
		t.Error("a contract without a schedule has a window")
	}
}

func TestScheduleRefusals(t *testing.T) {
	const good = "{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00], holidays: cn-2026, off: 40%}"
	for _, c := range []struct{ old, replacement, want string }{
		{"off: 40%", "off: 40%, add: 15%", "schedule[0].add: a window has either `off:` or `add:`; keep one of them"},
		{", off: 40%", "", "schedule[0]: `off:` or `add:` is missing; write off: 40% or add: 15%"},
		{"off: 40%", "off: 101%", `schedule[0].off: "101%" is not from 0% to 100%; correct it`},
		{"off: 40%", "off: -1%", `schedule[0].off: "-1%" is not from 0% to 100%`},
		{"off: 40%", "off: 0.4", `schedule[0].off: "0.4" is not a percentage; write it like`},
		{"off: 40%", "add: 10001%", `schedule[0].add: "10001%" is above 10000%`},
		{"name: night, ", "", "schedule[0]: `name:` is missing; name the window, such as night"},
		{"name: night", "name: none", "schedule[0].name: none is the word for no window; write another name"},
		{good, good + ", " + good, `schedule[1].name: "night" is a window already; name each window once`},
		{"[on_demand]", "[reserved]", `schedule[0].for[0]: unknown value "reserved"; write one of on_demand, spot, forward`},
		{"[on_demand]", "[spot, spot]", `schedule[0].for[1]: "spot" is written twice; write it once`},
		{"[on_demand]", "on_demand", "schedule[0].for: a list is expected, not a text; write [on_demand]"},
		{"[on_demand]", "[]", "schedule[0].for: a list is expected, not an empty one"},
		{"for: [on_demand], ", "", "schedule[0]: `for:` is missing; write [on_demand]"},
		{"cn-2026", "cn-2016", `schedule[0].holidays: unknown holiday calendar "cn-2016"; did you mean cn-2026?`},
		{"cn-2026", "[cn-2026, mars]", `schedule[0].holidays[1]: unknown holiday calendar "mars"; write one of cn-2025, cn-2026, us-federal-2026`},
		{"Mon-Fri 22:00-08:00", "22:00-08:00", `schedule[0].windows[0]: "22:00-08:00" is not a window; write it like Mon-Fri 22:00-08:00 or daily 22:00-06:00`},
		{"Mon-Fri 22:00-08:00", "Mon-Fri 22:00", `"Mon-Fri 22:00" is not a window`},
		{"Mon-Fri 22:00-08:00", "mon-fri 22:00-08:00", `"mon-fri" names no weekdays; write daily, Sun or Mon-Fri, with the days Mon, Tue, Wed, Thu, Fri, Sat, Sun`},
		{"22:00-08:00", "8:00-09:00", `"8:00" is not a time at which a window begins; write 00:00 to 23:59`},
		{"22:00-08:00", "24:00-08:00", `"24:00" is not a time at which a window begins`},
		{"22:00-08:00", "22:00-08:60", `"08:60" is not a time at which a window ends; write 00:01 to 24:00`},
		{"22:00-08:00", "22:00-24:01", `"24:01" is not a time at which a window ends`},
		{"22:00-08:00", "22:00-+8:00", `"+8:00" is not a time at which a window ends`},
		{"22:00-08:00", "08:00-08:00", `"Mon-Fri 08:00-08:00" has no length; write Mon-Fri 00:00-24:00 for the whole day`},
		{"22:00-08:00", "00:00-00:00", "has no length"},
		{"off: 40%", "of: 40%", `schedule[0]: unknown field "of", did you mean off?`},
		{good, "night", "schedule[0]: a mapping is expected, not a text"},
		{good, "", "schedule: a list is expected, not an empty one; write - {name: night, for: [on_demand], windows: [daily 22:00-06:00], off: 40%}"},
	} {
		_, err := contract.Parse("c1.yaml", []byte(scheduled("UTC", strings.Replace(good, c.old, c.replacement, 1))))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "c1.yaml:1:") {
			t.Errorf("%s: %v, want %s", c.replacement, err, c.want)
		}
	}
}

func TestSchemaKnowsModesAndCalendars(t *testing.T) {
	for _, list := range [][]string{contract.WindowModes(), calendar.HolidayNames()} {
		if text := `{"enum": ["` + strings.Join(list, `", "`) + `"]}`; !strings.Contains(schemas.Contract(), text) {
			t.Errorf("the schema does not hold %s", text)
		}
	}
}

// Whether a day is a holiday is unknown where no calendar speaks of it; that matters only in ranges that may hold the second.
func TestHolidayCalendarOfAnotherYear(t *testing.T) {
	one := parseSchedule(t, "Asia/Shanghai", "{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00], holidays: cn-2025, off: 40%}")
	both := parseSchedule(t, "Asia/Shanghai", "{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00], holidays: [cn-2025, cn-2026], off: 40%}")
	for _, c := range []struct{ at, one, both string }{
		{"2025-12-31T23:59:59+08:00", "night", "night"},
		{"2026-01-01T07:59:59+08:00", "night", "night"}, // of Wednesday, 31 December 2025
		{"2026-01-01T21:59:59+08:00", "", ""},
		{"2026-01-01T22:00:00+08:00", contract.NoHolidayCalendar, ""}, // New Year's Day counts as Sunday
		{"2026-01-05T22:00:00+08:00", contract.NoHolidayCalendar, "night"},
		{"2027-01-01T07:00:00+08:00", contract.NoHolidayCalendar, "night"},
		{"2027-01-01T23:00:00+08:00", contract.NoHolidayCalendar, contract.NoHolidayCalendar},
	} {
		at, err := span.Parse(c.at)
		if err != nil {
			t.Fatal(err)
		}
		for contract, want := range map[*contract.Contract]string{one: c.one, both: c.both} {
			if name, reason := contract.Schedule.At("on_demand", contract.Zone, at); name+reason != want {
				t.Errorf("%s: %q %q, want %q", c.at, name, reason, want)
			}
		}
		if name, reason := one.Schedule.At("spot", one.Zone, at); name+reason != "" {
			t.Errorf("%s: a window for on_demand holds spot: %q %q", c.at, name, reason)
		}
	}
}

// drawn is a window as a person reads it.
type drawn struct {
	name, modes string
	ranges      []drawnRange
	holidays    string
}

// drawnRange begins at a time of some days, and lasts.
type drawnRange struct {
	text, days   string
	begin, lasts time.Duration
}

func (d drawn) text() string {
	var ranges []string
	for _, r := range d.ranges {
		ranges = append(ranges, r.text)
	}
	text := fmt.Sprintf("{name: %s, for: [%s], windows: [%s], off: 10%%", d.name, d.modes, strings.Join(ranges, ", "))
	if d.holidays != "" {
		text += ", holidays: " + d.holidays
	}
	return text + "}"
}

// weekdayOf looks some days up in the notice on the holidays of 2026.
func weekdayOf(day time.Time, holidays string) string {
	moved := map[string]string{
		"2026-01-01": "Sun", "2026-01-02": "Sun", "2026-01-03": "Sun", "2026-01-04": "Fri",
		"2026-05-01": "Sun", "2026-05-02": "Sun", "2026-05-03": "Sun", "2026-05-04": "Sun", "2026-05-05": "Sun", "2026-05-09": "Tue",
	}[day.Format(time.DateOnly)]
	if holidays != "" && moved != "" {
		return moved
	}
	return day.Format("Mon")
}

// slowly reads the local clock and asks every range of today and yesterday, one after the other.
func slowly(t *rapid.T, windows []drawn, mode string, zone calendar.Zone, at span.Second) string {
	local, err := time.Parse("2006-01-02T15:04:05", zone.Text(at)[:19])
	if err != nil {
		t.Fatal(err)
	}
	today := local.Truncate(24 * time.Hour)
	for _, w := range windows {
		for _, r := range w.ranges {
			for _, day := range []time.Time{today, today.AddDate(0, 0, -1)} {
				since := local.Sub(day.Add(r.begin))
				if strings.Contains(w.modes, mode) && since >= 0 && since < r.lasts && strings.Contains(r.days, weekdayOf(day, w.holidays)) {
					return w.name
				}
			}
		}
	}
	return ""
}

func drawRange(t *rapid.T) drawnRange {
	names := []string{"daily", "Mon-Fri", "Sat-Sun", "Fri-Mon", "Sun", "Tue", "Thu-Wed"}
	days := []string{
		"Mon Tue Wed Thu Fri Sat Sun", "Mon Tue Wed Thu Fri", "Sat Sun", "Fri Sat Sun Mon", "Sun", "Tue", "Mon Tue Wed Thu Fri Sat Sun",
	}
	i := rapid.IntRange(0, len(days)-1).Draw(t, "days")
	minute := func(label string) int {
		hour := rapid.OneOf(rapid.SampledFrom([]int{0, 1, 2, 3, 22, 23}), rapid.IntRange(0, 23)).Draw(t, label)
		return hour*60 + rapid.SampledFrom([]int{0, 0, 30, 15, 1, 59}).Draw(t, label+" minute")
	}
	from, to := minute("from"), minute("to")
	if from == to || rapid.IntRange(0, 5).Draw(t, "day's end") == 0 {
		to = 24 * 60
	}
	lasts := to - from
	if lasts < 0 {
		lasts += 24 * 60
	}
	return drawnRange{
		fmt.Sprintf("%s %02d:%02d-%02d:%02d", names[i], from/60, from%60, to/60, to%60), days[i], time.Duration(from) * time.Minute, time.Duration(lasts) * time.Minute,
	}
}

func drawWindows(t *rapid.T, holidays bool) []drawn {
	var out []drawn
	for i := range rapid.IntRange(1, 3).Draw(t, "windows") {
		w := drawn{name: fmt.Sprint("w", i), modes: rapid.SampledFrom([]string{"on_demand", "spot", "on_demand, spot"}).Draw(t, "modes")}
		if holidays && rapid.Bool().Draw(t, "with holidays") {
			w.holidays = "cn-2026"
		}
		for range rapid.IntRange(1, 3).Draw(t, "ranges") {
			r := drawRange(t)
			if !slices.ContainsFunc(w.ranges, func(o drawnRange) bool { return o.text == r.text }) {
				w.ranges = append(w.ranges, r)
			}
		}
		out = append(out, w)
	}
	return out
}

// TestWindowsAgainstTheLocalClock: between two edges the window is what a person reads off a local clock, second by second: at
// changes of the clock, at midnights and at holidays of the beginning of 2026.
func TestWindowsAgainstTheLocalClock(t *testing.T) {
	zones := []string{
		"America/New_York", "Europe/Copenhagen", "Australia/Sydney", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Shanghai", "UTC",
		"America/Havana", "Asia/Beirut", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns", "Antarctica/Troll", "America/Sao_Paulo", "Africa/Monrovia",
	}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := calendar.LoadZone(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		holidays := rapid.Bool().Draw(t, "in the holidays")
		at := span.Second(rapid.Int64Range(86400*3, 2_500_000_000).Draw(t, "from"))
		if holidays {
			day := rapid.SampledFrom([]string{"2026-01-01", "2026-01-04", "2026-05-02", "2026-05-09"}).Draw(t, "holiday")
			date, _ := calendar.ParseDate(day)
			at = zone.StartOfDay(date)
		} else if until := zone.Clock(at).Until; until < 2_500_000_000 && rapid.Bool().Draw(t, "at a change") {
			at = until
		}
		at += span.Second(rapid.Int64Range(-5000, 3000).Draw(t, "off"))
		windows := drawWindows(t, holidays)
		texts := make([]string, len(windows))
		for i := range windows {
			texts[i] = windows[i].text()
		}
		c, err := contract.Parse("c1.yaml", []byte(scheduled(zone.String(), strings.Join(texts, ", "))))
		if err != nil {
			t.Fatal(err)
		}
		s := span.Span{From: at, To: at + span.Second(rapid.Int64Range(1, 8000).Draw(t, "length"))}
		edges := append(c.Schedule.Edges([]span.Second{s.From}, zone, s), s.To)
		if !slices.IsSorted(edges) {
			t.Fatalf("edges are %v", edges)
		}
		for i := 1; i < len(edges); i++ {
			got, reason := c.Schedule.At("on_demand", zone, edges[i-1])
			for at := edges[i-1]; at < edges[i]; at++ {
				if want := slowly(t, windows, "on_demand", zone, at); got != want || reason != "" {
					t.Fatalf("%s: %q %q, the clock says %q; edges %v of %s", zone.Text(at), got, reason, want, edges, s)
				}
			}
		}
	})
}

// BenchmarkSchedule is a month of one GPU, hour by hour: the edges of each hour, and the window between two.
func BenchmarkSchedule(b *testing.B) {
	c := parseSchedule(b, "America/New_York", "{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, Sat-Sun 00:00-24:00], holidays: us-federal-2026, off: 40%}")
	from, err := span.Parse("2026-03-01T05:00:00Z")
	if err != nil {
		b.Fatal(err)
	}
	var edges []span.Second
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for hour := range span.Second(720) {
			in := span.Span{From: from + hour*3600, To: from + hour*3600 + 3600}
			edges = c.Schedule.Edges(append(edges[:0], in.From), c.Zone, in)
			for _, at := range edges {
				if name, _ := c.Schedule.At("on_demand", c.Zone, at); name != "" {
					n++
				}
			}
		}
		if n < 350 {
			b.Fatalf("%d hours are off-peak", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/43_200, "ns/device-minute")
}

// Times read alike in every style of YAML, and also where a contract stands inside another document.
func TestTimesInEveryStyle(t *testing.T) {
	const rest = "\ncontract: c1\ncustomer: acme\ncurrency: USD\ntimezone: UTC\nterm: {from: 2026-01-01, to: open}\nrates: [{sku: a, on_demand: 1/gpu-hour}]\n"
	for _, schedule := range []string{
		"schedule: [{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, daily 00:00-24:00], off: 40%}]",
		"schedule:\n  - {name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, daily 00:00-24:00], off: 40%}",
		"schedule:\n  - name: night\n    for: [on_demand]\n    windows: [Mon-Fri 22:00-08:00, daily 00:00-24:00]\n    off: 40%",
		"schedule:\n  - name: night\n    for:\n      - on_demand\n    windows:\n      - Mon-Fri 22:00-08:00 # working days\n      - daily 00:00-24:00\n    off: 40%",
		`schedule: [{name: night, for: [on_demand], windows: ["Mon-Fri 22:00-08:00", 'daily 00:00-24:00'], off: 40%}]`,
	} {
		file, err := parser.ParseBytes([]byte(schedule+rest), 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := contract.ParseNode("c1.yaml", file.Docs[0].Body)
		if err != nil {
			t.Errorf("%s\n%v", schedule, err)
			continue
		}
		if r := c.Schedule.Windows[0].Ranges; len(r) != 2 || r[0].From != 22*60 || r[0].To != 32*60 || r[1].To != 24*60 {
			t.Errorf("%s\n%+v", schedule, r)
		}
		if !strings.Contains(string(c.Source), "Mon-Fri 22:00-08:00") {
			t.Errorf("the log holds\n%s", c.Source)
		}
	}
	_, err := contract.Parse("c1.yaml", []byte("schedule: [{name: night, for: [on_demand], windows: [Mon-Fri 22: 00-08:00], off: 40%}]"+rest))
	if err == nil || !strings.Contains(err.Error(), "schedule[0].windows[0]: a plain value is expected, not a mapping") {
		t.Errorf("a mapping is taken for a time: %v", err)
	}
}
