package bill

import (
	"fmt"
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// Items of capacity that is paid for whether it is used or not.
const (
	ItemReserved  ItemKind = "reserved"    // fee of a reservation
	ItemPackage   ItemKind = "package"     // fee of packages bought
	ItemTakeOrPay ItemKind = "take_or_pay" // what was not taken of a forward
)

// fees are item lines in the making: each adds up amounts that came about differently, one step "price ..." after the other.
type fees struct {
	keys  []LineKey
	items map[LineKey]*Item
	exact map[LineKey]*big.Rat
}

func (f *fees) add(key LineKey, unit string, quantity, exact *big.Rat, inputs []Input, steps ...string) {
	item := f.items[key]
	if item == nil {
		item = &Item{Quantity: new(big.Rat), Unit: unit}
		f.keys, f.items[key], f.exact[key] = append(f.keys, key), item, new(big.Rat)
	}
	item.Steps = append(item.Steps, steps...)
	item.Inputs = append(item.Inputs, inputs...)
	item.Quantity.Add(item.Quantity, quantity)
	f.exact[key].Add(f.exact[key], exact)
}

// reserved adds what is paid for capacity: fees of reservations and packages, and what was not taken of forwards (page 3b, Order of
// closing (e)).
func (c *pricing) reserved() error {
	c.collect((*pricing).reservationFees, (*pricing).packageFees, (*pricing).untaken)
	return nil
}

// collect makes lines of what the charges add.
func (c *pricing) collect(charges ...func(*pricing, *fees)) {
	f := &fees{items: map[LineKey]*Item{}, exact: map[LineKey]*big.Rat{}}
	for _, charge := range charges {
		charge(c, f)
	}
	for _, key := range f.keys {
		c.item(key, *f.items[key], f.exact[key])
	}
}

// feeDays are local days that one version of a contract charges a reservation for, each by the same part of its price.
type feeDays struct {
	sku      string
	fee      contract.Reservation
	days     int
	unitDays int // of the price's unit
	spans    []chargedDays
}

// feeRun names what days have in common that are charged alike.
type feeRun struct {
	version   uint64
	sku, name string
	unitDays  int
}

// reservationFees charges each reservation by local days: price x local days / days of the unit (page 3b, Advance fees and Units). In months of a fixed
// length a date can count for none or several, and the days are the month's.
//
// A day is charged by the version and the reservation in force in its last second, so the day of an amendment belongs to the new
// version, and a day on which the term begins or ends is whole. It is charged in the period in which its first second of the
// contract lies: where periods are shorter than a day, in the first of them. The day on which a stub ends is not the stub's.
func (c *pricing) reservationFees(f *fees) {
	runs := c.reservedDays(c.feeTime(), func(fee contract.Reservation, _ string) bool { return fee.Advance || !c.ahead })
	for _, r := range runs {
		gpuDays := big.NewRat(r.fee.Quantity*int64(r.days), 1)
		f.add(LineKey{Item: ItemReserved, Name: r.fee.Name, SKU: r.sku}, "gpu-day", gpuDays, r.exact(), c.inputDays(nil, r.spans),
			"price "+r.fee.Price.Text(c.Contract.Currency), fmt.Sprint("quantity ", r.fee.Quantity), fmt.Sprintf("days %d of %d", r.days, r.unitDays))
	}
}

// exact is price x local days / days of the unit.
func (r *feeDays) exact() *big.Rat {
	exact := new(big.Rat).Mul(r.fee.Price.Amount, big.NewRat(r.fee.Quantity*int64(r.days), 1))
	return exact.Quo(exact, big.NewRat(int64(r.unitDays), 1))
}

// reservedDays are the local days of reservations over some time, in runs that are charged alike.
func (c *pricing) reservedDays(over feeTime, charged func(fee contract.Reservation, sku string) bool) []feeDays {
	var runs []feeDays
	places := map[feeRun]int{} // in runs
	for _, day := range c.contracts.Periods(c.Contract.ID).Days(over.Span) {
		pieces := c.feePieces(over, day)
		if len(pieces) == 0 || !over.Contains(pieces[0].Span.From) {
			continue
		}
		rule := pieces[len(pieces)-1]
		last := rule.Span.To - 1
		for _, rate := range rule.Contract.Rates {
			for _, fee := range rate.Reserved {
				if fee.Span.Contains(last) && charged(fee, rate.SKU) {
					days, of := price.ReservedDay(rule.Contract, fee.Price.Unit, last)
					alike := feeRun{rule.Seq, rate.SKU, fee.Name, of}
					i, known := places[alike]
					if !known {
						i = len(runs)
						places[alike], runs = i, append(runs, feeDays{sku: rate.SKU, fee: fee, unitDays: of})
					}
					runs[i].days += days
					runs[i].spans = then(runs[i].spans, chargedDays{span.Span{From: pieces[0].Span.From, To: last + 1}, days})
				}
			}
		}
	}
	return runs
}

// untaken charges what forwards with take_or_pay had to give and nobody took: capacity less what was covered, second by second.
// Covered time counts as taken whether it is billed or not.
func (c *pricing) untaken(f *fees) {
	taken := map[takenOf]int64{}
	for _, t := range c.totals {
		if t.Key.Commitment != "" && t.Key.Kind == meter.Leased {
			taken[takenOf{t.Key.Version, t.Key.SKU, t.Key.Commitment}] += t.Quantity
		}
	}
	for _, piece := range c.contracts.Pieces(c.Contract.ID, span.Span{From: c.Period.From, To: c.until}) {
		for _, rate := range piece.Contract.Rates {
			for _, forward := range rate.Forward {
				capacity := forward.Quantity * fact.WholeShareMilli * forward.Span.Intersect(piece.Span).Seconds()
				rest := capacity - taken[takenOf{piece.Seq, rate.SKU, forward.Name}]
				if !forward.TakeOrPay || rest == 0 {
					continue
				}
				hours := big.NewRat(rest, milliGPUSecondsPerHour)
				during := forward.Span.Intersect(piece.Span)
				inputs := c.input(nil, Input{Kind: InputCapacity, Span: during, Counts: big.NewRat(capacity, milliGPUSecondsPerHour), Unit: "gpu-hour"})
				inputs = c.input(inputs, Input{Kind: InputTaken, Span: during, Counts: big.NewRat(capacity-rest, milliGPUSecondsPerHour), Unit: "gpu-hour"})
				f.add(LineKey{Item: ItemTakeOrPay, Name: forward.Name, SKU: rate.SKU}, "gpu-hour", hours,
					price.OfTime(piece.Contract, forward.Price, piece.Span.From, rest), inputs,
					"price "+forward.Price.Text(c.Contract.Currency), "untaken "+number(hours))
			}
		}
	}
}

// takenOf names a commitment under one version.
type takenOf struct {
	version         uint64
	sku, commitment string
}
