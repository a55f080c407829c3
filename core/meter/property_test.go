package meter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// settled is a time at which every hour of a world is closed.
const settled = worldTo + span.SecondsPerHour

// drawBlocks tells facts and batches in blocks: facts keep their order, batches come in any order and some of them
// twice, never ahead of the tick. Cuts fall anywhere. The last block finds everything told.
func drawBlocks(t *rapid.T, facts []fact.Fact, list []usage.Batch) []Block {
	ats := []span.Second{settled}
	for range rapid.IntRange(0, 12).Draw(t, "blocks") {
		if rapid.Bool().Draw(t, "near") { // where hours close and things happen
			ats = append(ats, drawInstant(t, "tick")+span.Second(rapid.SampledFrom([]int64{0, 30, 120, 130, 300}).Draw(t, "delay")))
			continue
		}
		ats = append(ats, worldFrom+span.Second(rapid.Int64Range(-3600, int64(settled-worldFrom)-1).Draw(t, "tick")))
	}
	slices.Sort(ats)
	blocks := make([]Block, len(ats))
	for i := range blocks {
		blocks[i].At, blocks[i].Seq = ats[i], uint64(i+1)*1_000_000
	}
	var where []int
	for range facts {
		where = append(where, rapid.IntRange(0, len(blocks)-1).Draw(t, "known"))
	}
	slices.Sort(where)
	for i, f := range facts {
		blocks[where[i]].Facts = append(blocks[where[i]].Facts, f)
	}
	for i := range blocks {
		if rapid.IntRange(0, 2).Draw(t, "cut") == 0 {
			cut := fmt.Sprint("cut-", i)
			blocks[i].Facts = append(blocks[i].Facts, fact.Fact{Key: cut, Seq: uint64(1000 + i), Body: &fact.CutRequested{Cut: cut, At: blocks[i].At}})
		}
	}
	for _, b := range list {
		last := b.Minute.Start() + span.Second(b.Spoken.Last())
		first := slices.IndexFunc(blocks, func(x Block) bool { return last <= x.At+usage.MaxAheadSeconds })
		for range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "times") {
			i := min(first+rapid.SampledFrom([]int{0, 0, 1, 3, 100}).Draw(t, "late"), len(blocks)-1)
			blocks[i].Usage = append(blocks[i].Usage, UsageMessage{Batch: b})
		}
	}
	for i := range blocks {
		u := blocks[i].Usage // a run's batches stand in the stream in their order
		slices.SortStableFunc(u, func(a, b UsageMessage) int {
			return cmp.Or(cmp.Compare(a.Batch.Node, b.Batch.Node), cmp.Compare(a.Batch.Run, b.Batch.Run), cmp.Compare(a.Batch.Seq, b.Batch.Seq))
		})
		for k := range u {
			u[k].Seq = uint64(i)*1_000_000 + uint64(k) + 1
		}
	}
	return blocks
}

// TestLedgerAgainstSeconds: however facts, samples, time and cuts are told, the ledger ends at what a walk over every
// second gives, leased time is counted once, and every sample is under a lease or not.
func TestLedgerAgainstSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts, list := drawFacts(t), drawBatches(t)
		x, s := newTables(), NewState()
		for _, b := range drawBlocks(t, facts, list) {
			x.play(s, b)
			checkTotals(t, s, x, b)
		}
		compare(t, consult(facts, list, settled.Hour().Start()), x)
	})
}

// compare closes at the last full hour: what began after it is not classified.
func compare(t *rapid.T, want *oracle, x *tables) {
	for e := range x.ledger {
		if e.Hour >= (settled - HourDelaySeconds).Hour() {
			delete(x.ledger, e) // a cut at the last block
		}
	}
	if diff := gocmp.Diff(want.ledger, x.ledger); diff != "" {
		t.Fatalf("ledger (-oracle +meter):\n%s", diff)
	}
	if diff := gocmp.Diff(want.devices, x.devices); diff != "" {
		t.Fatalf("devices (-oracle +meter):\n%s", diff)
	}
	var n int64
	for _, d := range x.devices {
		n += d.SeenLeased + d.SeenUnleased
	}
	if n != want.seenSeconds() {
		t.Fatalf("%d seconds are under a lease or unleased, %d were seen", n, want.seenSeconds())
	}
}

// checkTotals holds conservation at a cut: leased as occupancy counts = all standings of the ledger.
func checkTotals(t *rapid.T, s *State, x *tables, b Block) {
	if !slices.ContainsFunc(b.Facts, func(f fact.Fact) bool { return f.Body.Type() == fact.TypeCutRequested }) {
		return
	}
	keyed := map[periodKey]int64{}
	for e, a := range x.ledger {
		if e.Key.Kind == Leased && e.Key.Contract != "" {
			keyed[periodKey{e.Key.Contract, e.Key.PeriodStart}] += a.Quantity
		}
		if e.Key.Kind == Leased && a.Measured+a.Inferred+a.Missing != a.Quantity {
			t.Fatalf("block %d: coverage of %v does not add up: %v", b.Seq, e, a)
		}
	}
	leased := map[periodKey]int64{}
	for _, total := range s.Totals() {
		leased[periodKey{total.Contract, total.PeriodStart}] = total.LeasedMilliGPUSeconds
	}
	if diff := gocmp.Diff(leased, keyed, gocmp.AllowUnexported(periodKey{})); diff != "" {
		t.Fatalf("block %d (-occupancy +ledger):\n%s", b.Seq, diff)
	}
}

// TestAnswersAddUp: what cuts stated last is what the leases hold, and none states again what stands already.
func TestAnswersAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, s := newTables(), NewState()
		stated := map[periodKey]int64{}
		for _, b := range drawBlocks(t, drawFacts(t), drawBatches(t)) {
			for _, c := range x.play(s, b).Cuts {
				for _, total := range c.Totals {
					k := periodKey{total.Contract, total.PeriodStart}
					if stated[k] == total.LeasedMilliGPUSeconds {
						t.Fatalf("cut %s states %v again", c.Cut, total)
					}
					stated[k] = total.LeasedMilliGPUSeconds
				}
				maps.DeleteFunc(stated, func(_ periodKey, milliSeconds int64) bool { return milliSeconds == 0 })
				held := map[periodKey]int64{}
				for _, total := range s.Totals() {
					held[periodKey{total.Contract, total.PeriodStart}] = total.LeasedMilliGPUSeconds
				}
				if diff := gocmp.Diff(held, stated, gocmp.AllowUnexported(periodKey{})); diff != "" {
					t.Fatalf("cut %s (-held +stated):\n%s", c.Cut, diff)
				}
			}
		}
	})
}

// TestRestoreIsNoRestore: a state that is rebuilt between any two blocks goes on to put the same rows, and the same answers
// to cuts.
func TestRestoreIsNoRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := drawBlocks(t, drawFacts(t), drawBatches(t))
		x, s := newTables(), NewState()
		y, r := newTables(), NewState()
		var facts, answers []fact.Fact // answers may lie far behind their requests, and the last block's not be there at all
		var usage []UsageMessage
		for _, b := range blocks {
			want := x.play(s, b)
			got := y.play(r, b)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("block %d (-kept +restored):\n%s", b.Seq, diff)
			}
			facts, usage = append(facts, b.Facts...), append(usage, b.Usage...)
			before := slices.Concat(facts, answers)
			for _, c := range want.Cuts {
				answers = append(answers, fact.Fact{Key: "done/" + c.Cut, Body: &c})
			}
			if !rapid.Bool().Draw(t, "restart") {
				continue
			}
			floor, answered := r.UsageFloor(b.Seq), rapid.Bool().Draw(t, "answered")
			if answered {
				before = slices.Concat(facts, answers)
			}
			r = NewState()
			r.Restore(b.At, before, after(usage, floor), y.lastMinutes())
			for _, c := range want.Cuts {
				if answered {
					break
				}
				if diff := gocmp.Diff(c, r.AnswerCut(c.Cut, b.Seq, b.FactsSeq)); diff != "" {
					t.Fatalf("block %d (-answered before the restart +after):\n%s", b.Seq, diff)
				}
			}
		}
	})
}

func after(list []UsageMessage, floor uint64) []UsageMessage {
	i := slices.IndexFunc(list, func(m UsageMessage) bool { return m.Seq > floor })
	if i < 0 {
		return nil
	}
	return list[i:]
}
