package gpuhour

import (
	"context"

	"github.com/gpuhour/gpuhour/core/span"
)

// Advance moves a scripted clock: it publishes the tick and lets every service work until all rest, publishing further
// ticks for the facts they decide. Time then stands at at, and what was due is closed or blocked with its reason.
func (e *Engine) Advance(ctx context.Context, at span.Second) error {
	for {
		if _, err := e.writer.Tick(ctx, at); err != nil {
			return err
		}
		for worked := true; worked; {
			worked = false
			for _, step := range []func(context.Context) (bool, error){e.rater.Step, e.invoice.Step, e.alert.Step} {
				did, err := step(ctx)
				if err != nil {
					return err
				}
				worked = worked || did
			}
		}
		moved, err := e.writer.Tick(ctx, at)
		if err != nil || !moved {
			return err
		}
	}
}

// NextDue is when the next billing period falls due after an instant; span.Open when none does. A scripted clock stops
// there, so that a close knows what was known then and no more.
func (e *Engine) NextDue(after span.Second) span.Second { return e.invoice.NextDue(after) }
