package gpuhour

import (
	"context"

	"github.com/gpuhour/gpuhour/core/span"
)

// Tick publishes the time of a scripted clock, after everything that was published before it. Nothing is worked on.
func (e *Engine) Tick(ctx context.Context, at span.Second) error {
	_, err := e.writer.Tick(ctx, at)
	return err
}

// Pump lets every service work on the ticks published so far until all rest. Like Tick and Advance it is for a process
// that does not Serve.
func (e *Engine) Pump(ctx context.Context) error {
	_, err := e.pump(ctx)
	return err
}

// pump tells whether any service did anything.
func (e *Engine) pump(ctx context.Context) (worked bool, err error) {
	for again := true; again; {
		again = false
		for _, step := range []func(context.Context) (bool, error){e.stepRater, e.stepInvoicer, e.stepAlerter} {
			did, err := step(ctx)
			if err != nil {
				return worked, err
			}
			again, worked = again || did, worked || did
		}
	}
	return worked, nil
}

// Advance moves a scripted clock and settles: it ticks and pumps, and ticks again for the facts the services decided,
// until nothing moves. Time then stands at at, and what was due is closed, or blocked with its reason.
func (e *Engine) Advance(ctx context.Context, at span.Second) error {
	for {
		moved, err := e.writer.Tick(ctx, at)
		if err != nil {
			return err
		}
		worked, err := e.pump(ctx) // after a restart services decide although no tick moved
		if err != nil || !moved && !worked {
			return err
		}
	}
}

// NextDue is when the next billing period falls due after an instant; span.Open when none does. A scripted clock stops
// there, so that a close knows what was known then and no more. It is known once the contract's fact was pumped.
func (e *Engine) NextDue(after span.Second) span.Second { return e.invoice.NextDue(after) }
