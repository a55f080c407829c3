package sim

import (
	"context"
	"errors"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// failingStore puts faults around tables. A put is several inserts with progress last, so it may end in the middle.
type failingStore struct {
	store.Store
	*faults
	meanwhile func() // what somebody else does while a call is under way, or nil
}

// noService is whose progress covers rows that no progress covers.
const noService = "none"

// do is a call during which somebody else may work.
func (s *failingStore) do(call string, effect func() error, own ...string) error {
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return s.faults.do(call, effect, own...)
}

// Put implements store.Store.
func (s *failingStore) Put(ctx context.Context, p store.Put) error {
	c, shared := s.Store.(*client)
	if len(p.Outcomes) > 0 {
		kind := s.draw("put", crashInside, noAnswer)
		if kind == "" && shared && !s.off && s.dice().IntN(16) == 0 { // what raters have to be fenced for
			kind = pick(s.dice(), crashInside, noAnswer)
		}
		switch kind {
		case crashInside:
			s.begin(ctx, p)
			panic(crashed{"put"})
		case noAnswer:
			s.begin(ctx, p)
			return errInjected
		}
	}
	if !shared {
		return s.do("put", func() error { return s.Store.Put(ctx, p) })
	}
	s.meanwhile()
	run, refused := c.run, c.check() // what is under way then lands, whatever becomes of its sender
	if len(p.Outcomes) == 0 {
		run, refused = 0, nil
	}
	return s.faults.do("put", func() error {
		if refused != nil {
			return refused
		}
		return c.put(ctx, p, run)
	}, lands)
}

// begin puts the rows of some tables and no progress.
func (s *failingStore) begin(ctx context.Context, p store.Put) {
	tables := s.dice().IntN(4)
	part := store.Put{Progress: store.Progress{Service: noService, Block: p.Progress.Block}}
	for _, o := range p.Outcomes {
		rows := meter.Outcome{Block: o.Block, Rows: o.Rows}
		if tables > 0 {
			rows.Ledger = o.Ledger
		}
		if tables > 1 {
			rows.Devices = o.Devices
		}
		if tables > 2 {
			rows.Refusals = o.Refusals
		}
		part.Outcomes = append(part.Outcomes, rows)
	}
	err := s.Store.Put(ctx, part)
	must.True(err == nil || errors.Is(err, store.ErrOtherWriter), "the memory tables refuse a part of what they take whole: %v", err)
}

// Trim implements store.Store.
func (s *failingStore) Trim(ctx context.Context, block uint64) error {
	return s.do("trim", func() error { return s.Store.Trim(ctx, block) })
}

// Progress implements store.Store.
func (s *failingStore) Progress(ctx context.Context, service string) (p store.Progress, err error) {
	err = s.do("progress", func() (err error) { p, err = s.Store.Progress(ctx, service); return err })
	return p, err
}

// Minutes implements store.Store.
func (s *failingStore) Minutes(ctx context.Context, ranges []meter.MinuteRange, block uint64) (rows []usage.Row, err error) {
	err = s.do("minutes", func() (err error) { rows, err = s.Store.Minutes(ctx, ranges, block); return err })
	return rows, err
}

// Standing implements store.Store.
func (s *failingStore) Standing(ctx context.Context, units []meter.UnitHour, block uint64) (
	l map[meter.Entry]meter.Amounts, d map[meter.DeviceEntry]meter.DeviceSeconds, err error,
) {
	err = s.do("standing", func() (err error) { l, d, err = s.Store.Standing(ctx, units, block); return err })
	return l, d, err
}

// LastMinutes implements store.Store.
func (s *failingStore) LastMinutes(ctx context.Context, block uint64) (last map[meter.Unit]span.Minute, err error) {
	err = s.do("last minutes", func() (err error) { last, err = s.Store.LastMinutes(ctx, block); return err })
	return last, err
}

// PeriodTotals implements store.Store.
func (s *failingStore) PeriodTotals(ctx context.Context, contract string, start span.Second, block uint64) (ts []meter.Total, err error) {
	err = s.do("period totals", func() (err error) { ts, err = s.Store.PeriodTotals(ctx, contract, start, block); return err })
	return ts, err
}

// UncontractedTotals implements store.Store.
func (s *failingStore) UncontractedTotals(ctx context.Context, customer string, in span.Span, block uint64) (ts []meter.Total, err error) {
	err = s.do("uncontracted", func() (err error) { ts, err = s.Store.UncontractedTotals(ctx, customer, in, block); return err })
	return ts, err
}

// ChangedPeriods implements store.Store.
func (s *failingStore) ChangedPeriods(ctx context.Context, after, block uint64) (ps []store.Period, err error) {
	err = s.do("changed periods", func() (err error) { ps, err = s.Store.ChangedPeriods(ctx, after, block); return err })
	return ps, err
}

// OpenRefusals implements store.Store.
func (s *failingStore) OpenRefusals(ctx context.Context, block uint64) (rs []meter.Refusal, err error) {
	err = s.do("open refusals", func() (err error) { rs, err = s.Store.OpenRefusals(ctx, block); return err })
	return rs, err
}

// PutInvoice implements store.Store.
func (s *failingStore) PutInvoice(ctx context.Context, row store.Invoice) error {
	return s.do("put invoice", func() error { return s.Store.PutInvoice(ctx, row) })
}
