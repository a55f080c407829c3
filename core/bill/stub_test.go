package bill

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// weekly is c1 by weeks from Monday: of March 2026 the 2nd, 9th, 16th, 23rd and 30th.
func weekly() string {
	return strings.Replace(terms("c1", "acme", ", grace: 0", "36.00"), "cycle: monthly", "cycle: weekly, anchor: 1", 1)
}

// closedByMonths signs c1 with a fee per month, and closes it up to the first of April.
func closedByMonths(t *testing.T) *log {
	l := newLog(t, 0)
	l.state(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: fee(terms("c1", "acme", ", grace: 0", "36.00"))})
	cut, _ := l.cut(april)
	l.close(cut)
	return l
}

// fee adds one of 31.00 a month, and one of 5.00 a period whether anything is used or not.
func fee(document string) string {
	return strings.Replace(document, "on_demand: 10.00/gpu-hour", "on_demand: 10.00/gpu-hour, volume: {by: gpu-hours, method: volume, flat: always, tiers: [{upto: 1, price: 100%, flat: 5.00}, {price: 90%}]}", 1) +
		"addons: [{name: plan, price: 31.00/month, prorate: true}]\n"
}

// What is known late of another cycle: the closed period is a stub, the weeks behind it are due at once, and a period that begins
// no more costs nothing.
func TestStubKnownAfterTheClose(t *testing.T) {
	l := closedByMonths(t)
	l.state(&fact.ContractAmended{Contract: "c1", Effective: march - 18*day, Document: fee(weekly())})
	cut, ok := l.cut(april + RetrySeconds)
	equal(t, true, ok)
	equal(t, "c1 until -13, c1 until -6, c1 until 1, c1 until 8, c1 until 15, c1 until 22, c1 until 29", due(l.DueAt(cut)))
	for _, c := range []struct {
		closed span.Span
		name   span.Span // on its document
		total  string
	}{
		{span.Span{From: march - 59*day, To: march - 28*day}, span.Span{From: march - 59*day, To: march - 28*day}, "36.00"}, // January
		{span.Span{From: march - 28*day, To: march}, span.Span{From: march - 28*day, To: march - 18*day}, "16.07"},          // 10 of 28 days
		{span.Span{From: march, To: april}, span.Span{From: march, To: april}, "0.00"},                                      // begins no more: a Sunday
	} {
		s, err := l.Statement(cut, "c1", c.closed, nil)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, c.total, s.Total.String())
		equal(t, c.name, s.Period)
	}
	equal(t, "", names(l.Prolonged, cut, march-59*day, march-28*day, march))
	equal(t, 2, len(l.Amended(cut))) // all that end behind the switch
}

func names(is func(Cut, string, span.Second) bool, cut Cut, starts ...span.Second) string {
	var out []string
	for _, at := range starts {
		if is(cut, "c1", at) {
			out = append(out, at.String())
		}
	}
	return strings.Join(out, " ")
}

// The amendment is taken back: the stub reaches further, is due anew at the end of its month, and is not corrected before.
func TestStubThatIsNoneAnyMore(t *testing.T) {
	l := newLog(t, 0)
	l.state(
		&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: terms("c1", "acme", ", grace: 0", "36.00")},
		&fact.ContractAmended{Contract: "c1", Effective: march + 10*day, Document: weekly()},
	)
	cut, _ := l.cut(march + 15*day)
	equal(t, "c1 until -28, c1 until 0, c1 until 10, c1 until 15", due(l.DueAt(cut)))
	l.close(cut)
	l.state(&fact.ContractAmended{Contract: "c1", Effective: march + 10*day, Document: terms("c1", "acme", ", grace: 0", "36.00")})
	again := Cut{Requested: l.seq + 1, Done: l.seq + 2, CutDone: fact.CutDone{At: march + 16*day}}
	equal(t, march.String(), names(l.Prolonged, again, march-28*day, march, march+10*day))
	equal(t, "", due(l.DueAt(again)))
	equal(t, april, l.NextDue(march+16*day))
	again.At = april
	equal(t, "c1 until 31", due(l.DueAt(again)))
	equal(t, true, l.Remains(again, "c1", span.Span{From: march + 10*day, To: march + 15*day}).Empty())
}

// A cut that was asked for before the amendment knows the old periods, whatever was searched in between.
func TestStubStatedBehindACut(t *testing.T) {
	l := closedByMonths(t)
	l.Tick(april + 30*day)
	r := l.DecideCut()
	l.state(r, &fact.ContractAmended{Contract: "c1", Effective: april + 9*day, Document: fee(weekly())}, &fact.CutDone{Cut: r.Cut, At: r.At, Block: 90})
	old := l.Cuts()[len(l.Cuts())-1]
	equal(t, "c1 until 61", due(l.DueAt(old)))
	equal(t, april+30*day+3*day, l.NextDue(april+30*day)) // by weeks: Monday, May 4
	equal(t, "c1 until 61", due(l.DueAt(old)))
	l.close(old)
	cut, ok := l.cut(april + 30*day + RetrySeconds)
	equal(t, true, ok)
	equal(t, "c1 until 43, c1 until 50, c1 until 57", due(l.DueAt(cut)))
	equal(t, span.Span{From: april, To: april + 9*day}, l.Remains(cut, "c1", span.Span{From: april, To: april + 30*day}))
}

// With hourly bills a day's fee stands on the bill of its first hour, by the version in force at the end of the day; or of what the old
// zone has of it.
func TestSwitchOfAnHourlyBillReachesBackToItsDay(t *testing.T) {
	hourly := func(zone, price string) string {
		return strings.NewReplacer("Asia/Shanghai", zone, "monthly", "hourly", "10.00/gpu-hour", "1/gpu-hour, reserved: [{name: base, quantity: 1, price: "+price+"/gpu-day, from: 2026-01-01, to: 2027-01-01}]").
			Replace(terms("c1", "acme", ", grace: 0", "36.00"))
	}
	begins := march - 59*day + 8*span.SecondsPerHour // the year in UTC
	l := newLog(t, 0)
	l.state(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: hourly("UTC", "1.00")}, &fact.ContractAmended{Contract: "c1", Effective: begins + 12*span.SecondsPerHour, Document: hourly("UTC", "2.00")})
	cut, _ := l.cut(begins + day)
	first := span.Span{From: begins, To: begins + span.SecondsPerHour}
	total := func(cut Cut) string {
		s, err := l.Statement(cut, "c1", first, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.Total.String()
	}
	l.close(cut)
	equal(t, "2.00", total(cut))
	l.state(&fact.ContractAmended{Contract: "c1", Effective: begins + 10*span.SecondsPerHour, Document: hourly("America/New_York", "5.00")})
	cut, _ = l.cut(begins + day + RetrySeconds)
	equal(t, "1.00", total(cut)) // the version at 10:00, where the day ends in UTC
	equal(t, first, l.Amended(cut)[0].Period)
}
