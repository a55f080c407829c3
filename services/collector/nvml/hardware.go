//go:build linux && cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// hardware is one session.
type hardware struct {
	lib    gonvml.Interface
	calls  calls
	opts   Options
	gate   *gate
	events *events
	source string
	driver string

	scan   sync.Mutex // one Scan at a time
	system lane       // calls that are of no GPU
	slots  []*slot    // under scan, by index

	mu       sync.Mutex
	known    map[string]*unit // by UUID: all that were found and have not vanished
	units    []*unit          // what the last Scan returned, by name
	hidden   int              // GPUs that the driver counts and that could not be read
	closing  sync.Once
	ended    chan struct{}
	endError error
}

// slot is an index of the driver's enumeration. It tells nothing about who is there; it only keeps a call that hangs from being
// made again.
type slot struct {
	lane lane
	last *unit
}

// Open loads the library and begins a session, which takes as long as the driver takes. Errors that wrap collector.ErrSession may be gone when it is tried again.
func Open(o Options) (collector.Hardware, error) {
	o = o.filled()
	lib, calls, err := load(o.LibraryPath)
	if err != nil {
		return nil, err
	}
	if ret := lib.Init(); ret != gonvml.SUCCESS {
		return nil, initError(o.LibraryPath, ret)
	}
	h := &hardware{
		lib: lib, calls: calls, opts: o, gate: newGate(), system: newLane(), source: "nvml", known: map[string]*unit{},
		ended: make(chan struct{}),
	}
	if calls.version {
		if version, ret := lib.SystemGetNVMLVersion(); ret == gonvml.SUCCESS {
			h.source = plain("nvml " + version)
		}
	}
	if calls.driver {
		if version, ret := lib.SystemGetDriverVersion(); ret == gonvml.SUCCESS {
			h.driver = plain(version)
		}
	}
	h.events = startEvents(h)
	return h, nil
}

// Scan asks every index of the driver at the same time and waits for those that answer in time. A GPU that does not is what it
// was; while one cannot be read, none that was known is forgotten, since it may be that one.
func (h *hardware) Scan() ([]collector.Unit, error) {
	h.scan.Lock()
	defer h.scan.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.ScanWait)
	defer cancel()
	count, err := h.count(ctx)
	switch {
	case errors.Is(err, errSlow) && len(h.listed()) > 0:
		return listed(h.listed()), nil
	case err != nil:
		return nil, err
	}
	for len(h.slots) < count {
		h.slots = append(h.slots, &slot{lane: newLane()})
	}
	answers := make([]found, count)
	var asked sync.WaitGroup
	for i := range count {
		asked.Go(func() { answers[i] = h.look(ctx, i) })
	}
	asked.Wait()
	for _, a := range answers {
		if a.trouble == session {
			return nil, fmt.Errorf("look for GPUs: %w", collector.ErrSession)
		}
	}
	if h.gate.isClosed() {
		return nil, closedError()
	}
	return listed(h.settle(answers)), nil
}

var errSlow = errors.New("the driver does not answer")

func (h *hardware) count(ctx context.Context) (int, error) {
	type answer struct {
		count int
		ret   gonvml.Return
	}
	got, ok := ask(ctx, h.gate, h.system, func() answer {
		n, ret := h.lib.DeviceGetCount()
		return answer{n, ret}
	})
	switch {
	case ok && got.ret != gonvml.SUCCESS:
		return 0, scanError(got.ret)
	case ok:
		return got.count, nil
	case h.gate.isClosed():
		return 0, closedError()
	default:
		return 0, fmt.Errorf("count the GPUs: %w", errSlow)
	}
}

// settle makes what was found the hardware of the node. Who was not seen has vanished, unless somebody who could not be read may
// be that one.
func (h *hardware) settle(answers []found) []*unit {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[*unit]bool{}
	for _, a := range answers {
		seen[a.unit] = seen[a.unit] || a.sure
	}
	unsure, nameless := 0, 0
	counted := map[*unit]bool{}
	for i, a := range answers {
		if a.unit == nil || counted[a.unit] || !a.sure && seen[a.unit] {
			nameless++ // or one of two that say one name: they cannot be told apart
		}
		if !a.sure {
			unsure++
		}
		counted[a.unit] = true
		h.slots[i].last = a.unit
	}
	h.units = h.units[:0:0]
	silent := 0
	for name, u := range h.known {
		switch {
		case !counted[u] && unsure == 0:
			delete(h.known, name)
			h.forget(u)
			continue
		case !u.ready():
			continue
		case !counted[u]:
			silent++
		}
		h.units = append(h.units, u)
	}
	h.hidden = max(nameless-silent, 0)
	slices.SortFunc(h.units, func(a, b *unit) int { return strings.Compare(a.name, b.name) })
	return h.units
}

// forget gives back what a unit holds in the driver, unless a call of it hangs there.
func (h *hardware) forget(u *unit) {
	if !u.lane.try() {
		return
	}
	defer u.lane.give()
	if h.gate.enter() {
		u.free()
		h.gate.leave()
	}
}

func (h *hardware) listed() []*unit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.units
}

func listed(units []*unit) []collector.Unit {
	out := make([]collector.Unit, len(units))
	for i, u := range units {
		out[i] = u
	}
	return out
}

// Topology is what the last Scan found. GPUs that the driver counts and that have no name yet are told with the source.
func (h *hardware) Topology() usage.Topology {
	h.mu.Lock()
	units, hidden := h.units, h.hidden
	h.mu.Unlock()
	t := usage.Topology{Source: h.source, Driver: h.driver}
	if hidden > 0 {
		t.Source = plain(fmt.Sprintf("%s; GPUs that cannot be read: %d", h.source, hidden))
	}
	for _, u := range units {
		t.Devices = append(t.Devices, u.topology()...)
	}
	slices.SortFunc(t.Devices, func(a, b usage.Device) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// Close ends the session as soon as the last call has come back. It waits for that only so long; what hangs in the driver keeps
// the session open until it returns, or the process ends.
func (h *hardware) Close() error {
	h.closing.Do(func() {
		h.gate.close()
		h.events.stop()
		go func() {
			<-h.gate.empty
			h.endError = h.end()
			close(h.ended)
		}()
	})
	patience := time.NewTimer(h.opts.CloseWait)
	defer patience.Stop()
	select {
	case <-h.ended:
		return h.endError
	case <-patience.C:
		return fmt.Errorf("close the NVML session: a driver call has not come back (%s): the session stays open until it does, or the process ends",
			strings.Join(h.stuck(), ", "))
	}
}

func (h *hardware) end() error {
	h.mu.Lock()
	for _, u := range h.known {
		u.free()
	}
	h.mu.Unlock()
	if ret := h.lib.Shutdown(); ret != gonvml.SUCCESS && ret != gonvml.ERROR_UNINITIALIZED {
		return fmt.Errorf("end the NVML session: %w (%d)", ret, int32(ret))
	}
	return nil
}

func (h *hardware) stuck() []string {
	var names []string
	for _, u := range h.listed() {
		if !u.lane.try() {
			names = append(names, u.name)
			continue
		}
		u.lane.give()
	}
	if len(names) == 0 {
		names = []string{"of no known GPU"}
	}
	return names
}
