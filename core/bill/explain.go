package bill

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// InputKind is what an input is.
type InputKind string

// The closed list of inputs.
const (
	InputReading  InputKind = "reading"  // of a meter, at an instant
	InputLevel    InputKind = "level"    // of a meter that counts levels by time, while it holds: it counts level x its part of the unit's time
	InputDays     InputKind = "days"     // local days that are charged
	InputOnce     InputKind = "once"     // the instant from which on a fee is stated that is due once
	InputPurchase InputKind = "purchase" // of packages; the span is how long they run
	InputCapacity InputKind = "capacity" // of a forward
	InputTaken    InputKind = "taken"    // of that capacity
	InputTime     InputKind = "time"     // GPU time of a line
	InputCharge   InputKind = "charge"   // a line's rounded amount
)

// Input is something that an item's quantity or amount stands on.
type Input struct {
	Kind   InputKind
	Name   string    // the resource of a reading
	Line   LineKey   // of time and charges
	Span   span.Span // From and To are one instant for a reading; zero where the whole period is meant
	State  string    // of a level that bills by the state of a lease: stopped 200%
	Stated *big.Rat  // a reading's own value, else nil
	Counts *big.Rat  // what of it counts, in Unit
	Unit   string    // empty for the contract's currency
	Costs  *big.Rat  // what a reading costs that is priced by itself, else nil
}

// Explain is Compute with what every item stands on kept in its Inputs. Its lines are the same.
func Explain(contracts *contract.Register, id string, period span.Span, totals []meter.Total) (*Statement, error) {
	return priceTotals(contracts, id, period, period.To, totals, true)
}

// input keeps an input where somebody asks for it.
func (c *pricing) input(list []Input, in Input) []Input {
	if !c.traced {
		return nil
	}
	return append(list, in)
}

// inputDays keeps local days.
func (c *pricing) inputDays(list []Input, spans []chargedDays) []Input {
	for _, s := range spans {
		list = c.input(list, Input{Kind: InputDays, Span: s.Span, Counts: big.NewRat(int64(s.days), 1), Unit: "day"})
	}
	return list
}

// addTime keeps GPU time, one input for each line.
func (c *pricing) addTime(list []Input, line LineKey, milliGPUSeconds int64) []Input {
	hours := big.NewRat(milliGPUSeconds, milliGPUSecondsPerHour)
	i := slices.IndexFunc(list, func(in Input) bool { return in.Line == line })
	if i < 0 {
		return c.input(list, Input{Kind: InputTime, Line: line, Counts: hours, Unit: "gpu-hour"})
	}
	list[i].Counts.Add(list[i].Counts, hours)
	return list
}

// countedTime is the time that a SKU's volume tiers count.
func (c *pricing) countedTime(rate contract.Rate) []Input {
	var out []Input
	for i := range c.Lines {
		l := &c.Lines[i]
		counts := onDemand(l.Key) || l.Key.Commitment != "" && rate.Volume.Covered || l.Key.Commitment == "" && !onDemand(l.Key) && rate.Volume.Spot
		if l.Key.Item == "" && l.Key.SKU == rate.SKU && counts {
			out = c.addTime(out, l.Key, l.Quantity)
		}
	}
	return out
}

// Price is the unit price that the statement bills a key at, with every tier and bundle in it. Only a key of a billed line has one.
func (s *Statement) Price(contracts *contract.Register, k meter.ChargeKey) (price.UnitPrice, error) {
	unit, err := unitPrice(contracts, k, nil)
	if err != nil {
		return price.UnitPrice{}, err
	}
	name := rowName(k, unit, scales(contracts, k))
	key := LineOf(k)
	for i := range s.Lines {
		if s.Lines[i].Key != key {
			continue
		}
		for _, r := range s.Lines[i].Rows {
			if r.name == name {
				return r.Price, nil
			}
		}
	}
	return price.UnitPrice{}, fmt.Errorf("the statement has no row for %s", name)
}

// Key names the statement's line that a document's line shows.
func (l *DocumentLine) Key() LineKey {
	return LineKey{
		Item: l.Item, Name: l.Name, SKU: l.SKU, Region: l.Region, ServiceTier: l.ServiceTier, Dedicated: l.Dedicated, PricingMode: l.PricingMode,
		Window: l.Window, Idle: l.Idle, Commitment: l.Commitment,
	}
}

// Line is the billed line of a key, or nil.
func (s *Statement) Line(key LineKey) *Line {
	for i := range s.Lines {
		if s.Lines[i].Key == key {
			return &s.Lines[i]
		}
	}
	return nil
}
