package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// SamplerConfig says what is sampled. Zero durations are replaced by the values named.
type SamplerConfig struct {
	// Open starts a session with the hardware. Its error should be a *collector.NoAnswer where a reason is known.
	Open     func() (collector.Hardware, error)
	Deadline time.Duration // after a tick, for all units to answer; 700 ms
	Rescan   time.Duration // 10 s
	Log      *slog.Logger
}

// Waits between attempts to open the hardware, doubling from the first to the last.
const (
	firstWait = time.Second
	lastWait  = 30 * time.Second
)

// maxLeft bounds the calls that hang in sessions given up: every one of them holds a thread, and each new session may add as many.
const maxLeft = 16

// Sampler is a collector's source over live hardware. Sample, Topology and Close are for one goroutine, Stats for any.
type Sampler struct {
	cfg      SamplerConfig
	session  collector.Hardware // nil: none
	old      collector.Hardware // lost, to be closed before the next is opened
	workers  []*worker          // of the session's units
	left     []*worker          // their units are gone, or their session is, and a call hangs in them
	probe    *probe             // what is on its way
	lost     []*probe           // scans that hang in sessions given up
	topology *usage.Topology
	known    []string // devices of the session that was lost
	faults   map[string][]usage.Fault
	named    map[string]bool // devices in this second's readings

	why      error // why there is no session
	wait     time.Duration
	openAt   time.Time
	scanAt   time.Time
	change   bool // a unit asked for a scan
	changeAt time.Time
	again    time.Duration // between scans that units asked for one after the other
	reopen   bool          // a unit or a scan lost the session
	alarms   *alarms
	mu       sync.Mutex
	stats    SamplerStats // the working copy
	snapshot SamplerStats // under mu
}

// NewSampler samples what open opens, from the first Sample on.
func NewSampler(cfg SamplerConfig) *Sampler {
	if cfg.Deadline == 0 {
		cfg.Deadline = 700 * time.Millisecond
	}
	if cfg.Rescan == 0 {
		cfg.Rescan = 10 * time.Second
	}
	return &Sampler{
		cfg: cfg, faults: map[string][]usage.Fault{}, named: map[string]bool{}, alarms: newAlarms(cfg.Log),
		why: fmt.Errorf("the hardware has not answered since it was asked: %w", context.DeadlineExceeded),
	}
}

// Topology implements collector.Described.
func (s *Sampler) Topology() *usage.Topology { return s.topology }

// Sample implements collector.Source. It returns when all units have answered, at the deadline at the latest.
func (s *Sampler) Sample(_ span.Second, into []collector.Reading) ([]collector.Reading, error) {
	before := len(into)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Deadline)
	defer cancel()
	clear(s.named)
	s.reap()
	s.settle(s.probed(ctx.Done()))
	s.ask()
	for _, w := range s.workers {
		into = s.take(w, ctx.Done(), into)
	}
	if s.session == nil {
		for _, device := range s.known {
			into = s.add(into, unknown(device, usage.ReasonError))
		}
	}
	into = s.addFaults(into)
	s.tellFaults(into[before:])
	s.next(time.Now())
	s.publish()
	if s.session == nil && len(s.known) == 0 && s.topology == nil {
		return into, &collector.NoAnswer{Reason: reason(s.why), Err: fmt.Errorf("no device can be sampled: %w", s.why)}
	}
	return into, nil
}

// reap takes late answers: what they measured is no second's, what they report is.
func (s *Sampler) reap() {
	for _, w := range s.workers {
		if a, ok := w.answered(); ok {
			s.late(a)
		}
	}
	s.left = slices.DeleteFunc(s.left, func(w *worker) bool {
		a, ok := w.answered()
		if ok {
			s.keepFaults(a.readings)
			close(w.kick)
		}
		return ok
	})
	s.lost = slices.DeleteFunc(s.lost, func(p *probe) bool { return len(p.done) > 0 })
}

func (s *Sampler) late(a answer) {
	s.stats.Late++
	s.keepFaults(a.readings)
	s.heed(a.err)
}

func (s *Sampler) keepFaults(readings []collector.Reading) {
	for _, r := range readings {
		if len(r.Faults) > 0 {
			s.faults[r.Device] = append(s.faults[r.Device], r.Faults...)
		}
	}
}

// ask kicks the units that are idle.
func (s *Sampler) ask() {
	for _, w := range s.workers {
		if w.stale && !w.busy && s.probe == nil { // a scan on its way may be changing them
			w.devices, w.stale = slices.Clone(w.unit.Devices()), false
		}
		w.ask()
	}
}

// take appends what a unit says in this second. What it should answer for and does not is unknown.
func (s *Sampler) take(w *worker, expired <-chan struct{}, into []collector.Reading) []collector.Reading {
	why := usage.ReasonTimeout
	a, ok := w.await(expired)
	if ok {
		why = missing(a.err)
		s.heed(a.err)
		for _, r := range a.readings {
			into = s.add(into, r)
		}
	} else {
		s.stats.Timeouts++
		s.alarms.raise("unit_hangs", "a unit does not answer; its devices are gaps until it does", "unit", w.name)
	}
	for _, device := range s.expected(w) {
		if !s.named[device] {
			into = s.add(into, unknown(device, why))
		}
	}
	return into
}

// expected are the devices that a unit should answer for. A unit that hangs cannot be asked what it has become; then it is what the
// last topology lists of it.
func (s *Sampler) expected(w *worker) []string {
	if !w.stale || !w.busy || s.topology == nil {
		return w.devices
	}
	var devices []string
	for _, d := range s.topology.Devices {
		if slices.Contains(w.devices, d.Name) || d.Parent != "" && (d.Parent == w.name || slices.Contains(w.devices, d.Parent)) {
			devices = append(devices, d.Name)
		}
	}
	return devices
}

// add appends a reading unless its device is in this second already: a batch has room for one value, and units that both claim
// a device are a mistake in a configuration.
func (s *Sampler) add(into []collector.Reading, r collector.Reading) []collector.Reading {
	if s.named[r.Device] {
		s.stats.Doubles++
		return into
	}
	s.named[r.Device] = true
	return append(into, r)
}

// addFaults puts the faults of late answers into this second.
func (s *Sampler) addFaults(into []collector.Reading) []collector.Reading {
	if len(s.faults) == 0 {
		return into
	}
	for i := range into {
		if late := s.faults[into[i].Device]; len(late) > 0 {
			into[i].Faults = append(slices.Clip(late), into[i].Faults...)
			delete(s.faults, into[i].Device)
		}
	}
	for device, late := range s.faults { // the last words of a device that is gone
		gone := unknown(device, usage.ReasonLost)
		gone.Faults = late
		into = s.add(into, gone)
	}
	clear(s.faults)
	return into
}

// tellFaults lets the process's log have what the node's owner looks for there first.
func (s *Sampler) tellFaults(readings []collector.Reading) {
	for _, r := range readings {
		for _, f := range r.Faults {
			s.alarms.raise("fault", "a device reports a fault", "device", r.Device, "fault", f.Kind.String(), "code", f.Code)
		}
	}
}

// heed notes what an error asks for.
func (s *Sampler) heed(err error) {
	switch {
	case err == nil:
	case errors.Is(err, collector.ErrSession):
		s.reopen, s.why = true, err
	case errors.Is(err, collector.ErrChanged):
		s.change = true
	case errors.Is(err, collector.ErrPartly):
		s.alarms.raise("unit_partly", "not all that a unit shows is used", "error", err)
	default:
		s.stats.Errors++
		s.alarms.raise("unit_fails", "a unit fails", "error", err)
	}
}

// unknown is a device of which nothing is known in a second.
func unknown(device string, why usage.Reason) collector.Reading {
	none := collector.Unknown(why)
	return collector.Reading{Device: device, Busy: none, Memory: none, Power: none, Energy: none, Throttle: none}
}

// missing is why a device is not in its unit's answer.
func missing(err error) usage.Reason {
	if err == nil || errors.Is(err, collector.ErrChanged) || errors.Is(err, collector.ErrPartly) {
		return usage.ReasonLost
	}
	return reason(err)
}

// reason sorts errors of hardware that name none themselves.
func reason(err error) usage.Reason {
	var n *collector.NoAnswer
	switch {
	case errors.As(err, &n) && n.Reason != usage.ReasonNone:
		return n.Reason
	case errors.Is(err, fs.ErrPermission):
		return usage.ReasonPermission
	case errors.Is(err, fs.ErrNotExist):
		return usage.ReasonNotAvailable
	case errors.Is(err, context.DeadlineExceeded):
		return usage.ReasonTimeout
	default:
		return usage.ReasonError
	}
}
