package contract

import (
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/span"
)

func trialFields() []string { return []string{"days", "until"} }

// maxTrialDays bounds a trial: a longer one is a slip of the pen.
const maxTrialDays = 366

// trial reads the time in which nothing is charged for use: local days from the term's first instant on, to the same time by the
// clock and never steps of 86,400 seconds (case B03), or until a date or an instant. Where the bill's anchor is not stated it is the
// local day on which the trial ends, so that the first period that is paid is a whole one.
func (r *reader) trial(s section, c *Contract) {
	f, ok := r.section(s.values["trial"], join(s.field, "trial"), trialFields(), nil)
	if !ok {
		return
	}
	days, counted := f.values["days"]
	until, dated := f.values["until"]
	if counted == dated {
		r.failf(f.node, f.field, "write {days: 30} or {until: 2026-02-01}", "a trial has either `days` or `until`")
		return
	}
	if c.Term.Empty() || c.Zone.Equal(calendar.Zone{}) {
		return // an error that is reported already
	}
	at, field := until, join(f.field, "until")
	var end span.Second
	if counted {
		at, field = days, join(f.field, "days")
		var n int
		n, ok = read(r, days, field, "write 30", parseTrialDays)
		end = c.Zone.Later(c.Term.From, 0, n)
	} else {
		end, ok = read(r, until, field, "write a local date such as 2026-02-01", func(text string) (span.Second, error) {
			return parseBound(text, c.Zone, true, false)
		})
	}
	if ok && r.trialFits(at, field, end) {
		c.Trial = span.Span{From: c.Term.From, To: end}
		if !r.anchored(s) {
			c.Billing.Anchor = anchorAt(c.Billing.Cycle, c.Zone.DateOf(end))
		}
	}
}

// trialFits refuses a trial that is no part of the term.
func (r *reader) trialFits(at ast.Node, field string, end span.Second) bool {
	term := r.contract.Term
	switch {
	case end <= term.From:
		r.failf(at, field, "write a later end, or remove the trial", "the trial ends at %s, and the term begins at %s", end, term.From)
	case end > term.To:
		r.failf(at, field, "let it end with the term at the latest", "the trial ends at %s, after the term, which ends at %s", end, term.To)
	default:
		return true
	}
	return false
}

// anchored tells whether the document states the bill's anchor.
func (r *reader) anchored(s section) bool {
	for _, p := range pairsOf(s.values["billing"]) {
		if scalarText(p.Key) == "anchor" {
			return true
		}
	}
	return false
}

// anchorAt is the anchor of a cycle that begins on a local date.
func anchorAt(cycle calendar.Cycle, d calendar.Date) int {
	switch cycle {
	case calendar.Weekly, calendar.Biweekly:
		return d.Weekday()
	case calendar.Monthly, calendar.Quarterly, calendar.Yearly:
		return d.Day
	case calendar.Hourly, calendar.Daily:
	}
	return 1
}

func parseTrialDays(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxTrialDays || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("%.40q is no number of days from 1 to %d; write 30", text, maxTrialDays)
	}
	return n, nil
}

// trialChange says why an amendment's trial is not the one that was signed, or "". It is fixed like the term's start: what was used in it
// was promised to cost nothing, and what came after it to cost something. In a term that is cut short in the trial, it ends with the term.
func trialChange(signed, c *Contract) string {
	if signed.Trial.Empty() {
		if c.Trial.Empty() {
			return ""
		}
		return "the contract was signed without a trial; leave it out"
	}
	if end := min(signed.Trial.To, c.Term.To); c.Trial.Empty() || c.Trial.To != end {
		return "the trial is not the one that was signed; write `trial: {until: " + strconv.Quote(end.String()) + "}`"
	}
	return ""
}

// Trial is the trial of a contract as it was signed, empty where it has none.
func (r *Register) Trial(id string) span.Span {
	if a := r.agreements[id]; a != nil && len(a.versions) > 0 {
		return a.versions[0].Contract.Trial
	}
	return span.Span{}
}
