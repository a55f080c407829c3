//go:build !linux

package live

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
)

// Machine is this machine's clock. Away from Linux it has no clock that runs while the machine sleeps, so a sleep reads as a clock
// that was set forward, and nothing is known of NTP.
type Machine struct{}

//tidy:process the zero of the monotonic clock, of which only differences count
var started = time.Now()

// Now implements Clock.
func (Machine) Now() Instant {
	now := time.Now()
	mono := now.Sub(started)
	return Instant{Wall: now.Round(0), Mono: mono, Boot: mono}
}

// Sleep implements Clock.
func (Machine) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Evidence implements Clock: unknown.
func (Machine) Evidence() usage.ClockEvidence { return usage.ClockEvidence{} }

// BootID stands in for the boot id that only Linux has: another one for each process, so that what lies before it reads as
// rebooted, never as killed.
func BootID() (string, error) { return "process-" + rand.Text(), nil }
