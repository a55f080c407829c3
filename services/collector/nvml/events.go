//go:build linux && cgo

package nvml

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// wanted are the events that are asked for: everything else is read each second.
const wanted = gonvml.EventTypeXidCriticalError | gonvml.EventMigConfigChange

// Bounds of what is held for a GPU that is not sampled, and of events of handles that nobody has.
const (
	maxInbox     = 1024
	maxUnclaimed = 64
)

// Bounds of the pause before an event set that was lost is waited for again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// events is the one event set of the session, with the one goroutine that waits for it. Each GPU registers itself, in its own
// lane, since that call may hang as any other.
type events struct {
	h    *hardware
	quit chan struct{}
	once sync.Once

	heard atomic.Int64 // when a wait came back, in Unix nanoseconds

	mu        sync.Mutex
	current   *eventSet // nil: there is none
	unclaimed []gonvml.EventData
}

// eventSet is freed by the last who uses it once it is not the current one: a GPU that hangs while it registers keeps it.
type eventSet struct {
	set   gonvml.EventSet
	users int // under events.mu
}

// inbox is what came for one GPU since its last sample.
type inbox struct {
	mu      sync.Mutex
	faults  []usage.Fault
	changed bool
}

func startEvents(h *hardware) *events {
	e := &events{h: h, quit: make(chan struct{})}
	e.heard.Store(h.opts.now().UnixNano())
	if !h.calls.events {
		return e
	}
	e.renew()
	if h.gate.enter() {
		go func() {
			defer h.gate.leave()
			e.run()
		}()
	}
	return e
}

func (e *events) stop() { e.once.Do(func() { close(e.quit) }) }

// run waits until the session is closed. A wait that ends at once, as some drivers answer to an empty set, is not repeated at once.
func (e *events) run() {
	pause := firstPause
	for !e.stopped() {
		begun := time.Now()
		data, ret := e.wait()
		e.heard.Store(e.h.opts.now().UnixNano())
		switch ret {
		case gonvml.SUCCESS:
			e.deliver(data)
			pause = firstPause
		case gonvml.ERROR_TIMEOUT:
			e.rest(e.h.opts.EventWait/2 - time.Since(begun))
			pause = firstPause
		default:
			e.renew()
			e.rest(pause)
			pause = min(2*pause, lastPause)
		}
	}
	e.replace(nil)
}

func (e *events) stopped() bool {
	select {
	case <-e.quit:
		return true
	default:
		return false
	}
}

func (e *events) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.quit:
	}
}

func (e *events) wait() (gonvml.EventData, gonvml.Return) {
	s := e.use()
	if s == nil {
		return gonvml.EventData{}, gonvml.ERROR_UNKNOWN
	}
	defer e.unuse(s)
	return s.set.Wait(uint32(e.h.opts.EventWait / time.Millisecond))
}

// renew makes a new set, for which every GPU registers with its next sample.
func (e *events) renew() {
	if set, ret := e.h.lib.EventSetCreate(); ret == gonvml.SUCCESS {
		e.replace(&eventSet{set: set})
		return
	}
	e.replace(nil)
}

func (e *events) replace(next *eventSet) {
	e.mu.Lock()
	old := e.current
	e.current = next
	idle := old != nil && old.users == 0
	e.mu.Unlock()
	if idle {
		_ = old.set.Free()
	}
}

func (e *events) use() *eventSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != nil {
		e.current.users++
	}
	return e.current
}

func (e *events) unuse(s *eventSet) {
	e.mu.Lock()
	s.users--
	idle := s.users == 0 && s != e.current
	e.mu.Unlock()
	if idle {
		_ = s.set.Free()
	}
}

// deliver puts an event into its GPU's inbox. It asks the driver nothing: the GPU may be sick.
func (e *events) deliver(data gonvml.EventData) {
	if u := e.h.at(data.Device); u != nil {
		u.inbox.put(&data)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.unclaimed) < maxUnclaimed {
		e.unclaimed = append(e.unclaimed, data)
	}
}

// silent tells when no wait has come back for too long.
func (e *events) silent() string {
	since := time.Duration(e.h.opts.now().UnixNano() - e.heard.Load())
	if !e.h.calls.events || since < 10*e.h.opts.EventWait+lastPause {
		return ""
	}
	return fmt.Sprintf("the wait for events has not come back for %d s: XIDs are not seen", int(since.Seconds()))
}

func (b *inbox) put(data *gonvml.EventData) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case data.EventType == gonvml.EventMigConfigChange:
		b.changed = true
	case data.EventType == gonvml.EventTypeXidCriticalError && len(b.faults) < maxInbox:
		b.faults = append(b.faults, usage.Fault{Kind: usage.FaultXID, Code: data.EventData})
	}
}

func (b *inbox) take() (faults []usage.Fault, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults, changed = b.faults, b.changed
	b.faults, b.changed = nil, false
	return faults, changed
}

// claim takes what came for a handle before anybody had it.
func (b *inbox) claim(e *events, handle gonvml.Device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unclaimed = slices.DeleteFunc(e.unclaimed, func(data gonvml.EventData) bool {
		if data.Device == handle {
			b.put(&data)
		}
		return data.Device == handle
	})
}

// register puts the GPU into the event set when it is in another one. The caller holds the lane.
func (u *unit) register() {
	const via = "nvmlDeviceRegisterEvents"
	e, d := u.h.events, u.devices[0]
	s := e.use()
	if s == nil {
		missing := collector.Unknown(usage.ReasonError)
		note := "no event set could be made; it is tried again"
		if !u.h.calls.events {
			missing, note = collector.Unknown(usage.ReasonNotSupported), "this library has no events: XIDs are only in the kernel's log"
		}
		d.done(metricXID, via, missing, note)
		return
	}
	defer e.unuse(s)
	if u.registered == s {
		return
	}
	types, ret := d.handle.GetSupportedEventTypes()
	if types &= wanted; ret == gonvml.SUCCESS && types == 0 {
		ret = gonvml.ERROR_NOT_SUPPORTED
	}
	if ret == gonvml.SUCCESS {
		ret = d.handle.RegisterEvents(types, s.set)
	}
	why, _ := judge(ret)
	switch {
	case ret == gonvml.SUCCESS:
		d.done(metricXID, via, collector.Known(0), "")
		u.registered = s
	case why == usage.ReasonNotSupported:
		d.done(metricXID, via, collector.Unknown(why), "XIDs of this GPU are only in the kernel's log")
		u.registered = s
	default:
		d.done(metricXID, via, collector.Unknown(why), "tried again each second; until then XIDs are not seen")
	}
}
