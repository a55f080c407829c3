package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuhour/gpuhour/core/usage"
)

// Machine is this machine's clock.
type Machine struct{}

// together is how far apart two readings of the monotonic clock may be for what was read between them to belong together: far
// below notable, far above what four calls take. The process may be stopped between any two of them.
const together = 10 * time.Millisecond

// Now reads the clocks, again when the process was stopped between them; the last of ten attempts counts anyway.
func (Machine) Now() (i Instant) {
	for range 10 {
		before := read(unix.CLOCK_MONOTONIC)
		i.Wall = time.Unix(0, int64(read(unix.CLOCK_REALTIME)))
		i.Boot = read(unix.CLOCK_BOOTTIME)
		i.Mono = read(unix.CLOCK_MONOTONIC)
		if i.Mono-before < together {
			break
		}
	}
	return i
}

// read cannot fail for clocks that every kernel since 2.6.39 has.
func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(fmt.Sprintf("read clock %d: %v; this kernel is older than Linux 2.6.39", clock, err))
	}
	return time.Duration(t.Nano())
}

// Sleep implements Clock.
func (Machine) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Evidence asks the kernel's NTP state; it changes nothing, so it needs no right.
func (Machine) Evidence() usage.ClockEvidence {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return evidence(state, err, &t)
}

// evidence: a sandbox may forbid the call, and then nothing is known. The offset is in microseconds, or in nanoseconds when the kernel says so; the bound of the error always in microseconds.
func evidence(state int, err error, t *unix.Timex) usage.ClockEvidence {
	if err != nil {
		return usage.ClockEvidence{}
	}
	unit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		unit = time.Nanosecond
	}
	e := usage.ClockEvidence{
		State: usage.ClockSynchronised, OffsetNanos: nanos(t.Offset, unit), ErrorBoundNano: max(nanos(t.Maxerror, time.Microsecond), 0),
	}
	if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 {
		e.State = usage.ClockFree
	}
	return e
}

// nanos takes the kernel's long, which has 32 bits on some machines.
func nanos[T int32 | int64](n T, unit time.Duration) int64 { return int64(n) * int64(unit) }

// BootID names the time since the machine started; it is another one after each start.
func BootID() (string, error) {
	const file = "/proc/sys/kernel/random/boot_id"
	id, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(id)) == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("read the machine's boot id from %s: %w; /proc must be mounted", file, err)
	}
	return strings.TrimSpace(string(id)), nil
}
