package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

func billingFields() []string {
	return []string{"cycle", "anchor", "grace", "granularity", "minimum", "rounding", "month"}
}

// maxDurationSeconds bounds a duration: a longer one is a slip of the pen.
const maxDurationSeconds = 366 * 24 * span.SecondsPerHour

func defaultBilling() Billing {
	return Billing{Cycle: calendar.Monthly, Anchor: 1, GranularitySeconds: 1}
}

// billing reads the billing rules; what is not stated keeps its default.
func (r *reader) billing(n ast.Node) Billing {
	b := defaultBilling()
	if n == nil {
		return b
	}
	known, unsupported := fields(billingFields(), billingClauses())
	s, ok := r.section(n, "billing", known, unsupported)
	if !ok {
		return b
	}
	set(r, s, "cycle", "write monthly", calendar.ParseCycle, func(v calendar.Cycle) { b.Cycle = v })
	anchor := func(text string) (int, error) { return parseAnchor(text, b.Cycle) }
	set(r, s, "anchor", "write 1", anchor, func(v int) { b.Anchor = v })
	set(r, s, "grace", "write 3h", parseDuration, func(v int64) { b.GraceSeconds, b.GraceKnown = v, true })
	set(r, s, "granularity", "write second", parseGranularity, func(v int64) { b.GranularitySeconds = v })
	set(r, s, "minimum", "write 60s", parseDuration, func(v int64) { b.MinimumSeconds = v })
	set(r, s, "rounding", "write half_away_from_zero", money.ParseRounding, func(v money.Rounding) { b.Rounding = v })
	month := func(text string) (int, error) { return parseChoice(text, MonthRuleNames()) }
	set(r, s, "month", "write actual", month, func(v int) { b.Month = MonthRule(v) })
	clauses(r, s, billingClauses(), &b)
	return b
}

// maxGranularitySeconds bounds a granularity: beyond a day it is a slip of the pen.
const maxGranularitySeconds = 24 * span.SecondsPerHour

func granularities() []int64 { return []int64{1, span.SecondsPerMinute, span.SecondsPerHour} }

// parseGranularity reads a name, or a duration such as 6s.
func parseGranularity(text string) (int64, error) {
	if i := slices.Index(GranularityNames(), text); i >= 0 {
		return granularities()[i], nil
	}
	v, err := parseDuration(text)
	if err != nil || v < 1 || v > maxGranularitySeconds {
		return 0, fmt.Errorf("unknown value %.40q; write one of %s, or a duration up to a day such as 6s", text, quotedList(GranularityNames()))
	}
	return v, nil
}

func granularityText(seconds int64) string {
	if i := slices.Index(granularities(), seconds); i >= 0 {
		return GranularityNames()[i]
	}
	return DurationText(seconds)
}

func parseAnchor(text string, cycle calendar.Cycle) (int, error) {
	anchor, err := strconv.Atoi(text)
	if err != nil || anchor < 1 || anchor > cycle.MaxAnchor() || strconv.Itoa(anchor) != text {
		if cycle.MaxAnchor() == 1 {
			return 0, fmt.Errorf("%.20q does not anchor a %s cycle; leave it out", text, cycle)
		}
		what := "a day of the month"
		if cycle.MaxAnchor() == 7 {
			what = "an ISO weekday (Monday 1)"
		}
		return 0, fmt.Errorf("%.20q is out of range for a %s cycle; write %s from 1 to %d", text, cycle, what, cycle.MaxAnchor())
	}
	return anchor, nil
}

func parseChoice(text string, names []string) (int, error) {
	if i := slices.Index(names, text); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("unknown value %.40q; write one of %s", text, quotedList(names))
}

// parseDuration reads 0, 60s, 3h, 1h30m or 2d12h into seconds: whole numbers of d, h, m and s, each at most once and in
// that order. A day here is 86,400 seconds.
func parseDuration(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	units := []struct {
		letter  string
		seconds int64
	}{{"d", 24 * span.SecondsPerHour}, {"h", span.SecondsPerHour}, {"m", span.SecondsPerMinute}, {"s", 1}}
	var total int64
	rest := text
	for _, u := range units {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		after, ok := strings.CutPrefix(rest[len(digits):], u.letter)
		if !ok || digits == "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n*u.seconds > maxDurationSeconds {
			return 0, fmt.Errorf("duration %.40q is longer than a year; write a shorter one", text)
		}
		total += n * u.seconds
		rest = after
	}
	switch {
	case text != "" && strings.Trim(text, "0123456789") == "":
		return 0, fmt.Errorf("unit is missing; write %.20ss", text)
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("duration %.40q is negative; write 0 or more", text)
	case rest != "" || text == "":
		return 0, fmt.Errorf("%.40q is not a duration; write it like 60s, 3h, 1h30m or 0", text)
	case total > maxDurationSeconds:
		return 0, fmt.Errorf("duration %.40q is longer than a year; write a shorter one", text)
	default:
		return total, nil
	}
}
