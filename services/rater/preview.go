package rater

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/store"
)

// Preview is what a period holds so far: the ledger plus the open hours, classified on request by the same function.
type Preview struct {
	Contracts *contract.Register
	At        span.Second // complete until
	Period
	Before []Period // those that count in the same span of the contract's limit and begin before; none where it has no limit
}

// Period is a billing period and what it holds.
type Period struct {
	Span   span.Span
	Totals []meter.Total
}

// ErrNothingYet is a preview before the first block was rated.
var ErrNothingYet = errors.New("nothing was rated yet")

// Look previews the period of a contract that holds at, or the current one when at is 0. until is 0, or an instant ahead: then the
// preview is what would be known there if nothing happened any more and all that runs went on. It writes nothing.
func Look(ctx context.Context, b bus.Bus, s store.Store, contractID string, at, until span.Second) (Preview, error) {
	p, err := s.Progress(ctx, Service)
	if errors.Is(err, store.ErrNotFound) {
		return Preview{}, ErrNothingYet
	}
	if err != nil {
		return Preview{}, err
	}
	state, _, err := Restore(ctx, b, s, p)
	if err != nil {
		return Preview{}, err
	}
	if at == 0 {
		at = p.At - 1
	}
	periods := state.Contracts().Periods(contractID)
	holds, ok := periods.At(at)
	v, inForce := state.Contracts().InForce(contractID, at)
	if !ok || !inForce {
		return Preview{}, notInForce(state.Contracts(), contractID, at)
	}
	until = max(until, p.At)
	open, err := openHours(ctx, s, state, p, until)
	if err != nil {
		return Preview{}, err
	}
	out := Preview{Contracts: state.Contracts(), At: until}
	for _, period := range limited(periods, v.Contract, holds.Span) {
		totals, err := s.PeriodTotals(ctx, contractID, period.From, p.Block)
		if err != nil {
			return Preview{}, err
		}
		out.Before = append(out.Before, Period{period, merge(totals, open, contractID, period.From)})
	}
	last := len(out.Before) - 1
	out.Period, out.Before = out.Before[last], out.Before[:last]
	return out, nil
}

// limited lists the billing periods of a limit's span up to and including one of them: only that one where there is no limit.
func limited(periods *contract.Periods, c *contract.Contract, last span.Span) []span.Span {
	if c.Limit == nil {
		return []span.Span{last}
	}
	var out []span.Span
	whole := c.LimitSpan(last)
	for p := range periods.From(whole.From) {
		if p.From >= last.To {
			break
		}
		if p.From >= whole.From { // a week may have begun in the month before
			out = append(out, p)
		}
	}
	return out
}

// notInForce says what is known of a contract that has no bill at an instant.
func notInForce(contracts *contract.Register, id string, at span.Second) error {
	var known []string
	for _, v := range contracts.Latest() {
		if v.Contract.ID == id {
			return fmt.Errorf("contract %q is not in force at %v; its term is %v", id, at, v.Contract.Term)
		}
		known = append(known, v.Contract.ID)
	}
	if len(known) == 0 {
		return fmt.Errorf("contract %q is not in force at %v; no contract is known: state it with `gpuhour publish`", id, at)
	}
	more := ""
	if n := len(known) - shownContracts; n > 0 {
		known, more = known[:shownContracts], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("contract %q is not in force at %v; known are %s%s", id, at, strings.Join(known, ", "), more)
}

// shownContracts is how many contracts an error names.
const shownContracts = 10

// openHours asks the fold for a cut that no one requested, and keeps only its differences.
func openHours(ctx context.Context, s store.Store, state *meter.State, p store.Progress, until span.Second) ([]meter.Difference, error) {
	ask := fact.Fact{Key: "preview", Body: &fact.CutRequested{Cut: "preview", At: until}}
	needs := state.Begin(meter.Block{Seq: p.Block + 1, Facts: []fact.Fact{ask}, FactsSeq: p.FactsSeq, At: until})
	reads, err := Read(ctx, s, needs, p.Block)
	if err != nil {
		return nil, err
	}
	return state.Finish(reads).Ledger, nil
}

func merge(totals []meter.Total, open []meter.Difference, contractID string, periodStart span.Second) []meter.Total {
	type cell struct {
		lease, device string
		key           meter.ChargeKey
	}
	at := map[cell]int{}
	for i, t := range totals {
		at[cell{t.Lease, t.Device, t.Key}] = i
	}
	for _, d := range open {
		if d.Key.Contract != contractID || d.Key.PeriodStart != periodStart {
			continue
		}
		c := cell{d.Lease, d.Device, d.Key}
		i, ok := at[c]
		if !ok {
			i = len(totals)
			at[c] = i
			totals = append(totals, meter.Total{Lease: d.Lease, Device: d.Device, Key: d.Key})
		}
		totals[i].Amounts = totals[i].Plus(d.Amounts)
	}
	return totals
}
