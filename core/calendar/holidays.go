package calendar

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
)

// Holidays says as which weekday each day of one year counts. Its name is its version: a contract pins it by naming it, so what
// a name says never changes once it was released. What must be put right gets a name of its own.
type Holidays struct {
	Name string
	year int
	days map[Date]int // the ISO weekday of days that do not count as their own
}

// HolidayNames lists the calendars.
func HolidayNames() []string {
	var names []string
	for _, h := range holidays() {
		names = append(names, h.Name)
	}
	return names
}

// LoadHolidays finds a calendar by name.
func LoadHolidays(name string) (*Holidays, error) {
	for _, h := range holidays() {
		if h.Name == name {
			return h, nil
		}
	}
	if near, ok := nearest.Of(name, HolidayNames()); ok && !laterYear(name, near) {
		return nil, fmt.Errorf("unknown holiday calendar %.40q; did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("unknown holiday calendar %.40q; write one of %s", name, strings.Join(HolidayNames(), ", "))
}

// laterYear is whether a name is a known one of a later year: no slip of the fingers, but a calendar that does not exist yet.
func laterYear(name, known string) bool {
	place := known[:len(known)-len("2026")]
	return len(name) == len(known) && strings.HasPrefix(name, place) && name > known
}

// Weekday is the ISO weekday as which a day counts: a holiday as Sunday, a make-up day as the weekday it replaces, any other as
// its own. False for a day that the calendar does not speak of. It speaks of its year, and of the New Year's Eve before: what
// moves New Year's Day moves that one with it, and its night runs into the year.
func (h *Holidays) Weekday(d Date) (weekday int, known bool) {
	if d.Year != h.year && d != (Date{h.year - 1, time.December, 31}) {
		return 0, false
	}
	if weekday, ok := h.days[d]; ok {
		return weekday, true
	}
	return d.Weekday(), true
}

func holidays() []*Holidays { return []*Holidays{cn2025(), cn2026(), usFederal2026()} }

// cn2025: General Office of the State Council, notice of 12 November 2024 on the holidays of 2025. Read as cn2026.
func cn2025() *Holidays {
	return begin("cn-2025", 2025).
		off(time.January, 1).
		off(time.January, 28, 29, 30, 31).off(time.February, 1, 2, 3, 4).
		worked(time.January, 26, time.February, 3).worked(time.February, 8, time.February, 4).
		off(time.April, 4, 5, 6).
		off(time.May, 1, 2, 3, 4, 5).worked(time.April, 27, time.May, 5).
		off(time.May, 31).off(time.June, 1, 2).
		off(time.October, 1, 2, 3, 4, 5, 6, 7, 8).
		worked(time.September, 28, time.October, 7).worked(time.October, 11, time.October, 8)
}

// cn2026: General Office of the State Council, notice of 4 November 2025 on the holidays of 2026. It lists the days off and the
// days worked, and does not say which day each of these replaces. Of a festival's days off, those that are statutory, a weekend's,
// or given for a statutory day on a weekend cost no work; the others pair with the days worked in order of date. These are 2
// January, 20 and 23 February, 5 May, 6 and 7 October.
func cn2026() *Holidays {
	return begin("cn-2026", 2026).
		off(time.January, 1, 2, 3).worked(time.January, 4, time.January, 2).
		off(time.February, 15, 16, 17, 18, 19, 20, 21, 22, 23).
		worked(time.February, 14, time.February, 20).worked(time.February, 28, time.February, 23).
		off(time.April, 4, 5, 6).
		off(time.May, 1, 2, 3, 4, 5).worked(time.May, 9, time.May, 5).
		off(time.June, 19, 20, 21).
		off(time.September, 25, 26, 27).
		off(time.October, 1, 2, 3, 4, 5, 6, 7).
		worked(time.September, 20, time.October, 6).worked(time.October, 10, time.October, 7)
}

// usFederal2026: 5 U.S.C. 6103(a), the legal public holidays. 4 July is a Saturday: (b)(1) gives Friday the 3rd for it.
func usFederal2026() *Holidays {
	return begin("us-federal-2026", 2026).
		off(time.January, 1, 19).off(time.February, 16).off(time.May, 25).off(time.June, 19).off(time.July, 3, 4).
		off(time.September, 7).off(time.October, 12).off(time.November, 11, 26).off(time.December, 25)
}

func begin(name string, year int) *Holidays { return &Holidays{name, year, map[Date]int{}} }

// off adds holidays of one month.
func (h *Holidays) off(m time.Month, days ...int) *Holidays {
	for _, day := range days {
		h.days[Date{h.year, m, day}] = 7
	}
	return h
}

// worked adds a day that is worked in place of another.
func (h *Holidays) worked(m time.Month, day int, insteadOf time.Month, of int) *Holidays {
	h.days[Date{h.year, m, day}] = Date{h.year, insteadOf, of}.Weekday()
	return h
}
