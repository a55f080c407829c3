//go:build linux && cgo

package nvml

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// unit is one GPU with its slices.
type unit struct {
	h     *hardware
	name  string
	lane  lane
	inbox inbox
	is    atomic.Pointer[identity] // nil until it was described once

	// Of whoever holds the lane. devices is the GPU itself, then its slices by name.
	devices    []*device
	registered *eventSet // that knows this GPU
	gone       bool      // its loss was told

	mu        sync.Mutex
	abilities []collector.Capability
	shown     *identity // that abilities are of
}

func newUnit(h *hardware, uuid string) *unit { return &unit{h: h, name: uuid, lane: newLane()} }

func (u *unit) Name() string { return u.name }

func (u *unit) identity() *identity { return u.is.Load() }

func (u *unit) ready() bool { return u.is.Load() != nil }

// Devices are the GPU and its slices.
func (u *unit) Devices() []string {
	id := u.is.Load()
	names := []string{u.name}
	for _, s := range id.slices {
		names = append(names, s.uuid)
	}
	return names
}

func (u *unit) topology() []usage.Device {
	id := u.is.Load()
	out := []usage.Device{{
		Name: u.name, Vendor: "nvidia", Model: id.model, Serial: id.serial, PCI: id.pci, MemoryBytes: id.memory,
	}}
	for _, s := range id.slices {
		out = append(out, usage.Device{
			Name: s.uuid, Parent: u.name, Vendor: "nvidia", Model: id.model, Profile: s.profile, MemoryBytes: s.memory,
		})
	}
	return out
}

// become takes a new description. A device that is still there keeps what it remembers; a new one is read once beforehand, so
// that its first sample has a beginning. The caller holds the lane.
func (u *unit) become(id *identity) {
	old := u.devices
	keep := func(name string) *device {
		if i := slices.IndexFunc(old, func(d *device) bool { return d.name == name }); i >= 0 {
			return old[i]
		}
		return nil
	}
	whole := keep(u.name)
	if whole == nil {
		whole = &device{u: u, name: u.name}
	}
	u.devices = append(make([]*device, 0, 1+len(id.slices)), whole)
	for _, s := range id.slices {
		d := keep(s.uuid)
		if d == nil || d.gi != s.gi {
			d = &device{u: u, name: s.uuid, isSlice: true, gi: s.gi}
		}
		d.handle, d.sharesInstance = s.handle, s.sharesInstance
		u.devices = append(u.devices, d)
	}
	whole.handle, whole.mig, whole.detached = id.handle, id.mig, id.detached
	for _, d := range old {
		if !slices.Contains(u.devices, d) {
			d.gpm.free()
		}
	}
	u.is.Store(id)
	u.inbox.claim(u.h.events, id.handle)
	u.register()
	for _, d := range u.devices {
		if !d.primed {
			d.prime()
		}
	}
	u.publish()
}

// Sample reads the GPU, then its slices. When the GPU is lost or the session is, what was read before in this second is not
// believed either.
func (u *unit) Sample(into []collector.Reading) ([]collector.Reading, error) {
	if !u.h.gate.enter() {
		return u.nothing(into, usage.ReasonError), closedError()
	}
	defer u.h.gate.leave()
	u.lane.take(context.Background())
	defer u.lane.give()
	if u.h.gate.isClosed() { // while this waited for its lane
		return u.nothing(into, usage.ReasonError), closedError()
	}
	faults, news := u.inbox.take()
	from, worst := len(into), fine
	now := u.h.opts.now()
	for _, d := range u.devices {
		d.trouble = fine
		into = append(into, d.read(now))
		worst = max(worst, d.trouble)
		if worst >= lost {
			break
		}
	}
	faults = append(faults, u.devices[0].faults...)
	u.devices[0].faults = u.devices[0].faults[:0]
	switch worst {
	case session:
		into = u.nothing(into[:from], usage.ReasonError)
	case lost:
		into = u.nothing(into[:from], usage.ReasonLost)
		u.loss(into[from:], faults)
	case changed, fine:
		u.gone = false
		u.register()
	}
	if len(faults) > 0 {
		into[from].Faults = append(faults, into[from].Faults...)
	}
	u.publish()
	return into, advice(u.name, worst, news)
}

// advice is what the caller should do beside.
func advice(name string, worst trouble, migEvent bool) error {
	switch {
	case worst == session:
		return fmt.Errorf("GPU %s: %w", name, collector.ErrSession)
	case worst == changed || migEvent:
		return fmt.Errorf("GPU %s: %w", name, collector.ErrChanged)
	default:
		return nil
	}
}

// nothing is a reading of each device in which nothing is known.
func (u *unit) nothing(into []collector.Reading, why usage.Reason) []collector.Reading {
	unknown := collector.Unknown(why)
	for _, name := range u.Devices() {
		into = append(into, collector.Reading{Device: name, Busy: unknown, Memory: unknown, Power: unknown, Energy: unknown, Throttle: unknown})
	}
	return into
}

// loss tells once of each device that it is lost, with the XID that came with it or the driver's code.
func (u *unit) loss(readings []collector.Reading, faults []usage.Fault) {
	if u.gone {
		return
	}
	u.gone = true
	code := uint64(u.lossCode())
	for _, f := range faults {
		if f.Kind == usage.FaultXID {
			code = f.Code
		}
	}
	for i := range readings {
		readings[i].Faults = []usage.Fault{{Kind: usage.FaultLost, Code: code}}
	}
}

func (u *unit) lossCode() gonvml.Return {
	for _, d := range u.devices {
		if d.trouble == lost {
			return d.lostWith
		}
	}
	return gonvml.ERROR_GPU_IS_LOST
}

// free gives the driver back what it holds for this unit.
func (u *unit) free() {
	for _, d := range u.devices {
		d.gpm.free()
	}
}
