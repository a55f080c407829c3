package gpuhour

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/store"
)

// OpenOn is an engine over a log and tables that a test brings, such as ones that fail.
func OpenOn(b bus.Bus, s store.Store) *Engine {
	e := newEngine(DefaultConfig(), Options{Logger: slog.New(slog.DiscardHandler)})
	e.bus, e.store = b, s
	e.wire()
	return e
}

// Rewire puts a test's log and tables around those of an open engine.
func (e *Engine) Rewire(b bus.Bus, s store.Store) {
	e.bus, e.store = b, s
	e.wire()
}

// Steps are one turn of each service, for a test that decides itself who works when.
func (e *Engine) Steps() []func(context.Context) (bool, error) {
	return []func(context.Context) (bool, error){e.stepRater, e.stepInvoicer, e.alert.Step}
}

// TickWall is one turn of Serve's clock.
func (e *Engine) TickWall(ctx context.Context) error { return e.tickWall(ctx) }

// SetClock replaces the machine's clock, before Serve.
func (e *Engine) SetClock(now func() time.Time) { e.now = now }
