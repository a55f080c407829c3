package sim

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// tenant is one lease as the seconds go by.
type tenant struct {
	start            *fact.LeaseStarted
	steps            []fact.Fact
	waived           []span.Span
	running, stopped bool
	afterFault       bool
	endedBy          fact.EndedBy
	began            int64
	seq              uint64 // of the fact that began it
	holds            []hold
	parts, before    []*part // what is held now, and in the second before
	nextStep         int
}

type hold struct {
	device string
	milli  int64
}

// part is some milli of a device, from the fact on that brought it.
type part struct {
	hold
	lease   string
	began   int64
	seq     uint64
	granted int64
	once    int64 // what would be granted if the device were sold once
	// counted since the conditions changed last
	leased, measured, inferred int64
}

func (t *tenant) take(f fact.Fact) []int64 {
	if b, ok := f.Body.(*fact.RefusalWaived); ok {
		t.waived = append(t.waived, span.Span{From: b.From, To: b.To})
		return []int64{int64(b.From), int64(b.To)}
	}
	if b, ok := f.Body.(*fact.LeaseStarted); ok && t.start == nil {
		t.start = b
	}
	t.steps = append(t.steps, f)
	return []int64{instant(f.Body)}
}

func instant(b fact.Body) int64 {
	switch b := b.(type) {
	case *fact.LeaseStarted:
		return int64(b.At)
	case *fact.LeaseResized:
		return int64(b.At)
	case *fact.LeaseStateChanged:
		return int64(b.At)
	case *fact.LeaseStopped:
		return int64(b.At)
	}
	return 0
}

func rank(b fact.Body) int {
	if _, ok := b.(*fact.LeaseStarted); ok {
		return 0
	}
	return 1
}

func holds(devices []fact.Share, count, share int64) (out []hold) {
	for _, d := range devices {
		out = append(out, hold{d.Device, d.ShareMilli})
	}
	if len(out) == 0 {
		out = append(out, hold{"", count * share})
	}
	return out
}

func (t *tenant) begin(at int64, seq uint64) {
	t.afterFault = t.endedBy == fact.ByFault
	t.running, t.began, t.seq = true, at, seq
	t.grasp(at, seq)
}

// grasp brings what is held to what is stated: more is a new part, less takes from the newest.
func (t *tenant) grasp(at int64, seq uint64) {
	want := map[string]int64{}
	for _, h := range t.holds {
		want[h.device] = h.milli
	}
	for i := len(t.parts) - 1; i >= 0; i-- {
		p := t.parts[i]
		have := int64(0)
		for _, q := range t.parts {
			if q.device == p.device {
				have += q.milli
			}
		}
		if excess := have - want[p.device]; excess > 0 {
			p.milli -= min(excess, p.milli)
		}
	}
	t.parts = slices.DeleteFunc(t.parts, func(p *part) bool { return p.milli == 0 })
	for _, h := range t.holds {
		for _, p := range t.parts {
			if p.device == h.device {
				h.milli -= p.milli
			}
		}
		if h.milli > 0 {
			t.parts = append(t.parts, &part{hold: h, lease: t.start.Lease, began: at, seq: seq})
		}
	}
}
