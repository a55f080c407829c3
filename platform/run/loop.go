package run

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuhour/gpuhour/platform/obs"
)

// Patience bounds between failed steps.
const (
	firstPatience = 250 * time.Millisecond
	lastPatience  = 30 * time.Second
)

// Step is one turn of a pump: whether it did anything, or why it failed.
type Step func(context.Context) (worked bool, err error)

// Loop repeats a step until ctx ends. wait blocks until there may be work again.
func Loop(ctx context.Context, log *slog.Logger, m *obs.Metrics, service string, step Step, wait func(context.Context) error) {
	patience := firstPatience
	for ctx.Err() == nil {
		worked, err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.Steps.WithLabelValues(service, "error").Inc()
			log.Error("the service starts again", "service", service, "error", err, "in", patience)
			pause(ctx, patience)
			patience = min(2*patience, lastPatience)
		case worked:
			m.Steps.WithLabelValues(service, "worked").Inc()
			patience = firstPatience
		default:
			m.Steps.WithLabelValues(service, "idle").Inc()
			if err := wait(ctx); err != nil && ctx.Err() == nil {
				log.Warn("waiting for the log", "service", service, "error", err)
				pause(ctx, patience)
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
