package gpuhour_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// limited is an engine in memory with a contract of a limit per month under a cycle, and two GPUs that run from 1 January on.
func limited(t *testing.T, cycle, limits string) *gpuhour.Engine {
	t.Helper()
	e, err := gpuhour.Open(t.Context(), gpuhour.DefaultConfig(), gpuhour.Options{Memory: true})
	must(t, err)
	t.Cleanup(func() { closed(t, e) })
	must(t, e.Declare(t.Context(), fact.Scripted))
	contract := "{contract: c, customer: acme, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: 2027-01-01}, billing: {" + cycle +
		"}, rates: [{sku: a100, on_demand: 1.00/gpu-hour}], limits: {" + limits + "}}"
	from, err := span.Parse("2026-01-01T00:00:00Z")
	must(t, err)
	must(t, e.State(t.Context(),
		fact.Fact{Key: "c", Body: &fact.ContractSigned{Contract: "c", Customer: "acme", Document: contract}},
		fact.Fact{Key: "L", Body: &fact.LeaseStarted{Lease: "L", Customer: "acme", SKU: "a100", PricingMode: "on_demand", At: from, Count: 2, ShareMilli: 1000}},
	))
	return e
}

func advanced(t *testing.T, e *gpuhour.Engine, at string) {
	t.Helper()
	instant, err := span.Parse(at)
	must(t, err)
	must(t, e.Advance(t.Context(), instant))
}

// A preview counts what the earlier bills of the limit's span hold, closed or not, and tells what the time until the next look can
// cost: 2.00 an hour while both GPUs run.
func TestPreviewOfALimit(t *testing.T) {
	const perMonth = "spend: 100.00/month, action: stop, overshoot: 5.00, alert_at: [50%, 100%]"
	for _, cycle := range []string{"cycle: hourly", "cycle: daily", "cycle: weekly", "cycle: monthly"} {
		e := limited(t, cycle, perMonth)
		advanced(t, e, "2026-01-02T12:00:30Z") // 36 h and 30 s of two GPUs: the last days or hours wait for their grace
		for ahead, worst := range map[time.Duration][2]string{
			0:              {},
			4 * time.Hour:  {"80.02", "0.00"},
			12 * time.Hour: {"96.02", "0.00"},
			24 * time.Hour: {"120.02", "20.02"},
		} {
			d, _, err := e.PreviewAhead(t.Context(), "c", 0, ahead)
			must(t, err)
			want := &bill.DocumentLimit{
				Spend: "100.00/month", Action: "stop", Span: bill.DocumentPeriod{From: "2026-01-01T00:00:00Z", To: "2026-02-01T00:00:00Z"},
				Spent: "72.02", Used: "72.02%", UsedExact: "3601/5000", Reached: []string{"50%"}, Accepted: "5.00",
			}
			if ahead > 0 {
				want.Ahead = &bill.DocumentAhead{At: time.Date(2026, 1, 2, 12, 0, 30, 0, time.UTC).Add(ahead).Format(time.RFC3339), Spent: worst[0], Overshoot: worst[1]}
			}
			if diff := cmp.Diff(want, d.Limit); diff != "" {
				t.Errorf("%s, %v ahead (-want +got)\n%s", cycle, ahead, diff)
			}
		}
	}
}

// A limit's span ends where it does: what runs on beyond counts in the next.
func TestPreviewAheadEndsWithTheSpan(t *testing.T) {
	e := limited(t, "cycle: daily", "spend: 2000.00/month, action: stop, overshoot: 0")
	advanced(t, e, "2026-01-31T23:00:00Z")
	d, _, err := e.PreviewAhead(t.Context(), "c", 0, 3*time.Hour)
	must(t, err)
	if got, want := *d.Limit.Ahead, (bill.DocumentAhead{At: "2026-02-01T00:00:00Z", Spent: "1488.00", Overshoot: "0.00"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	advanced(t, e, "2026-02-01T01:00:00Z")
	if d, _, err = e.PreviewAhead(t.Context(), "c", 0, time.Hour); err != nil || d.Limit.Spent != "2.00" || d.Limit.Ahead.Spent != "4.00" {
		t.Errorf("%+v, %v", d.Limit, err)
	}
	before, err := span.Parse("2026-01-31T23:00:00Z")
	must(t, err)
	if d, _, err = e.PreviewAhead(t.Context(), "c", before, time.Hour); err != nil || d.Limit.Spent != "1488.00" || d.Limit.Ahead != nil {
		t.Errorf("a span that is over: %+v, %v", d.Limit, err)
	}
}

// A week belongs to the month in which it begins.
func TestPreviewOfAWeekThatStraddles(t *testing.T) {
	e := limited(t, "cycle: weekly", "spend: 2000.00/month, action: alert")
	advanced(t, e, "2026-02-03T00:00:00Z") // the week began on Monday 2 February; that of 26 January holds 1 February
	d, _, err := e.Preview(t.Context(), "c", 0)
	must(t, err)
	if d.Limit.Spent != "48.00" || !strings.HasPrefix(d.Limit.Span.From, "2026-02-01") {
		t.Errorf("%+v", d.Limit)
	}
}

// Where only seen time is billed, the time ahead may all be seen: that nobody has sampled it yet is no reason to expect nothing.
func TestPreviewAheadOfWhatIsObserved(t *testing.T) {
	e := limited(t, "bill_by: observed", "spend: 100.00/month, action: stop, overshoot: 5.00")
	advanced(t, e, "2026-01-02T00:00:00Z")
	d, _, err := e.PreviewAhead(t.Context(), "c", 0, time.Hour)
	must(t, err)
	if d.Limit.Spent != "0.00" || d.Limit.Ahead.Spent != "50.00" {
		t.Errorf("%+v, ahead %+v", d.Limit, d.Limit.Ahead)
	}
}
