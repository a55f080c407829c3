package quote

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/span"
)

// resolveSpan finds the span's instants: dates are those of the first contract that is asked for, else of the customer's own.
func (q *Quote) resolveSpan() error {
	own := slices.DeleteFunc(q.known.Latest(), func(v contract.Version) bool { return v.Contract.Customer != q.request.Customer })
	switch {
	case len(own) == 0 && !q.log.customers[q.request.Customer]:
		return q.unknownCustomer()
	case len(q.request.Contracts) > 0:
		q.zone = q.request.Contracts[0].Zone
	case len(own) > 0:
		q.zone = own[len(own)-1].Contract.Zone
	default:
		return fmt.Errorf("customer %s has no contract of its own in the log; name one to price by with --contract", q.request.Customer)
	}
	q.span = span.Span{From: q.request.From.in(q.zone), To: q.request.To.in(q.zone)}
	switch {
	case q.span.Empty():
		return fmt.Errorf("the span ends at %s and begins at %s; --to is the first day after it", q.zone.Text(q.span.To), q.zone.Text(q.span.From))
	case q.span.To > q.log.until:
		return fmt.Errorf("the log reaches to %s, the span to %s; a quote is of past use: name an earlier --to", q.zone.Text(q.log.until), q.zone.Text(q.span.To))
	}
	return nil
}

func (q *Quote) unknownCustomer() error {
	names := map[string]bool{}
	for name := range q.log.customers {
		names[name] = true
	}
	for _, v := range q.known.Latest() {
		names[v.Contract.Customer] = true
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	const most = 8
	known := strings.Join(list[:min(most, len(list))], ", ")
	if len(list) > most {
		known += fmt.Sprintf(" and %d more", len(list)-most)
	}
	if len(list) == 0 {
		known = "none"
	}
	return fmt.Errorf("customer %q has neither contract nor lease in the log; --customer names one of: %s", q.request.Customer, known)
}

// check holds the contracts against the span and each other.
func (q *Quote) check() error {
	var errs []error
	if len(q.request.Contracts)+len(q.own) == 0 {
		return fmt.Errorf("no contract of %s was in force between %s and %s; name one to price by with --contract",
			q.request.Customer, q.zone.Text(q.span.From), q.zone.Text(q.span.To))
	}
	names := map[string]bool{}
	for _, c := range q.request.Contracts {
		if names[c.ID] {
			errs = append(errs, fmt.Errorf("contract %s is asked for twice; give one of the files another `contract:`", c.ID))
		}
		names[c.ID] = true
		if !c.Term.Overlaps(q.span) {
			errs = append(errs, fmt.Errorf("contract %s is in force from %s to %s and prices nothing of %s to %s; to price that time by it, write another `term:` in a copy of the file",
				c.ID, c.BoundText(c.Term.From), c.BoundText(c.Term.To), q.zone.Text(q.span.From), q.zone.Text(q.span.To)))
			continue
		}
		in := q.span.Intersect(c.Term)
		errs = append(errs, q.checkOne(c, c.Period(in.From).Span, c.Period(in.To-1).Span))
	}
	for _, v := range q.own {
		periods := q.periods(v.Contract.ID)
		errs = append(errs, q.checkOne(v.Contract, periods[0], periods[len(periods)-1]))
	}
	return errors.Join(errs...)
}

// periods are those of a contract in the log that reach into the span.
func (q *Quote) periods(id string) (out []span.Span) {
	for p := range q.known.Periods(id).From(q.span.From) {
		if p.From >= q.span.To {
			break
		}
		out = append(out, p)
	}
	return out
}

// checkOne holds a contract's currency, and its first and last period in the span, against the quote.
func (q *Quote) checkOne(c *contract.Contract, first, last span.Span) error {
	if asked := q.first(); c.Currency != asked.Currency {
		return fmt.Errorf("contract %s is in %s, contract %s in %s: nothing here converts currencies; ask for contracts of one currency", c.ID, c.Currency, asked.ID, asked.Currency)
	}
	if first.From >= q.span.From && last.To <= q.span.To {
		return nil
	}
	return fmt.Errorf("the span %s to %s cuts a period of contract %s, which is billed %s (%s); whole periods around it are %s to %s",
		q.zone.Text(q.span.From), q.zone.Text(q.span.To), c.ID, c.Billing.Cycle, c.Zone, c.Zone.Text(first.From), c.Zone.Text(last.To))
}
