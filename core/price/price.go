package price

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
)

// Pricing modes that a lease states.
const (
	OnDemand = "on_demand"
	Spot     = "spot"
)

// milliPerGPU is how many milli make a whole GPU.
const milliPerGPU = 1000

// Condition is what decides a price. Every second of a charge has one condition.
type Condition struct {
	SKU         string
	PricingMode string
	Region      string
	ServiceTier string
	Dedicated   bool
	Conditions
	At span.Second // an instant inside, for the lengths of months and years
}

// Terms are what a condition is priced by.
type Terms struct {
	Contract *contract.Contract
	Book     *contract.Book // the price book that the condition names, or nil
	Tiered   *Tiered        // replaces the on-demand price, or nil
}

// Tiered is a price per GPU-hour that volume tiers give in place of the SKU's own (design page 3b, Volume tiers). A contract
// does not cap list prices that its tiers state.
type Tiered struct {
	PerGPUHour *big.Rat
	Text       string // as the bill shows it
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
	NoSpotPrice     Reason = "no_spot_price"
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
	max     *line // of a spot price, nil without a limit
}

// bookText says what the price book has to do with a price that is missing.
func (t Terms) bookText() string {
	switch {
	case t.Contract.PriceBook == "":
		return ""
	case t.Book == nil:
		return fmt.Sprintf(", and no price book %q is in force", t.Contract.PriceBook)
	case t.Book.Currency != t.Contract.Currency:
		return fmt.Sprintf(", and price book %q lists in %s, not in %s", t.Book.Name, t.Book.Currency, t.Contract.Currency)
	default:
		return fmt.Sprintf(", nor has price book %q", t.Book.Name)
	}
}

// query is one condition, what prices it, and the contract's rate of its SKU.
type query struct {
	Terms
	Condition
	rate contract.Rate
}

// step is one part of the pipeline. It may set the price or multiply it, or refuse.
type step func(q *query, l *line) *Refusal

// steps stand in the order of design page 3b, Order of prices: the price of (SKU, mode), then the factors, which
// multiply exactly.
func steps() []step {
	return []step{
		onDemand, listCap, // (1) the price of (SKU, mode)
		region, serviceTier, dedicated, state, // (2)
		atOnce,                 // volume tiers by GPUs held at once
		covered, spot, spotMax, // (3)
		window, spotMax, finalCap, // (4)
		idle, // (5)
	}
}

// Unit prices one condition.
func Unit(t Terms, cond Condition) (UnitPrice, *Refusal) { return unit(t, cond, steps()) }

// List is the on-demand price of a SKU in a region at an instant, as capacity without a lease has one: steps (1) and (2), without the
// tier and the node of its own that only a lease asks for.
func List(t Terms, sku, in string, at span.Second) (UnitPrice, *Refusal) {
	return unit(t, Condition{SKU: sku, PricingMode: OnDemand, Region: in, At: at}, []step{onDemand, listCap, region})
}

func unit(t Terms, cond Condition, steps []step) (UnitPrice, *Refusal) {
	c := t.Contract
	if !c.Term.Contains(cond.At) {
		return UnitPrice{}, refuse(OutsideTerm, "%s lies outside the term %s of contract %s", cond.At, c.Term, c.ID)
	}
	rate, ok := c.RateFrom(t.Book, cond.SKU)
	if !ok {
		return UnitPrice{}, refuse(NoRate, "contract %s has no rate for SKU %q%s", c.ID, cond.SKU, t.bookText())
	}
	q, l := query{t, cond, rate}, line{}
	for _, apply := range steps {
		if refusal := apply(&q, &l); refusal != nil {
			return UnitPrice{}, refusal
		}
	}
	return UnitPrice{PerMilliGPUSecond: l.price, Steps: l.applied}, nil
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
