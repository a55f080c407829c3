package scenario_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/scenario"
)

const good = `# An hour of a GPU.
story: One hour, seen for half of it.
contracts:
  - {contract: c1, customer: acme, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: 2027-01-01}, rates: [{sku: a100, on_demand: 3.60/gpu-hour}]}
events:
  - {at: 2026-01-10T08:00:00Z, lease_started: {lease: L1, customer: acme, sku: a100, pricing_mode: on_demand, devices: [{node: n1, device: GPU-1, share_milli: 1000}]}}
  - {at: 2026-01-10T09:00:00Z, lease_stopped: {lease: L1, by: customer}}
  - {from: 2026-01-10T08:00:00Z, to: 2026-01-10T08:30:00Z, samples: {node: n1, device: GPU-1, util: 85}}
close: [{contract: c1, period: 2026-01}]
# The bill.
expect:
  - {contract: c1, period: 2026-01, total: 3.60 USD, lines: [{sku: a100, quantity: 1 gpu-hour, amount: 3.60, coverage: {measured: 30m, inferred: 0s, missing: 30m}}]}

# The devices.
devices: [{device: GPU-1, seen_leased: 30m, ghost: 0s}]
`

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("good.yaml", []byte(text))
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	return s
}

func check(t *testing.T, text string) []string {
	t.Helper()
	s := parse(t, text)
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range s.Check(r) {
		out = append(out, d.String())
	}
	return out
}

func edit(t *testing.T, old, replacement string) string {
	t.Helper()
	if !strings.Contains(good, old) {
		t.Fatalf("the scenario has no %q", old)
	}
	return strings.Replace(good, old, replacement, 1)
}

func TestGood(t *testing.T) {
	if got := check(t, good); got != nil {
		t.Error(strings.Join(got, "\n"))
	}
}

// Every expectation that is wrong is found, with contract, period, what was expected and what came.
func TestDifferences(t *testing.T) {
	const at = "good.yaml:12: c1 2026-01: "
	for _, c := range []struct{ old, replacement, want string }{
		{"total: 3.60 USD", "total: 3.61 USD", at + "total: expected 3.61 USD, came 3.60 USD"},
		{"quantity: 1 gpu-hour", "quantity: 3599.999 gpu-seconds", at + "lines[0].quantity: expected 3599.999 gpu-seconds, came 1.0 gpu-hours"},
		{"amount: 3.60", "amount: 3.59", at + "lines[0].amount: expected 3.59, came 3.60"},
		{"{sku: a100, quantity", "{sku: h100, quantity", at + "lines[0].sku: expected h100, came a100"},
		{"measured: 30m", "measured: 29m59.999s", at + "lines[0].coverage.measured: expected 29m59.999s, came 30m"},
		{"lines: [{sku", "lines: [{sku: h100}, {sku", at + "lines[0]: expected {sku: h100}, came nothing"},
		{", total: 3.60 USD, lines", ", refused: [{reason: overlap, quantity: 1 gpu-hour}], lines", at + "refused: expected overlap 1.0 gpu-hours, came nothing"},
		{"period: 2026-01, total", "period: 2026-02, total", "good.yaml:12: c1 2026-02: invoice: expected one, came none; name the period in `close:` too, for the scenario to run until it is due"},
		{"2026-01, total", "2026-01, kind: correction, total", at + "correction: expected one, came none"},
		{"ghost: 0s", "ghost: 1s", "good.yaml: device GPU-1: ghost: expected 1s, came 0s"},
		{
			"lines: [{sku: a100, quantity: 1 gpu-hour, amount: 3.60, coverage: {measured: 30m, inferred: 0s, missing: 30m}}]", "lines: []",
			at + "lines: expected nothing, came {sku: a100, pricing_mode: on_demand, quantity: 1.0 gpu-hours, amount: 3.60, coverage: {measured: 30m, missing: 30m}}",
		},
		{"devices: [{d", "refusals: [{reason: unknown_lease}]\ndevices: [{d", "good.yaml: refusals: expected unknown_lease, came nothing"},
		{"lease: L1, by", "lease: L2, by", at + "total: expected 3.60 USD, came 1872.00 USD"},
		{"sku: a100, pricing_mode", "sku: h100, pricing_mode", at + "invoice: expected one, came lease L1 has 1.000000000 refused GPU-hours (no_rate); mend its cause, or state refusal.waived or refusal.carried"},
	} {
		got := check(t, edit(t, c.old, c.replacement))
		if len(got) == 0 || got[0] != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.replacement, strings.Join(got, "\n"), c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"story: One hour, seen for half of it.\n", "", "good.yaml:2:1: `story:` is missing; say in a sentence"},
		{"story:", "storey:", `good.yaml:2:1: unknown field "storey"; did you mean story?`},
		{"close:", "story: x\nclose:", "good.yaml:9:1: story: the key is written twice; keep one of them"},
		{"at: 2026-01-10T09:00:00Z", "at: 2026-01-10T09:00:00", `good.yaml:7:10: events[1].at: instant "2026-01-10T09:00:00" is not RFC 3339; write it like 2026-02-28T13:00:00Z`},
		{"at: 2026-01-10T09:00:00Z", "at: 2026-01-10", `is not RFC 3339; write it like`},
		{"at: 2026-01-10T09:00:00Z, ", "", "good.yaml:7:5: events[1]: `at:` is missing; write an instant"},
		{"at: 2026-01-10T09:00:00Z", "at: 9999-12-31T00:00:00Z", "good.yaml:7:5: events[1]: the scenario would have to run until 9999-12-31T00:00:00Z; state with `known` when it was learnt, before 2200"},
		{"at: 2026-01-10T09:00:00Z", "at: 2026-01-10T09:00:00Z, known: 2200-01-01T00:00:00Z", "good.yaml:7:5: events[1]: the scenario would have to run until 2200-01-01T00:00:00Z"},
		{"util: 85", "util: 85, known: 9999-12-31T00:00:00Z", "good.yaml:8:5: events[2]: the scenario would have to run until 9999-12-31T00:00:00Z"},
		{"lease_stopped: {lease: L1, by: customer}", "lease_stopped: {lease: L1, by: nobody}", `by is "nobody"; write customer, provider`},
		{"lease_stopped: {lease: L1, by: customer}", "lease_stopped: {lease: L1, by: customer, at: 2026-01-10T09:00:00Z}", `events[1].lease_stopped: unknown field "at"; remove it; known here: lease, by`},
		{", lease_stopped", ", lease_resized: {lease: L1, count: 1, share_milli: 1}, lease_stopped", "good.yaml:7:5: events[1]: an event states one thing, not 2"},
		{"share_milli: 1000", "share_milli: 1001", "share_milli is 1001; it goes from 1 to 1000"},
		{"share_milli: 1000", "share_milli: half", `good.yaml:6:160: events[0].lease_started.devices[0].share_milli: "half" is not a whole number; write 8`},
		{"3.60/gpu-hour", "3.60", "good.yaml:4:139: rates[0].on_demand: unit is missing; write 3.60/gpu-hour"},
		{"util: 85", "util: 101", `utilisation "101" is neither 0 to 100 nor unknown; write 85`},
		{"util: 85", "util: 85, batch: 7s", "7s does not divide a minute; write 60s or 10s"},
		{"to: 2026-01-10T08:30:00Z", "to: 2026-01-10T08:00:00Z", "good.yaml:8:38: events[2]: 2026-01-10T08:00:00Z is not after 2026-01-10T08:00:00Z; write a later end"},
		{"close: [{contract: c1", "close: [{contract: c2", `good.yaml:9:20: close[0]: contract "c2" is not in this file; name one of its contracts`},
		{"close: [{contract: c1, period: 2026-01", "close: [{contract: c1, period: 2028-01", "good.yaml:9:32: close[0]: no period of c1 starts in 2028-01; write the local month or date"},
		{"close: [{contract: c1, period: 2026-01", "close: [{contract: c1, period: January", "neither a month, a date nor an instant; write 2026-02"},
		{"period: 2026-01}]\n#", "period: 9999-12}]\n#", "no month before 2200"},
		{"period: 2026-01}]\n#", "period: 9999-12-31T00:00:00Z}]\n#", "lies too far ahead"},
		{"from: 2026-01-10T08:00:00Z, to", "from: 1990-01-10T08:00:00Z, to", "make more than 1048576 batches; tell a shorter story"},
		{"total: 3.60 USD", "total: 3.60 CNY", "the total is in CNY, the contract in USD; write the contract's currency"},
		{"total: 3.60 USD", "total: 3.60", `total "3.60" names no currency; write 3.60 USD`},
		{"amount: 3.60", "amount: 3.601", `amount "3.601" has more digits than USD has; write at most 2`},
		{"quantity: 1 gpu-hour", "quantity: 1 hour", "has no known unit; write 1 gpu-hours, gpu-minutes or gpu-seconds"},
		{"quantity: 1 gpu-hour", "quantity: 0.0001 gpu-seconds", "is not a whole number of milli-GPU-seconds; write it exactly"},
		{"measured: 30m", "measured: 30", `"30" is not a length of time; write it like 30m`},
		{"2026-01, total", "2026-01, blocked: overlap, total", "a period that is blocked has no total and no lines; remove them"},
		{"lease: L1, by", "lease: &a L1, by", "a plain value is expected, not a reference or tag"},
		{"at: 2026-01-10T09:00:00Z", "at: 2026-01-10T09:00:00Z, refused: by is", "the statement is taken; remove `refused:`"},
		{"story: One hour, seen for half of it.", "story: [", "not YAML"},
		{"story: One hour, seen for half of it.", "story: \xc4\xe3", ":2:8: the text is not UTF-8; save the file in that encoding"},
		{"story: One hour, seen for half of it.", "story：One hour", "write the punctuation in half width"},
		{"events:", "events: {}\nx:", "a list is expected, not a mapping"},
	} {
		_, err := scenario.Parse("good.yaml", []byte(edit(t, c.old, c.replacement)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant\n%s", c.replacement, err, c.want)
		}
	}
	for _, text := range []string{"", "# nothing", "- a", "a", strings.Repeat("[", 200), strings.Repeat("#", scenario.MaxBytes+1)} {
		if _, err := scenario.Parse("x.yaml", []byte(text)); err == nil {
			t.Errorf("%.20q is taken", text)
		}
	}
}

// A rewrite of wrong numbers gives the right ones and keeps every other byte; a second one changes nothing.
func TestRewrite(t *testing.T) {
	wrong := strings.Replace(good, "3.60 USD", "36.00 USD", 1)
	s := parse(t, wrong)
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Index(good, "expect:"), strings.Index(good, "\n# The devices.")
	want := good[:from] + `expect:
  - {contract: c1, period: 2026-01, total: 3.60 USD, lines: [{quantity: 1.0 gpu-hours, amount: 3.60, coverage: {measured: 30m, missing: 30m}}]}
` + good[to:]
	got := string(s.Rewrite(r))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(got, string(parse(t, got).Rewrite(r))); diff != "" {
		t.Errorf("again (-want +got)\n%s", diff)
	}
	if found := check(t, got); found != nil {
		t.Error(strings.Join(found, "\n"))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(strings.Replace(good, "2027-01-01", "open", 1))
	f.Add("story: s\ncontracts: []\nevents: [{at: x, lease_stopped: {}}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Parse("fuzz.yaml", []byte(text))
		if (s == nil) == (err == nil) {
			t.Fatalf("scenario %v, error %v", s, err)
		}
	})
}
