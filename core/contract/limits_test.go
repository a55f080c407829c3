package contract_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
)

func TestLimits(t *testing.T) {
	one := []*big.Rat{big.NewRat(1, 1)}
	for clauses, want := range map[string]contract.Limit{
		"limits: {spend: 800000.00/month, action: alert}":                                      {Spend: big.NewRat(800000, 1), Per: calendar.Monthly, AlertAt: one},
		"limits: {spend: 5/quarter, action: stop, overshoot: 0, alert_at: [12.5%, 100%]}":      {Spend: big.NewRat(5, 1), Per: calendar.Quarterly, Action: contract.LimitStop, AlertAt: []*big.Rat{big.NewRat(1, 8), big.NewRat(1, 1)}, Overshoot: new(big.Rat)},
		"billing: {cycle: hourly}, limits: {spend: 0.01/hour, action: cap}":                    {Spend: big.NewRat(1, 100), Per: calendar.Hourly, Action: contract.LimitCap, AlertAt: one},
		"billing: {cycle: daily}, limits: {spend: 0.001/week, action: alert}":                  {Spend: big.NewRat(1, 1000), Per: calendar.Weekly, AlertAt: one},
		"limits: {spend: 7/month, action: cap}, commitment: {spend: 7/month, shortfall: bill}": {Spend: big.NewRat(7, 1), Per: calendar.Monthly, Action: contract.LimitCap, AlertAt: one},
	} {
		c := parsed(t, metering(clauses))
		if diff := cmp.Diff(&want, c.Limit, same()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", clauses, diff)
		}
	}
}

func TestErrorsOfLimits(t *testing.T) {
	for _, c := range []struct{ clauses, want string }{
		{"limits: {}", "`spend:` is missing; write 800000.00/month"},
		{"limits: {spend: 1/month}", "`action:` is missing; write alert"},
		{"limits: {spend: 1/month, action: bill}", `unknown value "bill"; write one of alert, stop, cap`},
		{"limits: {spend: 1, action: alert}", `"1" names no span; write it per hour, day, week, fortnight, month, quarter, year, such as 800000.00/month`},
		{"limits: {spend: 1/gpu-hour, action: alert}", "names no span"},
		{"limits: {spend: 0.00/month, action: alert}", "a limit of 0 is reached before anything is spent; write more"},
		{"limits: {spend: -1/month, action: alert}", "is negative"},
		{"limits: {spend: 1/day, action: alert}", "a monthly cycle tells nothing of a single day; write it per month"},
		{"billing: {cycle: yearly}, limits: {spend: 1/quarter, action: alert}", "a yearly cycle tells nothing of a single quarter; write it per year"},
		{"billing: {cycle: daily}, limits: {spend: 1/month, action: cap}", "a cap holds for one billing period, and the cycle is daily; write it per day, or bill monthly"},
		{"limits: {spend: 1.005/month, action: cap}", "no bill can end at a cap with more digits than USD has; round it"},
		{"limits: {spend: 1/month, action: stop}", "`overshoot:` is missing; write the most beyond the spend that is accepted, such as 500.00"},
		{"limits: {spend: 1/month, action: alert, overshoot: 1}", "only the action stop can overshoot; alert stops nothing; remove it"},
		{"limits: {spend: 1/month, action: alert, alert_at: 80%}", "a list is expected, not a text; write [50%, 80%, 100%]"},
		{"limits: {spend: 1/month, action: alert, alert_at: [0%]}", "0% is reached before anything is spent"},
		{"limits: {spend: 1/month, action: alert, alert_at: [80%, 50%]}", "50% stands after 80%; let them rise"},
		{"limits: {spend: 1/month, action: alert, alert_at: [80]}", "is not a percentage"},
		{"limits: {spend: 6.99/month, action: cap}, commitment: {spend: 7/month, shortfall: bill}", "the cap is below the commitment of a period, which can be 7.00; raise the cap"},
		{"billing: {cycle: quarterly}, limits: {spend: 20/quarter, action: cap}, commitment: {spend: 7/month, shortfall: bill}", "which can be 21.00"},
		{"billing: {cycle: weekly}, limits: {spend: 1/week, action: cap}, commitment: {spend: 7/month, shortfall: bill}", "which can be 1.75"},
		{"billing: {cycle: biweekly}, limits: {spend: 3.49/fortnight, action: cap}, commitment: {spend: 7/month, shortfall: bill}", "which can be 3.50"},
		{"billing: {cycle: biweekly}, limits: {spend: 1/week, action: alert}", "a biweekly cycle tells nothing of a single week; write it per fortnight"},
		{"billing: {cycle: biweekly, anchor: 8}", "out of range for a biweekly cycle; write an ISO weekday (Monday 1) from 1 to 7"},
	} {
		_, err := contract.Parse("c1.yaml", []byte(metering(c.clauses)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.clauses, err, c.want)
		}
	}
}

// A billing period counts where it begins; months of a bill are those of its limit, and the term cuts the first span.
func TestLimitSpan(t *testing.T) {
	for _, x := range []struct{ billing, per, at, from, to string }{
		{"cycle: daily", "month", "2026-02-28", "2026-02-01", "2026-03-01"},
		{"cycle: weekly, anchor: 7", "week", "2026-02-04", "2026-02-01", "2026-02-08"},
		{"cycle: weekly", "month", "2026-02-01", "2026-01-05", "2026-02-01"}, // of the week from 26 January
		{"cycle: daily", "week", "2026-02-01", "2026-01-26", "2026-02-02"},
		{"cycle: biweekly, anchor: 3", "fortnight", "2026-02-05", "2026-02-04", "2026-02-18"}, // Wednesdays from January 7 on
		{"cycle: biweekly, anchor: 3", "fortnight", "2026-01-06", "2026-01-05", "2026-01-07"},
		{"cycle: weekly, anchor: 3", "fortnight", "2026-01-15", "2026-01-07", "2026-01-21"},
		{"cycle: biweekly", "month", "2026-02-03", "2026-02-01", "2026-03-01"},
		{"cycle: monthly, anchor: 15", "month", "2026-02-20", "2026-02-15", "2026-03-15"},
		{"cycle: monthly, anchor: 15", "quarter", "2026-03-20", "2026-01-15", "2026-04-15"},
		{"cycle: monthly, anchor: 15", "quarter", "2026-01-06", "2026-01-05", "2026-01-15"},
		{"cycle: hourly", "year", "2026-02-01", "2026-01-05", "2027-01-01"},
	} {
		c := parsed(t, "{contract: c, customer: a, currency: USD, timezone: Asia/Shanghai, term: {from: 2026-01-05, to: 2029-01-01}, billing: {"+x.billing+
			"}, rates: [{sku: a100, on_demand: 1/gpu-hour}], limits: {spend: 1/"+x.per+", action: alert}}")
		day := func(text string) span.Second {
			d, err := calendar.ParseDate(text)
			if err != nil {
				t.Fatal(err)
			}
			return c.Zone.StartOfDay(d)
		}
		if got, want := c.LimitSpan(c.Period(day(x.at)).Span), (span.Span{From: day(x.from), To: day(x.to)}); got != want {
			t.Errorf("%s, per %s at %s: %v, want %v", x.billing, x.per, x.at, got, want)
		}
	}
}

func TestArrears(t *testing.T) {
	c := parsed(t, metering("arrears: [{at: 0, do: warn}, {after: 24h, do: warn}, {after: 2d, do: stop}, {after: 15d, do: release}]"))
	want := contract.Arrears{{0, contract.ArrearsWarn}, {86400, contract.ArrearsWarn}, {172800, contract.ArrearsStop}, {15 * 86400, contract.ArrearsRelease}}
	if diff := cmp.Diff(want, c.Arrears); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	const since = span.Second(1_767_225_600)
	for _, x := range []struct {
		elapsed span.Second
		begun   int
		due     span.Second
	}{
		{-1, 0, since},
		{0, 1, since + 86400},
		{86399, 1, since + 86400},
		{86400, 2, since + 172800},
		{172799, 2, since + 172800},
		{172800, 3, since + 15*86400},
		{15*86400 - 1, 3, since + 15*86400},
		{15 * 86400, 4, span.Open},
		{99 * 86400, 4, span.Open},
	} {
		if begun, due := c.Arrears.At(since, since+x.elapsed); begun != x.begun || due != x.due {
			t.Errorf("%d s: %d steps, the next at %v; want %d, %v", x.elapsed, begun, due, x.begun, x.due)
		}
	}
	if begun, due := contract.Arrears(nil).At(since, since+1); begun != 0 || due != span.Open {
		t.Errorf("without a ladder: %d, %v", begun, due)
	}
}

func TestErrorsOfArrears(t *testing.T) {
	for _, c := range []struct{ clauses, want string }{
		{"arrears: {}", "a list is expected"},
		{"arrears: []", "a list is expected"},
		{"arrears: [{do: warn}]", "a step has one instant; write `at: 0` for the first step, `after: 24h` for a later one"},
		{"arrears: [{at: 0, after: 1h, do: warn}]", "a step has one instant"},
		{"arrears: [{at: 24h, do: warn}]", `"24h" is not the beginning; write at: 0, or after: 24h`},
		{"arrears: [{after: 24, do: warn}]", "unit is missing; write 24s"},
		{"arrears: [{after: 400d, do: warn}]", "is longer than a year"},
		{"arrears: [{at: 0}]", "`do:` is missing; write warn, stop, freeze or release"},
		{"arrears: [{at: 0, do: suspend}]", `unknown value "suspend"; write one of warn, stop, freeze, release`},
		{"arrears: [{at: 0, do: warn}, {after: 0, do: stop}]", "it holds after 0, the step before it after 0; let the steps rise"},
		{"arrears: [{after: 48h, do: warn}, {after: 1d, do: stop}]", "it holds after 1d, the step before it after 2d"},
		{"arrears: [{at: 0, do: stop}, {after: 1d, do: warn}]", "warn stands after stop; go from warn to stop, freeze and release; only warn comes twice"},
		{"arrears: [{at: 0, do: stop}, {after: 1d, do: stop}]", "stop stands after stop"},
		{"arrears: [{at: 0, do: warn, then: stop}]", `unknown field "then"`},
	} {
		_, err := contract.Parse("c1.yaml", []byte(metering(c.clauses)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.clauses, err, c.want)
		}
	}
}

func TestErrorsOfGranularityAndRounding(t *testing.T) {
	for _, c := range []struct{ clauses, want string }{
		{"billing: {granularity: 0}", `unknown value "0"; write one of second, minute, hour, or a duration up to a day such as 6s`},
		{"billing: {granularity: 6}", `unknown value "6"`},
		{"billing: {granularity: 25h}", `unknown value "25h"`},
		{"billing: {granularity: day}", `unknown value "day"`},
		{"meters: [{name: m, price: 1/100, round: down}]", "only packages are rounded, not the model unit; remove it"},
		{"meters: [{name: m, price: 1/100, model: package, round: even}]", `unknown value "even"; write one of up, down`},
	} {
		_, err := contract.Parse("c1.yaml", []byte(metering(c.clauses)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.clauses, err, c.want)
		}
	}
	if c := parsed(t, metering("billing: {granularity: 1m30s}")); c.Billing.GranularitySeconds != 90 {
		t.Errorf("%d seconds", c.Billing.GranularitySeconds)
	}
}
