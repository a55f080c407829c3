package contract

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// DefaultGraceSeconds is a provider's grace when it sets none: how long a close waits for late facts after the period.
const DefaultGraceSeconds = 3 * span.SecondsPerHour

// Contract is one checked version of a contract. It is never changed after Parse.
type Contract struct {
	ID          string
	Customer    string
	Currency    money.Currency
	Zone        calendar.Zone // of every local rule below
	Term        span.Span     // To is span.Open for a contract without end
	Trial       span.Span     // the first part of the term, in which nothing is charged for use; empty for none
	Billing     Billing
	PriceBook   string // the list prices for what Rates do not state, or ""
	Rates       []Rate // in the order of the document, one per SKU
	Schedule    *Schedule
	Idle        *IdleRelief
	Packages    []Package
	Meters      []Meter
	Bundles     []Bundle
	Addons      []Addon
	Spend       *Fee         // that the customer commits to
	Limit       *Limit       // of what is spent
	States      *States      // nil: a running lease bills its GPUs, and no other
	Termination *Termination // nil: it is amended, not terminated
	Arrears     Arrears
	Source      []byte // the document: Parse reads it back to this contract, but for a term that a termination cut short
}

// Billing is how usage becomes invoices.
type Billing struct {
	Cycle              calendar.Cycle
	Anchor             int
	GraceSeconds       int64
	GraceKnown         bool  // false: the provider's default holds; a stated 0 is 0 (case B90)
	GranularitySeconds int64 // 1 to 86,400: a start's seconds round up to a multiple
	MinimumSeconds     int64 // per start
	Observed           bool  // only seconds with a sample bill
	Rounding           money.Rounding
	Month              MonthRule // of prices of time
	FeeMonth           FeeMonth  // of fees by local days
}

// Rate is the price of one SKU. A nil factor or map was not stated and counts as 1; a map without the key asked for is
// a refusal, never 1.
type Rate struct {
	SKU         string
	SliceOf     string // the SKU of which it is a slice: a reservation of that one may cover it by share; "" for none
	OnDemand    Price  // Amount is nil when it is not stated: then the price book's holds, or the SKU is sold as spot only
	Region      map[string]*big.Rat
	ServiceTier map[string]*big.Rat
	Dedicated   *big.Rat
	Reserved    []Reservation // in the order of the document
	Forward     []Forward     // in the order of the document
	Spot        *Spot         // nil: not sold as spot
	Cap         *Cap          // nil: no limit
	Volume      *Volume       // tiers by GPU-hours of a period; nil: none
	AtOnce      *Volume       // tiers by GPUs held at once; nil: none, as where there is a Volume
}

// Price is an exact amount of the contract's currency per unit of one whole GPU, or of one slice whatever its share.
type Price struct {
	Amount   *big.Rat
	Unit     Unit
	PerSlice bool
}

// Period is the billing period that holds t, which must lie in the term, as if this version alone held: its Full is what prices per
// month and year divide by. The periods that are billed are those of all versions, see Register.Periods.
func (c *Contract) Period(t span.Second) calendar.Period {
	if !c.Term.Contains(t) {
		must.Never("instant %s lies outside the term %s", t, c.Term)
	}
	full, in := c.whole(t), c.Term
	switch {
	case c.InTrial(t):
		in.To = min(in.To, c.Trial.To)
	case !c.Trial.Empty():
		in.From = c.Trial.To
	}
	return calendar.Period{Span: full.Intersect(in), Full: full}
}

// whole is the whole anchored period around an instant. Fortnights, quarters and years are counted from the term's start, or from the
// end of its trial: the first period that is paid is a whole one.
func (c *Contract) whole(t span.Second) span.Span {
	return calendar.Whole(c.Billing.Cycle, c.Billing.Anchor, c.Counted(), c.Zone, t)
}

// Counted is the instant from which periods are counted that are longer than a week or month.
func (c *Contract) Counted() span.Second {
	if !c.Trial.Empty() {
		return c.Trial.To
	}
	return c.Term.From
}

// InTrial tells whether an instant of the contract lies in its trial.
func (c *Contract) InTrial(t span.Second) bool { return !c.Trial.Empty() && t < c.Trial.To }

// paysAhead tells whether a fee of the contract is paid in advance.
func (c *Contract) paysAhead() bool {
	return slices.ContainsFunc(c.Addons, func(a Addon) bool { return a.Advance }) || slices.ContainsFunc(c.Rates, func(r Rate) bool {
		return slices.ContainsFunc(r.Reserved, func(x Reservation) bool { return x.Advance })
	})
}

// Rate is the rate of a SKU that the contract states, or false.
func (c *Contract) Rate(sku string) (Rate, bool) { return rateOf(c.Rates, sku) }

func rateOf(rates []Rate, sku string) (Rate, bool) {
	for _, r := range rates {
		if r.SKU == sku {
			return r, true
		}
	}
	return Rate{}, false
}

// Unit is the time of one GPU that a price is for. The zero value is no unit.
type Unit uint8

// The closed list of units.
const (
	GPUSecond Unit = iota + 1
	GPUMinute
	GPUHour
	GPUDay
	GPUWeek
	GPUMonth
	GPUYear
	GPUQuarter // of a reservation's fee only
)

// UnitNames lists the units as a price of time writes them, in the order of the constants.
func UnitNames() []string {
	return []string{"gpu-second", "gpu-minute", "gpu-hour", "gpu-day", "gpu-week", "gpu-month", "gpu-year"}
}

// unitNames are those of fees too.
func unitNames() []string { return append(UnitNames(), "gpu-quarter") }

func (u Unit) String() string { return nameOf(unitNames(), int(u)-1) }

// MonthRule is how long the month of a monthly price is. The zero value is the default.
type MonthRule uint8

// The closed list of month rules (design page 3b, Units).
const (
	MonthActual MonthRule = iota // the billing period's seconds if monthly, else the local calendar month's
	Month30d
	Month720h
	Month730h
)

// MonthRuleNames lists the month rules as a contract writes them, in the order of the constants.
func MonthRuleNames() []string { return []string{"actual", "30d", "720h", "730h"} }

func (m MonthRule) String() string { return nameOf(MonthRuleNames(), int(m)) }

// GranularityNames lists the granularities that have a name, from the finest. Others are written as durations.
func GranularityNames() []string { return []string{"second", "minute", "hour"} }

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("unknown %d", i)
	}
	return names[i]
}

func quotedList(names []string) string { return strings.Join(names, ", ") }
