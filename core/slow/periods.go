package slow

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/span"
)

// Periods are the billing periods of a contract that begin before an instant (rule "Changes of zone, cycle or anchor"): from the
// term's start, one behind the other, each to the next boundary of the version in force where it begins, or to the instant at which
// one with other boundaries comes into force, or the trial ends.
func (w *World) Periods(id string, until span.Second) []span.Span {
	var out []span.Span
	list := w.versions[id]
	if len(list) == 0 {
		return nil
	}
	end := list[len(list)-1].Term.To
	for at := list[0].from; at < min(until, end); {
		next := min(w.ruling(id, at).boundary(at), w.chapter(id, at).To, end)
		out = append(out, span.Span{From: at, To: next})
		at = next
	}
	return out
}

// ruling is the version of a contract that speaks of an instant from its term's start on, be it to say that the term is over.
func (w *World) ruling(id string, at span.Second) *version {
	var out *version
	for _, v := range w.versions[id] {
		if v.from <= at {
			out = v
		}
	}
	return out
}

// chapter is the time around an instant in which the boundaries of periods are alike.
func (w *World) chapter(id string, at span.Second) span.Span {
	out := span.Span{To: span.Open}
	for _, x := range w.versions[id] {
		v, before := w.ruling(id, x.from), w.ruling(id, x.from-1)
		switch {
		case before != nil && v.Zone.Equal(before.Zone) && v.Billing.Cycle == before.Billing.Cycle && v.Billing.Anchor == before.Billing.Anchor &&
			v.counts() == before.counts():
		case x.from <= at:
			out.From = x.from
		default:
			out.To = min(out.To, x.from)
		}
	}
	switch end := w.versions[id][0].trialEnd(); {
	case end <= at:
		out.From = max(out.From, end)
	default:
		out.To = min(out.To, end)
	}
	return out
}

// trialEnd is the first instant that is not in the trial, as the contract was signed: the term's start when it has none.
func (v *version) trialEnd() span.Second {
	if v.Trial.Empty() {
		return v.from
	}
	return v.Trial.To
}

// counts is the local date from which fortnights, quarters and years are counted.
func (v *version) counts() calendar.Date {
	if v.Trial.Empty() {
		return v.Zone.DateOf(v.Term.From)
	}
	return v.Zone.DateOf(v.Trial.To)
}

// free tells whether a second lies in the trial of a contract.
func (w *World) free(id string, at span.Second) bool {
	list := w.versions[id]
	return len(list) > 0 && at < list[0].trialEnd()
}

// boundary is the first one after an instant.
func (v *version) boundary(at span.Second) span.Second {
	if v.Billing.Cycle == calendar.Hourly {
		return calendar.PeriodAt(calendar.Hourly, 1, span.Span{From: at, To: at + 1}, v.Zone, at).Full.To
	}
	d := v.Zone.DateOf(at).AddDays(1)
	for !v.begins(d) {
		d = d.AddDays(1)
	}
	return v.Zone.StartOfDay(d)
}

// begins tells whether a period begins with a local date. An anchor past the end of a month is its last day.
func (v *version) begins(d calendar.Date) bool {
	anchor, start := v.Billing.Anchor, v.counts()
	first := start // of the fortnights
	for v.Billing.Cycle == calendar.Biweekly && first.Weekday() != anchor {
		first = first.AddDays(1)
	}
	anchored := d.Day == anchor || d.Day < anchor && d.AddDays(1).Month != d.Month
	months := (d.Year-start.Year)*12 + int(d.Month) - int(start.Month)
	return map[calendar.Cycle]bool{
		calendar.Daily: true, calendar.Weekly: d.Weekday() == anchor, calendar.Biweekly: calendar.DaysBetween(first, d)%14 == 0, calendar.Monthly: anchored,
		calendar.Quarterly: anchored && months%3 == 0, calendar.Yearly: anchored && months%12 == 0,
	}[v.Billing.Cycle]
}

// days are the local days that fees count in the rater's period, or in as much as it would have been, as they lie in its chapter.
func (r *rater) days(over span.Span) []span.Span {
	periods := r.Periods(r.id, r.period.To+1)
	for i := range periods {
		if p := &periods[i]; p.From == over.From {
			p.To = max(p.To, over.To)
		}
	}
	return slices.DeleteFunc(r.feeDays(periods)[over.From], func(day span.Span) bool { return !day.Overlaps(over) })
}

// feeDays are the local days that fees count in periods that follow each other from the term's start on, by when the period begins. A
// date counts in the first period that has a part of it, and only there. But what a stub has of the date of the switch, or of a later
// one, counts behind the switch; and none counts that is before a stub's first.
func (r *rater) feeDays(periods []span.Span) map[span.Second][]span.Span {
	out := map[span.Second][]span.Span{}
	counted := map[calendar.Date]bool{}
	var first calendar.Date
	for i, p := range periods {
		if r.free(r.id, p.From) {
			continue // nothing is charged for its days
		}
		v, chapter := r.ruling(r.id, p.From), r.chapter(r.id, p.From)
		if r.switches(periods[:i], p.From) {
			stub := periods[i-1].From
			var kept []span.Span
			for _, day := range out[stub] {
				date := r.ruling(r.id, stub).Zone.DateOf(day.From)
				if date.Compare(v.Zone.DateOf(p.From)) < 0 {
					kept = append(kept, day)
				} else {
					delete(counted, date)
				}
			}
			out[stub] = kept
		}
		floor, none := first, true
		eachDay(v, p, func(day span.Span) {
			date := v.Zone.DateOf(day.From)
			if counted[date] || date.Compare(floor) < 0 {
				return
			}
			counted[date] = true
			out[p.From] = append(out[p.From], day.Intersect(chapter))
			if none {
				first, none = date, false
			}
		})
	}
	return out
}

// switches tells whether the last of some periods is a stub, after which other boundaries hold.
func (r *rater) switches(before []span.Span, at span.Second) bool {
	if len(before) == 0 || r.chapter(r.id, at).From != at {
		return false
	}
	last := before[len(before)-1].From
	return r.ruling(r.id, last).boundary(last) > at
}
