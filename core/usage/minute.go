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
	length, n := uint64(r.Data[1]), 1
	if length >= 0x80 { // as for few devices' names
		length, n = binary.Uvarint(r.Data[1:])
	}
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
	Busy   [64]uint8       // by second; meaningful where Seen
	first  source
	more   []source // rare: a minute has one row as a rule
}

// source is a run and the seconds that are known from it.
type source struct {
	run, seq uint64
	seconds  span.SecondMask
}

// Run is the collector run that measured second i; meaningful where Seen.
func (m *Minute) Run(i int) uint64 {
	for k := range m.more {
		if m.more[k].seconds.Has(i) {
			return m.more[k].run
		}
	}
	return m.first.run
}

// SameRun tells whether seconds i of m and j of o were measured by one run.
func (m *Minute) SameRun(i int, o *Minute, j int) bool { return m.Run(i) == o.Run(j) }

// Add merges stored rows' values: busy holds one byte per second of seen.
func (m *Minute) Add(run, seq uint64, spoken, seen span.SecondMask, busy []byte) {
	m.Spoken |= spoken
	own := source{run, seq, seen}
	if m.Seen != 0 {
		m.first.yield(&own)
		for k := range m.more {
			m.more[k].yield(&own)
		}
	}
	switch {
	case own.seconds == 0:
		return
	case m.first.seconds == 0:
		m.first = own
	default:
		m.more = append(m.more, own)
	}
	m.Seen |= own.seconds
	if own.seconds == span.FullMinute {
		copy(m.Busy[:span.SecondsPerMinute], busy)
		return
	}
	for k, rest := 0, seen; rest != 0; k, rest = k+1, rest&(rest-1) {
		if i := rest.First(); own.seconds.Has(i) {
			m.Busy[i] = busy[k]
		}
	}
}

// yield leaves the seconds that both know to the lower (run, sequence).
func (s *source) yield(o *source) {
	both := s.seconds & o.seconds
	if both == 0 {
		return
	}
	if cmp.Or(cmp.Compare(s.run, o.run), cmp.Compare(s.seq, o.seq)) <= 0 {
		o.seconds &^= both
	} else {
		s.seconds &^= both
	}
}

// AddRow merges a stored row.
func (m *Minute) AddRow(r *Row) {
	if r.Seen == 0 {
		m.Spoken |= r.Spoken
		return
	}
	m.Add(r.Run, r.SeqFirst, r.Spoken, r.Seen, r.busy())
}

// Reset forgets everything, for another minute. Bytes of Busy stay, for they mean nothing where nothing is seen.
func (m *Minute) Reset() {
	m.Seen, m.Spoken, m.first = 0, 0, source{}
	m.more = m.more[:0]
}

// BusyKnown is the mask of seconds whose utilisation could be read.
func (m *Minute) BusyKnown() span.SecondMask {
	b := &m.Busy
	all := word(b[0:]) | word(b[8:]) | word(b[16:]) | word(b[24:]) | word(b[32:]) | word(b[40:]) | word(b[48:]) | word(b[56:])
	if all&(maxLimit*eachByte) == 0 {
		return m.Seen
	}
	return m.Seen & m.BusyBelow(maxLimit)
}

const (
	maxLimit = 128                // above every utilisation that is known, and the top bit of a byte
	eachByte = 0x0101010101010101 // times a byte: that byte eight times
)

// BusyBelow are the seconds whose utilisation is known and below a limit of at most 128, meaningful where Seen. It looks at eight
// seconds at a time, because idle relief asks this of every minute of every device.
func (m *Minute) BusyBelow(limit uint8) span.SecondMask {
	b, add := &m.Busy, (maxLimit-uint64(limit))*eachByte
	b0, b1, b2, b3 := below(b[0:], add), below(b[8:], add), below(b[16:], add), below(b[24:], add)
	b4, b5, b6, b7 := below(b[32:], add), below(b[40:], add), below(b[48:], add), below(b[56:], add)
	if b0|b1|b2|b3|b4|b5|b6|b7 == 0 { // as every minute of a device at work
		return 0
	}
	bits := packed(b0) | packed(b1)<<8 | packed(b2)<<16 | packed(b3)<<24 | packed(b4)<<32 | packed(b5)<<40 | packed(b6)<<48 | packed(b7)<<56
	return span.SecondMask(bits) & span.FullMinute
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// below sets the lowest bit of each of eight bytes that is below the limit that add is made of.
func below(b []byte, add uint64) uint64 {
	busy := word(b)
	// The top bit of a byte that is 128 or more is set; that of another one is set by this sum unless it is below the limit.
	reached := busy | (busy&^(maxLimit*eachByte) + add)
	return (^reached >> 7) & eachByte
}

// packed moves the lowest bits of eight bytes into one, the first byte's lowest.
func packed(lowest uint64) uint64 { return lowest * 0x0102040810204080 >> 56 }

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
