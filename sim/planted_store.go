package sim

import (
	"context"
	"slices"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// buggyStore is the tables as a service with a mistake would use them.
type buggyStore struct {
	store.Store
	bug Bug
	*memory
}

// memory is what all services with a mistake know of the puts so far.
type memory struct {
	puts  []uint64 // their blocks
	first map[store.Period]uint64
	at    span.Second
}

// Put implements store.Store.
func (s *buggyStore) Put(ctx context.Context, p store.Put) error {
	if s.bug == ProgressFirst {
		if err := s.Store.Put(ctx, store.Put{Progress: p.Progress}); err != nil {
			return err
		}
	}
	if s.bug == CutWithoutFlush {
		p.Outcomes = each(p.Outcomes, func(o *meter.Outcome) {
			if len(o.Cuts) > 0 {
				open := o.Cuts[0].At - meter.HourDelaySeconds
				o.Ledger = slices.DeleteFunc(slices.Clone(o.Ledger), func(d meter.Difference) bool { return d.Hour.End() > open })
			}
		})
	}
	if s.bug == LateDropped {
		floor := s.at - 2*span.SecondsPerHour // older than two hours at the last put
		p.Outcomes = each(p.Outcomes, func(o *meter.Outcome) {
			o.Rows = slices.DeleteFunc(slices.Clone(o.Rows), func(r usage.Row) bool { return r.Minute.End() < floor })
		})
	}
	err := s.Store.Put(ctx, p)
	if s.bug == PutAgain && unanswered(err) {
		err = s.Store.Put(ctx, p)
	}
	if len(p.Outcomes) > 0 {
		s.puts, s.at = append(s.puts, p.Progress.Block), p.Progress.At
	}
	return err
}

// each changes copies of outcomes.
func each(list []meter.Outcome, change func(*meter.Outcome)) []meter.Outcome {
	out := slices.Clone(list)
	for i := range out {
		change(&out[i])
	}
	return out
}

// Trim implements store.Store.
func (s *buggyStore) Trim(ctx context.Context, block uint64) error {
	switch {
	case s.bug == TrimForgotten:
		return nil
	case s.bug == TrimOffByOne && block > 0:
		block--
	}
	return s.Store.Trim(ctx, block)
}

// Progress implements store.Store.
func (s *buggyStore) Progress(ctx context.Context, service string) (store.Progress, error) {
	p, err := s.Store.Progress(ctx, service)
	if s.bug == FloorForgotten && err == nil {
		p.UsageFloor = p.Block
	}
	return p, err
}

// Minutes implements store.Store.
func (s *buggyStore) Minutes(ctx context.Context, ranges []meter.MinuteRange, block uint64) ([]usage.Row, error) {
	if s.bug == InferredLost {
		ranges = slices.Clone(ranges)
		for i := range ranges {
			if ranges[i].To-ranges[i].From > 60 { // an hour with a minute on both sides
				ranges[i].From, ranges[i].To = ranges[i].From+1, ranges[i].To-1
			}
		}
	}
	rows, err := s.Store.Minutes(ctx, ranges, block)
	if s.bug == ErrorAsEmpty && unanswered(err) {
		return nil, nil
	}
	return rows, err
}

// Standing implements store.Store.
func (s *buggyStore) Standing(ctx context.Context, units []meter.UnitHour, block uint64) (
	map[meter.Entry]meter.Amounts, map[meter.DeviceEntry]meter.DeviceSeconds, error,
) {
	if n := len(s.puts); s.bug == StaleBase && n > 1 && s.puts[n-1] == block {
		block = s.puts[n-2]
	}
	l, d, err := s.Store.Standing(ctx, units, block)
	if s.bug == ErrorAsEmpty && unanswered(err) {
		return nil, nil, nil
	}
	return l, d, err
}

// PeriodTotals implements store.Store.
func (s *buggyStore) PeriodTotals(ctx context.Context, contract string, start span.Second, block uint64) ([]meter.Total, error) {
	p := store.Period{Contract: contract, PeriodStart: start}
	if s.bug == ReadBeyondBlock {
		block = every
	}
	if s.bug == CorrectedTwice { // what was billed is always what the first close billed
		if s.first[p] == 0 {
			s.first[p] = block
		}
		if len(s.puts) > 0 && block < slices.Max(s.puts) {
			block = s.first[p]
		}
	}
	return s.Store.PeriodTotals(ctx, contract, start, block)
}
