package usage

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/span"
)

// Conflict is a batch that says something else of a second than another batch of the same run does: one of the two
// is wrong. The lowest sequence is believed; the conflict is listed as sequence_conflict.
type Conflict struct {
	Key
	Run, Seq uint64
	Seconds  span.SecondMask
}

// Conflicts finds them for one minute, against each other and against standing rows. Batches of a run in which a device
// is speak for different seconds, so for a sound collector this looks at nothing but masks.
func (a *Assembly) Conflicts(k Key, standing []Row) []Conflict {
	m := a.minutes[k]
	if m == nil || k.Device == "" || disjoint(m.list, standing) {
		return nil
	}
	held := map[uint64]*Minute{}
	at := func(run uint64) *Minute {
		if held[run] == nil {
			held[run] = &Minute{}
		}
		return held[run]
	}
	for i := range standing {
		at(standing[i].Run).AddRow(&standing[i])
	}
	var out []Conflict
	var block Block
	for _, p := range bySequence(m.list) {
		if err := block.Decode(p.Block); err != nil {
			continue // unreachable: pieces were decoded before they were taken
		}
		minute := at(p.Run)
		var seconds span.SecondMask
		busy := make([]byte, 0, span.SecondsPerMinute)
		block.Seen.Each(func(i int) {
			busy = append(busy, block.Busy[i])
			if minute.Seen.Has(i) && minute.Busy[i] != block.Busy[i] {
				seconds |= span.Bit(i)
			}
		})
		if seconds != 0 {
			out = append(out, Conflict{k, p.Run, p.Seq, seconds})
		}
		minute.Add(p.Run, p.Seq, p.Spoken, block.Seen, busy)
	}
	return out
}

func disjoint(list []Piece, standing []Row) bool {
	spoken := map[uint64]span.SecondMask{}
	for _, r := range standing {
		spoken[r.Run] |= r.Spoken
	}
	for _, p := range list {
		if spoken[p.Run]&p.Spoken != 0 {
			return false
		}
		spoken[p.Run] |= p.Spoken
	}
	return true
}

func bySequence(list []Piece) []Piece {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Piece) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Seq, b.Seq)) })
	return sorted
}
