package usage

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/span"
)

const testMinute span.Minute = 29_000_000

// second is who said what about one second of a device.
type second struct {
	Run  uint64
	Busy uint8
}

// slowMinute is what Minute should know, worked out the obvious way from all pieces at once.
func slowMinute(t *rapid.T, pieces []Piece) (map[int]second, span.SecondMask) {
	pieces = slices.Clone(pieces)
	slices.SortFunc(pieces, func(a, b Piece) int { return cmp.Or(cmp.Compare(b.Run, a.Run), cmp.Compare(b.Seq, a.Seq)) })
	seconds := map[int]second{}
	var spoken span.SecondMask
	for _, p := range pieces { // from the highest name to the lowest, which stays
		spoken |= p.Spoken
		b := decoded(t, p.Block)
		b.Seen.Each(func(i int) { seconds[i] = second{p.Run, b.Busy[i]} })
	}
	return seconds, spoken
}

func fastMinute(t *rapid.T, rows []Row) (map[int]second, span.SecondMask) {
	var m Minute
	for _, i := range rapid.Permutation(indices(rows)).Draw(t, "reading order") {
		m.AddRow(&rows[i])
	}
	seconds := map[int]second{}
	known := m.BusyKnown()
	m.Seen.Each(func(i int) {
		seconds[i] = second{m.Run(i), m.Busy[i]}
		if known.Has(i) != (m.Busy[i] != BusyUnknown) {
			t.Fatalf("BusyKnown says %t for second %d with busy %d", known.Has(i), i, m.Busy[i])
		}
	})
	return seconds, m.Spoken
}

func indices[T any](s []T) []int {
	all := make([]int, len(s))
	for i := range all {
		all[i] = i
	}
	return all
}

func decoded(t interface{ Fatal(args ...any) }, data []byte) *Block {
	b := new(Block)
	if err := b.Decode(data); err != nil {
		t.Fatal(err)
	}
	return b
}

// drawPieces are up to three runs of one device's minute, with seconds that several of them name.
func drawPieces(t *rapid.T) (runs [][]Piece) {
	for run := range rapid.IntRange(1, 3).Draw(t, "runs") {
		var pieces []Piece
		for seq := range rapid.IntRange(1, 4).Draw(t, "batches") {
			spoken := drawMask(t, "spoken")
			b := drawBlock(t, "GPU-0", spoken)
			pieces = append(pieces, Piece{Run: uint64(run) + 1, Seq: uint64(seq) + 1, Spoken: spoken, Block: b.Append(nil)})
		}
		runs = append(runs, pieces)
	}
	return runs
}

// Whatever is put together, shuffled, repeated or put later, a minute knows the same: each second as the lowest
// (run, sequence) said it, and every fault once. A run's batches stand in the stream in their order, so puts keep it.
func TestRowsAreOrderFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawPieces(t)
		all := slices.Concat(runs...)
		var rows []Row
		for left := len(all); left > 0; {
			var put []Piece
			for r := range runs {
				n := rapid.IntRange(0, len(runs[r])).Draw(t, "put now")
				put, runs[r], left = append(put, runs[r][:n]...), runs[r][n:], left-n
			}
			if repeat := rapid.Bool().Draw(t, "repeat"); repeat {
				put = slices.Concat(put, put)
			}
			put = rapid.Permutation(put).Draw(t, "arrival")
			rows = append(rows, Rows("node7", "GPU-0", testMinute, put, rows)...)
		}
		want, wantSpoken := slowMinute(t, all)
		got, gotSpoken := fastMinute(t, rows)
		if diff := gocmp.Diff(want, got); diff != "" || wantSpoken != gotSpoken {
			t.Fatalf("spoken %#x, want %#x; seconds (-want +got):\n%s", gotSpoken, wantSpoken, diff)
		}
		if diff := gocmp.Diff(faultsOfPieces(t, all), faultsOfRows(t, rows)); diff != "" {
			t.Fatalf("faults by run (-want +got):\n%s", diff)
		}
		if more := Rows("node7", "GPU-0", testMinute, all, rows); len(more) > 0 {
			t.Fatalf("%d rows of what already stands: %+v", len(more), more)
		}
	})
}

func faultsOfPieces(t *rapid.T, pieces []Piece) map[string]bool {
	said := map[string]bool{}
	for _, p := range pieces {
		for _, f := range decoded(t, p.Block).Faults {
			said[fmt.Sprint(p.Run, f)] = true
		}
	}
	return said
}

// faultsOfRows also checks that no fault stands twice.
func faultsOfRows(t *rapid.T, rows []Row) map[string]bool {
	said := map[string]bool{}
	for _, r := range rows {
		for _, f := range decoded(t, r.Data).Faults {
			if said[fmt.Sprint(r.Run, f)] {
				t.Fatalf("fault %+v of run %d stands twice", f, r.Run)
			}
			said[fmt.Sprint(r.Run, f)] = true
		}
	}
	return said
}

// A batch that is sent in two parts says what it would have said in one.
func TestRowsOfASplitBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := drawBlock(t, "GPU-0", span.FullMinute)
		first := drawMask(t, "first part") | 1
		var pieces []Piece
		for i, spoken := range []span.SecondMask{first, span.FullMinute &^ first} {
			part := Block{Device: whole.Device}
			part.take(&whole, whole.Seen&spoken)
			part.Faults = nil
			for _, f := range whole.Faults {
				if spoken.Has(int(f.Second)) {
					part.Faults = append(part.Faults, f)
				}
			}
			pieces = append(pieces, Piece{Run: 4, Seq: uint64(i) + 1, Spoken: spoken, Block: part.Append(nil)})
		}
		rows := Rows("node7", "GPU-0", testMinute, pieces, nil)
		if len(rows) != 1 || rows[0].SeqFirst != 1 || rows[0].SeqLast != 2 || rows[0].Spoken != span.FullMinute {
			t.Fatalf("rows %+v, want one of sequences 1 to 2", rows)
		}
		byCode := cmpopts.SortSlices(func(a, b Fault) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
		if diff := gocmp.Diff(&whole, decoded(t, rows[0].Data), cmpopts.EquateEmpty(), byCode); diff != "" {
			t.Fatalf("merged block (-whole +parts):\n%s", diff)
		}
	})
}

func TestLowestRunAndSequenceWins(t *testing.T) {
	block := func(seen span.SecondMask, busy uint8) []byte {
		b := Block{Device: "GPU-0", Seen: seen}
		seen.Each(func(i int) { b.Busy[i] = busy })
		return b.Append(nil)
	}
	// The new run came first; the old one's last batch and a batch after a clock step follow.
	var rows []Row
	for _, p := range []Piece{
		{Run: 8, Seq: 1, Spoken: 0b11110, Block: block(0b11110, 80)},
		{Run: 7, Seq: 5, Spoken: 0b00111, Block: block(0b00110, 75)},
		{Run: 7, Seq: 6, Spoken: 0b01100, Block: block(0b01100, 76)},
	} {
		rows = append(rows, Rows("node7", "GPU-0", testMinute, []Piece{p}, rows)...)
	}
	var m Minute
	for i := range rows {
		m.AddRow(&rows[i])
	}
	if diff := gocmp.Diff([]uint8{0, 75, 75, 76, 80, 0}, m.Busy[:6]); diff != "" {
		t.Errorf("busy (-want +got):\n%s", diff)
	}
	if m.Spoken != 0b11111 || m.Seen != 0b11110 || m.Run(3) != 7 || m.Run(4) != 8 || !m.SameRun(1, &m, 3) || m.SameRun(3, &m, 4) {
		t.Errorf("spoken %#b, seen %#b, from %v and %v", m.Spoken, m.Seen, m.first, m.more)
	}
}

func TestNodeRow(t *testing.T) {
	pieces := []Piece{{Run: 1, Seq: 2, Spoken: 0b1100}, {Run: 1, Seq: 1, Spoken: 0b0011}}
	rows := Rows("node7", "", testMinute, pieces, nil)
	want := []Row{{Node: "node7", Minute: testMinute, Run: 1, SeqFirst: 1, SeqLast: 2, Spoken: 0b1111}}
	if diff := gocmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if more := Rows("node7", "", testMinute, pieces, rows); len(more) > 0 {
		t.Errorf("rows again: %+v", more)
	}
}

// A device that fell off the bus is not seen in the second of its fault; the fault is kept.
func TestFaultOfAnUnseenSecond(t *testing.T) {
	lost := Block{Device: "GPU-0", Reason: ReasonLost, Faults: []Fault{{Second: 3, Kind: FaultLost, Code: 79}}}
	rows := Rows("node7", "GPU-0", testMinute, []Piece{{Run: 1, Seq: 1, Spoken: 0b1000, Block: lost.Append(nil)}}, nil)
	if len(rows) != 1 {
		t.Fatalf("rows %+v, want one", rows)
	}
	if diff := gocmp.Diff(&lost, decoded(t, rows[0].Data)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestLowestRunAndSequenceWinsASecond(t *testing.T) {
	var m Minute
	m.Add(8, 1, 0b001, 0b001, []uint8{5})
	m.Add(7, 2, 0b110, 0b110, []uint8{2, 9})
	m.Add(7, 1, 0b111, 0b111, []uint8{1, 2, 3})
	m.Add(7, 3, 0b100, 0b100, []uint8{4})
	if m.Busy[0] != 1 || m.Busy[1] != 2 || m.Busy[2] != 3 {
		t.Errorf("busy %v, want what run 7 sequence 1 says: 1, 2, 3", m.Busy[:3])
	}
}

// Eight seconds at a time give what one at a time gives.
func TestBusyBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Minute
		limit := rapid.Uint8Range(0, 128).Draw(t, "limit")
		var want span.SecondMask
		for i := range span.SecondsPerMinute {
			m.Busy[i] = rapid.OneOf(rapid.Uint8(), rapid.SampledFrom([]uint8{0, limit, limit - 1, 127, 128, BusyUnknown})).Draw(t, "busy")
			if m.Busy[i] < limit {
				want |= span.Bit(i)
			}
		}
		if got := m.BusyBelow(limit); got != want {
			t.Fatalf("below %d: %#x, want %#x", limit, got, want)
		}
	})
}
