package bill

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// purchases makes lines of what packages cost that were bought in the period.
func (c *pricing) purchases() error {
	c.collect((*pricing).packageFees)
	return nil
}

// packageFees charges the packages that were bought in the period, at the price of the version in force then. One that ended before its
// time has the fee that its early_end leaves: what was billed before of the rest is given back by the statement's correction.
func (c *pricing) packageFees(f *fees) {
	for _, p := range c.contracts.Purchases(c.Contract.ID) {
		if p.Reason != "" || !c.Period.Contains(p.At) {
			continue
		}
		count := big.NewRat(p.Count, 1)
		fee, steps := c.packageFee(&p)
		f.add(LineKey{Item: ItemPackage, Name: p.Sold.Name, SKU: p.Sold.SKU}, "package", count, fee.Mul(fee, count),
			c.input(nil, Input{Kind: InputPurchase, Span: p.Runs, Counts: count, Unit: "package"}), append(steps, fmt.Sprint("packages ", p.Count))...)
	}
}

// packageFee is what one package of a purchase costs, and how it came about.
//
// prorata: the day of the end is not the package's any more (design page 3, Exact meanings: the switch day belongs to the new version), so a
// package that ends on the day on which it was bought costs nothing. clawback: the lower of fee and the time until the end on demand.
func (c *pricing) packageFee(p *contract.Purchase) (fee *big.Rat, steps []string) {
	steps = []string{fmt.Sprintf("price %s/%s", money.DecimalText(p.Sold.Price, c.Contract.Currency.Digits(), money.MaxDigits), p.Sold.Unit)}
	fee = new(big.Rat).Set(p.Sold.Price)
	zone := c.Contract.Zone
	switch p.EarlyEnd() {
	case contract.EarlyEndNone:
	case contract.EarlyEndProrata:
		bought := zone.DateOf(p.At)
		days := calendar.DaysBetween(bought, zone.DateOf(p.Ended.At))
		of := calendar.DaysBetween(bought, zone.DateOf(p.Whole.To))
		fee.Mul(fee, big.NewRat(int64(days), int64(of)))
		steps = append(steps, fmt.Sprintf("days %d of %d", days, of))
	case contract.EarlyEndClawback:
		elapsed, taken := c.onDemand(p.Sold.SKU, p.Sold.Region, p.Runs, p.Sold.Quantity)
		steps = append(steps, taken...)
		if elapsed.Cmp(fee) < 0 {
			fee = elapsed
		} else {
			steps = append(steps, "at_most_the_fee")
		}
	}
	return fee, steps
}

// onDemand is what so many GPUs would have cost on demand for all of a span, in which the SKU has an on-demand price: second by second by
// the version and price book in force, without windows (page 3b, Order of prices (1) and (2)).
func (c *pricing) onDemand(sku, region string, s span.Span, gpus int64) (exact *big.Rat, steps []string) {
	var e elapsed
	for _, l := range c.contracts.Listings(c.Contract.ID, s) {
		e.add(l, l.Span, sku, region, gpus)
	}
	return e.total()
}

// elapsed adds capacity up that is charged on demand, used or not.
type elapsed struct {
	exact      big.Rat
	gpuSeconds big.Int
	made       []string // how the last price came about
	since      big.Int  // GPU-seconds at it
	steps      []string
}

// add takes so many GPUs for a part of a listing.
func (e *elapsed) add(l contract.Listing, in span.Span, sku, region string, gpus int64) {
	for from := in.From; from < in.To; {
		to := sameUnits(l, span.Span{From: from, To: in.To})
		unit, refusal := price.List(price.Terms{Contract: l.Contract, Book: l.Book}, sku, region, from)
		must.True(refusal == nil, "the register takes time of SKU %s for listed, its price says %v", sku, refusal)
		var made []string
		for _, a := range unit.Steps {
			made = append(made, a.String())
		}
		if !slices.Equal(made, e.made) {
			e.told()
			e.made = made
		}
		quantity := big.NewInt(int64(to - from))
		quantity.Mul(quantity, big.NewInt(gpus))
		e.since.Add(&e.since, quantity)
		e.gpuSeconds.Add(&e.gpuSeconds, quantity)
		milli := new(big.Rat).SetInt(new(big.Int).Mul(quantity, big.NewInt(fact.WholeShareMilli)))
		e.exact.Add(&e.exact, milli.Mul(milli, unit.PerMilliGPUSecond))
		from = to
	}
}

// told ends a run of one price.
func (e *elapsed) told() {
	if e.since.Sign() > 0 {
		e.steps = append(append(e.steps, e.made...), "elapsed "+number(hoursOf(&e.since)))
	}
	e.since.SetInt64(0)
}

func (e *elapsed) total() (exact *big.Rat, steps []string) {
	e.told()
	return &e.exact, e.steps
}

func hoursOf(gpuSeconds *big.Int) *big.Rat {
	return new(big.Rat).SetFrac(gpuSeconds, big.NewInt(span.SecondsPerHour))
}

// sameUnits is how far into a part of a listing a month and a year are as long as at its beginning.
func sameUnits(l contract.Listing, in span.Span) span.Second {
	for to := in.From; to < in.To; {
		if !price.SameUnits(l.Contract, in.From, to) {
			return to
		}
		_, to = l.Contract.Zone.Day(to)
	}
	return in.To
}
