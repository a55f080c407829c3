package contract_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

const full = `
contract: acme-2026
customer: acme                    # comments are fine
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-01-01, to: 2027-01-01}
billing:
  cycle: quarterly
  anchor: 31
  grace: 0
  granularity: minute
  minimum: 1h30m
  rounding: half_even
  month: 730h
rates:
  - sku: h100-80g
    on_demand: 35.00/gpu-hour
    region: {cn-east: 100%, cn-west: 88%}
    service_tier: {t3: 100%, t4: 108.5%}
    dedicated: 125%
  - {sku: a100, on_demand: 0.005/gpu-second}
`

const small = `{contract: c1, customer: 阿克梅, currency: JPY, timezone: UTC, term: {from: 2026-01-01T08:00:00+08:00, to: open}, rates: [{sku: a100, on_demand: 4.5/gpu-month}]}`

func zone(t testing.TB, name string) calendar.Zone {
	t.Helper()
	z, err := calendar.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// same compares contracts by value; the document they came from aside.
func same() cmp.Option {
	return cmp.Options{
		cmp.Comparer(func(a, b *big.Rat) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 }),
		cmpopts.IgnoreFields(contract.Contract{}, "Source"),
	}
}

func TestParse(t *testing.T) {
	got, err := contract.Parse("acme.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	start, err := span.Parse("2026-01-01T00:00:00+08:00")
	if err != nil {
		t.Fatal(err)
	}
	want := &contract.Contract{
		ID: "acme-2026", Customer: "acme", Currency: "CNY", Zone: zone(t, "Asia/Shanghai"),
		Term: span.Span{From: start, To: start + 365*86400},
		Billing: contract.Billing{
			Cycle: calendar.Quarterly, Anchor: 31, GraceKnown: true, GranularitySeconds: 60, MinimumSeconds: 5400,
			Rounding: money.HalfEven, Month: contract.Month730h,
		},
		Rates: []contract.Rate{
			{
				SKU: "h100-80g", OnDemand: contract.Price{Amount: big.NewRat(35, 1), Unit: contract.GPUHour},
				Region:      map[string]*big.Rat{"cn-east": big.NewRat(1, 1), "cn-west": big.NewRat(88, 100)},
				ServiceTier: map[string]*big.Rat{"t3": big.NewRat(1, 1), "t4": big.NewRat(1085, 1000)},
				Dedicated:   big.NewRat(125, 100),
			},
			{SKU: "a100", OnDemand: contract.Price{Amount: big.NewRat(5, 1000), Unit: contract.GPUSecond}},
		},
	}
	if diff := cmp.Diff(want, got, same()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if string(got.Source) != full {
		t.Error("the source is not the document")
	}
	if rate, ok := got.Rate("a100"); !ok || rate.OnDemand.Text("CNY") != "0.005/gpu-second" {
		t.Errorf("a100 costs %v", rate)
	}
	if _, ok := got.Rate("b200"); ok {
		t.Error("b200 has a rate")
	}
	if p := got.Period(start + 40*86400); got.Zone.DateOf(p.Span.From).String() != "2026-01-31" {
		t.Errorf("period is %s", p.Span)
	}
}

func TestDefaults(t *testing.T) {
	got, err := contract.Parse("c1.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	want := contract.Billing{Cycle: calendar.Monthly, Anchor: 1, GranularitySeconds: 1}
	if diff := cmp.Diff(want, got.Billing); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Customer != "阿克梅" || got.Term.From.String() != "2026-01-01T00:00:00Z" || got.Term.To != span.Open {
		t.Errorf("%s has the term %s", got.Customer, got.Term)
	}
	if got.Rates[0].Region != nil || got.Rates[0].Dedicated != nil || got.Rates[0].OnDemand.Text("JPY") != "4.5/gpu-month" {
		t.Errorf("rate is %+v", got.Rates[0])
	}
}

// Case B90: a stated zero is zero, an absent grace is the provider's.
func TestGraceZeroIsNotAbsent(t *testing.T) {
	for text, want := range map[string]contract.Billing{
		"grace: 0":     {GraceKnown: true},
		"grace: 0s":    {GraceKnown: true},
		"grace: 3h":    {GraceKnown: true, GraceSeconds: 10800},
		"grace: 1d12h": {GraceKnown: true, GraceSeconds: 129600},
		"minimum: 60s": {MinimumSeconds: 60},
		"minimum: 0":   {},
	} {
		want.Cycle, want.Anchor, want.GranularitySeconds = calendar.Monthly, 1, 1
		got, err := contract.Parse("c", []byte(strings.Replace(small, "rates:", "billing: {"+text+"}, rates:", 1)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got.Billing); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

// Several errors come together, in the order of the text, each with its place.
func TestErrorsNameLineAndRemedy(t *testing.T) {
	const broken = `contract: acme
customer: acme
curency: CNY
timezone: Asia/Shangai
term: {from: 2026-01-01, to: 2026-01-01}
sla:
  - {name: night}
billing:
  anchor: 32
  anchor: 1
rates:
  - sku: h100
    on_demand: 35.00
    spot: {index: h100, max: 70%}
`
	_, err := contract.Parse("acme.yaml", []byte(broken))
	want := "acme.yaml:1:1: `currency:` is missing; write an ISO 4217 code such as USD\n" +
		"acme.yaml:3:1: unknown field \"curency\", did you mean currency?\n" +
		"acme.yaml:4:11: timezone: unknown timezone \"Asia/Shangai\"; did you mean Asia/Shanghai?\n" +
		"acme.yaml:6:1: sla: `sla:` is not supported by this version; remove it, or the bill would be wrong\n" +
		"acme.yaml:9:11: billing.anchor: \"32\" is out of range for a monthly cycle; write a day of the month from 1 to 31\n" +
		"acme.yaml:10:3: billing.anchor: the key is written twice; keep one of them\n" +
		"acme.yaml:13:16: rates[0].on_demand: unit is missing; write 35.00/gpu-hour\n" +
		"acme.yaml:14:30: rates[0].spot.max: \"70%\" does not say what it is a part of; write 70% of on_demand"
	if err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var errs contract.Errors
	if !errors.As(err, &errs) || errs[6].Line != 13 || errs[6].Field != "rates[0].on_demand" || errs[6].Remedy != "write 35.00/gpu-hour" {
		t.Errorf("errors are %#v", err)
	}
}

// edit replaces one thing of a good contract.
func edit(t testing.TB, old, replacement string) string {
	t.Helper()
	if !strings.Contains(full, old) {
		t.Fatalf("the contract has no %q", old)
	}
	return strings.Replace(full, old, replacement, 1)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"35.00/gpu-hour", "35.00/hour", `unknown unit "hour"; write 35.00/gpu-hour`},
		{"35.00/gpu-hour", "35.00/GPU-Days", `unknown unit "GPU-Days"; write 35.00/gpu-day`},
		{"35.00/gpu-hour", "-5/gpu-hour", `price "-5/gpu-hour" is negative`},
		{"35.00/gpu-hour", "$35/gpu-hour", "the currency does not belong into a price"},
		{"35.00/gpu-hour", "1E1000000000/gpu-hour", "exponent outside -18 to 18; write 35.00/gpu-hour"},
		{"35.00/gpu-hour", strings.Repeat("9", 39) + "/gpu-hour", "more than 38 digits"},
		{"35.00/gpu-hour", "1_000/gpu-hour", "is not a decimal number"},
		{"35.00/gpu-hour", "0x10/gpu-hour", "is not a decimal number"},
		{"35.00/gpu-hour", "", "rates[0].on_demand: a plain value is expected, not nothing; write 35.00/gpu-hour"},
		{"35.00/gpu-hour", "[1]", "rates[0].on_demand: a plain value is expected, not a list"},
		{"on_demand: 35.00/gpu-hour", "dedicated: 5%", "`on_demand:` is missing; write 35.00/gpu-hour"},
		{"sku: a100", "sku: h100-80g", `rates[1].sku: "h100-80g" has a rate already; keep one rate per SKU`},
		{"cn-west: 88%", "cn-west: 0.88", `rates[0].region.cn-west: "0.88" is not a percentage; write it like 88%`},
		{"cn-west: 88%", "cn-west: -88%", `"-88%" is negative`},
		{"cn-west: 88%", "cn-east: 88%", "rates[0].region.cn-east: the key is written twice"},
		{"{cn-east: 100%, cn-west: 88%}", "{}", "rates[0].region: the map has no entry; write {cn-east: 100%} or remove it"},
		{"{cn-east: 100%, cn-west: 88%}", "", "rates[0].region: a mapping is expected, not nothing"},
		{"125%", "1e99%", "exponent outside"},
		{"timezone: Asia/Shanghai", "timezone: Local", `timezone: unknown timezone "Local"`},
		{"currency: CNY", "currency: cny", "did you mean CNY?"},
		{"currency: CNY", "currency: RMB", `unknown currency "RMB"; did you mean CNY?`},
		{"to: 2027-01-01", "to: 2025-12-31", "term.to: the term is empty"},
		{"to: 2027-01-01", "to: 9999-12-31", "lies outside 1970 to 2199; write a date, or open for a contract without end"},
		{"to: 2027-01-01", "to: 2026-02-29", "neither a local date nor an instant"},
		{"from: 2026-01-01", "from: open", "neither a local date nor an instant"},
		{", to: 2027-01-01", "", "term: `to:` is missing"},
		{"cycle: quarterly", "cycle: fortnightly", `unknown cycle "fortnightly"; write one of hourly, daily,`},
		{"anchor: 31", "anchor: 0", "write a day of the month from 1 to 31"},
		{"anchor: 31", "anchor: 1.0", "write a day of the month from 1 to 31"},
		{"anchor: 31", "anchor: 0x1f", "write a day of the month from 1 to 31"},
		{"cycle: quarterly", "cycle: weekly", "write an ISO weekday (Monday 1) from 1 to 7"},
		{"cycle: quarterly", "cycle: daily", "does not anchor a daily cycle; leave it out"},
		{"grace: 0", "grace: 60", "billing.grace: unit is missing; write 60s"},
		{"grace: 0", "grace: -3h", `duration "-3h" is negative; write 0 or more`},
		{"grace: 0", "grace: 3h1d", `"3h1d" is not a duration; write it like 60s, 3h, 1h30m or 0`},
		{"grace: 0", "grace: 99999999999999999999h", "is longer than a year"},
		{"grace: 0", "grace: 366d1s", "is longer than a year"},
		{"grace: 0", "grace: 1.5h", "is not a duration"},
		{"granularity: minute", "granularity: day", `unknown value "day"; write one of second, minute, hour`},
		{"rounding: half_even", "rounding: half_up", `unknown rounding "half_up"; write one of half_away_from_zero,`},
		{"month: 730h", "month: 31d", `unknown value "31d"; write one of actual, 30d, 720h, 730h`},
		{"month: 730h", "bill_by: seen", `unknown value "seen"; write one of leased, observed`},
		{"billing:", "idle_relief: {below: 5%, after: 15m}\nbilling:", "idle_relief: `off:` is missing; write 50%"},
		{"billing:", "idle_relief: {below: 0%, after: 15m, off: 50%}\nbilling:", `idle_relief.below: "0%" is not a whole per cent from 1 to 100; write 5%`},
		{"billing:", "idle_relief: {below: 5.5%, after: 15m, off: 50%}\nbilling:", `"5.5%" is not a whole per cent from 1 to 100`},
		{"billing:", "idle_relief: {below: 5%, after: 25h, off: 50%}\nbilling:", `idle_relief.after: "25h" is longer than 24h; write at most that`},
		{"billing:", "idle_relief: {below: 5%, after: 15m, off: 150%}\nbilling:", `idle_relief.off: "150%" is not from 0% to 100%; correct it`},
		{"billing:", "idle_relief: {below: 5%, after: 15m, off: 50%, bridge: 61s}\nbilling:", `idle_relief.bridge: "61s" is longer than 60s`},
		{"billing:", "idle_relief: {below: 5%, after: 15m, off: 50%, unknown: idle}\nbilling:", "is not supported by this version; write busy, and a bridge for short gaps"},
		{"billing:", "tax: {}\nbilling:", "`tax:` is not supported by this version"},
		{"customer: acme", "customer: ' acme'", "customer: the name begins or ends with a space"},
		{"customer: acme", `customer: "a\nb"`, "the name holds control characters"},
		{"customer: acme", "customer: " + strings.Repeat("x", 201), "keep it within 200"},
		{"customer: acme", `customer: ""`, "a plain value is expected, not empty text"},
		{"customer: acme", "customer: |\n  acme", "a plain value is expected, not a block of text"},
		{"customer: acme", "customer: &a acme", "anchors, aliases and merge keys are not read"},
		{"customer: acme", "<<: {a: b}", "anchors, aliases and merge keys are not read"},
		{"customer: acme", "customer: !!str acme", "tags are not read"},
		{"rates:\n", "rates: []\nx:\n", "rates: a list of rates is expected, not an empty one"},
		{"\ncontract:", "---\na: 1\n---\ncontract:", "a second document begins"},
		{"customer: acme", "customer: [acme", "not YAML"},
	} {
		_, err := contract.Parse("acme.yaml", []byte(edit(t, c.old, c.replacement)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.replacement, err, c.want)
		}
	}
}

func TestDocumentBounds(t *testing.T) {
	for name, c := range map[string][2]string{
		"empty":           {"", "the document is empty"},
		"comment":         {"# nothing\n", "the document is empty"},
		"list":            {"- a\n", "a mapping is expected, not a list"},
		"text":            {"contract", "a mapping is expected, not"},
		"too long":        {full + strings.Repeat("#", contract.MaxBytes), "keep it within 262144"},
		"flow":            {"a: " + strings.Repeat("[", 100), "nested more than 32 deep"},
		"flow to the end": {strings.Repeat("{a: ", 50_000), "nested more than 32 deep"},
		"entries":         {strings.Repeat("- ", 100_000), "nested more than 32 deep"},
		"keys":            {strings.Repeat("? ", 100_000), "nested more than 32 deep"},
		"many keys":       {strings.Repeat("a: b\n", 50_000), "more than 4096 keys and list items"},
		"many items":      {"a:\n" + strings.Repeat("- a\n", 50_000), "more than 4096 keys and list items"},
		"bomb":            {"a: &a [x, x]\nb: &b [*a, *a]\n", "anchors, aliases and merge keys are not read"},
		"alias":           {"a: *b\n", "anchors, aliases and merge keys are not read"},
		"directive":       {"%YAML 1.1\n---\na: 1\n", "directives are not read"},
		"GBK":             {"contract: c1\ncustomer: \xd4\xc6\xba\xd3\n", "acme.yaml:2:11: the text is not UTF-8; save the file in that encoding"},
		"UTF-16":          {"\xff\xfec\x00", "acme.yaml:1:1: the text is not UTF-8"},
		"tabs":            {"contract: c1\nrates:\n\t- sku: a\n", "acme.yaml:3:1: not YAML: a tab stands where a line is indented; indent with spaces"},
		"full width":      {"contract: c1\ncustomer：acme\n", "acme.yaml:2:1: not YAML: non-map value is specified; write the punctuation in half width: `key: value`"},
	} {
		_, err := contract.Parse("acme.yaml", []byte(c[0]))
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %.300v; want %s", name, err, c[1])
		}
	}
}

func TestCurrencyInAPrice(t *testing.T) {
	for _, price := range []string{"$35/gpu-hour", "￥35/gpu-hour", "35元/gpu-hour", "35.00 CNY/gpu-hour"} {
		_, err := contract.Parse("acme.yaml", []byte(edit(t, "35.00/gpu-hour", price)))
		if err == nil || !strings.Contains(err.Error(), "the currency does not belong into a price; write 35.00/gpu-hour") {
			t.Errorf("%s: %v", price, err)
		}
	}
	if _, err := contract.Parse("acme.yaml", []byte(edit(t, "35.00/gpu-hour", "35 00/gpu-hour"))); err == nil || !strings.Contains(err.Error(), "is not a decimal number") {
		t.Errorf("two numbers: %v", err)
	}
}

// Editors of one system put a mark before what they save as UTF-8, and end lines with two characters.
func TestEditorsOfAllSystems(t *testing.T) {
	want, err := contract.Parse("c.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + strings.TrimLeft(full, "\n"),
		"line ends":       strings.ReplaceAll(full, "\n", "\r\n"),
	} {
		got, err := contract.Parse("c.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(got.Source) != text {
			t.Errorf("%s: the source is not what was written", name)
		}
		if changes := contract.Compare(want, got); len(changes) > 0 {
			t.Errorf("%s: reads as %v", name, changes)
		}
	}
	if _, err := contract.Parse("c.yaml", []byte("\ufeffcontrct: c1\n")); err == nil || !strings.Contains(err.Error(), "c.yaml:1:1: unknown field \"contrct\", did you mean contract?") {
		t.Errorf("behind the mark: %v", err)
	}
}

// node is the inline contract of a scenario file.
func node(t *testing.T, scenario string) ast.Node {
	t.Helper()
	file, err := parser.ParseBytes([]byte(scenario), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		t.Fatal(err)
	}
	root := file.Docs[0].Body.(*ast.MappingNode)
	return root.Values[1].Value.(*ast.SequenceNode).Values[0]
}

func TestParseNode(t *testing.T) {
	indented := "  -" + strings.ReplaceAll(strings.TrimRight(strings.Replace(full, "\n", " ", 1), "\n"), "\n", "\n    ") + "\n"
	for name, c := range map[string][2]string{
		"block": {full, "story: s\ncontracts:\n" + indented},
		"flow":  {small, "story: s\ncontracts:\n  - " + small + "\nevents: []\n"},
	} {
		want, err := contract.Parse("c.yaml", []byte(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := contract.ParseNode("scenario.yaml", node(t, c[1]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got, same()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		again, err := contract.Parse("source.yaml", got.Source)
		if err != nil {
			t.Errorf("%s: source does not read back: %v\n%s", name, err, got.Source)
			continue
		}
		if diff := cmp.Diff(got, again, same()); diff != "" {
			t.Errorf("%s: source reads back differently\n%s", name, diff)
		}
	}
	broken := strings.Replace(small, "4.5/gpu-month", "4.5", 1)
	_, err := contract.ParseNode("scenario.yaml", node(t, "story: s\ncontracts:\n  - "+broken+"\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "scenario.yaml:3:") || !strings.Contains(err.Error(), "unit is missing; write 4.5/gpu-hour") {
		t.Errorf("error is %v", err)
	}
}
