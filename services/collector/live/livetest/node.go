package livetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Node is a machine with GPUs. Its readings tell when they were taken: Energy is the wall clock's millisecond at which the call began,
// Busy the tens of milliseconds of it.
type Node struct {
	mu      sync.Mutex
	gpus    map[string]*gpu
	hidden  map[string]*gpu
	driver  int // a session of another driver than this one is lost
	openErr error
	scanErr error
	hangs   map[string]chan struct{} // by unit, or "scan" or "open"
	open    int                      // sessions that are not closed
}

type gpu struct {
	slices  []string
	version int
	lost    bool
	faults  []usage.Fault
}

// NewNode is a machine with some GPUs.
func NewNode(names ...string) *Node {
	n := &Node{gpus: map[string]*gpu{}, hidden: map[string]*gpu{}, hangs: map[string]chan struct{}{}}
	n.Plug(names...)
	return n
}

func (n *Node) do(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// Plug adds GPUs.
func (n *Node) Plug(names ...string) {
	n.do(func() {
		for _, name := range names {
			n.gpus[name] = &gpu{}
		}
	})
}

// Pull takes a GPU away.
func (n *Node) Pull(name string) { n.do(func() { delete(n.gpus, name) }) }

// Hide leaves a GPU out of scans, and Show lists the same one again.
func (n *Node) Hide(name string) {
	n.do(func() { n.hidden[name] = n.gpus[name]; delete(n.gpus, name) })
}

// Show ends Hide.
func (n *Node) Show(name string) {
	n.do(func() { n.gpus[name] = n.hidden[name]; delete(n.hidden, name) })
}

// Slice cuts a GPU anew; handles of its old slices are dead.
func (n *Node) Slice(name string, parts ...string) {
	n.do(func() {
		if g := n.gpus[name]; g != nil {
			g.slices, g.version = parts, g.version+1
		}
	})
}

// Fall lets a GPU fall off the bus: it is listed, answers nothing, and says so once.
func (n *Node) Fall(name string) {
	n.do(func() {
		if g := n.gpus[name]; g != nil {
			g.lost = true
			g.faults = append(g.faults, usage.Fault{Kind: usage.FaultXID, Code: 79})
		}
	})
}

// Fault lets a GPU report something.
func (n *Node) Fault(name string, f usage.Fault) {
	n.do(func() {
		if g := n.gpus[name]; g != nil {
			g.faults = append(g.faults, f)
		}
	})
}

// Reload loads the driver anew: all sessions are lost.
func (n *Node) Reload() { n.do(func() { n.driver++ }) }

// OpenFails sets the error of Open, nil for none.
func (n *Node) OpenFails(err error) { n.do(func() { n.openErr = err }) }

// ScanFails sets the error of Scan, nil for none.
func (n *Node) ScanFails(err error) { n.do(func() { n.scanErr = err }) }

// Hang lets the calls of a unit, or "scan" or "open", hang until Release.
func (n *Node) Hang(what string) {
	n.do(func() {
		if n.hangs[what] == nil {
			n.hangs[what] = make(chan struct{})
		}
	})
}

// Release lets what hangs go on.
func (n *Node) Release(what string) {
	n.do(func() {
		if c := n.hangs[what]; c != nil {
			close(c)
			delete(n.hangs, what)
		}
	})
}

// ReleaseAll lets everything go on.
func (n *Node) ReleaseAll() {
	n.do(func() {
		for what, c := range n.hangs {
			close(c)
			delete(n.hangs, what)
		}
	})
}

// Sessions counts those that are open.
func (n *Node) Sessions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// enter is the begin of a call into the driver, which may hang.
func (n *Node) enter(what string) {
	n.mu.Lock()
	c := n.hangs[what]
	n.mu.Unlock()
	if c != nil {
		<-c
	}
}

// Open is a live.SamplerConfig's.
func (n *Node) Open() (collector.Hardware, error) {
	n.enter("open")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.openErr != nil {
		return nil, n.openErr
	}
	n.open++
	return &session{node: n, driver: n.driver, units: map[string]*unit{}}, nil
}

type session struct {
	node     *Node
	driver   int
	units    map[string]*unit
	topology usage.Topology
	closed   bool
}

// Topology implements collector.Hardware.
func (s *session) Topology() usage.Topology {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	t := s.topology
	t.Devices = slices.Clone(t.Devices)
	return t
}

// Scan implements collector.Hardware.
func (s *session) Scan() ([]collector.Unit, error) {
	n := s.node
	n.enter("scan")
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.closed:
		panic("a scan of a session that is closed")
	case s.driver != n.driver:
		return nil, collector.ErrSession
	case n.scanErr != nil:
		return nil, n.scanErr
	}
	s.topology = usage.Topology{Source: "fake", Driver: fmt.Sprint(n.driver)}
	var units []collector.Unit
	for _, name := range slices.Sorted(maps.Keys(n.gpus)) {
		g := n.gpus[name]
		u := s.units[name]
		if u == nil || u.gpu != g {
			u = &unit{session: s, name: name, gpu: g}
			s.units[name] = u
		}
		u.version, u.devices = g.version, append([]string{name}, g.slices...)
		units = append(units, u)
		s.topology.Devices = append(s.topology.Devices, usage.Device{Name: name, Vendor: "nvidia"})
		for _, slice := range g.slices {
			s.topology.Devices = append(s.topology.Devices, usage.Device{Name: slice, Parent: name, Vendor: "nvidia"})
		}
	}
	slices.SortFunc(s.topology.Devices, func(a, b usage.Device) int { return strings.Compare(a.Name, b.Name) })
	return units, nil
}

// Close implements collector.Hardware. It panics where a call is still on its way, as a driver might.
func (s *session) Close() error {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	if s.closed {
		panic("a session is closed twice")
	}
	for _, u := range s.units {
		if u.calls > 0 {
			panic("a session is closed while a call hangs in " + u.name)
		}
	}
	s.closed = true
	s.node.open--
	return nil
}

type unit struct {
	session *session
	name    string
	gpu     *gpu
	version int
	devices []string
	calls   int
}

// Name implements collector.Unit.
func (u *unit) Name() string { return u.name }

// Devices implements collector.Unit.
func (u *unit) Devices() []string {
	u.session.node.mu.Lock()
	defer u.session.node.mu.Unlock()
	if u.calls > 0 {
		panic("a unit is asked for its devices while a call hangs in it")
	}
	return slices.Clone(u.devices)
}

// Capabilities implements collector.Unit.
func (u *unit) Capabilities() []collector.Capability { return nil }

// Sample implements collector.Unit.
func (u *unit) Sample(into []collector.Reading) ([]collector.Reading, error) {
	n := u.session.node
	n.mu.Lock()
	if u.calls++; u.calls > 1 {
		panic("calls pile up in " + u.name)
	}
	began := time.Now().UnixMilli()
	n.mu.Unlock()
	n.enter(u.name)
	n.mu.Lock()
	defer n.mu.Unlock()
	u.calls--
	if u.session.driver != n.driver {
		return into, collector.ErrSession
	}
	gone := n.gpus[u.name] != u.gpu
	for i, device := range u.devices {
		dead := gone || u.gpu.lost || i > 0 && u.version != u.gpu.version
		r := Reading(device, began)
		if dead {
			r = unknown(device, usage.ReasonLost)
		}
		if i == 0 {
			r.Faults, u.gpu.faults = u.gpu.faults, nil
		}
		into = append(into, r)
	}
	if u.version != u.gpu.version {
		return into, collector.ErrChanged
	}
	return into, nil
}

// Reading is what a GPU says that was asked at a millisecond.
func Reading(device string, milli int64) collector.Reading {
	return collector.Reading{
		Device: device, Busy: collector.Known(milli / 10 % 100), Energy: collector.Known(milli),
		Memory: collector.Known(1 << 30), Power: collector.Known(300_000), Throttle: collector.Unknown(usage.ReasonNotSupported),
	}
}

func unknown(device string, why usage.Reason) collector.Reading {
	none := collector.Unknown(why)
	return collector.Reading{Device: device, Busy: none, Memory: none, Power: none, Energy: none, Throttle: none}
}
