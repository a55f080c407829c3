package contract

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// NoHolidayCalendar refuses time whose window hangs on a day of which the contract's holiday calendars say nothing: whether it is
// a holiday is unknown, and unknown is not no. An amendment that names the year's calendar resolves it.
const NoHolidayCalendar = "no_holiday_calendar"

// Schedule is the off-peak calendar of a contract. Nil has no window.
type Schedule struct {
	Windows []Window // in the order of the document: the first that matches applies, and no other
	edges   []int64  // minutes of a local day at which a window can begin or end, in order; midnight is one
}

// Window changes the price of pricing modes in ranges of local time (page 3b, Windows).
type Window struct {
	Name     string
	Modes    []string
	Ranges   []LocalRange
	Holidays []*calendar.Holidays // one for each year of the contract; none: every day counts as its own weekday
	Factor   *big.Rat             // what the price is multiplied by: 60% of it with 40% off
	Text     string               // "40% off" or "15% more", as a bill shows it
}

// LocalRange is a range of local time that begins on certain weekdays.
type LocalRange struct {
	Weekdays [8]bool // by ISO weekday, from 1
	From, To int64   // minutes of the day it begins on, To above 1,440 where it ends on the next
}

const minutesPerDay = 24 * 60

// WindowModes lists the pricing modes whose price a window can change. Time that a reservation or a package covers has none.
func WindowModes() []string { return []string{"on_demand", "spot", "forward"} }

// At names the window that prices a mode at an instant, "" for none: the first in the document whose modes and time match. The
// local clock decides, so a repeated local hour is in its window twice and a skipped one never; a range belongs to the local date
// it begins on, also where it runs over midnight (page 3b, Windows). The reason is why it is unknown, or "".
func (s *Schedule) At(mode string, zone calendar.Zone, at span.Second) (name, reason string) {
	if s == nil {
		return "", ""
	}
	clock := zone.Clock(at)
	for i := range s.Windows {
		w := &s.Windows[i]
		if !slices.Contains(w.Modes, mode) {
			continue
		}
		switch in, known := w.holds(clock); {
		case !known:
			return "", NoHolidayCalendar
		case in:
			return w.Name, ""
		}
	}
	return "", ""
}

// Edges appends to dst the instants within s at which a window can begin or end.
func (s *Schedule) Edges(dst []span.Second, zone calendar.Zone, in span.Span) []span.Second {
	if s == nil {
		return dst
	}
	for at := in.From; at < in.To; {
		clock := zone.Clock(at)
		until := min(clock.Until, in.To)
		for midnight := at - span.Second(clock.Second); midnight < until; midnight += minutesPerDay * span.SecondsPerMinute {
			for _, minute := range s.edges {
				if e := midnight + span.Second(minute*span.SecondsPerMinute); at < e && e < until {
					dst = append(dst, e)
				}
			}
		}
		if at = until; at < in.To { // the clock may jump into a window, or out of it
			dst = append(dst, at)
		}
	}
	return dst
}

// Window is the window of that name, or nil.
func (s *Schedule) Window(name string) *Window {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.Windows, func(w Window) bool { return w.Name == name }); i >= 0 {
		return &s.Windows[i]
	}
	return nil
}

// holds tells whether what the clock shows lies in the window: in a range of its date, or in one that began the day before. It is
// unknown where that hangs on a date that no calendar speaks of: not where a range that surely holds it is enough, and not where all
// weekdays come to the same.
func (w *Window) holds(clock calendar.Clock) (in, known bool) {
	minute := clock.Second / span.SecondsPerMinute
	var open [2][8]bool // the weekdays whose ranges would hold it, of an unknown date and of an unknown date before
	for i := range w.Ranges {
		r := &w.Ranges[i]
		date, after, back := clock.Date, minute, 0
		if r.To > minutesPerDay && minute < r.From { // only yesterday's range can hold it
			date, after, back = date.AddDays(-1), minute+minutesPerDay, 1
		}
		if after < r.From || after >= r.To {
			continue
		}
		weekday, known := w.weekday(date)
		switch {
		case !known:
			for day, holds := range r.Weekdays {
				open[back][day] = open[back][day] || holds
			}
		case r.Weekdays[weekday]:
			return true, true
		}
	}
	for _, days := range open {
		if !slices.Contains(days[1:], false) {
			return true, true
		}
	}
	return false, open == [2][8]bool{}
}

// weekday is the ISO weekday as which a date counts. Where two calendars speak of a date, one that moves it is right: each lists
// only the days that its own year moves.
func (w *Window) weekday(d calendar.Date) (weekday int, known bool) {
	own := d.Weekday()
	if len(w.Holidays) == 0 {
		return own, true
	}
	for _, h := range w.Holidays {
		switch counts, speaks := h.Weekday(d); {
		case speaks && counts != own:
			return counts, true
		case speaks:
			known = true
		}
	}
	return own, known
}

func windowFields() []string { return []string{"name", "for", "windows", "holidays", "off", "add"} }

func (r *reader) schedule(s section, c *Contract) {
	const example = "write - {name: night, for: [on_demand], windows: [daily 22:00-06:00], off: 40%}"
	items, ok := r.items(s.values["schedule"], "schedule", example)
	if !ok {
		return
	}
	c.Schedule = &Schedule{edges: []int64{0}}
	for i, n := range items {
		field := fmt.Sprintf("schedule[%d]", i)
		if f, ok := r.section(n, field, windowFields(), nil); ok {
			w := r.window(f)
			if w.Name != "" && c.Schedule.Window(w.Name) != nil {
				r.failf(f.values["name"], join(field, "name"), "name each window once", "%q is a window already", w.Name)
			}
			c.Schedule.add(w)
		}
	}
}

func (s *Schedule) add(w Window) {
	s.Windows = append(s.Windows, w)
	for _, r := range w.Ranges {
		s.edges = append(s.edges, r.From, r.To%minutesPerDay)
	}
	slices.Sort(s.edges)
	s.edges = slices.Compact(s.edges)
}

func (r *reader) window(s section) Window {
	var w Window
	w.Name, _ = need(r, s, "name", "name the window, such as night", parseWindowName)
	w.Modes = listed(r, s, "for", "write [on_demand]", func(text string) (string, error) {
		i, err := parseChoice(text, WindowModes())
		if err != nil {
			return "", err
		}
		return WindowModes()[i], nil
	})
	if list, ok := s.values["windows"].(*ast.SequenceNode); ok {
		mendTimes(list.Values)
	}
	w.Ranges = listed(r, s, "windows", "write [daily 22:00-06:00]", parseLocalRange)
	if n, stated := s.values["holidays"]; stated {
		if kind(n) == "a list" {
			w.Holidays = listed(r, s, "holidays", "write cn-2026", calendar.LoadHolidays)
		} else if h, ok := read(r, n, join(s.field, "holidays"), "write cn-2026", calendar.LoadHolidays); ok {
			w.Holidays = []*calendar.Holidays{h}
		}
	}
	off, reduced := s.values["off"]
	add, raised := s.values["add"]
	one := big.NewRat(1, 1)
	switch {
	case reduced && raised:
		r.failf(add, join(s.field, "add"), "keep one of them", "a window has either `off:` or `add:`")
	case reduced:
		if part, ok := read(r, off, join(s.field, "off"), "write 40%", parsePart); ok {
			w.Factor, w.Text = one.Sub(one, part), money.PercentText(part)+" off"
		}
	case raised:
		if part, ok := read(r, add, join(s.field, "add"), "write 15%", parseFactor); ok {
			w.Factor, w.Text = one.Add(one, part), money.PercentText(part)+" more"
		}
	default:
		r.failf(s.node, s.field, "write off: 40% or add: 15%", "`off:` or `add:` is missing")
	}
	return w
}

// parseWindowName keeps "none" for time without a window, which case files name so.
func parseWindowName(text string) (string, error) {
	if text == "none" {
		return "", errors.New("none is the word for no window; write another name")
	}
	return parseName(text)
}

// parseLocalRange reads "Mon-Fri 22:00-08:00": weekdays or daily, and minutes of local time. 24:00 is an end, and so is 00:00
// (case B14); an end that is not later than the start lies on the next day.
func parseLocalRange(text string) (LocalRange, error) {
	var r LocalRange
	days, hours, ok := strings.Cut(text, " ")
	from, to, ok2 := strings.Cut(hours, "-")
	if !ok || !ok2 {
		return r, fmt.Errorf("%.40q is not a window; write it like Mon-Fri 22:00-08:00 or daily 22:00-06:00", text)
	}
	first, last, err := parseWeekdays(days)
	if err != nil {
		return r, err
	}
	for day := first; ; day = day%7 + 1 {
		r.Weekdays[day] = true
		if day == last {
			break
		}
	}
	if r.From, ok = parseMinute(from); !ok || r.From == minutesPerDay {
		return r, fmt.Errorf("%.20q is not a time at which a window begins; write 00:00 to 23:59", from)
	}
	if r.To, ok = parseMinute(to); !ok {
		return r, fmt.Errorf("%.20q is not a time at which a window ends; write 00:01 to 24:00", to)
	}
	if r.To == r.From {
		return r, fmt.Errorf("%.40q has no length; write %s 00:00-24:00 for the whole day", text, days)
	}
	if r.To < r.From {
		r.To += minutesPerDay
	}
	return r, nil
}

// parseWeekdays reads daily, Mon or Fri-Mon.
func parseWeekdays(text string) (first, last int, err error) {
	if text == "daily" {
		return 1, 7, nil
	}
	names := []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, last = slices.Index(names, from)+1, slices.Index(names, to)+1
	if first == 0 || last == 0 {
		return 0, 0, fmt.Errorf("%.20q names no weekdays; write daily, Sun or Mon-Fri, with the days %s", text, quotedList(names))
	}
	return first, last, nil
}

// parseMinute reads "08:00" as minutes of a day, up to 24:00.
func parseMinute(text string) (int64, bool) {
	hour, minute, ok := strings.Cut(text, ":")
	h, err := strconv.ParseUint(hour, 10, 8)
	m, err2 := strconv.ParseUint(minute, 10, 8)
	total := int64(h*60 + m)
	return total, ok && err == nil && err2 == nil && len(hour) == 2 && len(minute) == 2 && m < 60 && total <= minutesPerDay
}

// items is a list that is not empty.
func (r *reader) items(n ast.Node, field, remedy string) ([]ast.Node, bool) {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.failf(n, field, remedy, "a list is expected, not %s", emptyOr(kind(n), ok))
		return nil, false
	}
	return list.Values, true
}

// listed reads a list of scalars that must be there, each once.
func listed[T any](r *reader, s section, key, remedy string, parse func(string) (T, error)) (out []T) {
	n, ok := r.required(s, key, remedy)
	if !ok {
		return nil
	}
	items, _ := r.items(n, join(s.field, key), remedy)
	seen := map[string]bool{}
	for i, item := range items {
		field := fmt.Sprintf("%s[%d]", join(s.field, key), i)
		v, ok := read(r, item, field, remedy, parse)
		switch text := scalarText(item); {
		case !ok:
		case seen[text]:
			r.failf(item, field, "write it once", "%.40q is written twice", text)
		default:
			seen[text] = true
			out = append(out, v)
		}
	}
	return out
}
