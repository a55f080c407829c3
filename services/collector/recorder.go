package collector

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// FlushSeconds is the length of a batch in sample time. Batches lie on its grid, so none crosses a minute.
const FlushSeconds = 10

// Identity is what a run of a collector says about itself in every batch.
type Identity struct {
	Node, Boot string
	Run        uint64
	Previous   spool.Name // last batch of the run before; zero when there was none
	Clock      usage.ClockEvidence
}

// Recorder turns the readings of one node into batches, numbered from 1 without a gap. It does no IO.
type Recorder struct {
	id      Identity
	seq     uint64
	open    bool
	last    span.Second
	spoken  span.SecondMask
	devices []device
	index   map[string]int
	order   []int // of devices, by name: the order of blocks in a batch
	scratch []byte
	dropped uint64
	gaps    []usage.Gap // of the node, not in a batch yet
	found   *usage.Topology
	told    bool // found is in a batch
	unseen  Unseen
}

// Unseen counts seconds in which something was not seen, by reason: node-seconds in which the whole node was not, and
// device-seconds.
type Unseen struct{ Node, Device map[usage.GapReason]uint64 }

// device is the open block of one device; named tells whether it was in any reading of the open batch. gaps are the
// seconds of that batch in which nothing was read.
type device struct {
	named bool
	block usage.Block
	gaps  []usage.Gap
}

// NewRecorder starts a run.
func NewRecorder(id Identity) *Recorder {
	unseen := Unseen{map[usage.GapReason]uint64{}, map[usage.GapReason]uint64{}}
	return &Recorder{id: id, index: map[string]int{}, unseen: unseen}
}

// Record takes one second and appends the batches that it closes to out: the one before when the second lies in
// another slot or not after it, and its own when it is the slot's last second. failed is why the source answered nothing,
// and 0 when it answered. A clock that stepped back goes on in a new batch: of two values for one second the lower
// sequence wins at the reader, so nothing is lost and nothing counts twice.
func (r *Recorder) Record(at span.Second, readings []Reading, failed usage.GapReason, out []usage.Batch) []usage.Batch {
	if r.open && (at <= r.last || slot(at) != slot(r.last)) {
		out = append(out, r.close())
	}
	r.open, r.last = true, at
	r.gaps, _ = split(r.gaps, at) // what was said of later ones: the clock was set back, they come again
	i := int(at - at.Minute().Start())
	r.spoken |= span.Bit(i)
	if failed != 0 {
		r.Gap(at, at+1, failed)
		readings = nil
	}
	for k := range readings {
		r.take(at, k, &readings[k])
	}
	if slot(at+1) != slot(at) {
		out = append(out, r.close())
	}
	return out
}

// Gap states why the node is not seen from one second to another. It goes with the next batch that ends behind it; what of it
// lies after a second that is recorded later, when the clock was set back meanwhile, is dropped: those seconds come again.
func (r *Recorder) Gap(from, to span.Second, why usage.GapReason) {
	if from < to {
		r.unseen.Node[why] += uint64(to - from)
		r.gaps = usage.AppendGap(r.gaps, usage.Gap{From: from, To: to, Reason: why})
	}
}

// Found states what the node consists of, unless it was said before.
func (r *Recorder) Found(t *usage.Topology) {
	if t != nil && t != r.found {
		r.found, r.told = t, false
	}
}

// Unseen is what the recorder counted so far; the maps go on counting.
func (r *Recorder) Unseen() Unseen { return r.unseen }

// Stop closes what is open, at once.
func (r *Recorder) Stop(out []usage.Batch) []usage.Batch {
	if r.open {
		out = append(out, r.close())
	}
	return out
}

func slot(at span.Second) int64 { return int64(at) / FlushSeconds }

// Dropped counts what no batch can carry and a source must not say: a device with no name, one that is too long or no
// text, more devices than usage.MaxBlocks, more faults of a device in one batch than usage.MaxFaults.
func (r *Recorder) Dropped() uint64 { return r.dropped }

// take enters one device's second. hint is its place in the source's answer, which seldom changes.
func (r *Recorder) take(at span.Second, hint int, m *Reading) {
	i := int(at - at.Minute().Start())
	d := r.device(hint, m.Device)
	if d == nil {
		r.dropped++
		return
	}
	d.named = true
	for _, f := range m.Faults {
		if len(d.block.Faults) == usage.MaxFaults {
			r.dropped++
			continue
		}
		f.Second = uint8(i)
		d.block.Faults = append(d.block.Faults, f)
	}
	if !m.Busy.Read() {
		d.block.Reason = max(d.block.Reason, m.Busy.Reason)
	}
	if !m.Seen() {
		r.unseen.Device[m.why()]++
		d.gaps = usage.AppendGap(d.gaps, usage.Gap{Device: m.Device, From: at, To: at + 1, Reason: m.why()})
		return
	}
	b := &d.block
	b.Seen |= span.Bit(i)
	b.Busy[i] = usage.BusyUnknown
	if m.Busy.Read() {
		b.Busy[i] = uint8(min(max(m.Busy.Value, 0), 100)) // drivers are known to say 101
	}
	set(&b.Memory, i, m.Memory)
	set(&b.Power, i, m.Power)
	set(&b.Energy, i, m.Energy)
	set(&b.Throttle, i, m.Throttle)
}

func set(s *usage.Series, i int, m Metric) {
	if m.Read() {
		s.Set(i, m.Value)
	}
}

// device finds or adds a device; nil when no batch could carry it.
func (r *Recorder) device(hint int, name string) *device {
	if hint < len(r.devices) && r.devices[hint].block.Device == name {
		return &r.devices[hint]
	}
	at, ok := r.index[name]
	if !ok {
		at = len(r.devices)
		if name == "" || len(name) > usage.MaxDeviceBytes || !utf8.ValidString(name) || at == usage.MaxBlocks {
			return nil
		}
		r.index[name] = at
		r.devices = append(r.devices, device{block: usage.Block{Device: name}})
		place, _ := slices.BinarySearchFunc(r.order, name, func(i int, name string) int {
			return strings.Compare(r.devices[i].block.Device, name)
		})
		r.order = slices.Insert(r.order, place, at)
	}
	return &r.devices[at]
}

func (r *Recorder) close() usage.Batch {
	r.seq++
	b := usage.Batch{
		Node: r.id.Node, Boot: r.id.Boot, Run: r.id.Run, Seq: r.seq,
		Minute: r.last.Minute(), Spoken: r.spoken, Clock: r.id.Clock,
	}
	if r.seq == 1 {
		b.PreviousRun, b.PreviousSeq = r.id.Previous.Run, r.id.Previous.Seq
	}
	b.Gaps, r.gaps = split(r.gaps, r.last+1)
	for _, k := range r.order {
		if d := &r.devices[k]; d.named {
			b.Blocks = append(b.Blocks, r.encode(&d.block))
			b.Gaps = append(b.Gaps, d.gaps...)
			reset(d)
		}
	}
	if !r.told {
		b.Topology, r.told = r.found, true
	}
	r.open, r.spoken = false, 0
	return b
}

// split cuts a node's gaps at a second, each part in order and none over another: the clock may have gone back between them.
func split(gaps []usage.Gap, at span.Second) (before, after []usage.Gap) {
	usage.SortGaps(gaps)
	last := span.Second(1)
	for _, g := range gaps {
		whole := usage.Gap{From: max(g.From, last), To: g.To, Reason: g.Reason}
		if whole.From >= whole.To {
			continue
		}
		last = whole.To
		if head := whole; head.From < at {
			head.To = min(head.To, at)
			before = usage.AppendGap(before, head)
		}
		if tail := whole; tail.To > at {
			tail.From = max(tail.From, at)
			after = usage.AppendGap(after, tail)
		}
	}
	return before, after
}

// encode keeps one exact allocation per block: batches outlive the scratch.
func (r *Recorder) encode(b *usage.Block) []byte {
	r.scratch = b.Append(r.scratch[:0])
	return append(make([]byte, 0, len(r.scratch)), r.scratch...)
}

// reset forgets the masks; values outside a mask are never read.
func reset(d *device) {
	b := &d.block
	d.gaps = d.gaps[:0]
	d.named, b.Seen, b.Reason, b.Faults = false, 0, usage.ReasonNone, b.Faults[:0]
	b.Memory.Known, b.Power.Known, b.Energy.Known, b.Throttle.Known = 0, 0, 0, 0
}
