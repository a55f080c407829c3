package bill

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Items of a contract that one side ended before its term was over.
const (
	ItemClawback    ItemKind = "clawback"    // what the time of a reservation would have cost on demand beyond its fees
	ItemTermination ItemKind = "termination" // a part of what was still to come
)

// settles tells whether an item is due for the end of a contract and for no use of it: it counts as no spend.
func (k ItemKind) settles() bool { return k == ItemClawback || k == ItemTermination }

// feeTime is the time over whose local days fees are charged, and the part of it that lies behind the term's end.
type feeTime struct {
	span.Span
	rest contract.Piece // empty without a termination that gives nothing back
}

// feeTime is the period; where a termination gives nothing back, as it would have run.
func (c *pricing) feeTime() feeTime {
	over := feeTime{Span: c.Period}
	t := c.ends()
	if t == nil || t.Clause().Refund != contract.RefundNone || t.Rest().Empty() {
		return over
	}
	v, _ := c.contracts.Last(c.Contract.ID)
	over.rest = contract.Piece{Version: contract.Version{Seq: v.Seq, From: v.From, Contract: t.Agreed}, Span: t.Rest()}
	over.To = max(over.To, over.rest.Span.To)
	return over
}

// ends is the termination that ends the term in this period, or nil.
func (c *pricing) ends() *contract.Terminated {
	if t := c.contracts.Terminated(c.Contract.ID); t != nil && c.Period.Contains(t.At-1) {
		return t
	}
	return nil
}

// feePieces are the versions that charge fees in a part of some time.
func (c *pricing) feePieces(over feeTime, in span.Span) []contract.Piece {
	pieces := c.contracts.Pieces(c.Contract.ID, in)
	if rest := over.rest.Span.Intersect(in); !rest.Empty() {
		pieces = append(pieces, contract.Piece{Version: over.rest.Version, Span: rest})
	}
	return pieces
}

// settle charges a customer who left, on the bill of the period that the end cuts: what was given for a long time is taken back, and a
// part of what was still to come is due.
func (c *pricing) settle() error {
	t := c.ends()
	if t == nil || !t.Charged() {
		return nil
	}
	c.takeBack(t)
	c.terminationFee(t)
	for i := range c.Lines {
		if l := &c.Lines[i]; l.Key.Item.settles() {
			l.Amount = c.rounded(l.Exact)
		}
	}
	slices.SortFunc(c.Lines, func(a, b Line) int { return a.Key.compare(b.Key) })
	return nil
}

// takeBack makes a line of each reservation that is cut and was cheaper than its time on demand: elapsed capacity at the on-demand price
// less the fees of that time. It stands on contracts and price books alone.
func (c *pricing) takeBack(t *contract.Terminated) {
	type of struct{ sku, name string }
	var order []of
	sums, since, inputs := map[of]*elapsed{}, map[of]span.Second{}, map[of][]Input{}
	for _, l := range c.contracts.Listings(c.Contract.ID, span.Span{From: 0, To: t.At}) {
		for _, x := range t.TakenBack(l) {
			k := of{x.SKU, x.Name}
			if sums[k] == nil {
				sums[k], since[k] = &elapsed{}, x.Since
				order = append(order, k)
			}
			sums[k].add(l, x.In, x.SKU, x.Region, x.Quantity)
			hours := big.NewRat(x.Quantity*x.In.Seconds(), span.SecondsPerHour)
			inputs[k] = c.input(inputs[k], Input{Kind: InputCapacity, Span: x.In, Counts: hours, Unit: "gpu-hour"})
		}
	}
	for _, k := range order {
		fees := new(big.Rat)
		for _, r := range c.reservedDays(c.wholeDays(span.Span{From: since[k], To: t.At}), func(fee contract.Reservation, sku string) bool {
			return of{sku, fee.Name} == k
		}) {
			fees.Add(fees, r.exact())
			inputs[k] = c.inputDays(inputs[k], r.spans)
		}
		exact, steps := sums[k].total()
		more := new(big.Rat).Sub(exact, fees)
		if more.Sign() <= 0 {
			continue
		}
		c.item(LineKey{Item: ItemClawback, Name: k.name, SKU: k.sku}, Item{
			Quantity: hoursOf(&sums[k].gpuSeconds), Unit: "gpu-hour", Steps: append(steps, "fees_until_then "+c.exactly(fees)), Inputs: inputs[k],
		}, more)
	}
}

// wholeDays is some time with all of the local day on which it begins.
func (c *pricing) wholeDays(time span.Span) feeTime {
	if days := c.contracts.Periods(c.Contract.ID).Days(time); len(days) > 0 {
		time.From = min(time.From, days[0].From)
	}
	return feeTime{Span: time}
}

// terminationFee is a part of the fees and the spend that were still to come within the term as it was agreed, from the first day that is
// not charged already.
func (c *pricing) terminationFee(t *contract.Terminated) {
	part := t.Clause().Fee
	if part == nil || part.Sign() == 0 {
		return
	}
	zone, agreed := c.Contract.Zone, t.Agreed
	left := feeTime{Span: span.Span{From: zone.StartOfDay(zone.DateOf(t.At - 1).AddDays(1)), To: lastDue(agreed)}}
	left.rest = contract.Piece{Version: contract.Version{Contract: agreed}, Span: left.Span}
	spends := left
	if t.Clause().Refund == contract.RefundNone && t.Rest().To > left.From {
		left.From = zone.StartOfDay(zone.DateOf(t.Rest().To - 1).AddDays(1))
		left.rest.Span = left.Span
	}
	fees := new(big.Rat)
	var inputs []Input
	if left.From < left.To {
		for _, r := range c.reservedDays(left, func(contract.Reservation, string) bool { return true }) {
			fees.Add(fees, r.exact())
			inputs = c.inputDays(inputs, r.spans)
		}
	}
	steps := []string{"fees_to_come " + c.exactly(fees)}
	if agreed.Spend != nil {
		spend, _, _, days := c.byDays("spend", spends, func(v *contract.Contract) *contract.Fee { return v.Spend })
		steps, inputs = append(steps, "spend_to_come "+c.exactly(spend)), append(inputs, days...)
		fees.Add(fees, spend)
	}
	slices.SortStableFunc(inputs, func(a, b Input) int { return cmp.Compare(a.Span.From, b.Span.From) }) // months of one length stand together
	if exact := new(big.Rat).Mul(fees, part); exact.Sign() > 0 {
		c.item(LineKey{Item: ItemTermination, Name: string(ItemTermination)}, Item{
			Quantity: fees, Steps: append(steps, "share "+money.PercentText(part)), Inputs: inputs,
		}, exact)
	}
}

// lastDue is when the last commitment of a contract ends that has an end.
func lastDue(c *contract.Contract) span.Second {
	if c.Term.To != span.Open {
		return c.Term.To
	}
	var last span.Second
	for _, rate := range c.Rates {
		for _, x := range rate.Reserved {
			last = max(last, x.Span.To)
		}
	}
	return last
}

// exactly writes a sum that is on its way into a line.
func (c *pricing) exactly(v *big.Rat) string {
	return money.DecimalText(v, c.Contract.Currency.Digits(), 12)
}
