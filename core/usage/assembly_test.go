package usage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// batchOf speaks for the seconds in mask, in which each device was busy as given.
func batchOf(node string, minute span.Minute, run, seq uint64, mask span.SecondMask, devices map[string]uint8) *Batch {
	b := &Batch{Node: node, Run: run, Seq: seq, Minute: minute, Spoken: mask}
	for _, device := range []string{"GPU-0", "GPU-1"} {
		if busy, ok := devices[device]; ok {
			b.Blocks = append(b.Blocks, blockOf(device, mask, busy))
		}
	}
	return b
}

func blockOf(device string, seen span.SecondMask, busy uint8) []byte {
	b := Block{Device: device, Seen: seen}
	seen.Each(func(i int) { b.Busy[i] = busy })
	return b.Append(nil)
}

func TestAssembly(t *testing.T) {
	a := NewAssembly()
	if got := a.Floor(40); got != 40 || len(a.Keys()) != 0 {
		t.Errorf("an empty assembly holds %v from %d", a.Keys(), got)
	}
	a.Add(41, batchOf("node8", testMinute+1, 1, 1, 0b11, nil))
	a.Add(43, batchOf("node7", testMinute, 5, 2, 0b1100, map[string]uint8{"GPU-0": 20, "GPU-1": 21}))
	a.Add(42, batchOf("node7", testMinute, 5, 1, 0b0011, map[string]uint8{"GPU-0": 10}))
	want := []Key{{"node7", "", testMinute}, {"node7", "GPU-0", testMinute}, {"node7", "GPU-1", testMinute}, {"node8", "", testMinute + 1}}
	if diff := cmp.Diff(want, a.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if !a.Holds(want[2]) || a.Holds(Key{"node8", "GPU-0", testMinute}) || a.Floor(43) != 40 {
		t.Errorf("holds %v from %d", a.Keys(), a.Floor(43))
	}
	rows := a.CloseBefore(testMinute + 1)
	both := Block{Device: "GPU-0", Seen: 0b1111}
	copy(both.Busy[:], []uint8{10, 10, 20, 20})
	wantRows := []Row{
		{Node: "node7", Minute: testMinute, Run: 5, SeqFirst: 1, SeqLast: 2, Spoken: 0b1111},
		{Node: "node7", Device: "GPU-0", Minute: testMinute, Run: 5, SeqFirst: 1, SeqLast: 2, Spoken: 0b1111, Seen: 0b1111, Data: both.Append(nil)},
		{Node: "node7", Device: "GPU-1", Minute: testMinute, Run: 5, SeqFirst: 2, SeqLast: 2, Spoken: 0b1100, Seen: 0b1100, Data: blockOf("GPU-1", 0b1100, 21)},
	}
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[3:], a.Keys()); diff != "" {
		t.Errorf("keys left (-want +got):\n%s", diff)
	}
	if rows := a.Rows(want[0], nil); rows != nil {
		t.Errorf("a closed minute gave %v", rows)
	}
}

func TestAssemblyBelievesItsBatches(t *testing.T) {
	failure := must.Catch(func() { NewAssembly().Add(1, &Batch{Node: "node7", Run: 1, Seq: 1, Blocks: [][]byte{{9}}}) })
	if failure == nil {
		t.Error("a batch that was never validated was taken")
	}
}

func TestConflicts(t *testing.T) {
	k := Key{"node7", "GPU-0", testMinute}
	row := Rows("node7", "GPU-0", testMinute, []Piece{{Run: 5, Seq: 1, Spoken: 0b0011, Block: blockOf("GPU-0", 0b0011, 10)}}, nil)
	tests := []struct {
		name  string
		batch *Batch
		want  []Conflict
	}{
		{"next seconds", batchOf("node7", testMinute, 5, 2, 0b1100, map[string]uint8{"GPU-0": 90}), nil},
		{"the same again", batchOf("node7", testMinute, 5, 1, 0b0011, map[string]uint8{"GPU-0": 10}), nil},
		{"the same value under another sequence", batchOf("node7", testMinute, 5, 2, 0b0110, map[string]uint8{"GPU-0": 10}), nil},
		{"another run", batchOf("node7", testMinute, 6, 1, 0b0011, map[string]uint8{"GPU-0": 90}), nil},
		{"another value", batchOf("node7", testMinute, 5, 2, 0b0110, map[string]uint8{"GPU-0": 90}), []Conflict{{k, 5, 2, 0b0010}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := NewAssembly()
			a.Add(9, tt.batch)
			if diff := cmp.Diff(tt.want, a.Conflicts(k, row)); diff != "" {
				t.Errorf("against a row (-want +got):\n%s", diff)
			}
			a = NewAssembly()
			a.Add(9, tt.batch)
			a.Add(8, batchOf("node7", testMinute, 5, 1, 0b0011, map[string]uint8{"GPU-0": 10}))
			if diff := cmp.Diff(tt.want, a.Conflicts(k, nil)); diff != "" {
				t.Errorf("against an open piece (-want +got):\n%s", diff)
			}
		})
	}
	if got := NewAssembly().Conflicts(k, row); got != nil {
		t.Errorf("conflicts of nothing: %v", got)
	}
	a := NewAssembly()
	a.Add(1, batchOf("node7", testMinute, 5, 1, 0b1, nil))
	a.Add(2, batchOf("node7", testMinute, 5, 2, 0b1, nil))
	if got := a.Conflicts(Key{"node7", "", testMinute}, nil); got != nil {
		t.Errorf("conflicts of the node's own minute: %v", got)
	}
}

// An assembly adds nothing to what Rows does and loses nothing.
func TestAssemblyIsRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewAssembly()
		var pieces []Piece
		for _, run := range drawPieces(t) {
			for _, p := range run {
				pieces = append(pieces, p)
				a.Add(p.Seq, &Batch{Node: "node7", Minute: testMinute, Run: p.Run, Seq: p.Seq, Spoken: p.Spoken, Blocks: [][]byte{p.Block}})
			}
		}
		k := Key{"node7", "GPU-0", testMinute}
		want := Rows("node7", "GPU-0", testMinute, pieces, nil)
		for range 2 { // reading changes nothing
			if diff := cmp.Diff(want, a.Rows(k, nil)); diff != "" {
				t.Fatalf("rows (-want +got):\n%s", diff)
			}
		}
	})
}

func TestQuarantineText(t *testing.T) {
	q := &Quarantine{Reason: AheadOfTick, Node: "node7", Detail: "by 61 s"}
	if got, want := q.Error(), `batch of node "node7" is quarantined as ahead_of_tick: by 61 s`; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
