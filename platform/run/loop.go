package run

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/platform/obs"
)

// Patience bounds between failed steps.
const (
	firstPatience = 250 * time.Millisecond
	lastPatience  = 30 * time.Second
)

// Step is one turn of a pump: whether it did anything, or why it failed.
type Step func(context.Context) (worked bool, err error)

// Loop repeats a step until ctx ends. wait blocks until there may be work again. A step that breaks an assertion ends the
// loop: what it holds in memory is not to be trusted, and the other services go on.
func Loop(ctx context.Context, log *slog.Logger, m *obs.Engine, service string, step Step, wait func(context.Context) error) {
	patience := firstPatience
	for ctx.Err() == nil {
		result, err := turn(ctx, step, wait)
		if ctx.Err() != nil {
			return
		}
		m.Steps.WithLabelValues(service, result).Inc()
		switch {
		case result == broken:
			log.Error("the service stands still until this process is started again; please report this", "service", service, "error", err)
			return
		case err != nil:
			log.Error("the service starts again", "service", service, "error", err, "in", patience)
			pause(ctx, patience)
			patience = min(2*patience, lastPatience)
		default:
			patience = firstPatience
		}
	}
}

// Results of a turn, as the metric names them.
const (
	worked = "worked"
	idle   = "idle"
	failed = "error"
	broken = "broken"
)

// turn is one step and, when it found nothing to do, the wait for more.
func turn(ctx context.Context, step Step, wait func(context.Context) error) (result string, err error) {
	defer func() {
		if f := must.Recovered(recover()); f != nil {
			result, err = broken, f
		}
	}()
	did, err := step(ctx)
	switch {
	case err != nil:
		return failed, err
	case did:
		return worked, nil
	}
	if err := wait(ctx); err != nil {
		return failed, fmt.Errorf("wait for the log: %w", err)
	}
	return idle, nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
