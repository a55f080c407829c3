package contract_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
)

// checkVaried: a variation of nothing says the same; a bare one says the same but for what it leaves out.
func checkVaried(t *testing.T, name string, c *contract.Contract) {
	t.Helper()
	same, err := c.Vary(contract.Variation{})
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, c.Source)
	}
	if diff := cmp.Diff(contract.Compare(c, same), []contract.Change(nil)); diff != "" {
		t.Fatalf("%s changes\n%s\n%s", name, diff, c.Source)
	}
	bare, err := c.Vary(contract.Variation{Bare: true, Customer: `o"n\e`})
	if err != nil {
		t.Fatalf("%s, bare: %v\n%s", name, err, c.Source)
	}
	for _, r := range bare.Rates {
		if len(r.Reserved)+len(r.Forward) > 0 {
			t.Fatalf("%s: %s is committed to still", name, r.SKU)
		}
	}
	for _, change := range contract.Compare(c, bare) {
		gone := change.Is == "" && (change.Clause == "reserved" || change.Clause == "forward" || change.Clause == "packages")
		if !gone && change.Field != contract.Order && change.Is != `o"n\e` {
			t.Fatalf("%s, bare: %+v", name, change)
		}
	}
}

func TestVary(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := contract.Parse(name, text); err == nil { // a price book is none
			checkVaried(t, name, c)
		}
	}
	for seed := range seeds() / 4 {
		c, err := contract.Parse("c.yaml", []byte(random.Contract(chooser(seed))))
		if err != nil {
			t.Fatal(err)
		}
		checkVaried(t, "a random contract", c)
	}
}

func TestVaryKeepsOneReservation(t *testing.T) {
	const text = `contract: c
customer: acme
currency: CNY
timezone: Asia/Shanghai
term: {from: 2026-01-01, to: 2027-01-01}
rates:
  - sku: h100
    on_demand: 35.00/gpu-hour
    reserved:
      - {name: base, quantity: 64, price: 15120.00/gpu-month, from: 2026-01-01, to: 2027-01-01, region: cn-east}
      - {name: more, quantity: 8, price: 16000.00/gpu-month, from: 2026-01-01, to: 2027-01-01}
schedule: [{name: night, for: [on_demand], windows: [daily 22:00-06:00], off: 40%}]
`
	c, err := contract.Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	day := func(text string) calendar.Date {
		d, err := calendar.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	keep := contract.Retention{SKU: "h100", Name: "base", Quantity: 7, From: day("2026-05-01"), To: day("2026-06-01")}
	got, err := c.Vary(contract.Variation{ID: "q", Bare: true, Reserved: []contract.Retention{keep}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rates[0].Reserved) != 1 || got.ID != "q" {
		t.Fatalf("%s of %+v", got.ID, got.Rates[0].Reserved)
	}
	r := got.Rates[0].Reserved[0]
	if r.Name != "base" || r.Quantity != 7 || r.Region != "cn-east" || r.Span.String() != "[2026-04-30T16:00:00Z, 2026-05-31T16:00:00Z)" {
		t.Errorf("%+v", r)
	}
	cut, err := c.Vary(contract.Variation{Bare: true, To: second(t, "2026-03-11T07:00:00Z")})
	if err != nil {
		t.Fatal(err)
	}
	if c.Term.From != cut.Term.From || cut.Term.To.String() != "2026-03-11T07:00:00Z" {
		t.Errorf("the term is %v", cut.Term)
	}
	keep.From = day("2025-12-01")
	var errs contract.Errors
	if _, err := c.Vary(contract.Variation{Bare: true, Reserved: []contract.Retention{keep}}); !errors.As(err, &errs) || !strings.Contains(err.Error(), "before the term") {
		t.Errorf("a reservation before the term: %v", err)
	}
}
