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
	Totals    []meter.Total
}

// ErrNothingYet is a preview before the first block was rated.
var ErrNothingYet = errors.New("nothing was rated yet")

// Look previews the period of a contract that holds at, or the current one when at is 0. It writes nothing.
func Look(ctx context.Context, b bus.Bus, s store.Store, contractID string, at span.Second) (Preview, span.Span, error) {
	p, err := s.Progress(ctx, Service)
	if errors.Is(err, store.ErrNotFound) {
		return Preview{}, span.Span{}, ErrNothingYet
	}
	if err != nil {
		return Preview{}, span.Span{}, err
	}
	state, _, err := Restore(ctx, b, s, p)
	if err != nil {
		return Preview{}, span.Span{}, err
	}
	if at == 0 {
		at = p.At - 1
	}
	holds, ok := state.Contracts().Periods(contractID).At(at)
	if _, inForce := state.Contracts().InForce(contractID, at); !ok || !inForce {
		return Preview{}, span.Span{}, notInForce(state.Contracts(), contractID, at)
	}
	period := holds.Span
	totals, err := s.PeriodTotals(ctx, contractID, period.From, p.Block)
	if err != nil {
		return Preview{}, span.Span{}, err
	}
	open, err := openHours(ctx, s, state, p)
	if err != nil {
		return Preview{}, span.Span{}, err
	}
	return Preview{state.Contracts(), p.At, merge(totals, open, contractID, period.From)}, period, nil
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
func openHours(ctx context.Context, s store.Store, state *meter.State, p store.Progress) ([]meter.Difference, error) {
	ask := fact.Fact{Key: "preview", Body: &fact.CutRequested{Cut: "preview", At: p.At}}
	needs := state.Begin(meter.Block{Seq: p.Block + 1, Facts: []fact.Fact{ask}, FactsSeq: p.FactsSeq, At: p.At})
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
