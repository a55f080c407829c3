package store

import (
	"errors"
	"fmt"
)

// Check tells what is wrong with a put, or nil. A row that named another block than its outcome, or a block above
// progress, could escape Trim and be counted twice.
func (p *Put) Check() error {
	if p.Progress.Service == "" {
		return errors.New("progress names no service")
	}
	var last uint64
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		if i > 0 && o.Block <= last {
			return fmt.Errorf("block %d comes after block %d", o.Block, last)
		}
		last = o.Block
		for _, r := range o.Rows {
			if r.Block != o.Block {
				return fmt.Errorf("a minute row of block %d stands in the outcome of block %d", r.Block, o.Block)
			}
		}
		for _, d := range o.Ledger {
			if d.Block != o.Block {
				return fmt.Errorf("a ledger row of block %d stands in the outcome of block %d", d.Block, o.Block)
			}
		}
		for _, d := range o.Devices {
			if d.Block != o.Block {
				return fmt.Errorf("a device row of block %d stands in the outcome of block %d", d.Block, o.Block)
			}
		}
		for _, r := range o.Refusals {
			if r.Block != o.Block {
				return fmt.Errorf("a refusal of block %d stands in the outcome of block %d", r.Block, o.Block)
			}
		}
	}
	if last > p.Progress.Block {
		return fmt.Errorf("block %d is above progress %d", last, p.Progress.Block)
	}
	return nil
}

// ErrOtherInvoice says that the series and number are projected already, with another document. An issued invoice is
// never edited, so one of the two was not issued by this log.
var ErrOtherInvoice = errors.New("another document has this number; rebuild the tables from the log, and if it comes back compare the log with its backup")

// ErrOtherWriter says that another process began to put rows, as a second rater does. Both go on from progress, at the cost
// of time.
var ErrOtherWriter = errors.New("another rater works on these tables; one is enough")
