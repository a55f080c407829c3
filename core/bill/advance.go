package bill

import (
	"fmt"
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Advance is the statement of closing 0 (design page 3b, Advance fees): the fees of a period that the contract has paid in advance,
// as far as they are known when the period begins. They are lines of the whole statement too, which closing 1 bills.
func Advance(contracts *contract.Register, id string, period span.Span) (*Statement, error) {
	c := &pricing{contracts: contracts, ahead: true}
	return c.bill(id, period, phasesInAdvance())
}

// ExplainAdvance is Advance with what every item stands on kept in its Inputs.
func ExplainAdvance(contracts *contract.Register, id string, period span.Span) (*Statement, error) {
	c := &pricing{contracts: contracts, ahead: true, traced: true}
	return c.bill(id, period, phasesInAdvance())
}

func phasesInAdvance() []func(*pricing) error {
	return []func(*pricing) error{(*pricing).feesInAdvance, (*pricing).round, (*pricing).total}
}

// feesInAdvance charges the fees of reservations and add-ons that are paid in advance: both ask whether the statement is one. Local days
// of a trial count none.
func (c *pricing) feesInAdvance() error {
	c.collect((*pricing).reservationFees)
	for _, name := range c.addonNames() {
		c.addonFee(name)
	}
	return nil
}

// NewAdvance writes a statement of fees in advance down, without a number.
func NewAdvance(s *Statement) *Document {
	d := NewDocument(s, nil, 1)
	d.Kind, d.Closing = KindAdvance, 0
	return d
}

// TakeOff puts what was billed in advance behind the document's lines, with the other sign, so that the whole period is shown, what
// was billed of it before, and the rest as the total. Its error is an invoice that gpuhour did not write.
func (d *Document) TakeOff(advance *Document) error {
	currency, err := money.ParseCurrency(advance.Currency)
	if err != nil {
		return fmt.Errorf("take %s off: %w", advance.Invoice, err)
	}
	total, err := money.ParseRounded(d.Total, currency)
	if err != nil {
		return fmt.Errorf("take %s off: total: %w", advance.Invoice, err)
	}
	for _, l := range advance.Lines {
		taken, amount, err := l.negated(advance.Kind, currency)
		if err != nil {
			return fmt.Errorf("take %s off: %w", advance.Invoice, err)
		}
		taken.Line, taken.Advance = len(d.Lines)+1, advance.Invoice
		d.Lines = append(d.Lines, taken)
		total = total.Add(amount)
	}
	d.Total = total.String()
	bound := new(big.Rat)
	for _, text := range []string{d.RoundingBound, advance.RoundingBound} { // what was billed in advance was rounded too
		part, err := money.ParseDecimal(text)
		if err != nil {
			return fmt.Errorf("take %s off: rounding bound: %w", advance.Invoice, err)
		}
		bound.Add(bound, part)
	}
	d.RoundingBound = money.DecimalText(bound, currency.Digits(), 12)
	return nil
}

// advance is closing 0 of a period that is not closed, and its invoice.
type advance struct {
	period  span.Span
	closing string // its name
	invoice *fact.InvoiceIssued
}

// advanced takes closing 0 of a period; its invoice follows.
func (s *Invoicer) advanced(b *fact.PeriodClosed) {
	a := &advance{span.Span{From: b.PeriodStart, To: b.PeriodEnd}, b.Key(), nil}
	s.advances[b.Contract] = append(s.advances[b.Contract], a)
	s.awaiting = a
}

// advance is closing 0 of a period that is not closed, or nil.
func (s *Invoicer) advance(contractID string, periodStart span.Second) *advance {
	for _, a := range s.advances[contractID] {
		if a.period.From == periodStart {
			return a
		}
	}
	return nil
}

// gone tells whether an amendment took the period out of the term, or lets no period begin where it does.
func (a *advance) gone(periods *contract.Periods) bool {
	now, ok := periods.At(a.period.From)
	return !ok || now.Span.From != a.period.From
}

// gone lists the periods that were billed in advance and are none any more: they are closed, at nothing, when they would have been.
func (s *Invoicer) gone(periods *contract.Periods, c *contract.Contract, at span.Second) []Due {
	var out []Due
	for _, a := range s.advances[c.ID] {
		if when := a.period.To + s.graceOf(c); a.gone(periods) && when <= at {
			out = append(out, Due{c.ID, c.Customer, a.period, when, false})
		}
	}
	return out
}

// dueInAdvance lists the periods that run at an instant, have a fee that is paid in advance, and were not billed yet: a contract that
// is signed or amended late owes it at once. What is over waits for its close.
func (s *Invoicer) dueInAdvance(contracts *contract.Register, c *contract.Contract, at span.Second) []Due {
	periods := contracts.Periods(c.ID)
	p, ok := periods.At(at)
	nothing := through{periods, p.Span.From} // found out once, not at every tick
	if !ok || s.nothingAhead[c.ID] == nothing || !contracts.PaysAhead(c.ID) || s.ClosedPeriod(c.ID, p.Span.From) != (span.Span{}) || s.advance(c.ID, p.Span.From) != nil {
		return nil
	}
	if !owesInAdvance(contracts, c.ID, p.Span) {
		s.nothingAhead[c.ID] = nothing
		return nil
	}
	return []Due{{c.ID, c.Customer, p.Span, p.Span.From, true}}
}

func owesInAdvance(contracts *contract.Register, id string, period span.Span) bool {
	s, err := Advance(contracts, id, period)
	return err == nil && !s.Total.IsZero() // without a version that speaks of the period there is nothing to pay
}

// CheckAdvance finds what blocks a bill in advance, which bills no time: a halted customer.
func (s *Invoicer) CheckAdvance(d Due) *Block {
	if reason, ok := s.halted[d.Customer]; ok {
		return d.block("the customer is halted: %s", reason)
	}
	return nil
}

// Draft is the document of a closing from 1 on, without a number: the close takes off what was billed in advance.
func (s *Invoicer) Draft(now, before *Statement, n int) (*Document, error) {
	d := NewDocument(now, before, n)
	a := s.advance(now.Contract.ID, now.Period.From)
	if n > 1 || a == nil || a.invoice == nil {
		return d, nil
	}
	paid, err := ParseDocument(a.invoice.Document)
	if err != nil {
		return nil, err
	}
	return d, d.TakeOff(paid)
}
