package livetest

import (
	"context"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/live"
)

// Clock is a machine's time on top of the bubble's, which stands for the time in which the machine is awake.
type Clock struct {
	mu       sync.Mutex
	began    time.Time
	wall     time.Duration // what was added to the bubble's wall clock
	slept    time.Duration
	stall    time.Duration // of the next sleep of the process
	rate     int64         // parts per million by which the wall is steered
	steered  time.Time
	evidence usage.ClockEvidence
}

// NewClock is a clock that shows an instant now.
func NewClock(now time.Time) *Clock {
	began := time.Now()
	return &Clock{began: began, steered: began, wall: now.Sub(began), evidence: usage.ClockEvidence{State: usage.ClockSynchronised}}
}

// Step sets the wall clock forward or back.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// Suspend lets the machine sleep.
func (c *Clock) Suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
	c.slept += d
}

// Stall lets the process wake that much late from its next sleep.
func (c *Clock) Stall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stall += d
}

// Wake takes a stall back that has not begun.
func (c *Clock) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stall = 0
}

// Smear steers the wall clock against the others from now on, which is worse than what a kernel does: it steers all of them.
func (c *Clock) Smear(partsPerMillion int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.wall += c.smeared(now)
	c.rate, c.steered = partsPerMillion, now
}

func (c *Clock) smeared(now time.Time) time.Duration {
	return now.Sub(c.steered) * time.Duration(c.rate) / 1_000_000
}

// Now implements live.Clock.
func (c *Clock) Now() live.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	mono := now.Sub(c.began)
	return live.Instant{Wall: c.began.Round(0).Add(mono + c.wall + c.smeared(now)), Mono: mono, Boot: mono + c.slept}
}

// Sleep implements live.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	d, c.stall = c.stall, 0
	c.mu.Unlock()
	if d > 0 {
		<-time.After(d)
	}
	return ctx.Err()
}

// SetEvidence is what the kernel says of its clock from now on.
func (c *Clock) SetEvidence(e usage.ClockEvidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evidence = e
}

// Evidence implements live.Clock.
func (c *Clock) Evidence() usage.ClockEvidence {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evidence
}
