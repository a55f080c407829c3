package contract

import (
	"encoding/json"
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
		Enum    []string `json:"enum"`
		Pattern string   `json:"pattern"`
		Items   object   `json:"items"`
	} `json:"properties"`
	AdditionalProperties any      `json:"additionalProperties"`
	Required             []string `json:"required"`
	AnyOf                []object `json:"anyOf"`
}

func (o object) names() []string {
	var names []string
	for name := range o.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func known(known, _ []string) []string { return known }

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
		"contract":    {known(fields(rootFields(), rootClauses())), schema},
		"trial":       {trialFields(), schema.Properties["trial"].object},
		"term":        {termFields(), schema.Properties["term"].object},
		"billing":     {known(fields(billingFields(), billingClauses())), billing},
		"idle":        {idleFields(), schema.Properties["idle_relief"].object},
		"rates":       {known(fields(rateFields(), rateClauses())), rate},
		"spot":        {spotFields(), rate.Properties["spot"].object},
		"reserved":    {reservationFields(), rate.Properties["reserved"].Items},
		"forward":     {forwardFields(), rate.Properties["forward"].Items},
		"packages":    {packageFields(), schema.Properties["packages"].Items},
		"schedule":    {windowFields(), schema.Properties["schedule"].Items},
		"volume":      {volumeFields(), rate.Properties["volume"].object},
		"meters":      {meterFields(), schema.Properties["meters"].Items},
		"bundles":     {bundleFields(), schema.Properties["bundles"].Items},
		"addons":      {addonFields(), schema.Properties["addons"].Items},
		"commitment":  {spendFields(), schema.Properties["commitment"].object},
		"limits":      {limitFields(), schema.Properties["limits"].object},
		"arrears":     {arrearsFields(), schema.Properties["arrears"].Items},
		"termination": {terminationFields(), schema.Properties["termination"].object},
		"states":      {stateNames(), schema.Properties["states"].object},
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
		"cycle": calendar.CycleNames(), "rounding": money.RoundingNames(), "month": MonthRuleNames(), "fee_month": FeeMonthNames(), "bill_by": BillByNames(),
	} {
		if diff := cmp.Diff(want, billing.Properties[name].Enum); diff != "" {
			t.Errorf("%s (-reader +schema)\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(SpotLockNames(), rate.Properties["spot"].Properties["lock"].Enum); diff != "" {
		t.Errorf("spot.lock (-reader +schema)\n%s", diff)
	}
	if diff := cmp.Diff(PackageUnitNames(), schema.Properties["packages"].Items.Properties["unit"].Enum); diff != "" {
		t.Errorf("packages.unit (-reader +schema)\n%s", diff)
	}
	for name, of := range map[string]object{"reserved": rate.Properties["reserved"].Items, "addons": schema.Properties["addons"].Items} {
		if diff := cmp.Diff(PayNames(), of.Properties["pay"].Enum); diff != "" {
			t.Errorf("%s.pay (-reader +schema)\n%s", name, diff)
		}
	}
	meter := schema.Properties["meters"].Items.Properties
	for name, want := range map[string][]string{"model": MeterModelNames(), "aggregate": AggregateNames(), "value": valueNames(), "round": roundNames(), "tiers_by": tiersByNames()} {
		if diff := cmp.Diff(want, meter[name].Enum); diff != "" {
			t.Errorf("%s (-reader +schema)\n%s", name, diff)
		}
	}
	for _, unit := range slices.Concat(UnitNames(), FeeUnitNames()) {
		if !strings.Contains(schemas.Contract(), strings.TrimPrefix(unit, "gpu-")) {
			t.Errorf("the schema does not know %s", unit)
		}
	}
}

// The schema knows the granularities that have a name, and what follows limits and arrears.
func TestSchemaNamesGranularitiesAndActions(t *testing.T) {
	var schema object
	if err := json.Unmarshal([]byte(schemas.Contract()), &schema); err != nil {
		t.Fatal(err)
	}
	for _, name := range GranularityNames() {
		if !strings.Contains(schema.Properties["billing"].Properties["granularity"].Pattern, name) {
			t.Errorf("the schema does not know the granularity %s", name)
		}
	}
	if diff := cmp.Diff(LimitActionNames(), schema.Properties["limits"].Properties["action"].Enum); diff != "" {
		t.Errorf("limits.action (-reader +schema)\n%s", diff)
	}
	if diff := cmp.Diff(ArrearsActionNames(), schema.Properties["arrears"].Items.Properties["do"].Enum); diff != "" {
		t.Errorf("arrears.do (-reader +schema)\n%s", diff)
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
		required := slices.Contains(schema.Required, left) || !slices.ContainsFunc(schema.AnyOf, func(o object) bool {
			return !slices.ContainsFunc(o.Required, func(name string) bool { return name == left || fields[name] == "" })
		})
		if required != (err != nil) {
			t.Errorf("without %s: %v; the schema requires it: %v", left, err, required)
		}
	}
}

// Every clause of the language is either read or refused by name (design page 3).
func TestEveryClauseIsKnown(t *testing.T) {
	clauses := "contract customer currency timezone term trial billing packages rates schedule idle_relief bundles meters addons " +
		"commitment limits states termination arrears sla renewal release_guard utilization_guarantee prepaid tax"
	known, unsupported := fields(rootFields(), rootClauses())
	known = append(known, unsupported...)
	for _, c := range strings.Fields(clauses) {
		if !slices.Contains(known, c) {
			t.Errorf("%s is neither read nor refused by name", c)
		}
	}
}
