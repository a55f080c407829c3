//go:build linux && cgo

package nvml

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// found is what an index of the driver answered. A unit that is not sure is who was there before.
type found struct {
	unit    *unit
	sure    bool
	trouble trouble
}

// identity is what a GPU is, apart from what it does.
type identity struct {
	handle                   gonvml.Device
	uuid, serial, model, pci string
	memory                   int64
	mig                      bool
	slices                   []slice // by UUID
	detached                 bool    // persistence mode is off
}

// slice is a MIG device.
type slice struct {
	handle         gonvml.Device
	uuid, profile  string
	gi, ci         int
	memory         int64
	sharesInstance bool // with another compute instance of the same GPU instance
}

// look asks one index. Whatever hangs, hangs in the slot's lane or in the GPU's.
func (h *hardware) look(ctx context.Context, index int) found {
	s := h.slots[index]
	a, ok := ask(ctx, h.gate, s.lane, func() found { return h.identify(ctx, index) })
	if !ok || a.unit == nil && a.trouble != session {
		return found{unit: s.last}
	}
	return a
}

// identify reads who is at an index. A GPU that answers another question at this moment is not asked; it is who it was.
func (h *hardware) identify(ctx context.Context, index int) found {
	handle, ret := h.lib.DeviceGetHandleByIndex(index)
	if ret != gonvml.SUCCESS {
		_, t := judge(ret)
		return found{trouble: t}
	}
	var held *unit // the lane of whoever had this handle
	if held = h.at(handle); held != nil && !held.lane.take(ctx) {
		return found{unit: held}
	}
	uuid, ret := handle.GetUUID()
	uuid = plain(uuid)
	if held != nil && (ret != gonvml.SUCCESS || uuid != held.name) {
		held.lane.give()
		held = nil
	}
	if ret != gonvml.SUCCESS || uuid == "" {
		_, t := judge(ret)
		return found{trouble: t}
	}
	u := held
	if u == nil {
		if u = h.adopt(uuid); !u.lane.take(ctx) {
			return found{unit: u}
		}
	}
	defer u.lane.give()
	u.become(h.describe(handle, uuid, u.identity()))
	return found{unit: u, sure: true}
}

// at is the unit that had this handle when it was looked at last.
func (h *hardware) at(handle gonvml.Device) *unit {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range h.known {
		if id := u.identity(); id != nil && id.handle == handle {
			return u
		}
	}
	return nil
}

// adopt is the unit of a name, which may be new.
func (h *hardware) adopt(uuid string) *unit {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.known[uuid]
	if u == nil {
		u = newUnit(h, uuid)
		h.known[uuid] = u
	}
	return u
}

// describe reads a GPU. What does not answer now is as it was before.
func (h *hardware) describe(handle gonvml.Device, uuid string, before *identity) *identity {
	if before == nil {
		before = &identity{}
	}
	id := &identity{
		handle: handle, uuid: uuid, serial: before.serial, model: before.model, pci: before.pci, memory: before.memory,
		detached: before.detached,
	}
	if h.calls.serial {
		if v, ret := handle.GetSerial(); ret == gonvml.SUCCESS {
			id.serial = plain(v)
		}
	}
	if h.calls.name {
		if v, ret := handle.GetName(); ret == gonvml.SUCCESS {
			id.model = plain(v)
		}
	}
	if h.calls.pci {
		if v, ret := handle.GetPciInfo(); ret == gonvml.SUCCESS {
			id.pci = plain(chars(v.BusId[:]))
		}
	}
	if total, ok := h.total(handle); ok {
		id.memory = total
	}
	if h.calls.persistence {
		if mode, ret := handle.GetPersistenceMode(); ret == gonvml.SUCCESS {
			id.detached = mode == gonvml.FEATURE_DISABLED
		}
	}
	var ok bool
	if id.mig, id.slices, ok = h.mig(handle); !ok {
		id.mig, id.slices = id.mig || before.mig, before.slices
	}
	return id
}

func (h *hardware) total(handle gonvml.Device) (int64, bool) {
	var total uint64
	ret := gonvml.ERROR_NOT_SUPPORTED
	if h.calls.memory2 {
		var m gonvml.Memory_v2
		m, ret = handle.GetMemoryInfo_v2()
		total = m.Total
	}
	if ret != gonvml.SUCCESS && h.calls.memory1 {
		var m gonvml.Memory
		m, ret = handle.GetMemoryInfo()
		total = m.Total
	}
	m := known64(total)
	return m.Value, ret == gonvml.SUCCESS && m.Read()
}

// mig reads the slices of a GPU; ok is false when they could not be read.
func (h *hardware) mig(handle gonvml.Device) (on bool, found []slice, ok bool) {
	if !h.calls.mig {
		return false, nil, true
	}
	mode, _, ret := handle.GetMigMode()
	if ret == gonvml.ERROR_NOT_SUPPORTED || ret == gonvml.ERROR_FUNCTION_NOT_FOUND {
		return false, nil, true
	}
	if ret != gonvml.SUCCESS {
		return false, nil, false
	}
	if mode != gonvml.DEVICE_MIG_ENABLE {
		return false, nil, true
	}
	places, ret := handle.GetMaxMigDeviceCount()
	if ret != gonvml.SUCCESS {
		return true, nil, false
	}
	for i := range places {
		at, ret := handle.GetMigDeviceHandleByIndex(i)
		if ret == gonvml.ERROR_NOT_FOUND || ret == gonvml.ERROR_INVALID_ARGUMENT {
			continue // an empty place
		}
		s, read := slice{}, ret == gonvml.SUCCESS
		if read {
			s, read = describeSlice(at)
		}
		if !read {
			return true, nil, false
		}
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b slice) int { return strings.Compare(a.uuid, b.uuid) })
	found = slices.CompactFunc(found, func(a, b slice) bool { return a.uuid == b.uuid })
	for i := range found {
		found[i].sharesInstance = slices.ContainsFunc(found, func(o slice) bool { return o.gi == found[i].gi && o.uuid != found[i].uuid })
	}
	return true, found, true
}

func describeSlice(handle gonvml.Device) (slice, bool) {
	uuid, ret := handle.GetUUID()
	s := slice{handle: handle, uuid: plain(uuid)}
	if ret != gonvml.SUCCESS || s.uuid == "" {
		return s, false
	}
	if s.gi, ret = handle.GetGpuInstanceId(); ret != gonvml.SUCCESS {
		return s, false
	}
	if s.ci, ret = handle.GetComputeInstanceId(); ret != gonvml.SUCCESS {
		return s, false
	}
	attributes, got := handle.GetAttributes()
	if got == gonvml.SUCCESS {
		s.memory = int64(attributes.MemorySizeMB) << 20
	}
	if name, ret := handle.GetName(); ret == gonvml.SUCCESS {
		_, s.profile, _ = strings.Cut(plain(name), " MIG ")
	}
	if s.profile == "" && got == gonvml.SUCCESS {
		s.profile = profile(&attributes)
	}
	return s, true
}

// profile is nvidia-smi's name of a slice, for drivers that do not put it into the device's name. The memory in it is marketed
// and not counted, so that on some models it is a gibibyte or two off.
func profile(a *gonvml.DeviceAttributes) string {
	size := fmt.Sprintf("%dg.%dgb", a.GpuInstanceSliceCount, (a.MemorySizeMB+1023)/1024)
	if part := cmp.Or(a.ComputeInstanceSliceCount, a.GpuInstanceSliceCount); part != a.GpuInstanceSliceCount {
		return fmt.Sprintf("%dc.%s", part, size)
	}
	return size
}

func chars(c []int8) string {
	var b strings.Builder
	for _, v := range c {
		if v == 0 {
			break
		}
		b.WriteByte(byte(v))
	}
	return b.String()
}
