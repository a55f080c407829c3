package contract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

const tried = `contract: c1
customer: acme
currency: USD
timezone: America/Los_Angeles
term: {from: "2027-03-01T23:30:00-08:00", to: 2028-01-01}
trial: {days: 30}
rates: [{sku: h100, on_demand: 2.00/gpu-hour}]
`

// Case B03: thirty local days are 2,588,400 seconds where clocks go forward between, and the day on which they end is the anchor.
func TestTrialIsLocalDays(t *testing.T) {
	for _, x := range []struct {
		trial, billing, until string
		anchor                int
	}{
		{"{days: 30}", "", "2027-04-01T06:30:00Z", 31},
		{"{days: 30}", "billing: {anchor: 5}\n", "2027-04-01T06:30:00Z", 5},
		{"{days: 1}", "billing: {cycle: weekly}\n", "2027-03-03T07:30:00Z", 2},
		{"{days: 366}", "billing: {cycle: biweekly, grace: 0}\n", "", 0},
		{"{days: 2}", "billing: {cycle: biweekly, grace: 0}\n", "2027-03-04T07:30:00Z", 3},
		{"{days: 2}", "billing: {cycle: quarterly}\n", "2027-03-04T07:30:00Z", 3},
		{"{days: 2}", "billing: {cycle: hourly}\n", "2027-03-04T07:30:00Z", 1},
		{"{until: 2027-04-01}", "", "2027-04-01T07:00:00Z", 1},
		{"{until: 2028-01-01}", "", "2028-01-01T08:00:00Z", 1},
		{`{until: "2027-04-01T09:00:00+02:00"}`, "", "2027-04-01T07:00:00Z", 1},
	} {
		text := strings.Replace(tried, "{days: 30}", x.trial, 1) + x.billing
		c, err := contract.Parse("c", []byte(text))
		if x.until == "" {
			if want := "c:6:15: trial.days: the trial ends at 2028-03-02T07:30:00Z, after the term, which ends at 2028-01-01T08:00:00Z; let it end with the term at the latest"; err == nil || err.Error() != want {
				t.Errorf("%s: %v; want %s", x.trial, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", x.trial, x.billing, err)
			continue
		}
		if want := (span.Span{From: c.Term.From, To: second(t, x.until)}); c.Trial != want || c.Billing.Anchor != x.anchor {
			t.Errorf("%s %s: %v, anchor %d; want %v, %d", x.trial, x.billing, c.Trial, c.Billing.Anchor, want, x.anchor)
		}
	}
}

func TestErrorsOfTrials(t *testing.T) {
	for trial, want := range map[string]string{
		"{}":                              "c:6:8: trial: a trial has either `days` or `until`; write {days: 30} or {until: 2026-02-01}",
		"30":                              "c:6:8: trial: a mapping is expected, not a number or another scalar; write it as `key: value`",
		"{days: 0}":                       `c:6:15: trial.days: "0" is no number of days from 1 to 366; write 30`,
		"{days: 030}":                     `c:6:15: trial.days: "030" is no number of days from 1 to 366; write 30`,
		"{days: 30d}":                     `c:6:15: trial.days: "30d" is no number of days from 1 to 366; write 30`,
		"{days: 367}":                     `c:6:15: trial.days: "367" is no number of days from 1 to 366; write 30`,
		"{months: 1}":                     "c:6:9: trial: unknown field \"months\"; remove it; known here: days, until\nc:6:8: trial: a trial has either `days` or `until`",
		"{days: 30, until: 2027-04-01}":   "c:6:8: trial: a trial has either `days` or `until`; write {days: 30} or {until: 2026-02-01}",
		"{until: open}":                   `c:6:16: trial.until: "open" is neither a local date nor an instant; write 2026-01-01 or 2026-01-01T00:00:00Z`,
		"{until: 2027-03-01}":             "c:6:16: trial.until: the trial ends at 2027-03-01T08:00:00Z, and the term begins at 2027-03-02T07:30:00Z; write a later end, or remove the trial",
		`{until: "2027-04-01T09:00:00"}`:  "c:6:16: trial.until: ",
		`{until: "2028-01-01T08:00:01Z"}`: "c:6:16: trial.until: the trial ends at 2028-01-01T08:00:01Z, after the term, which ends at 2028-01-01T08:00:00Z; let it end with the term at the latest",
	} {
		_, err := contract.Parse("c", []byte(strings.Replace(tried, "{days: 30}", trial, 1)))
		if err == nil {
			t.Errorf("%s was taken", trial)
			continue
		}
		for _, line := range strings.Split(want, "\n") {
			if !strings.Contains(err.Error(), line) {
				t.Errorf("%s: %v; want %s", trial, err, line)
			}
		}
	}
	_, err := contract.Parse("c", []byte(strings.Replace(tried, "America/Los_Angeles", "America/Los_Angles", 1)))
	if err == nil || strings.Contains(err.Error(), "trial") {
		t.Errorf("without a zone: %v", err)
	}
}

// The trial stays as it was signed. An amendment says so again, in whatever words, and one that cuts the term short in it lets it end there.
func TestTrialIsFixedAtSigning(t *testing.T) {
	r, apply, _ := registered(t)
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: tried})
	for trial, want := range map[string]string{
		"trial: {days: 30}":                      "",
		`trial: {until: "2027-04-01T06:30:00Z"}`: "",
		"trial: {days: 31}":                      "the trial is not the one that was signed; write `trial: {until: \"2027-04-01T06:30:00Z\"}`",
		"":                                       "the trial is not the one that was signed; write `trial: {until: \"2027-04-01T06:30:00Z\"}`",
	} {
		apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2027-03-05T00:00:00Z"), Document: strings.Replace(tried, "trial: {days: 30}", trial, 1)})
		got := ""
		if p := r.Problems("c1"); len(p) > 0 {
			got = p[len(p)-1].Detail
		}
		if want != "" && got != want {
			t.Errorf("%s: %q; want %q", trial, got, want)
		}
	}
	if n := len(r.Problems("c1")); n != 2 {
		t.Errorf("%d amendments are refused, not 2", n)
	}
	short := strings.NewReplacer("to: 2028-01-01", "to: 2027-03-20", "{days: 30}", "{until: 2027-03-20}").Replace(tried)
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2027-03-10T00:00:00Z"), Document: short})
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2027-03-15T00:00:00Z"), Document: tried})
	if n := len(r.Problems("c1")); n != 2 {
		t.Errorf("a term that is cut short in the trial, and prolonged again: %v", r.Problems("c1")[2:])
	}
	other, apply, _ := registered(t)
	plain := strings.Replace(tried, "trial: {days: 30}\n", "", 1)
	apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: plain})
	apply(&fact.ContractAmended{Contract: "c1", Effective: second(t, "2027-03-05T00:00:00Z"), Document: tried})
	if p := other.Problems("c1"); len(p) != 1 || p[0].Reason != contract.UnsupportedAmendment || p[0].Detail != "the contract was signed without a trial; leave it out" {
		t.Errorf("a trial that comes later: %+v", p)
	}
}

// The trial's end is the end of a period, and what is counted from the term's start is counted from there.
func TestTrialEndsAPeriod(t *testing.T) {
	for billing, want := range map[string][]string{
		"":                                      {"2027-03-02T07:30:00Z", "2027-03-31T07:00:00Z", "2027-04-01T06:30:00Z", "2027-04-30T07:00:00Z", "2027-05-31T07:00:00Z"},
		"billing: {anchor: 15}":                 {"2027-03-02T07:30:00Z", "2027-03-15T07:00:00Z", "2027-04-01T06:30:00Z", "2027-04-15T07:00:00Z", "2027-05-15T07:00:00Z"},
		"billing: {cycle: hourly}":              {"2027-03-02T07:30:00Z", "2027-03-02T08:00:00Z", "2027-03-02T09:00:00Z"},
		"billing: {cycle: quarterly}":           {"2027-03-02T07:30:00Z", "2027-03-31T07:00:00Z", "2027-04-01T06:30:00Z", "2027-06-30T07:00:00Z", "2027-09-30T07:00:00Z"},
		"billing: {cycle: biweekly}":            {"2027-03-02T07:30:00Z", "2027-03-03T08:00:00Z", "2027-03-17T07:00:00Z", "2027-03-31T07:00:00Z", "2027-04-01T06:30:00Z", "2027-04-14T07:00:00Z"},
		"billing: {cycle: yearly}":              {"2027-03-02T07:30:00Z", "2027-03-31T07:00:00Z", "2027-04-01T06:30:00Z"},
		"billing: {cycle: biweekly, anchor: 4}": {"2027-03-02T07:30:00Z", "2027-03-04T08:00:00Z", "2027-03-18T07:00:00Z", "2027-04-01T06:30:00Z", "2027-04-01T07:00:00Z", "2027-04-15T07:00:00Z"},
	} {
		r, apply, _ := registered(t)
		apply(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: tried + billing + "\n"})
		var got []string
		for p := range r.Periods("c1").From(0) {
			if got = append(got, p.From.String()); len(got) == len(want) {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", billing, diff)
		}
		alone := parsed(t, tried+billing+"\n")
		for i, from := range want[1:] {
			if p := alone.Period(second(t, want[i])).Span; p.To.String() != from {
				t.Errorf("%s: by itself the contract has the period %v from %s", billing, p, want[i])
			}
		}
		for _, day := range r.Periods("c1").Days(span.Span{From: 0, To: second(t, "2027-04-02T00:00:00Z")})[:1] {
			if text := fmt.Sprint(day.From); text != "2027-04-01T06:30:00Z" {
				t.Errorf("%s: the first day that is paid is %s", billing, text)
			}
		}
	}
}

// A quote under a contract that ended in its trial words the trial so that it ends with the term.
func TestVaryEndsTheTrialWithTheTerm(t *testing.T) {
	c := parsed(t, tried)
	v, err := c.Vary(contract.Variation{Bare: true, To: second(t, "2027-03-10T12:00:00Z")})
	if err != nil || v.Trial.To != v.Term.To || v.Term.To != second(t, "2027-03-10T12:00:00Z") {
		t.Errorf("%v: %+v", err, v)
	}
}
