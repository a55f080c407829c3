package bill

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// ItemCap takes off what the charges of a period exceed a cap by.
const ItemCap ItemKind = "cap"

// Charges are what counts as spent (design page 3b, Order of closing (f)): the rounded lines after tiers, bundles and a cap, before a
// commitment's shortfall and what is due for the end of the contract.
func (s *Statement) Charges() money.Rounded {
	sum := money.FromMinor(new(big.Int), s.Contract.Currency)
	for _, l := range s.Lines {
		if l.Key.Item != ItemCommitment && !l.Key.Item.settles() {
			sum = sum.Add(l.Amount)
		}
	}
	return sum
}

// capped bills no more than the cap: the charges of the whole period as known now, so what was billed of it before counts (case B63).
func (c *pricing) capped() error {
	l := c.Contract.Limit
	if l == nil || l.Action != contract.LimitCap {
		return nil
	}
	charges := c.Charges()
	beyond := new(big.Rat).Sub(l.Spend, charges.Amount().Rat())
	if beyond.Sign() >= 0 {
		return nil
	}
	var inputs []Input
	for _, line := range c.Lines {
		inputs = c.input(inputs, Input{Kind: InputCharge, Line: line.Key, Counts: line.Amount.Amount().Rat()})
	}
	c.item(LineKey{Item: ItemCap, Name: string(ItemCap)}, Item{
		Quantity: big.NewRat(1, 1), Unit: l.Unit(), Steps: []string{"cap " + l.Text(c.Contract.Currency), "uncapped " + charges.String()}, Inputs: inputs,
	}, beyond)
	c.Lines[len(c.Lines)-1].Amount = c.rounded(beyond)
	slices.SortFunc(c.Lines, func(a, b Line) int { return a.Key.compare(b.Key) })
	return nil
}

// Ahead is what will be spent of a limit by an instant if all that runs goes on until then.
type Ahead struct {
	At    span.Second
	Spent money.Rounded
}

// SeenAll makes time priced that nobody saw and whose contract bills only what was seen: of the seconds ahead each may be seen, and
// of those past each may still be told.
func SeenAll(totals []meter.Total) {
	for i := range totals {
		if k := &totals[i].Key; k.Standing == meter.Unobserved {
			k.Standing, k.Reason = meter.Priced, ""
		}
	}
}

// DocumentLimit is where a spend limit stands: how much of it is used, and for a stop, what it can come to before anybody looks again.
type DocumentLimit struct {
	Spend     string         `json:"spend"` // as the contract writes it: 800000.00/month
	Action    string         `json:"action"`
	Span      DocumentPeriod `json:"span"`               // of the limit
	Spent     string         `json:"spent"`              // of the billing periods that begin in it, see Statement.Charges
	Used      string         `json:"used"`               // spent of the limit: 87.5%, cut with … when it does not end
	UsedExact string         `json:"used_fraction"`      // the same as a fraction: 7/8
	Reached   []string       `json:"reached"`            // of the thresholds
	Accepted  string         `json:"accepted,omitempty"` // of a stop: what both sides accept beyond the limit
	Ahead     *DocumentAhead `json:"ahead,omitempty"`    // in a preview, where somebody said when the limit is looked at next
}

// DocumentAhead is the worst case at an instant: what is spent by then, and how far beyond the limit that is.
type DocumentAhead struct {
	At        string `json:"at"`
	Spent     string `json:"spent"`
	Overshoot string `json:"overshoot"` // 0.00 within the limit
}

// NewLimit tells where the limit of a contract stands in the span that a billing period counts in, nil for a contract without one and in
// its trial.
// spent is the sum of Charges of the span's periods up to that one, ahead is nil where nobody asks.
func NewLimit(c *contract.Contract, period span.Span, spent money.Rounded, ahead *Ahead) *DocumentLimit {
	l := c.Limit
	if l == nil || c.InTrial(period.From) {
		return nil
	}
	of := c.LimitSpan(period)
	used := new(big.Rat).Quo(spent.Amount().Rat(), l.Spend)
	d := &DocumentLimit{
		Spend: l.Text(c.Currency), Action: l.Action.String(), Span: DocumentPeriod{From: c.Zone.Text(of.From), To: c.Zone.Text(of.To)},
		Spent: spent.String(), Used: money.PercentText(used), UsedExact: used.RatString(), Reached: []string{},
	}
	for _, part := range l.AlertAt {
		if used.Cmp(part) >= 0 {
			d.Reached = append(d.Reached, money.PercentText(part))
		}
	}
	if l.Overshoot != nil {
		d.Accepted = money.DecimalText(l.Overshoot, c.Currency.Digits(), money.MaxDigits)
	}
	if ahead != nil {
		beyond := new(big.Rat).Sub(ahead.Spent.Amount().Rat(), l.Spend)
		if beyond.Sign() < 0 {
			beyond.SetInt64(0)
		}
		d.Ahead = &DocumentAhead{c.Zone.Text(ahead.At), ahead.Spent.String(), money.DecimalText(beyond, c.Currency.Digits(), money.MaxDigits)}
	}
	return d
}

// ownLimit is the limit on the document of a statement: only where its span is the period, so that no other period decides about it.
func (s *Statement) ownLimit() *DocumentLimit {
	if l := s.Contract.Limit; l == nil || l.Per != s.Contract.Billing.Cycle {
		return nil
	}
	return NewLimit(s.Contract, s.Period, s.Charges(), nil)
}
