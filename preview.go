package gpuhour

import (
	"context"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/invoicer"
	"github.com/gpuhour/gpuhour/services/rater"
)

// Preview is the bill of a contract's period so far, what was billed of it in advance taken off, and the instant up to which it is
// complete. at lies in the period; 0 is the current one.
func (e *Engine) Preview(ctx context.Context, contractID string, at span.Second) (*bill.Document, span.Second, error) {
	return e.PreviewAhead(ctx, contractID, at, 0)
}

// PreviewAhead is Preview for whoever acts on the contract's spend limit and looks at it again after so long: its limit also says
// what will be spent by then if all that runs goes on. What starts in between is not known.
func (e *Engine) PreviewAhead(ctx context.Context, contractID string, at span.Second, ahead time.Duration) (*bill.Document, span.Second, error) {
	look, err := rater.Look(ctx, e.bus, e.store, contractID, at, 0)
	if err != nil {
		return nil, 0, err
	}
	s, err := bill.ComputeUntil(look.Contracts, contractID, look.Span, look.At, look.Totals)
	if err != nil {
		return nil, 0, err
	}
	d := bill.NewDocument(s, nil, 0)
	if err := e.takeOff(ctx, d, look.Span); err != nil {
		return nil, 0, err
	}
	d.Limit, err = e.limit(ctx, look, s, span.Second(ahead/time.Second))
	return d, look.At, err
}

// takeOff takes off a preview what was billed of its period in advance.
func (e *Engine) takeOff(ctx context.Context, d *bill.Document, period span.Span) error {
	rows, err := e.store.Invoices(ctx)
	if err != nil {
		return err
	}
	paid, err := invoicer.Advanced(rows, d.Contract, period.From)
	if err == nil && paid != nil {
		err = d.TakeOff(paid)
	}
	return err
}

// limit is where the limit of a previewed contract stands, nil for a contract without one.
func (e *Engine) limit(ctx context.Context, look rater.Preview, s *bill.Statement, ahead span.Second) (*bill.DocumentLimit, error) {
	c := s.Contract
	if c.Limit == nil {
		return nil, nil
	}
	spent, err := spentOf(look, c.ID)
	if err != nil || ahead == 0 || !s.Period.Contains(look.At-1) {
		return bill.NewLimit(c, s.Period, spent, nil), err
	}
	end := min(look.At+ahead, c.LimitSpan(s.Period).To)
	next, err := rater.Look(ctx, e.bus, e.store, c.ID, end-1, end)
	if err != nil {
		return nil, err
	}
	for _, p := range append(next.Before, next.Period) {
		bill.SeenAll(p.Totals)
	}
	worst := bill.Ahead{At: next.At}
	worst.Spent, err = spentOf(next, c.ID)
	return bill.NewLimit(c, s.Period, spent, &worst), err
}

// spentOf adds up what counts in the limit's span: the charges of the previewed period and of those before it.
func spentOf(look rater.Preview, contractID string) (money.Rounded, error) {
	var sum money.Rounded
	for i, p := range append(look.Before, look.Period) {
		s, err := bill.ComputeUntil(look.Contracts, contractID, p.Span, look.At, p.Totals)
		if err != nil {
			return sum, err
		}
		if i == 0 {
			sum = s.Charges()
		} else {
			sum = sum.Add(s.Charges())
		}
	}
	return sum, nil
}
