package collector

import (
	"errors"

	"github.com/gpuhour/gpuhour/core/usage"
)

// Hardware is a live source: the devices of this node as a driver or an exporter shows them. It has no clock; when a unit is
// sampled, and what happens to one that does not answer, is decided by package live.
type Hardware interface {
	// Topology lists the source, its driver's version and every device. It is what the last Scan found.
	Topology() usage.Topology
	// Scan looks for devices anew and returns the units of the node. A unit that is still the same hardware is the same
	// value as before. It may be called while a unit's Sample hangs, and must not wait for it. An error means that nothing
	// can be said of the node; ErrSession that the hardware must be closed and opened anew.
	Scan() ([]Unit, error)
	// Close ends the session. It must not hang: where a call hangs in the driver, the session is left to the process's end.
	Close() error
}

// Unit is the part of a node that answers, or hangs, by itself: one GPU with its slices, or one exporter's endpoint. It is
// used by one goroutine at a time.
type Unit interface {
	// Name is for logs and metrics: the GPU's UUID, or the endpoint's address.
	Name() string
	// Devices are the names of what Sample reads, as of the last Scan: what is missing when it does not answer.
	Devices() []string
	// Sample reads each of the unit's devices once, over the time since the call before, and appends one reading each. What
	// could not be read is Unknown with its reason, never a zero; faults that came since are in the readings. It takes as
	// long as the driver takes, which may be for ever. The error says what the caller should do beside: ErrChanged, ErrSession, ErrPartly.
	Sample(into []Reading) ([]Reading, error)
	// Capabilities tells for each metric where it comes from, or why there is none.
	Capabilities() []Capability
}

// Capability is one metric of one device: Via names the call or series that it comes from; where there is none, Reason
// says why and Note may tell a person what to do.
type Capability struct {
	Device, Metric, Via string
	Reason              usage.Reason
	Note                string
}

// Errors of live sources.
var (
	// ErrChanged asks for a Scan: devices or slices are others than before.
	ErrChanged = errors.New("the devices of this unit changed")
	// ErrSession asks to close the hardware and to open it anew: the driver was reloaded, or never was there.
	ErrSession = errors.New("there is no session with the driver")
	// ErrPartly asks to tell a person: the readings stand, and not everything that the unit shows could be used.
	ErrPartly = errors.New("not all of it could be used")
)
