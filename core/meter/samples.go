package meter

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// sampledHour is what is known of a device's hour; the zero Minute is one of which nothing is.
type sampledHour [60]usage.Minute

// spokenHour are the seconds of an hour for which a node spoke.
type spokenHour [60]span.SecondMask

// samples are the hours that a block looks at. A device's hour is one piece of memory and not sixty, and used again, because every
// minute of every device passes through here.
type samples struct {
	devices map[deviceHour]*sampledHour
	nodes   map[nodeHour]*spokenHour
	// The memory of both.
	deviceHours kept[sampledHour]
	nodeHours   kept[spokenHour]
	// Those added to last: rows come by device and minute.
	of     deviceHour
	hour   *sampledHour
	node   nodeHour
	spoken *spokenHour
}

type deviceHour struct {
	device string
	hour   span.Hour
}

type nodeHour struct {
	node string
	hour span.Hour
}

func newSamples() samples {
	return samples{devices: map[deviceHour]*sampledHour{}, nodes: map[nodeHour]*spokenHour{}}
}

// reset forgets all hours and keeps memory for some.
func (x *samples) reset() {
	for _, h := range x.deviceHours.reset() {
		for k := range h {
			h[k].Reset()
		}
	}
	for _, h := range x.nodeHours.reset() {
		*h = spokenHour{}
	}
	clear(x.devices)
	clear(x.nodes)
	x.hour, x.spoken = nil, nil
}

// kept is memory that is used again by every block. Who resets it clears it.
type kept[T any] struct {
	all  []*T
	used int
}

// maxKept bounds what stays of a block with many hours: half a megabyte.
const maxKept = 64

// next is one more that is clear.
func (k *kept[T]) next() *T {
	if k.used == len(k.all) {
		k.all = append(k.all, new(T))
	}
	k.used++
	return k.all[k.used-1]
}

// reset gives up all but some, and returns those that were used and stay, to be cleared.
func (k *kept[T]) reset() []*T {
	if len(k.all) > maxKept {
		k.all = slices.Clone(k.all[:maxKept])
	}
	used := k.all[:min(k.used, len(k.all))]
	k.used = 0
	return used
}

// add merges a row into its minute.
func (x *samples) add(r *usage.Row) {
	if r.Device == "" {
		x.addSpoken(r)
		return
	}
	k := r.Minute - x.of.hour.FirstMinute()
	if x.hour == nil || k < 0 || k >= 60 || r.Device != x.of.device {
		x.turn(deviceHour{r.Device, r.Minute.Hour()})
		k = r.Minute - x.of.hour.FirstMinute()
	}
	x.hour[k].AddRow(r)
}

// turn makes an hour the one that is added to.
func (x *samples) turn(of deviceHour) {
	x.of, x.hour = of, x.devices[of]
	if x.hour == nil {
		x.hour = x.deviceHours.next()
		x.devices[of] = x.hour
	}
}

func (x *samples) addSpoken(r *usage.Row) {
	k := r.Minute - x.node.hour.FirstMinute()
	if x.spoken == nil || k < 0 || k >= 60 || r.Node != x.node.node {
		x.node = nodeHour{r.Node, r.Minute.Hour()}
		if x.spoken = x.nodes[x.node]; x.spoken == nil {
			x.spoken = x.nodeHours.next()
			x.nodes[x.node] = x.spoken
		}
		k = r.Minute - x.node.hour.FirstMinute()
	}
	x.spoken[k] |= r.Spoken
}
