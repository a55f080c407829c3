package random_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/contract/random"
)

func chooser(seed uint64) random.Chooser { return rand.New(rand.NewPCG(seed, 0)).IntN }

// A seed draws the same for ever, another seed something else.
func TestDrawsAreRepeatable(t *testing.T) {
	for name, draw := range map[string]func(random.Chooser) string{
		"contract": random.Contract, "book": random.Book, "broken": random.Broken, "broken book": random.BrokenBook,
	} {
		different := map[string]bool{}
		for seed := range uint64(50) {
			one := draw(chooser(seed))
			if again := draw(chooser(seed)); one != again {
				t.Fatalf("%s, seed %d draws twice:\n%s\n%s", name, seed, one, again)
			}
			different[one] = true
		}
		if len(different) < 30 {
			t.Errorf("%s: only %d of 50 documents differ", name, len(different))
		}
	}
}

// Every clause comes up.
func TestEveryClauseIsDrawn(t *testing.T) {
	var all strings.Builder
	for seed := range uint64(300) {
		all.WriteString(random.Contract(chooser(seed)))
	}
	for _, word := range strings.Fields(`price_book: schedule: idle_relief: packages: meters: bundles: addons: commitment: limits: arrears: alert_at: overshoot: round: 6s region: service_tier:
		dedicated: reserved: forward: cap: volume: spot: bill_by: take_or_pay: holidays: add: off: flat: free: aggregate: value: count: prorate: max: lock: bridge:
		termination: refund: clawback: fee: early_end: states: suspended: stopped: gpu: pay: advance cumulative time_weighted always covered final fee_month: 28d once gpu-quarter yearly quarterly weekly hourly tiers_by: level each min:`) {
		if !strings.Contains(all.String(), word) {
			t.Errorf("%s never comes up", word)
		}
	}
}
