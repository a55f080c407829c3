package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// failing is a test, of rapid too.
type failing interface {
	Helper()
	Fatal(args ...any)
}

// chained is a register with one contract and its amendments: a zone, billing and effective instant each, of which the first is
// when the term begins.
func chained(t failing, versions ...[3]string) *contract.Register {
	t.Helper()
	r := contract.NewRegister()
	for i, v := range versions {
		document := fmt.Sprintf("{contract: c1, customer: a, currency: USD, timezone: %s, term: {from: 2026-03-01, to: 2027-01-01}, billing: {%s}, rates: [{sku: x, on_demand: 1/gpu-hour}]}", v[0], v[1])
		var body fact.Body = &fact.ContractSigned{Contract: "c1", Customer: "a", Document: document}
		if i > 0 {
			body = &fact.ContractAmended{Contract: "c1", Effective: instant(t, v[2]), Document: document}
		}
		r.Apply(fact.Fact{Seq: uint64(i + 1), Key: fmt.Sprint("f", i), Body: body})
	}
	if p := r.Problems("c1"); len(p) > 0 {
		t.Fatal(p)
	}
	return r
}

func instant(t failing, text string) span.Second {
	t.Helper()
	at, err := span.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// startsOf are the first instants of the periods up to one.
func startsOf(r *contract.Register, until span.Second) []string {
	var out []string
	for p := range r.Periods("c1").From(0) {
		if p.From > until {
			break
		}
		at, _ := time.Parse(time.RFC3339, p.From.String())
		out = append(out, at.Format("01-02T15:04"))
	}
	return out
}

func TestStubs(t *testing.T) {
	for name, c := range map[string]struct {
		versions [][3]string
		starts   string
	}{
		"a new zone, in which it is the day before": {
			[][3]string{{"Asia/Shanghai", "anchor: 1"}, {"UTC", "anchor: 1", "2026-03-31T16:00:00Z"}},
			"02-28T16:00 03-31T16:00 04-01T00:00 05-01T00:00",
		},
		"two zones of one day": {
			[][3]string{{"UTC", "anchor: 1"}, {"America/New_York", "anchor: 1", "2026-04-03T00:00:00Z"}},
			"03-01T00:00 04-01T00:00 04-03T00:00 05-01T04:00",
		},
		"weeks that begin at the switch": {
			[][3]string{{"UTC", "cycle: monthly"}, {"UTC", "cycle: weekly, anchor: 3", "2026-04-15T00:00:00Z"}},
			"03-01T00:00 04-01T00:00 04-15T00:00 04-22T00:00 04-29T00:00",
		},
		"hours out of a day": {
			[][3]string{{"UTC", "cycle: daily"}, {"UTC", "cycle: hourly", "2026-03-01T22:30:00Z"}, {"UTC", "cycle: daily", "2026-03-02T00:59:59Z"}},
			"03-01T00:00 03-01T22:30 03-01T23:00 03-02T00:00 03-02T00:59 03-03T00:00",
		},
		"quarters from the month in which the term begins": {
			[][3]string{{"UTC", "cycle: monthly"}, {"UTC", "cycle: quarterly", "2026-04-10T00:00:00Z"}},
			"03-01T00:00 04-01T00:00 04-10T00:00 06-01T00:00 09-01T00:00",
		},
		"the later statement about one instant holds": {
			[][3]string{{"UTC", "anchor: 1"}, {"UTC", "anchor: 9", "2026-04-03T00:00:00Z"}, {"UTC", "anchor: 1", "2026-04-03T00:00:00Z"}},
			"03-01T00:00 04-01T00:00 05-01T00:00",
		},
		"a change of nothing that makes periods": {
			[][3]string{{"UTC", "anchor: 1"}, {"UTC", "anchor: 1, grace: 0", "2026-04-03T00:00:00Z"}},
			"03-01T00:00 04-01T00:00 05-01T00:00",
		},
		"back again": {
			[][3]string{{"UTC", "anchor: 1"}, {"UTC", "anchor: 15", "2026-04-03T00:00:00Z"}, {"UTC", "anchor: 1", "2026-04-10T00:00:00Z"}},
			"03-01T00:00 04-01T00:00 04-03T00:00 04-10T00:00 05-01T00:00",
		},
		"from before the term on": { // which begins with its date in the zone that was signed
			[][3]string{{"Asia/Shanghai", "anchor: 1"}, {"UTC", "anchor: 1", "2026-02-01T00:00:00Z"}},
			"02-28T16:00 03-01T00:00 04-01T00:00",
		},
		"stated behind the one that comes into force later": {
			[][3]string{{"UTC", "anchor: 1"}, {"UTC", "cycle: weekly", "2026-04-03T00:00:00Z"}, {"UTC", "cycle: weekly", "2026-04-01T12:00:00Z"}},
			"03-01T00:00 04-01T00:00 04-01T12:00 04-06T00:00",
		},
	} {
		want := strings.Fields(c.starts)
		got := startsOf(chained(t, c.versions...), instant(t, "2026-11-01T00:00:00Z"))
		if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestTermStartsStay(t *testing.T) {
	r := chained(t, [3]string{"UTC", "anchor: 1"})
	r.Apply(fact.Fact{Seq: 2, Key: "moved", Body: &fact.ContractAmended{Contract: "c1", Effective: instant(t, "2026-04-01T00:00:00Z"), Document: "{contract: c1, customer: a, " +
		"currency: USD, timezone: Asia/Shanghai, term: {from: 2026-03-02, to: open}, rates: [{sku: x, on_demand: 1/gpu-hour}]}"}})
	if p := r.Problems("c1"); len(p) != 1 || p[0].Reason != contract.UnsupportedAmendment || !strings.Contains(p[0].Detail, "the term's start") {
		t.Errorf("%v", p)
	}
}

// What is left of a period that was billed.
func TestRemains(t *testing.T) {
	r := chained(t, [3]string{"UTC", "anchor: 1"}, [3]string{"UTC", "cycle: weekly", "2026-04-03T00:00:00Z"})
	for billed, want := range map[string]string{
		"2026-03-01/2026-04-01": "2026-03-01/2026-04-01",
		"2026-04-01/2026-05-01": "2026-04-01/2026-04-03", // a stub by now
		"2026-05-01/2026-06-01": "2026-05-01/2026-05-01", // no week begins there
		"2026-06-01/2026-07-01": "2026-06-01/2026-06-08", // one does
		"2026-06-08/2026-06-10": "2026-06-08/2026-06-10", // the term ended there once
	} {
		days := func(text string) span.Span {
			from, to, _ := strings.Cut(text, "/")
			return span.Span{From: instant(t, from+"T00:00:00Z"), To: instant(t, to+"T00:00:00Z")}
		}
		if got := r.Periods("c1").Remains(days(billed)); got != days(want) {
			t.Errorf("of %s remains %v, want %s", billed, got, want)
		}
	}
}

// Whatever the versions say, periods follow each other without a gap, and fees count every date once: one after the other, each in
// the period that has its first second.
func TestPeriodsTileAndDatesCountOnce(t *testing.T) {
	zones := []string{"UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Kiritimati", "Pacific/Honolulu"}
	billing := []string{"cycle: hourly", "cycle: daily", "cycle: weekly, anchor: 3", "anchor: 1", "anchor: 7", "anchor: 31", "cycle: quarterly, anchor: 5"}
	rapid.Check(t, func(t *rapid.T) {
		var versions [][3]string
		for range rapid.IntRange(1, 5).Draw(t, "versions") {
			hours := rapid.IntRange(-30, 24*10).Draw(t, "hours")
			seconds := rapid.SampledFrom([]int{0, 0, 1, 1800}).Draw(t, "seconds")
			at := time.Date(2026, 3, 1, hours, 0, seconds, 0, time.UTC).Format(time.RFC3339)
			versions = append(versions, [3]string{rapid.SampledFrom(zones).Draw(t, "zone"), rapid.SampledFrom(billing).Draw(t, "billing"), at})
		}
		r := chained(t, versions...)
		periods := r.Periods("c1")
		var before span.Span
		var dates []calendar.Date
		for p := range periods.From(0) {
			if before.To != 0 && p.From != before.To || p.Empty() {
				t.Fatalf("%v follows on %v", p, before)
			}
			inside := p.From + span.Second(rapid.Int64Range(0, p.Seconds()-1).Draw(t, "inside"))
			if again, ok := periods.At(inside); !ok || again.Span != p || !again.Full.Contains(inside) {
				t.Fatalf("%v lies in %v, not in %v", inside, again, p)
			}
			v, _ := r.InForce("c1", p.From)
			for _, day := range periods.Days(p) {
				if p.Contains(day.From) {
					dates = append(dates, v.Contract.Zone.DateOf(day.From))
				}
			}
			if before = p; p.From > 1774000000 { // 20 March
				break
			}
		}
		for i := 1; i < len(dates); i++ {
			far := dates[i-1].AddDays(2) == dates[i] // clocks of Kiritimati and Honolulu are a day apart: some dates are lived in neither
			if dates[i-1].AddDays(1) != dates[i] && !far || far && !slices.ContainsFunc(versions, func(v [3]string) bool { return v[0] == "Pacific/Kiritimati" }) {
				t.Fatalf("%v counts behind %v of %v: %v", dates[i], dates[i-1], dates, versions)
			}
		}
	})
}
