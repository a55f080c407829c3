package contract

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Limit bounds what is spent in a span of its own: an hour, day, week, month, quarter or year. What counts are the charges of the
// billing periods that begin in it, after tiers and bundles, before a commitment's shortfall, credits and tax (case B63).
type Limit struct {
	Spend     *big.Rat // above 0
	Per       calendar.Cycle
	Action    LimitAction
	AlertAt   []*big.Rat // parts of the spend at which somebody is told, rising; never empty
	Overshoot *big.Rat   // of LimitStop: the most beyond the spend that both sides accept, else nil
}

// LimitAction is what follows when the spend is reached. The zero value is alert.
type LimitAction uint8

// The closed list of actions. gpuhour stops nothing: it tells how far the spend is, and whoever holds the leases acts.
const (
	LimitAlert LimitAction = iota // somebody is told; all is billed
	LimitStop                     // the provider stops what runs; what was used until then is billed
	LimitCap                      // what is beyond is free
)

// LimitActionNames lists the actions as a contract writes them, in the order of the constants.
func LimitActionNames() []string { return []string{"alert", "stop", "cap"} }

func (a LimitAction) String() string { return nameOf(LimitActionNames(), int(a)) }

func limitFields() []string { return []string{"spend", "action", "alert_at", "overshoot"} }

// limitUnits are the spans of limits, in the order of the cycles.
func limitUnits() []string {
	return []string{"hour", "day", "week", "fortnight", "month", "quarter", "year"}
}

func (r *reader) limits(s section, c *Contract) {
	f, ok := r.section(s.values["limits"], join(s.field, "limits"), limitFields(), nil)
	if !ok {
		return
	}
	l := Limit{AlertAt: []*big.Rat{big.NewRat(1, 1)}}
	spend := func(text string) (struct{}, error) {
		var err error
		l.Spend, l.Per, err = parseLimit(text)
		return struct{}{}, err
	}
	_, bounded := need(r, f, "spend", "write 800000.00/month", spend)
	action := func(text string) (int, error) { return parseChoice(text, LimitActionNames()) }
	if v, ok := need(r, f, "action", "write alert", action); ok {
		l.Action = LimitAction(v)
		r.limitOvershoot(f, &l)
	}
	if n, stated := f.values["alert_at"]; stated {
		l.AlertAt = r.thresholds(n, join(f.field, "alert_at"))
	}
	if bounded {
		r.limitFits(f, &l)
	}
	c.Limit = &l
}

// limitOvershoot reads what a stop may come to cost beyond the spend: time goes on until somebody stops it, so none is no promise.
func (r *reader) limitOvershoot(f section, l *Limit) {
	switch n, stated := f.values["overshoot"]; {
	case l.Action == LimitStop:
		l.Overshoot, _ = need(r, f, "overshoot", "write the most beyond the spend that is accepted, such as 500.00", parseMoney)
	case stated:
		r.failf(n, join(f.field, "overshoot"), "remove it", "only the action stop can overshoot; %s stops nothing", l.Action)
	}
}

// limitFits refuses what no bill could keep: a span that is shorter than a billing period, a cap over several periods, and a cap below
// what the customer commits to.
func (r *reader) limitFits(f section, l *Limit) {
	b := r.contract.Billing
	at, field := f.values["spend"], join(f.field, "spend")
	unit := limitUnits()[b.Cycle-calendar.Hourly]
	switch {
	case l.Per < b.Cycle:
		r.failf(at, field, "write it per "+unit, "a %s cycle tells nothing of a single %s", b.Cycle, l.Unit())
	case l.Action == LimitCap && l.Per != b.Cycle:
		r.failf(at, field, fmt.Sprintf("write it per %s, or bill %s", unit, l.Per), "a cap holds for one billing period, and the cycle is %s", b.Cycle)
	case l.Action != LimitCap || r.contract.Currency == "":
	case !minorUnits(l.Spend, r.contract.Currency):
		r.failf(at, field, "round it", "no bill can end at a cap with more digits than %s has", r.contract.Currency)
	case r.contract.Spend != nil:
		if most := r.contract.mostCommitted(); most != nil && most.Cmp(l.Spend) > 0 {
			r.failf(at, field, "raise the cap", "the cap is below the commitment of a period, which can be %s",
				money.DecimalText(most, r.contract.Currency.Digits(), money.MaxExponent))
		}
	}
}

// minorUnits tells whether an amount is whole in minor units of a currency.
func minorUnits(amount *big.Rat, currency money.Currency) bool {
	return money.New(amount, currency).Round(money.Down).Amount().Rat().Cmp(amount) == 0
}

// thresholds reads a list of rising percentages.
func (r *reader) thresholds(n ast.Node, field string) []*big.Rat {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.failf(n, field, "write [50%, 80%, 100%]", "a list is expected, not %s", emptyOr(kind(n), ok))
		return nil
	}
	var out []*big.Rat
	for i, item := range list.Values {
		v, ok := read(r, item, fmt.Sprintf("%s[%d]", field, i), "write 80%", parseFactor)
		switch {
		case !ok:
		case v.Sign() == 0:
			r.failf(item, field, "write more, or leave it out", "0%% is reached before anything is spent")
		case len(out) > 0 && v.Cmp(out[len(out)-1]) <= 0:
			r.failf(item, field, "let them rise", "%s stands after %s", money.PercentText(v), money.PercentText(out[len(out)-1]))
		default:
			out = append(out, v)
		}
	}
	return out
}

// parseLimit reads 800000.00/month.
func parseLimit(text string) (*big.Rat, calendar.Cycle, error) {
	number, unit, _ := strings.Cut(text, "/")
	i := slices.Index(limitUnits(), unit)
	if i < 0 {
		return nil, 0, fmt.Errorf("%.60q names no span; write it per %s, such as 800000.00/month", text, quotedList(limitUnits()))
	}
	amount, err := parseMoney(number)
	if err == nil && amount.Sign() == 0 {
		err = fmt.Errorf("a limit of 0 is reached before anything is spent; write more")
	}
	return amount, calendar.Hourly + calendar.Cycle(i), err
}

// Unit is the limit's span as a contract writes it: month.
func (l *Limit) Unit() string { return limitUnits()[l.Per-calendar.Hourly] }

// Text writes the spend as a contract does: "800000.00/month".
func (l *Limit) Text(currency money.Currency) string {
	return money.DecimalText(l.Spend, currency.Digits(), money.MaxDigits) + "/" + l.Unit()
}

// AlertText is "50%, 80%, 100%".
func (l *Limit) AlertText() string {
	var parts []string
	for _, part := range l.AlertAt {
		parts = append(parts, money.PercentText(part))
	}
	return strings.Join(parts, ", ")
}

// LimitSpan is the span of the limit that a billing period counts in: the one in which the period begins, or the term where an amended
// zone puts its start behind that. Its limit is whole, also where the term cuts the span. The contract must have a limit.
func (c *Contract) LimitSpan(period span.Span) span.Span {
	anchor := 1
	if c.Limit.Per.MaxAnchor() == c.Billing.Cycle.MaxAnchor() {
		anchor = c.Billing.Anchor // months of a bill are those of its limit, and weeks too
	}
	ever := span.Span{From: c.Term.From, To: span.Open} // a period that was taken out of the term counted in one too
	whole := calendar.Whole(c.Limit.Per, anchor, c.Counted(), c.Zone, max(period.From, c.Term.From)).Intersect(ever)
	if within := whole.Intersect(c.Term); !within.Empty() {
		return within
	}
	return whole
}
