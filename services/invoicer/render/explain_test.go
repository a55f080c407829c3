package render_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// explainedCase explains a line of a case file, such as CASE-000001/2.
func explainedCase(t *testing.T, file, name string) *explain.Explanation {
	t.Helper()
	data, err := cases.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return explainedIn(t, file, data, name)
}

func explainedIn(t *testing.T, file string, data []byte, name string) *explain.Explanation {
	t.Helper()
	s, err := scenario.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	invoice, which, _ := strings.Cut(name, "/")
	line, err := explain.ParseLine(which)
	if err != nil {
		t.Fatal(err)
	}
	x, err := replay.Explain(s.Log(), replay.Options{Series: scenario.Series, Grace: s.GraceSeconds}, invoice, line)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Each golden holds lines of one case, one behind the other, in both languages at both widths.
func TestExplanations(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		lines []string
	}{
		"explain-windows":   {"window-belongs-to-the-date-it-begins-on.yaml", []string{"CASE-000001/1", "CASE-000001/2"}},
		"explain-night":     {"page-3-off-peak-night-on-a-fractional-gpu.yaml", []string{"CASE-000002/1", "CASE-000002/2"}},
		"explain-idle":      {"bill-by-observed-and-idle.yaml", []string{"CASE-000001/1", "CASE-000001/2", "CASE-000001/u1"}},
		"explain-closing":   {"order-of-closing.yaml", []string{"CASE-000001/1", "CASE-000001/2"}},
		"explain-meters":    {"meters.yaml", []string{"CASE-000001/1", "CASE-000002/2"}},
		"explain-reserved":  {"reserved-base-and-burst.yaml", []string{"CASE-000001/2", "CASE-000001/3"}},
		"explain-advance":   {"advance-in-yen.yaml", []string{"CASE-000001/1", "CASE-000002/1", "CASE-000002/2"}},
		"explain-corrected": {"spot-late-tick-is-corrected.yaml", []string{"CASE-000001/1", "CASE-000003/1"}},
		"explain-minimum":   {"start-minimum-by-who-ended-it.yaml", []string{"CASE-000001/1"}},
		"explain-states":    {"states-suspended-at-30-percent.yaml", []string{"CASE-000001/1"}},
		"explain-levels":    {"states-stopped-disk-at-200-percent.yaml", []string{"CASE-000001/2"}},
		"explain-each":      {"f40-bounds-of-each-transaction.yaml", []string{"CASE-000001/2"}},
		"explain-tiers":     {"meter-tiers-by-level-amended-and-late.yaml", []string{"CASE-000010/1"}},
		"explain-once":      {"b42-setup-fee-and-thirty-seconds.yaml", []string{"CASE-000001/2"}},
		"explain-fee-month": {"fixed-months-over-a-february.yaml", []string{"CASE-000002/1", "CASE-000002/2", "CASE-000002/3"}},
		"explain-refused":   {"overlap-refuses-its-share-of-the-minimum.yaml", []string{"CASE-000002/1", "CASE-000002/u1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var list []*explain.Explanation
			for _, l := range c.lines {
				list = append(list, explainedCase(t, c.file, l))
			}
			everywhere(t, name, func(o render.Options) string {
				var out []string
				for _, x := range list {
					out = append(out, render.Explanation(x, o, false))
				}
				return strings.Join(out, "\n")
			})
		})
	}
}

// TestExplanationIsBounded: hundreds of segments stand by lease, with everything in the sums; --all shows each.
func TestExplanationIsBounded(t *testing.T) {
	var events strings.Builder
	for i := range 60 {
		fmt.Fprintf(&events, "  - {at: 2026-01-10T%02d:%02d:00Z, lease_started: {lease: L%02d, sku: a100, customer: acme, pricing_mode: on_demand, devices: [{node: n1, device: GPU-%d, share_milli: 1000}]}}\n", 8, i, i, i)
		fmt.Fprintf(&events, "  - {at: 2026-01-10T%02d:00:%02dZ, lease_stopped: {lease: L%02d, by: customer}}\n", 10, i, i)
	}
	text := `story: sixty leases
contracts:
  - contract: c1
    customer: acme
    currency: USD
    timezone: UTC
    term: {from: 2026-01-01, to: 2026-02-01}
    rates: [{sku: a100, on_demand: 3.60/gpu-hour}]
events:
` + events.String() + `close:
  - {contract: c1, period: 2026-01}
`
	x := explainedIn(t, "sixty.yaml", []byte(text), "CASE-000001/1")
	if len(x.Segments) != 60 {
		t.Fatalf("%d segments", len(x.Segments))
	}
	short, whole := render.Explanation(x, render.Options{Width: 100}, false), render.Explanation(x, render.Options{Width: 100}, true)
	for _, want := range []string{"60 segments, shown by lease", "20 more"} {
		if !strings.Contains(short, want) {
			t.Errorf("the short text does not say %q:\n%s", want, short)
		}
	}
	if n := strings.Count(short, "\n"); n > 70 {
		t.Errorf("the short text has %d lines", n)
	}
	for i := range 60 {
		if name := fmt.Sprintf("L%02d ", i); !strings.Contains(whole, name) {
			t.Errorf("--all does not show %s", name)
		}
	}
}

// TestDaysOfSeveralMonths: a quarter of a price per month pays more days than the price is for, which "90 of 30" would not say.
func TestDaysOfSeveralMonths(t *testing.T) {
	x := explainedIn(t, "quarter.yaml", []byte(`story: a quarter of a reservation per month of 30 days
contracts:
  - contract: c1
    customer: acme
    currency: USD
    timezone: UTC
    term: {from: 2026-01-01, to: 2027-01-01}
    billing: {cycle: quarterly, fee_month: 30d}
    rates: [{sku: a100, on_demand: 3.60/gpu-hour, reserved: [{name: base, quantity: 1, price: 30.00/gpu-month, from: 2026-01-01, to: 2027-01-01}]}]
events: []
close:
  - {contract: c1, period: 2026-01}
`), "CASE-000001/1")
	for language, want := range map[render.Language]string{
		render.English: "90 days are charged; the price pays 30 of them.",
		render.Chinese: "按天折算：计 90 天，单价对应 30 天。",
	} {
		if text := render.Explanation(x, render.Options{Width: 100, Language: language}, false); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q:\n%s", language, want, text)
		}
	}
}

// TestDaysToComeOfATermination: what a termination fee counts are days that were still to come, one month behind the other.
func TestDaysToComeOfATermination(t *testing.T) {
	x := explainedIn(t, "ended.yaml", []byte(`story: a reservation that ends in March
contracts:
  - contract: c1
    customer: acme
    currency: USD
    timezone: UTC
    term: {from: 2026-01-01, to: 2026-07-01}
    termination: {refund: prorata, fee: 10%}
    rates: [{sku: a100, on_demand: 3.60/gpu-hour, reserved: [{name: base, quantity: 1, price: 310.00/gpu-month, from: 2026-01-01, to: 2026-07-01}]}]
events:
  - {at: 2026-03-11T00:00:00Z, contract_terminated: {contract: c1, by: customer}}
close:
  - {contract: c1, period: 2026-03}
`), "CASE-000003/2")
	text := render.Explanation(x, render.Options{Width: 100}, false)
	var from []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "days still to come"); ok {
			from = append(from, strings.Fields(rest)[0])
		}
	}
	if want := []string{"2026-03-11", "2026-04-01", "2026-05-01", "2026-06-01"}; !slices.Equal(from, want) {
		t.Errorf("days from %v, want %v:\n%s", from, want, text)
	}
	if text := render.Explanation(x, render.Options{Width: 100, Language: render.Chinese}, false); !strings.Contains(text, "未到期天数") {
		t.Errorf("in Chinese:\n%s", text)
	}
}
