package occupancy

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// UnknownDevice is the reason of a declaration of a device that no lease names: as long as that is so it says nothing.
const UnknownDevice = "unknown_device"

// Declaration is how much of a device may be sold at once from an instant on.
type Declaration struct {
	At    span.Second
	Seq   uint64 // of two in one second the higher position wins
	Key   string // the fact's key
	Milli int64
}

func (d Declaration) compare(o Declaration) int {
	return cmp.Or(cmp.Compare(d.At, o.At), cmp.Compare(d.Seq, o.Seq))
}

// declare takes a declaration and tells what is held where another milli is saleable now.
func (b *Book) declare(f fact.Fact, body *fact.DeviceDeclared) []Touched {
	u := Unit{Device: body.Device}
	d := Declaration{body.At, f.Seq, f.Key, body.SaleableMilli}
	before := b.Saleable(u, d.At)
	list := b.declared[u.Device]
	i, _ := slices.BinarySearchFunc(list, d, Declaration.compare)
	list = slices.Insert(list, i, d)
	b.declared[u.Device] = list
	holds := span.Span{From: d.At, To: span.Open}
	if i+1 < len(list) {
		holds.To = list[i+1].At
	}
	if holds.Empty() || before == d.Milli {
		return nil
	}
	return b.heldOn(u, holds)
}

// heldOn lists what lies in s of what leases hold of a unit: parts of tranches, and last seconds of ended starts.
func (b *Book) heldOn(u Unit, s span.Span) []Touched {
	var out []Touched
	b.each(u, s, func(h *holder) {
		for i := range h.tranches {
			if in := h.tranches[i].Span.Intersect(s); !in.Empty() {
				out = append(out, Touched{u, in})
			}
		}
		for i := range h.ended {
			if last := h.ended[i].Start.LastSecond(); s.Contains(last) {
				out = append(out, Touched{u, second(last)})
			}
		}
	})
	return out
}

// Saleable is how many milli of a unit may be sold at once at an instant: of a device what was declared last, or all of it once. An
// unplaced lease stands on no device that could run short.
func (b *Book) Saleable(u Unit, at span.Second) int64 {
	if u.Device == "" {
		return math.MaxInt64
	}
	list := b.declared[u.Device]
	i, _ := slices.BinarySearchFunc(list, Declaration{At: at + 1}, Declaration.compare)
	if i == 0 {
		return fact.WholeShareMilli
	}
	return list[i-1].Milli
}

// SaleableEdges appends to dst the instants within s at which another milli of a unit may become saleable.
func (b *Book) SaleableEdges(dst []span.Second, u Unit, s span.Span) []span.Second {
	list := b.declared[u.Device]
	for i, _ := slices.BinarySearchFunc(list, Declaration{At: s.From}, Declaration.compare); i < len(list) && list[i].At < s.To; i++ {
		dst = append(dst, list[i].At)
	}
	return dst
}

// Declared lists what was declared of a device, in order of time.
func (b *Book) Declared(device string) []Declaration { return b.declared[device] }

// Devices are those that a lease fact names.
func Devices(b fact.Body) []fact.Share {
	switch f := b.(type) {
	case *fact.LeaseStarted:
		return f.Devices
	case *fact.LeaseResized:
		return f.Devices
	default:
		return nil
	}
}

// Named tells whether a lease fact ever named a device.
func (b *Book) Named(device string) bool { return b.named[device] }
