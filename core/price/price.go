package price

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
)

// OnDemand is the only pricing mode of this version.
const OnDemand = "on_demand"

// milliPerGPU is how many milli make a whole GPU.
const milliPerGPU = 1000

// Condition is what decides a price. Every second of a charge has one condition.
type Condition struct {
	SKU         string
	PricingMode string
	Region      string
	ServiceTier string
	Dedicated   bool
	At          span.Second // an instant inside, for the lengths of months and years
}

// Reason says why a condition has no price. The list is closed.
type Reason string

// The reasons of refusals.
const (
	OutsideTerm     Reason = "outside_term"
	UnsupportedMode Reason = "unsupported_mode"
	NoRate          Reason = "no_rate"
	NoRegion        Reason = "no_region"
	NoServiceTier   Reason = "no_service_tier"
)

// Refusal is usage that cannot be priced. It is data: it shows as unbilled and blocks the close until resolved or waived.
type Refusal struct {
	Reason Reason
	Detail string
}

// Applied is one step that took part in a price, as a bill shows it.
type Applied struct {
	Name   string   // on_demand, region, service_tier, dedicated
	Text   string   // "36.00/gpu-hour", "cn-west 88%"
	Factor *big.Rat // what the price was multiplied by; nil for the step that set it
}

// String is "on_demand 36.00/gpu-hour" or "region cn-west 88%".
func (a Applied) String() string { return a.Name + " " + a.Text }

// UnitPrice is the exact price of one milli-GPU-second in the contract's currency, and how it came about.
type UnitPrice struct {
	PerMilliGPUSecond *big.Rat
	Steps             []Applied
}

// String names the price exactly: two conditions with the same String have the same steps and the same price.
func (u UnitPrice) String() string {
	parts := make([]string, len(u.Steps))
	for i, s := range u.Steps {
		parts[i] = s.String()
	}
	return strings.Join(parts, ", ") + " = " + u.PerMilliGPUSecond.RatString() + "/milli-gpu-second"
}

// line is a price in the making.
type line struct {
	price   *big.Rat // per milli-GPU-second, nil until a step sets it
	applied []Applied
}

// step is one part of the pipeline. It may set the price or multiply it, or refuse.
type step func(c *contract.Contract, rate contract.Rate, cond Condition, l *line) *Refusal

// steps stand in the order of design page 3b, Order of prices: the price of (SKU, mode), then the factors, which
// multiply exactly.
func steps() []step { return []step{onDemand, region, serviceTier, dedicated} }

// Unit prices one condition under a contract.
func Unit(c *contract.Contract, cond Condition) (UnitPrice, *Refusal) {
	if !c.Term.Contains(cond.At) {
		return UnitPrice{}, refuse(OutsideTerm, "%s lies outside the term %s of contract %s", cond.At, c.Term, c.ID)
	}
	rate, ok := c.Rate(cond.SKU)
	if !ok {
		return UnitPrice{}, refuse(NoRate, "contract %s has no rate for SKU %q", c.ID, cond.SKU)
	}
	var l line
	for _, apply := range steps() {
		if refusal := apply(c, rate, cond, &l); refusal != nil {
			return UnitPrice{}, refusal
		}
	}
	return UnitPrice{PerMilliGPUSecond: l.price, Steps: l.applied}, nil
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
