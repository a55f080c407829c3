package contract_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

func parseSpot(rate string) (*contract.Contract, error) {
	return contract.Parse("acme.yaml", fmt.Appendf(nil,
		"{contract: c1, customer: acme, currency: CNY, timezone: Asia/Shanghai, term: {from: 2026-01-01, to: open}, rates: [{sku: a100, %s}]}", rate))
}

func TestSpotTerms(t *testing.T) {
	for text, want := range map[string]contract.Spot{
		"on_demand: 35/gpu-hour, spot: {index: a100}": {Index: "a100"},
		"spot: {index: a100, lock: hour}":             {Index: "a100", Lock: contract.LockHour},
		"on_demand: 35/gpu-hour, spot: {index: a100, max: 70% of on_demand, lock: start, reclaimed_free_within: 1h}": {
			Index: "a100", Max: big.NewRat(7, 10), Lock: contract.LockStart, ReclaimedFreeSeconds: 3600,
		},
	} {
		c, err := parseSpot(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		rate, _ := c.Rate("a100")
		if diff := cmp.Diff(&want, rate.Spot, cmp.Comparer(func(a, b *big.Rat) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 })); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
		if stated := rate.OnDemand.Amount != nil; stated != strings.Contains(text, "gpu-hour") {
			t.Errorf("%s: on_demand is stated: %t", text, stated)
		}
	}
}

func TestSpotTermsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"region: {x: 100%}": "`on_demand:` is missing; write 35.00/gpu-hour",
		"spot: a100":        "rates[0].spot: a mapping is expected",
		"spot: {}":          "rates[0].spot: `index:` is missing",
		"spot: {index: a100, max: 70% of on_demand}":                           "there is no on-demand price to take a part of; state `on_demand:` beside `spot:`, or remove it",
		"on_demand: 1/gpu-hour, spot: {index: a100, max: 70%}":                 "write 70% of on_demand",
		"on_demand: 1/gpu-hour, spot: {index: a, max: -7% of on_demand}":       "is negative",
		"on_demand: 1/gpu-hour, spot: {index: a, lock: day}":                   "write one of none, start, hour",
		"on_demand: 1/gpu-hour, spot: {index: a, free: 1h}":                    `unknown field "free"`,
		"on_demand: 1/gpu-hour, spot: {index: a, reclaimed_free_within: 3600}": "write 3600s",
	} {
		if _, err := parseSpot(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", text, err, want)
		}
	}
}

// The instant whose tick holds at a second of a lease that began at 08:00:30.
func TestSpotLocks(t *testing.T) {
	start, second := span.Second(8*3600+30), span.Second(10*3600+29)
	for lock, want := range map[contract.SpotLock]span.Second{
		contract.LockNone: second, contract.LockStart: start, contract.LockHour: 9*3600 + 30,
	} {
		s := contract.Spot{Lock: lock}
		if got := s.At(start, second); got != want {
			t.Errorf("lock %s: the tick of %s, want %s", lock, got, want)
		}
		if got := s.At(start, start); got != start {
			t.Errorf("lock %s: the first second takes the tick of %s", lock, got)
		}
	}
}

func TestSpotPriceIsReadAtTheEdge(t *testing.T) {
	for _, c := range []struct{ currency, price, want string }{
		{"USD", "1.067100/gpu-hour", ""},
		{"USD", "0/gpu-hour", ""},
		{"USD", "1.0671", "unit is missing"},
		{"USD", "-1/gpu-hour", "is negative"},
		{"USD", "1E1000000000/gpu-hour", "exponent outside"},
		{"dollar", "1/gpu-hour", "unknown currency"},
	} {
		price, currency, err := contract.SpotPrice(&fact.SpotPriceChanged{Index: "a", Currency: c.currency, Price: c.price})
		if c.want == "" {
			if err != nil || price.Amount == nil || currency != "USD" {
				t.Errorf("%s %s: %v %v, %v", c.price, c.currency, price, currency, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: error %v; want %q", c.price, c.currency, err, c.want)
		}
	}
}
