package store

import (
	"context"
	"errors"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Progress says up to which block a service's rows are whole. It is written last in each put.
type Progress struct {
	Service    string // rater, alerter ...
	Block      uint64
	FactsSeq   uint64
	At         span.Second
	UsageFloor uint64    // replay usage after this position to rebuild what was open at Block
	Tick       fact.Hash // digest of the tick message at Block: a log that was rewound or replaced is noticed
	Ledger     fact.Hash // running digest of all rows put
}

// Put is the rows of one or more consecutive blocks of one service, with the progress that covers them.
type Put struct {
	Outcomes []meter.Outcome
	Progress Progress
}

// Store is the port of the services to the tables. Every method returns within ctx; an error leaves the caller to
// start again from Progress.
type Store interface {
	// Put appends the rows, then the progress. A repeated put of the same blocks writes the same rows again and
	// must not count twice: Trim at boot removes what lies above progress.
	Put(ctx context.Context, p Put) error
	// Progress is the last one written by the service, or ErrNotFound.
	Progress(ctx context.Context, service string) (Progress, error)
	// Trim deletes the rater's rows with a block above the given one.
	Trim(ctx context.Context, block uint64) error

	// Minutes returns stored minute rows for the ranges, put at or before block.
	Minutes(ctx context.Context, ranges []meter.MinuteRange, block uint64) ([]usage.Row, error)
	// Standing sums the ledger and device entries of the given unit hours, up to and including block. A device is
	// found by its name alone, whatever node it was on. Entries whose sum is zero may be left out.
	Standing(ctx context.Context, units []meter.UnitHour, block uint64) (map[meter.Entry]meter.Amounts, map[meter.DeviceEntry]meter.DeviceSeconds, error)
	// LastMinutes is the latest minute stored per (node, device), and per node under the device "".
	LastMinutes(ctx context.Context, block uint64) (map[meter.Unit]span.Minute, error)

	// PeriodTotals sums the ledger of one contract's period over all hours up to and including block, one row per
	// (lease, device, key), zero sums left out, in a fixed order.
	PeriodTotals(ctx context.Context, contract string, periodStart span.Second, block uint64) ([]meter.Total, error)
	// UncontractedTotals sums refused time that found no contract, of one customer, in hours that overlap within:
	// an hour on a period's edge blocks both neighbours rather than none.
	UncontractedTotals(ctx context.Context, customer string, within span.Span, block uint64) ([]meter.Total, error)
	// ChangedPeriods lists the (contract, period start) whose ledger has differences in blocks (after, block].
	ChangedPeriods(ctx context.Context, after, block uint64) ([]Period, error)
	// OpenRefusals lists refusals whose deltas sum to more than zero at block, in a fixed order.
	OpenRefusals(ctx context.Context, block uint64) ([]meter.Refusal, error)
	// DeviceTotals sums device hours in the span, up to block.
	DeviceTotals(ctx context.Context, within span.Span, block uint64) ([]DeviceTotal, error)
	// SeenSeconds counts distinct seen (device, second) pairs in stored minute rows up to block: the left side of
	// the identity "accepted sample-seconds = under lease + unleased".
	SeenSeconds(ctx context.Context, within span.Span, block uint64) (int64, error)

	// PutInvoice projects an issued invoice for SQL users; repeats are harmless.
	PutInvoice(ctx context.Context, row Invoice) error
	Invoices(ctx context.Context) ([]Invoice, error)

	Close() error
}

// Period names a billing period of a contract.
type Period struct {
	Contract    string
	PeriodStart span.Second
}

// DeviceTotal is a device's sum over a span.
type DeviceTotal struct {
	Node, Device string
	meter.DeviceSeconds
}

// Invoice is the projection of an issued invoice. Document holds the frozen bytes.
type Invoice struct {
	Series     string
	Number     uint64
	Customer   string
	Contract   string
	Closing    string
	Currency   string
	TotalMinor string // integer minor units as text: no width limit
	PeriodFrom span.Second
	PeriodTo   span.Second
	Document   []byte
	Lines      []InvoiceLine
}

// InvoiceLine is one line for SQL users.
type InvoiceLine struct {
	Line            int
	Description     string
	SKU             string
	PricingMode     string
	Region          string
	MilliGPUSeconds int64
	AmountMinor     string
}

// ErrNotFound is returned by Progress of a service that never put.
var ErrNotFound = errors.New("not found in the store")
