package recorded

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Recording is a trace of one node with seconds from 0.
type Recording struct {
	Seconds span.Second
	Begin   span.Second // the instant of second 0, or 0 when nobody wrote it down
	Notes   []string    // what a person should know of how it was read

	tracks     map[string]*track
	ran        []int32 // seconds in which the collector ran, rising
	failed     []int32 // of them those in which the node answered nothing
	topologies []topology
}

type topology struct {
	from int32
	usage.Topology
}

// track is what one device said, by rising second: 50 bytes a second and what slices grow ahead, where a Reading has 150.
type track struct {
	at      []int32
	values  [5][]int64
	reasons [5][]usage.Reason
	faults  map[int32][]usage.Fault
}

// Add enters one device's second. Seconds may come in any order, each device's once.
func (rec *Recording) Add(at span.Second, r collector.Reading) error {
	if at < 0 || at > maxSecond {
		return fmt.Errorf("second %d is none from 0 to %d", at, maxSecond)
	}
	if rec.tracks == nil {
		rec.tracks = map[string]*track{}
	}
	t := rec.tracks[r.Device]
	if t == nil {
		t = &track{}
		rec.tracks[r.Device] = t
	}
	s := int32(at)
	if _, failed := slices.BinarySearch(rec.failed, s); failed {
		return fmt.Errorf("device %s speaks in second %d, in which the node answered nothing", r.Device, at)
	}
	i, twice := slices.BinarySearch(t.at, s)
	if twice {
		return fmt.Errorf("device %s has second %d twice", r.Device, at)
	}
	t.at = slices.Insert(t.at, i, s)
	for k, m := range metrics(&r) {
		t.values[k] = slices.Insert(t.values[k], i, m.Value)
		t.reasons[k] = slices.Insert(t.reasons[k], i, m.Reason)
	}
	if len(r.Faults) > 0 {
		if t.faults == nil {
			t.faults = map[int32][]usage.Fault{}
		}
		t.faults[s] = slices.Clone(r.Faults)
	}
	rec.runs(s)
	return nil
}

// Answered enters a second in which the collector ran, whatever devices spoke in it.
func (rec *Recording) Answered(at span.Second) error {
	if at < 0 || at > maxSecond {
		return fmt.Errorf("second %d is none from 0 to %d", at, maxSecond)
	}
	rec.runs(int32(at))
	return nil
}

// Failed enters a second in which the node answered nothing.
func (rec *Recording) Failed(at span.Second) error {
	if at < 0 || at > maxSecond {
		return fmt.Errorf("second %d is none from 0 to %d", at, maxSecond)
	}
	s := int32(at)
	if _, ran := slices.BinarySearch(rec.ran, s); ran {
		return fmt.Errorf("second %d stands there twice: the node answered nothing, and something else", at)
	}
	rec.runs(s)
	i, _ := slices.BinarySearch(rec.failed, s)
	rec.failed = slices.Insert(rec.failed, i, s)
	return nil
}

func (rec *Recording) runs(s int32) {
	if i, ok := slices.BinarySearch(rec.ran, s); !ok {
		rec.ran = slices.Insert(rec.ran, i, s)
	}
	rec.Seconds = max(rec.Seconds, span.Second(s)+1)
}

// SetTopology enters the devices as they are from a second on. It gives back what it holds, for more devices to be added.
func (rec *Recording) SetTopology(at span.Second, t usage.Topology) (*usage.Topology, error) {
	if n := len(rec.topologies); n > 0 && rec.topologies[n-1].from >= int32(at) {
		return nil, errors.New("topologies come by rising second")
	}
	rec.topologies = append(rec.topologies, topology{int32(at), t})
	return &rec.topologies[len(rec.topologies)-1].Topology, nil
}

// Topology is what the recording collector knew of the node's devices in a second, and nil when it did not say. It is the same
// value for as long as nothing changed.
func (rec *Recording) Topology(at span.Second) *usage.Topology {
	i, found := slices.BinarySearchFunc(rec.topologies, at, func(t topology, at span.Second) int { return cmp.Compare(span.Second(t.from), at) })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return &rec.topologies[i].Topology
}

// Devices are the names of all that the recording has, rising.
func (rec *Recording) Devices() []string {
	names := make([]string, 0, len(rec.tracks))
	for name := range rec.tracks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// From gives the recording as a source that begins at an instant and, when loop is set, begins again when it ends.
func (rec *Recording) From(start span.Second, loop bool) *Source {
	s := &Source{Window: span.Span{From: start, To: start + rec.Seconds}}
	offset := func(at span.Second) int32 { return int32((at - start) % rec.Seconds) }
	if loop {
		s.Window.To = span.Open
	}
	s.Slept = func(at span.Second) bool {
		_, ran := slices.BinarySearch(rec.ran, offset(at))
		return !ran
	}
	if len(rec.failed) > 0 {
		s.Failed = func(at span.Second) bool {
			_, failed := slices.BinarySearch(rec.failed, offset(at))
			return failed
		}
	}
	if len(rec.topologies) > 0 {
		s.Found = func(at span.Second) *usage.Topology { return rec.Topology(span.Second(offset(at))) }
	}
	for _, name := range rec.Devices() {
		s.Devices = append(s.Devices, shifted{name, rec.tracks[name], offset})
	}
	return s
}

// shifted is a track whose seconds begin elsewhere.
type shifted struct {
	device string
	track  *track
	offset func(span.Second) int32
}

// At implements Series.
func (s shifted) At(at span.Second, r *collector.Reading) bool {
	second := s.offset(at)
	i, ok := slices.BinarySearch(s.track.at, second)
	*r = collector.Reading{Device: s.device}
	if !ok {
		return false
	}
	for k, m := range metrics(r) {
		*m = collector.Metric{Value: s.track.values[k][i], Reason: s.track.reasons[k][i]}
	}
	r.Faults = slices.Clone(s.track.faults[second])
	return true
}

// nameable tells whether a recording can hold a device's name.
func nameable(name string) bool {
	return name != "" && len(name) <= usage.MaxDeviceBytes && plain(name)
}

func plain(s string) bool {
	return len(s) <= usage.MaxNameBytes && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
