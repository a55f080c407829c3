package replay_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
)

// TestRandomContractsRate: a contract that the language takes rates without a panic and without a refusal that nothing in it asks
// for: whatever the leases ask has a price.
func TestRandomContractsRate(t *testing.T) {
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(min(20*checks, 10_000)) // 2,000, and 10,000 from -rapid.checks=500 on
	invoices := 0
	for seed := range seeds {
		document := random.Contract(rand.New(rand.NewPCG(seed, 0)).IntN)
		c, err := contract.Parse("c.yaml", []byte(document))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, document)
		}
		log := uses(c)
		options := replay.Options{Series: "GH", Grace: 3 * span.SecondsPerHour}
		last := log.Statements[len(log.Statements)-1].Known
		log.Until = c.Period(last).Span.To + span.Second(c.Billing.GraceSeconds) + 4*span.SecondsPerHour
		if c.Billing.GraceSeconds > span.SecondsPerHour || c.Period(last).Span.Seconds() > 32*86400 {
			log.Until = last + 3*span.SecondsPerHour
		}
		result, err := replay.Run(log, options)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, document)
		}
		invoices += len(result.Invoices)
		unknown := func(reason string) bool {
			return reason == contract.NoHolidayCalendar && strings.Contains(document, "holidays:")
		}
		for _, r := range result.Refusals {
			t.Errorf("seed %d: %s is refused: %s, %s\n%s", seed, r.ID, r.Reason, r.Detail, document)
		}
		for _, total := range result.Totals {
			if reason := total.Key.Reason; total.Key.Standing == meter.Refused && !unknown(reason) {
				t.Errorf("seed %d: time of %s is refused: %s\n%s", seed, total.Key.SKU, reason, document)
			}
		}
		for _, b := range result.Blocked {
			if !unknown(contract.NoHolidayCalendar) {
				t.Errorf("seed %d: %s\n%s", seed, b.Reason, document)
			}
		}
		if t.Failed() {
			return
		}
	}
	if invoices < int(seeds)/4 {
		t.Errorf("only %d invoices of %d contracts", invoices, seeds)
	}
}

// uses is a log that uses all of a contract: a lease of each SKU in each of its modes, readings of each meter, each package.
func uses(c *contract.Contract) replay.Log {
	var log replay.Log
	from := c.Term.From + 5
	state := func(at span.Second, key string, body fact.Body) {
		log.Statements = append(log.Statements, replay.Statement{Known: at, Fact: fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body}})
	}
	state(0, "contract", &fact.ContractSigned{Contract: c.ID, Customer: c.Customer, Document: string(c.Source)})
	if c.PriceBook != "" {
		book := "book: " + c.PriceBook + "\ncurrency: " + c.Currency.String() + "\nrates:\n"
		for _, r := range c.Rates {
			book += "  - {sku: " + r.SKU + ", on_demand: 12.34/gpu-hour}\n"
		}
		state(1, "book", &fact.PriceBookPublished{Book: c.PriceBook, Effective: 1, Document: book})
	}
	for _, r := range c.Rates {
		region := ""
		for name := range r.Region {
			region = max(region, name)
		}
		if r.Spot != nil {
			state(2, "tick/"+r.SKU, &fact.SpotPriceChanged{Index: r.Spot.Index, Region: region, At: from - 5, Currency: c.Currency.String(), Price: "1.25/gpu-hour"})
		}
	}
	slices.SortStableFunc(log.Statements, func(a, b replay.Statement) int { return int(a.Known - b.Known) })
	for i, p := range c.Packages {
		state(from, "package/"+strconv.Itoa(i), &fact.PackagePurchased{Contract: c.ID, Package: p.Name, At: from, Count: 2})
	}
	for i := range c.Packages {
		end := &fact.PackageEnded{Contract: c.ID, Purchase: "package/" + strconv.Itoa(i), At: from + 3600, By: fact.ByCustomer}
		state(from, "package/"+strconv.Itoa(i)+"/end", end)
	}
	for i, m := range c.Meters {
		state(from, "reading/"+strconv.Itoa(i), &fact.MeterRecorded{Contract: c.ID, Meter: m.Name, Resource: "r", At: from, Quantity: "1234.5"})
	}
	modes := []string{"on_demand", "spot"}
	for stage := range 2 {
		for i, r := range c.Rates {
			for _, mode := range modes {
				key := "lease/" + strconv.Itoa(i) + "/" + mode
				switch {
				case mode == "spot" && r.Spot == nil, mode == "on_demand" && r.OnDemand.Amount == nil && c.PriceBook == "":
				case stage == 0:
					state(from, key, lease(c, r, mode, key, from))
				default:
					state(from+2*span.SecondsPerHour, key+"/stop", &fact.LeaseStopped{Lease: key, At: from + 2*span.SecondsPerHour, By: fact.ByProvider})
				}
			}
		}
	}
	return log
}

func lease(c *contract.Contract, r contract.Rate, mode, key string, at span.Second) *fact.LeaseStarted {
	out := &fact.LeaseStarted{Lease: key, Customer: c.Customer, Contract: c.ID, SKU: r.SKU, PricingMode: mode, At: at, Count: 8, ShareMilli: 500, Dedicated: r.Dedicated != nil}
	for name := range r.Region {
		out.Region = max(out.Region, name)
	}
	for name := range r.ServiceTier {
		out.ServiceTier = max(out.ServiceTier, name)
	}
	return out
}
