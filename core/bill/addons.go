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

// ItemAddon is a fee or a price beside the GPU time.
const ItemAddon ItemKind = "addon"

// addons charges fees and prices on all leased time (design page 3b, Add-ons).
func (c *pricing) addons() error {
	for _, name := range c.addonNames() {
		c.addonFee(name)
		if err := c.addonTime(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *pricing) addonNames() []string {
	return named(c, func(v *contract.Contract) []contract.Addon { return v.Addons }, func(a contract.Addon) string { return a.Name })
}

// addonFee is an add-on's fee: by local days, whole at the price of the last version in the period that has it, or once.
func (c *pricing) addonFee(name string) {
	var last, whole *contract.Fee
	exact, units, steps, inputs := c.byDays("price", c.feeTime(), func(v *contract.Contract) *contract.Fee {
		a, ok := v.Addon(name)
		switch {
		case !ok || a.Fee == nil || a.Fee.Unit == contract.Once || c.ahead && !a.Advance:
			return nil
		case a.Prorate:
			last = a.Fee
			return a.Fee
		default:
			last, whole = a.Fee, a.Fee
			return nil
		}
	})
	if whole != nil {
		exact.Add(exact, whole.Amount)
		units.Add(units, big.NewRat(1, 1))
		steps = append(steps, "price "+whole.Text(c.Contract.Currency))
	}
	if units.Sign() > 0 {
		c.item(LineKey{Item: ItemAddon, Name: name}, Item{Quantity: units, Unit: last.Unit.String(), Steps: steps, Inputs: inputs}, exact)
	}
	c.addonOnce(name)
}

// addonOnce is a fee that is due once: in the period that holds the first instant behind the trial at which the contract states it, or has
// stated it in the trial, at the price stated first. What is agreed for later changes nothing about it, be it another price or that there is no
// such add-on any more.
func (c *pricing) addonOnce(name string) {
	trial := c.contracts.Trial(c.Contract.ID)
	for _, p := range c.contracts.Pieces(c.Contract.ID, span.Span{To: span.Open}) {
		a, ok := p.Contract.Addon(name)
		if !ok || a.Fee == nil || a.Fee.Unit != contract.Once {
			continue
		}
		if due := max(p.Span.From, trial.To); c.Period.Contains(due) && (a.Advance || !c.ahead) {
			one := big.NewRat(1, 1)
			inputs := c.input(nil, Input{Kind: InputOnce, Span: span.Span{From: due, To: due}, Counts: one})
			steps := []string{"price " + a.Fee.Text(c.Contract.Currency)}
			c.item(LineKey{Item: ItemAddon, Name: name}, Item{Quantity: one, Steps: steps, Inputs: inputs}, new(big.Rat).Set(a.Fee.Amount))
		}
		return
	}
}

// addonTime prices an add-on on leased time: of all modes, without window or relief, whatever the time itself costs. Waived time
// and top-ups are not leased time that is priced.
func (c *pricing) addonTime(name string) error {
	exact, milli := new(big.Rat), new(big.Int)
	sums := map[string]*big.Int{} // by price
	var prices []string
	var inputs []Input
	for _, t := range c.totals {
		if t.Key.Standing != meter.Priced || t.Key.Kind != meter.Leased {
			continue
		}
		v, ok := c.contracts.Version(t.Key.Version)
		if !ok {
			return fmt.Errorf("price add-on %s: contract version %d is not known", name, t.Key.Version)
		}
		a, ok := v.Contract.Addon(name)
		if !ok || a.Fee != nil {
			continue
		}
		quantity := big.NewInt(t.Quantity)
		exact.Add(exact, price.OfTime(v.Contract, a.Price, instantOf(v, t.Key), t.Quantity))
		milli.Add(milli, quantity)
		text := a.Price.Text(c.Contract.Currency)
		if sums[text] == nil {
			sums[text] = new(big.Int)
			prices = append(prices, text)
		}
		sums[text].Add(sums[text], quantity)
		inputs = c.addTime(inputs, LineOf(t.Key), t.Quantity)
	}
	if milli.Sign() == 0 {
		return nil
	}
	hours := func(milli *big.Int) *big.Rat { return new(big.Rat).SetFrac(milli, big.NewInt(milliGPUSecondsPerHour)) }
	slices.Sort(prices)
	var steps []string
	for _, p := range prices {
		if len(prices) > 1 {
			steps = append(steps, "part "+number(hours(sums[p]))+" ÷ "+number(hours(milli)))
		}
		steps = append(steps, "price "+p)
	}
	c.item(LineKey{Item: ItemAddon, Name: name}, Item{Quantity: hours(milli), Unit: "gpu-hour", Steps: steps, Inputs: inputs}, exact)
	return nil
}
