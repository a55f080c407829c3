package usage

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// Row is one stored minute of one device by one collector run, put at one block. A minute is the OR of its rows,
// read together, normally one. A row with no device is the node's own: it says for which seconds the node spoke.
type Row struct {
	Node, Device      string
	Minute            span.Minute
	Run               uint64
	Block             uint64 // the tick's position at which it was put
	SeqFirst, SeqLast uint64
	Spoken            span.SecondMask
	Seen              span.SecondMask
	Data              []byte // the merged Block in its frozen form; nil in a node's own row
}

// busy is the part of Data that holds one byte per seen second.
func (r *Row) busy() []byte {
	if r.Seen == 0 {
		return nil
	}
	length, n := binary.Uvarint(r.Data[1:])
	from := 1 + n + int(length) + 8
	return r.Data[from : from+r.Seen.Count()]
}

// Piece is one batch's block of one device, before it is merged.
type Piece struct {
	Run, Seq uint64
	Spoken   span.SecondMask
	Block    []byte // nil in the node's own pieces
}

// Minute is what is known of a device's minute: of two values for one second the lowest (run, sequence) wins, so
// the result does not depend on the order of arrival.
type Minute struct {
	Seen   span.SecondMask
	Spoken span.SecondMask // the node spoke for these seconds
	Busy   [span.SecondsPerMinute]uint8
	runs   [span.SecondsPerMinute]uint64
	seqs   [span.SecondsPerMinute]uint64
}

// Run is the collector run that measured second i; meaningful where Seen.
func (m *Minute) Run(i int) uint64 { return m.runs[i] }

// SameRun tells whether seconds i of m and j of o were measured by one run.
func (m *Minute) SameRun(i int, o *Minute, j int) bool { return m.runs[i] == o.runs[j] }

// Add merges stored rows' values: busy holds one byte per second of seen.
func (m *Minute) Add(run, seq uint64, spoken, seen span.SecondMask, busy []byte) {
	m.Spoken |= spoken
	k := 0
	seen.Each(func(i int) {
		v := busy[k]
		k++
		if m.Seen.Has(i) && cmp.Or(cmp.Compare(m.runs[i], run), cmp.Compare(m.seqs[i], seq)) <= 0 {
			return
		}
		m.Seen |= span.Bit(i)
		m.Busy[i], m.runs[i], m.seqs[i] = v, run, seq
	})
}

// AddRow merges a stored row.
func (m *Minute) AddRow(r *Row) { m.Add(r.Run, r.SeqFirst, r.Spoken, r.Seen, r.busy()) }

// BusyKnown is the mask of seconds whose utilisation could be read.
func (m *Minute) BusyKnown() span.SecondMask {
	known := m.Seen
	m.Seen.Each(func(i int) {
		if m.Busy[i] == BusyUnknown {
			known &^= span.Bit(i)
		}
	})
	return known
}

// Rows merges the pieces of one (node, device, minute) into rows, one per run, leaving out the seconds and faults that
// standing rows of the run already hold: a run's batches stand in the stream in their order, so what stands has the
// lower sequence. Pieces may come in any order and repeat; they are sorted in place. Nothing new gives no row.
func Rows(node, device string, minute span.Minute, pieces []Piece, standing []Row) []Row {
	slices.SortFunc(pieces, func(a, b Piece) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Seq, b.Seq)) })
	var rows []Row
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].Run == pieces[0].Run {
			n++
		}
		if row, ok := runRow(node, device, minute, pieces[:n], standing); ok {
			rows = append(rows, row)
		}
		pieces = pieces[n:]
	}
	return rows
}

// runRow merges the sorted pieces of one run.
func runRow(node, device string, minute span.Minute, pieces []Piece, standing []Row) (Row, bool) {
	row := Row{Node: node, Device: device, Minute: minute, Run: pieces[0].Run, SeqFirst: pieces[0].Seq, SeqLast: pieces[len(pieces)-1].Seq}
	var heldSpoken, heldSeen span.SecondMask
	for i := range standing {
		if standing[i].Run == row.Run {
			heldSpoken |= standing[i].Spoken
			heldSeen |= standing[i].Seen
		}
	}
	var merged, part Block
	merged.Device = device
	for _, p := range pieces {
		row.Spoken |= p.Spoken
		if p.Block == nil {
			continue
		}
		if err := part.Decode(p.Block); err != nil {
			must.Never("the block of %s in run %d sequence %d was decoded before it was kept: %v", device, p.Run, p.Seq, err)
		}
		merged.take(&part, part.Seen&^merged.Seen&^heldSeen)
	}
	merged.dropHeldFaults(row.Run, standing)
	row.Seen = merged.Seen
	if row.Seen == 0 && row.Spoken&^heldSpoken == 0 && len(merged.Faults) == 0 {
		return Row{}, false
	}
	if device != "" {
		row.Data = merged.Append(nil)
	}
	return row, true
}

// take copies the values of the seconds in mask from o, and its faults: those are a set, and a device that fell off
// the bus has them in seconds in which nothing was seen.
func (b *Block) take(o *Block, mask span.SecondMask) {
	b.Seen |= mask
	b.Reason = max(b.Reason, o.Reason)
	mask.Each(func(i int) { b.Busy[i] = o.Busy[i] })
	from := o.series()
	for k, s := range b.series() {
		(from[k].Known & mask).Each(func(i int) { s.Set(i, from[k].Values[i]) })
	}
	for _, f := range o.Faults {
		if !slices.Contains(b.Faults, f) {
			b.Faults = append(b.Faults, f)
		}
	}
}

// dropHeldFaults leaves out what standing rows of the run already say.
func (b *Block) dropHeldFaults(run uint64, standing []Row) {
	var held Block
	for i := range standing {
		if len(b.Faults) == 0 {
			return
		}
		if standing[i].Run != run || standing[i].Data == nil {
			continue
		}
		if err := held.Decode(standing[i].Data); err != nil {
			must.Never("the row of %s in minute %d was encoded here: %v", b.Device, standing[i].Minute, err)
		}
		b.Faults = slices.DeleteFunc(b.Faults, func(f Fault) bool { return slices.Contains(held.Faults, f) })
	}
}
