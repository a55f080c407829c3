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
	newest  span.Second // told, as far as that stands
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

// device is the open block of one device; named tells whether it was in any reading of the open batch, last in which second. gaps
// are the seconds of that batch in which nothing was read.
type device struct {
	named bool
	last  span.Second
	block usage.Block
	gaps  []usage.Gap
	past  [4]past // minutes that batches told of, by minute modulo 4
}

// past is the seconds of a minute in which earlier batches saw a device.
type past struct {
	minute span.Minute
	seen   span.SecondMask
}

func (d *device) told(at span.Second) bool {
	p := &d.past[int(at.Minute())%len(d.past)]
	return p.minute == at.Minute() && p.seen.Has(int(at-p.minute.Start()))
}

// distrust forgets what was said.
func (r *Recorder) distrust() {
	r.newest = 0
	for i := range r.devices {
		clear(r.devices[i].past[:])
	}
}

func (d *device) tell(m span.Minute) {
	p := &d.past[int(m)%len(d.past)]
	if p.minute != m {
		*p = past{minute: m}
	}
	p.seen |= d.block.Seen
}

// NewRecorder starts a run.
func NewRecorder(id Identity) *Recorder {
	unseen := Unseen{map[usage.GapReason]uint64{}, map[usage.GapReason]uint64{}}
	return &Recorder{id: id, index: map[string]int{}, unseen: unseen}
}

// Record takes one second and appends the batches that it closes to out: the one before when the second lies in
// another slot or not after it, and its own when it is the slot's last second. failed is why the source answered nothing,
// and 0 when it answered. A clock that stepped back goes on in a new batch. After a step of less than usage.MaxAheadSeconds what was
// said of a device's second stands and is not said anew, because another value would be listed as a contradiction; only faults are. After
// a longer one what was said may lie ahead of the log's time, where it does not count, so all is said anew: of two values that
// count the lower sequence wins at the reader, so nothing is lost and nothing counts twice.
func (r *Recorder) Record(at span.Second, readings []Reading, failed usage.GapReason, out []usage.Batch) []usage.Batch {
	if r.open && (at <= r.last || slot(at) != slot(r.last)) {
		out = r.close(out)
	}
	if at <= r.last && r.newest-at >= usage.MaxAheadSeconds {
		r.distrust()
	}
	r.open, r.last, r.newest = true, at, max(r.newest, at)
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
		out = r.close(out)
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

// Found states what the node consists of, unless it was said before. One that does not fit in a batch is dropped.
func (r *Recorder) Found(t *usage.Topology) {
	if t == nil || t == r.found {
		return
	}
	r.found, r.told = t, !Fits(t)
	if r.told {
		r.dropped++
	}
}

// Unseen is what the recorder counted so far; the maps go on counting.
func (r *Recorder) Unseen() Unseen { return r.unseen }

// Stop closes what is open, at once.
func (r *Recorder) Stop(out []usage.Batch) []usage.Batch {
	if r.open {
		out = r.close(out)
	}
	return out
}

func slot(at span.Second) int64 { return int64(at) / FlushSeconds }

// Dropped counts what no batch can carry and a source must not say: a device with no name, one that is too long or no
// text, a device twice in a second, more devices in ten seconds than usage.MaxBlocks, more faults of a device in one batch than
// usage.MaxFaults, a topology that does not fit.
func (r *Recorder) Dropped() uint64 { return r.dropped }

// take enters one device's second. hint is its place in the source's answer, which seldom changes.
func (r *Recorder) take(at span.Second, hint int, m *Reading) {
	i := int(at - at.Minute().Start())
	d := r.device(hint, m.Device)
	if d == nil || d.named && d.last == at {
		r.dropped++
		return
	}
	d.named, d.last = true, at
	for _, f := range m.Faults {
		if len(d.block.Faults) == usage.MaxFaults {
			r.dropped++
			continue
		}
		f.Second = uint8(i)
		d.block.Faults = append(d.block.Faults, f)
	}
	if d.told(at) { // the clock was set back
		return
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

// close appends what is open to out: one batch, or several for the same seconds where one would be more than the log takes.
func (r *Recorder) close(out []usage.Batch) []usage.Batch {
	gaps, later := split(r.gaps, r.last+1)
	b, size := r.batch(), 0
	room := func(n int) {
		if size > 0 && size+n > maxContent {
			out, b, size = append(out, b), r.batch(), 0
		}
		size += n
	}
	if !r.told && r.found != nil {
		room(topologyBytes(r.found))
		b.Topology, r.told = r.found, true
	}
	for i := range gaps {
		room(gapBytes(&gaps[i]))
		b.Gaps = append(b.Gaps, gaps[i])
	}
	for _, k := range r.order {
		if d := &r.devices[k]; d.named {
			block := r.encode(&d.block)
			room(blockBytes(block, d.gaps))
			b.Blocks, b.Gaps = append(b.Blocks, block), append(b.Gaps, d.gaps...)
		}
	}
	r.open, r.spoken, r.gaps = false, 0, later
	r.clear()
	return append(out, b)
}

// batch is the next one, with nothing in it.
func (r *Recorder) batch() usage.Batch {
	r.seq++
	b := usage.Batch{
		Node: r.id.Node, Boot: r.id.Boot, Run: r.id.Run, Seq: r.seq,
		Minute: r.last.Minute(), Spoken: r.spoken, Clock: r.id.Clock,
	}
	if r.seq == 1 {
		b.PreviousRun, b.PreviousSeq = r.id.Previous.Run, r.id.Previous.Seq
	}
	return b
}

// clear makes the devices ready for the next batch, and forgets those that this one did not name: slices that are cut anew have other
// names each time, and there is room for usage.MaxBlocks.
func (r *Recorder) clear() {
	kept := 0
	for i := range r.devices {
		if !r.devices[i].named {
			continue
		}
		r.devices[i].tell(r.last.Minute())
		reset(&r.devices[i])
		if kept != i {
			r.devices[kept], r.devices[i] = r.devices[i], device{}
		}
		kept++
	}
	if kept == len(r.devices) {
		return
	}
	r.devices = r.devices[:kept]
	clear(r.index)
	r.order = r.order[:0]
	for i := range r.devices {
		r.index[r.devices[i].block.Device] = i
		r.order = append(r.order, i)
	}
	slices.SortFunc(r.order, func(a, b int) int {
		return strings.Compare(r.devices[a].block.Device, r.devices[b].block.Device)
	})
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
