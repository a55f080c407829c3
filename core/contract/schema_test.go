package contract

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/schemas"
)

// object is the part of a JSON Schema that this test looks at.
type object struct {
	Properties map[string]struct {
		object
		Enum  []string `json:"enum"`
		Items object   `json:"items"`
	} `json:"properties"`
	AdditionalProperties any      `json:"additionalProperties"`
	Required             []string `json:"required"`
}

func (o object) names() []string {
	var names []string
	for name := range o.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The schema and the reader name the same fields and the same choices.
func TestSchemaNamesEveryField(t *testing.T) {
	var schema object
	if err := json.Unmarshal([]byte(schemas.Contract()), &schema); err != nil {
		t.Fatal(err)
	}
	billing, rate := schema.Properties["billing"].object, schema.Properties["rates"].Items
	for name, c := range map[string]struct {
		fields []string
		schema object
	}{
		"contract": {rootFields(), schema},
		"term":     {termFields(), schema.Properties["term"].object},
		"billing":  {billingFields(), billing},
		"rates":    {rateFields(), rate},
	} {
		slices.Sort(c.fields)
		if diff := cmp.Diff(c.fields, c.schema.names()); diff != "" {
			t.Errorf("%s (-reader +schema)\n%s", name, diff)
		}
		if c.schema.AdditionalProperties != false {
			t.Errorf("%s: the schema lets unknown fields through", name)
		}
	}
	for name, want := range map[string][]string{
		"cycle": calendar.CycleNames(), "rounding": money.RoundingNames(), "month": MonthRuleNames(), "granularity": GranularityNames(),
	} {
		if diff := cmp.Diff(want, billing.Properties[name].Enum); diff != "" {
			t.Errorf("%s (-reader +schema)\n%s", name, diff)
		}
	}
	for _, unit := range UnitNames() {
		if !strings.Contains(schemas.Contract(), strings.TrimPrefix(unit, "gpu-")) {
			t.Errorf("the schema does not know %s", unit)
		}
	}
}

// A field of a smallest contract is required by the schema exactly when the reader misses it.
func TestSchemaRequiresWhatTheReaderRequires(t *testing.T) {
	var schema object
	if err := json.Unmarshal([]byte(schemas.Contract()), &schema); err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{
		"contract": "c", "customer": "c", "currency": "USD", "timezone": "UTC", "term": "{from: 2026-01-01, to: open}",
		"billing": "{anchor: 2}", "rates": "[{sku: a, on_demand: 1/gpu-hour}]",
	}
	for left := range fields {
		var document strings.Builder
		for name, value := range fields {
			if name != left {
				document.WriteString(name + ": " + value + "\n")
			}
		}
		_, err := Parse("c", []byte(document.String()))
		if required := slices.Contains(schema.Required, left); required != (err != nil) {
			t.Errorf("without %s: %v; the schema requires it: %v", left, err, required)
		}
	}
}

// Every clause of the language is either read or refused by name (design page 3).
func TestEveryClauseIsKnown(t *testing.T) {
	clauses := "contract customer currency timezone term billing packages rates schedule idle_relief bundles meters addons " +
		"commitment limits states termination arrears sla renewal release_guard utilization_guarantee prepaid tax"
	known := slices.Concat(rootFields(), rootUnsupported())
	for _, c := range strings.Fields(clauses) {
		if !slices.Contains(known, c) {
			t.Errorf("%s is neither read nor refused by name", c)
		}
	}
}

// FuzzParse: no document panics or hangs, and an accepted one reads back from its source.
func FuzzParse(f *testing.F) {
	f.Add([]byte("{contract: c1, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: open}, rates: [{sku: a, on_demand: 1/gpu-hour}]}"))
	f.Add([]byte("contract: c1\ncustomer: a\ncurrency: JPY\ntimezone: Asia/Tokyo\nterm:\n  from: 2026-01-01\n  to: 2027-01-01\nbilling:\n  anchor: 31\n" +
		"  minimum: 1h30m\nrates:\n  - sku: a\n    on_demand: 0.5e3/gpu-month\n    region: {x: 88%}\n    dedicated: 125%\n"))
	f.Add([]byte("a: &a [*a, *a]\n? b\n: |\n  c\n%YAML\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if err != nil {
			var errs Errors
			if !errors.As(err, &errs) || len(errs) == 0 || errs[0].Line < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		if c.Currency.Digits() < 0 || c.Term.Empty() || len(c.Rates) == 0 || c.Period(c.Term.From).Span.From != c.Term.From {
			t.Fatalf("accepted %+v", c)
		}
		for _, r := range c.Rates {
			if r.SKU == "" || r.OnDemand.Amount.Sign() < 0 || r.OnDemand.Unit == 0 {
				t.Fatalf("accepted rate %+v", r)
			}
		}
	})
}
