package live

import (
	"context"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Instant is one reading of a machine's clocks, taken together.
type Instant struct {
	Wall time.Time
	// Mono runs while the machine is awake, Boot also while it sleeps. Only their differences mean anything.
	Mono, Boot time.Duration
}

// Clock is the machine's time.
type Clock interface {
	Now() Instant
	// Sleep waits by the clock that runs while the machine is awake. It returns the context's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
	// Evidence is the kernel's own account of the wall clock.
	Evidence() usage.ClockEvidence
}

// What counts as a difference between clocks, and how far behind its last tick the clock must be for seconds to come again: see
// the package comment.
const (
	notable = 250 * time.Millisecond
	again   = time.Second + notable
)

// firstSet is an instant before which no clock can be right: 2024-01-01. A machine without a battery starts in 1970 or at its image's date.
const firstSet span.Second = 1_704_067_200

func second(i Instant) span.Second { return span.Second(i.Wall.Unix()) }

func at(s span.Second) time.Time { return time.Unix(int64(s), 0) }

// timeline follows the wall clock from tick to tick and says what became of the seconds between two. It does no IO.
type timeline struct {
	tick  span.Second // of the last tick; the second before it is the last one settled
	seen  Instant     // when it came
	begun bool
	steps uint64 // of the wall clock
	slept uint64 // sleeps of the machine
}

// wait is how long to sleep before asking again, at most a second, because the clock may be set meanwhile; nothing when a tick is due.
func (t *timeline) wait(now Instant) time.Duration {
	s := second(now)
	if s < firstSet {
		return time.Second
	}
	if !t.begun {
		t.tick, t.seen, t.begun = s, now, true
	}
	if now.Wall.Before(at(t.tick).Add(-again)) {
		t.steps++
		t.tick, t.seen = s-1, now // due at once: the second that ended under the new time was sampled by nobody
	}
	return min(max(at(t.tick+1).Sub(now.Wall), 0), time.Second)
}

func (t *timeline) stepped(now Instant) time.Duration {
	return now.Wall.Sub(t.seen.Wall) - (now.Boot - t.seen.Boot)
}

func (t *timeline) suspended(now Instant) time.Duration {
	return (now.Boot - t.seen.Boot) - (now.Mono - t.seen.Mono)
}

// advance is a tick that is due: it returns the second that has just ended, and the gaps before it.
func (t *timeline) advance(now Instant) (ended span.Second, gaps []usage.Gap) {
	from, ended := t.tick, second(now)-1
	slept, stepped := t.suspended(now), t.stepped(now)
	if slept > notable {
		t.slept++
	}
	if stepped > notable || stepped < -notable {
		t.steps++
	}
	part := func(n span.Second, why usage.GapReason) {
		to := min(from+n, ended)
		if from < to {
			gaps = append(gaps, usage.Gap{From: from, To: to, Reason: why})
			from = to
		}
	}
	part(whole(slept), usage.GapSuspended)
	part(whole(stepped), usage.GapStepped)
	part(ended-from, usage.GapStalled)
	t.tick, t.seen = ended+1, now
	return ended, gaps
}

// whole rounds a difference between clocks up to seconds; 0 when it is none.
func whole(d time.Duration) span.Second {
	if d <= notable {
		return 0
	}
	return span.Second((d + time.Second - 1) / time.Second)
}
