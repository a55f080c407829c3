package bill

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
)

// recovered is an invoice that the log lost and a person stated again, until it is cancelled.
type recovered struct {
	*fact.InvoiceRecovered
	cancelled bool
}

// cancels is the closing of the cancellation of an invoice.
func cancels(invoice string) string { return "cancels/" + invoice }

// Cancellation takes an invoice back: its lines with the other sign. How the amounts came about stands in the invoice. Its
// error is a document that gpuhour did not write.
func (d *Document) Cancellation() (*Document, error) {
	out := *d
	out.Kind, out.Invoice, out.Series, out.Number, out.Cancels = KindCancellation, "", "", 0, d.Invoice
	out.Limit, out.TrialUntil = nil, ""
	out.Lines, out.Unbilled, out.Quantity = make([]DocumentLine, len(d.Lines)), []UnbilledLine{}, d.Quantity.negated()
	currency, err := money.ParseCurrency(d.Currency)
	if err != nil {
		return nil, fmt.Errorf("cancel invoice %s: %w", d.Invoice, err)
	}
	sum := money.FromMinor(new(big.Int), currency)
	for i, l := range d.Lines {
		taken, amount, err := l.negated(d.Kind, currency)
		if err != nil {
			return nil, fmt.Errorf("cancel invoice %s: %w", d.Invoice, err)
		}
		sum = sum.Add(amount)
		out.Lines[i] = taken
	}
	total, err := money.ParseRounded(d.Total, currency)
	if err != nil {
		return nil, fmt.Errorf("cancel invoice %s: total: %w", d.Invoice, err)
	}
	if !sum.Equal(total.Neg()) {
		return nil, fmt.Errorf("cancel invoice %s: its lines sum to %s, its total is %s: gpuhour did not write it", d.Invoice, sum.Neg(), total)
	}
	out.Total = sum.String()
	return &out, nil
}

// negated is a line of a document of the kind with the other sign, and its amount. How the amount came about stands in that document.
func (l DocumentLine) negated(kind string, currency money.Currency) (DocumentLine, money.Rounded, error) {
	amount, err := money.ParseRounded(l.Amount, currency)
	if err != nil {
		return l, amount, fmt.Errorf("line %d: %w", l.Line, err)
	}
	amount = amount.Neg()
	l.Quantity, l.Amount = l.Quantity.negated(), amount.String()
	l.Rows, l.Before, l.Now, l.Count = []DocumentRow{}, "", "", l.Count.negated()
	if l.Count != nil && kind == KindCorrection { // whose exact amount is that of what was known then, not of the difference
		l.Count.Exact, l.Count.ExactFraction = l.Amount, amount.Amount().Rat().RatString()
	}
	return l, amount, nil
}

func (q Quantity) negated() Quantity {
	c := q.Coverage
	return Quantity{-q.MilliGPUSeconds, GPUHours(-q.MilliGPUSeconds), Coverage{-c.Measured, -c.Inferred, -c.Missing, -c.TopUp}}
}

// negated is the count with the other sign. How it came about stands in the invoice.
func (c *ItemCount) negated() *ItemCount {
	if c == nil {
		return nil
	}
	return &ItemCount{Quantity: negatedText(c.Quantity), Unit: c.Unit, Steps: []string{}, Exact: negatedText(c.Exact), ExactFraction: negatedText(c.ExactFraction)}
}

// negatedText is a number as a document writes it, with the other sign.
func negatedText(number string) string {
	if rest, negative := strings.CutPrefix(number, "-"); negative {
		return rest
	}
	if strings.Trim(number, "0.…") == "" {
		return number
	}
	return "-" + number
}

// Cancel is the cancellation that has to be issued next, nil when no recovered invoice is left. It comes before all else that
// is decided, once the incarnation of the invoice has begun: then all that were lost are stated, and no number of theirs is
// free.
func (s *Invoicer) Cancel() (*fact.InvoiceIssued, error) {
	for _, r := range s.recovered {
		if r.cancelled || r.Incarnation > s.incarnation {
			continue
		}
		name := InvoiceName(r.Series, r.Number)
		d, err := ParseDocument(r.Document)
		if err != nil {
			return nil, fmt.Errorf("cancel invoice %s: %w", name, err)
		}
		if d, err = d.Cancellation(); err != nil {
			return nil, err
		}
		d.Cancels = name // whatever the document calls itself: a cancellation that did not find its invoice would be issued for ever
		return s.numbered(d, cancels(name))
	}
	return nil, nil
}

// restated takes a number that was given out before the log was restored.
func (s *Invoicer) restated(b *fact.InvoiceRecovered, seq uint64) {
	s.recovered = append(s.recovered, &recovered{InvoiceRecovered: b})
	s.given(b.Series, b.Number, seq)
}

// issued takes a number that is given out, and what it cancels.
func (s *Invoicer) issued(b *fact.InvoiceIssued, seq uint64) {
	s.given(b.Series, b.Number, seq)
	if a := s.awaiting; a != nil && a.closing == b.Closing {
		a.invoice, s.awaiting = b, nil
	}
	for _, r := range s.recovered {
		if b.Closing == cancels(InvoiceName(r.Series, r.Number)) {
			r.cancelled = true
		}
	}
}

func (s *Invoicer) given(series string, number, seq uint64) {
	if series == s.series {
		s.number, s.numberAt = number, seq
	}
}
