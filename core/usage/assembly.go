package usage

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// Key names a device's minute on a node; Device is empty for the node's own.
type Key struct {
	Node, Device string
	Minute       span.Minute
}

// Assembly collects batches into minutes until they are closed. Memory is bounded by what is open: a few minutes.
type Assembly struct {
	minutes map[Key]*pieces // nil until something is held: most blocks hold nothing that is late
}

type pieces struct {
	list     []Piece
	firstSeq uint64
}

// NewAssembly is empty.
func NewAssembly() *Assembly { return &Assembly{} }

// Add takes a validated batch, met at a position of the stream.
func (a *Assembly) Add(seq uint64, b *Batch) {
	a.add(Key{b.Node, "", b.Minute}, seq, Piece{Run: b.Run, Seq: b.Seq, Spoken: b.Spoken})
	for _, block := range b.Blocks {
		device, err := BlockDevice(block)
		must.True(err == nil, "batch %s/%d/%d was taken with a block that cannot be read: %v", b.Node, b.Run, b.Seq, err)
		a.add(Key{b.Node, device, b.Minute}, seq, Piece{Run: b.Run, Seq: b.Seq, Spoken: b.Spoken, Block: block})
	}
}

func (a *Assembly) add(k Key, seq uint64, p Piece) {
	m := a.minutes[k]
	if m == nil {
		if a.minutes == nil {
			a.minutes = map[Key]*pieces{}
		}
		m = &pieces{firstSeq: seq}
		a.minutes[k] = m
	}
	m.list = append(m.list, p)
}

// Keys lists the minutes held, in order.
func (a *Assembly) Keys() []Key {
	keys := make([]Key, 0, len(a.minutes))
	for k := range a.minutes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y Key) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Device, y.Device), cmp.Compare(x.Minute, y.Minute))
	})
	return keys
}

// Holds tells whether something of the minute is held.
func (a *Assembly) Holds(k Key) bool { return a.minutes[k] != nil }

// Rows merges one minute into what it adds to the standing rows.
func (a *Assembly) Rows(k Key, standing []Row) []Row {
	m := a.minutes[k]
	if m == nil {
		return nil
	}
	return Rows(k.Node, k.Device, k.Minute, slices.Clone(m.list), standing)
}

// CloseBefore gives the rows of all minutes before m, in order, and forgets them.
func (a *Assembly) CloseBefore(m span.Minute) []Row {
	var rows []Row
	for _, k := range a.Keys() {
		if k.Minute < m {
			rows = append(rows, a.Rows(k, nil)...)
			delete(a.minutes, k)
		}
	}
	return rows
}

// Floor is the position after which the stream must be replayed to collect what is held again, given the last
// position read.
func (a *Assembly) Floor(last uint64) uint64 {
	for _, m := range a.minutes {
		last = min(last, m.firstSeq-1)
	}
	return last
}
