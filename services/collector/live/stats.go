package live

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// SamplerStats counts since the start, but for what is now.
type SamplerStats struct {
	Units, Devices int    // now
	Hung           int    // now: calls that do not come back, of sessions given up too
	Timeouts       uint64 // unit-seconds without an answer in time
	Late           uint64 // answers thrown away
	Doubles        uint64 // device-seconds that two units claimed; the first one counts
	Errors         uint64 // errors of units that asked for nothing
	Scans          uint64
	ScanErrors     uint64
	ScanTicks      int               // now: for how many ticks the scan on its way has not come back
	Sessions       uint64            // opened; more than one: the driver was lost and came back
	Alarms         map[string]uint64 // by kind
}

// Stats reads the counters as of the last Sample.
func (s *Sampler) Stats() SamplerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.snapshot
	st.Alarms = s.alarms.counts()
	return st
}

func (s *Sampler) publish() {
	st := &s.stats
	st.Units, st.Devices, st.ScanTicks = len(s.workers), len(s.named), 0
	st.Hung = len(s.left) + len(s.lost)
	for _, w := range s.workers {
		if w.busy {
			st.Hung++
		}
	}
	if s.probe != nil {
		st.ScanTicks = s.probe.ticks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = s.stats
}

// Stats is what an operator watches of a loop. Counters are since the start.
type Stats struct {
	Seconds       uint64 // sampled
	DeviceSeconds uint64 // seen
	Failed        uint64 // seconds in which the source answered nothing
	Dropped       uint64 // see collector.Recorder.Dropped
	Unseen        collector.Unseen
	ClockSteps    uint64
	Suspensions   uint64
	ClockSet      bool // the clock is past 2024; else nothing is sampled
	Clock         usage.ClockEvidence
	Jitter        Jitter
	Spool         spool.Stats
	Held          int // batches that wait for the disk
	Publisher     collector.Counters
	PublishErrors uint64
	SinceAck      time.Duration     // since the log took something, or the start; while nothing waits it means nothing
	Alarms        map[string]uint64 // by kind
}

// Jitter is how long after their second's edge ticks came, over the last ten minutes.
type Jitter struct{ P50, P99, Max time.Duration }

// delays is a ring of the last ticks.
type delays struct {
	ring [600]time.Duration
	n    int
}

func (d *delays) add(v time.Duration) {
	d.ring[d.n%len(d.ring)] = v
	d.n++
}

func (d *delays) jitter() Jitter {
	n := min(d.n, len(d.ring))
	if n == 0 {
		return Jitter{}
	}
	sorted := slices.Sorted(slices.Values(d.ring[:n]))
	return Jitter{P50: sorted[(n-1)/2], P99: sorted[(n-1)*99/100], Max: sorted[n-1]}
}

// alarms are log lines of which each kind comes at most once a minute; each is counted.
type alarms struct {
	log   *slog.Logger
	mu    sync.Mutex
	last  map[string]time.Time
	count map[string]uint64
	busy  map[string]bool // its line is being written
}

const alarmEvery = time.Minute

func newAlarms(log *slog.Logger) *alarms {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &alarms{log: log, last: map[string]time.Time{}, count: map[string]uint64{}, busy: map[string]bool{}}
}

// raise writes in a goroutine of its own, one for a kind: who reads the log may have stopped reading, and a tick does not wait for that.
// args must not change afterwards.
func (a *alarms) raise(kind, message string, args ...any) {
	times, due := a.due(kind)
	if !due {
		return
	}
	go func() {
		a.log.Warn(message, append([]any{"alarm", kind, "times", times}, args...)...)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy[kind] = false
	}()
}

func (a *alarms) due(kind string) (times uint64, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[kind]++
	now := time.Now()
	if last, ok := a.last[kind]; a.busy[kind] || ok && now.Sub(last) < alarmEvery {
		return 0, false
	}
	a.last[kind], a.busy[kind] = now, true
	return a.count[kind], true
}

func (a *alarms) counts() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.count)
}
