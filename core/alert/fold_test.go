package alert

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// origin is a full minute; instants of the tests count in minutes from it.
const origin span.Second = 1767225600

func minuteAt(n int) span.Second { return origin + span.Second(n*span.SecondsPerMinute) }

// world feeds a fold minute by minute and keeps what it was told, for restores.
type world struct {
	fold   *Fold
	rule   Rule
	facts  []fact.Fact
	usage  []meter.UsageMessage
	told   []string // transitions: minute, raised or resolved, target, per mille busy
	bodies []fact.Body
	seq    uint64
}

func newWorld(bodies ...fact.Body) *world {
	w := &world{fold: NewFold(Default()), rule: Default()}
	w.block(minuteAt(0), nil, bodies...)
	return w
}

// block is a tick half a minute after the last minute it decides.
func (w *world) block(at span.Second, list []usage.Batch, bodies ...fact.Body) {
	b := meter.Block{Seq: w.seq + 1_000, FactsSeq: uint64(len(w.facts) + len(bodies)), At: at + meter.MinuteDelaySeconds}
	for _, x := range list {
		w.seq++
		b.Usage = append(b.Usage, meter.UsageMessage{Seq: w.seq, Batch: x})
	}
	for _, body := range bodies {
		b.Facts = append(b.Facts, fact.Fact{Seq: uint64(len(w.facts) + len(b.Facts) + 1), Key: fmt.Sprint("fact/", len(w.facts)+len(b.Facts)), Body: body})
	}
	w.facts, w.usage = append(w.facts, b.Facts...), append(w.usage, b.Usage...)
	for _, out := range w.fold.Apply(b) {
		w.bodies = append(w.bodies, out)
		name, a := "raised", fact.Alert{}
		switch x := out.(type) {
		case *fact.AlertRaised:
			a = x.Alert
		case *fact.AlertResolved:
			name, a = "resolved", x.Alert
		}
		if err := a.Validate(); err != nil {
			panic(err)
		}
		w.told = append(w.told, fmt.Sprintf("%d %s %s %s %d", (a.At-origin)/60, name, a.Scope, a.Target, a.BusyPermille))
	}
}

// run gives one block for each minute [from, to) in which the devices were seen.
func (w *world) run(from, to int, samples ...usage.Batch) {
	for n := from; n < to; n++ {
		var list []usage.Batch
		for _, s := range samples {
			s.Minute, s.Seq = minuteAt(n).Minute(), uint64(n+1)
			list = append(list, s)
		}
		w.block(minuteAt(n+1), list)
	}
}

func sample(device string, busy uint8, mask span.SecondMask) usage.Batch {
	b := usage.Block{Device: device, Seen: mask}
	mask.Each(func(i int) { b.Busy[i] = busy })
	return usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 1, Spoken: span.FullMinute, Blocks: [][]byte{b.Append(nil)}}
}

func full(device string, busy uint8) usage.Batch { return sample(device, busy, span.FullMinute) }

func leaseOn(id string, at int, milli int64, devices ...string) fact.Body {
	b := &fact.LeaseStarted{Lease: id, Customer: "acme", SKU: "h", PricingMode: "on_demand", At: minuteAt(at)}
	for _, d := range devices {
		b.Devices = append(b.Devices, fact.Share{Node: "n", Device: d, ShareMilli: milli})
	}
	return b
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, w.told); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRaisedOnceBelowSixtyPercent(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.run(0, 90, full("A", 59))
	w.expect(t, "30 raised customer acme 590", "30 raised lease L 590")
	if n := len(w.fold.minutes); n >= int(w.rule.WindowMinutes) {
		t.Errorf("%d minutes are kept, more than the next window needs", n)
	}
}

// TestFirstValueOfASecondCounts: a batch that names seconds again changes nothing, whenever it comes.
func TestFirstValueOfASecondCounts(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.run(0, 40, full("A", 90), full("A", 1))
	w.expect(t)
}

func TestSixtyPercentIsEnough(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.run(0, 90, full("A", 60))
	w.expect(t)
}

func TestYoungLeaseDoesNotFire(t *testing.T) {
	w := newWorld(leaseOn("L", 10, 1000, "A"))
	w.run(10, 39, full("A", 1))
	w.expect(t)
	w.run(39, 41, full("A", 1))
	w.expect(t, "40 raised customer acme 10", "40 raised lease L 10")
}

func TestHysteresis(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.run(0, 40, full("A", 50))
	w.run(40, 80, full("A", 64)) // better, and not cleared
	w.expect(t, "30 raised customer acme 500", "30 raised lease L 500")
	w.told = nil
	w.run(80, 150, full("A", 66)) // 650 per mille when 15 of 30 minutes are at 66
	w.expect(t, "95 resolved customer acme 650", "95 resolved lease L 650")
}

// TestMissingDataDecidesNothing: neither raised nor resolved with less than four fifths known, whatever is known.
func TestMissingDataDecidesNothing(t *testing.T) {
	of48, of47 := span.SecondMask(1<<48-1), span.SecondMask(1<<47-1)
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.run(0, 60, sample("A", 5, of47))
	w.expect(t)
	w.run(60, 90, sample("A", 5, of48))
	w.expect(t, "90 raised customer acme 50", "90 raised lease L 50")
	w.told = nil
	w.run(90, 150, sample("A", 99, of47))
	w.run(150, 200) // nothing at all
	w.run(200, 229, full("A", usage.BusyUnknown))
	w.expect(t)
	w.run(230, 290, full("A", 99))
	w.expect(t, "254 resolved customer acme 990", "254 resolved lease L 990")
}

// TestCustomerIsWeightedByShare: 400 milli at 100 % and 1000 milli at 30 % are 50 %.
func TestCustomerIsWeightedByShare(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 400, "A"), leaseOn("M", 0, 1000, "B"))
	w.run(0, 31, full("A", 100), full("B", 30))
	w.expect(t, "30 raised customer acme 500", "30 raised lease M 300")
}

// TestLateStopIsNoSurprise: what was known of a lease's window is judged anew, and never more is known than leased.
func TestLateStopIsNoSurprise(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"), leaseOn("M", 0, 1000, "B"))
	w.run(0, 50, full("A", 90), full("B", 90))
	w.block(minuteAt(51), nil, &fact.LeaseStopped{Lease: "L", At: minuteAt(25), By: fact.ByCustomer})
	w.run(51, 60, full("B", 10))
	w.expect(t)
}

func TestLateSamplesCountInTheWindow(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	w.run(0, 20, full("A", 10))
	w.run(20, 40) // the collector is away
	var late []usage.Batch
	for n := 5; n < 40; n++ {
		b := full("A", 10)
		b.Minute = minuteAt(n).Minute()
		late = append(late, b)
	}
	w.expect(t)
	w.block(minuteAt(41), late)
	w.expect(t, "41 raised customer acme 100", "41 raised lease L 100")
}

func TestJumpOverQuietMonths(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	const month = 30 * 24 * 60
	var list []usage.Batch
	for n := range 31 {
		b := full("A", 10)
		b.Minute = minuteAt(6*month + n).Minute()
		list = append(list, b)
	}
	w.block(minuteAt(6*month+31), list)
	w.expect(t, fmt.Sprint(6*month+24, " raised customer acme 100"), fmt.Sprint(6*month+24, " raised lease L 100"))
	w.block(minuteAt(12*month), nil)
	if len(w.fold.minutes) > 0 {
		t.Errorf("%d minutes are kept", len(w.fold.minutes))
	}
}

func TestAheadOfTheTickIsNotMeasured(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"))
	var list []usage.Batch
	for n := range 60 {
		b := full("A", 10)
		b.Minute = minuteAt(n + 10).Minute()
		list = append(list, b)
	}
	w.block(minuteAt(1), list)
	w.run(1, 80)
	w.expect(t)
}

// TestRestoreInAnEpisode: rebuilt at any minute from facts, its own transitions and one window of usage, a fold goes on to
// decide the same. A restored fold may meet transitions that were stated after the tick it stands at.
func TestRestoreInAnEpisode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(leaseOn("L", 0, 1000, "A"), leaseOn("M", 3, 500, "A", "B"), leaseOn("N", 5, 500, "B"))
		var restored *Fold
		var from int
		restoreAt := rapid.IntRange(1, 150).Draw(t, "restore")
		for n := 0; n < 160; n += rapid.IntRange(1, 9).Draw(t, "minutes") {
			var list []usage.Batch
			for k := range rapid.IntRange(0, 12).Draw(t, "batches") {
				b := sample(rapid.SampledFrom([]string{"A", "B"}).Draw(t, "device"), rapid.SampledFrom([]uint8{0, 40, 62, 90, 100, 255}).Draw(t, "busy"), span.FullMinute)
				b.Minute = minuteAt(max(0, n-k)).Minute()
				list = append(list, b)
			}
			var bodies []fact.Body
			if rapid.IntRange(0, 9).Draw(t, "resized") == 0 {
				bodies = append(bodies, &fact.LeaseResized{Lease: "M", At: minuteAt(max(4, n-5)), Devices: []fact.Share{{Node: "n", Device: "A", ShareMilli: 700}}})
			}
			before := len(w.bodies)
			w.block(minuteAt(n), list, bodies...)
			if restored != nil {
				again := restored.Apply(meter.Block{At: minuteAt(n) + meter.MinuteDelaySeconds, Usage: w.usage[len(w.usage)-len(list):], Facts: w.facts[len(w.facts)-len(bodies):]})
				if d := cmp.Diff(append([]fact.Body{}, w.bodies[before:]...), append([]fact.Body{}, again...)); d != "" {
					t.Fatalf("minute %d, restored at %d (-kept +restored):\n%s", n, from, d)
				}
			} else if n >= restoreAt {
				restored, from = w.restore(minuteAt(n)+meter.MinuteDelaySeconds), n
			}
		}
	})
}

func (w *world) restore(at span.Second) *Fold {
	f := NewFold(w.rule)
	facts := slices.Clone(w.facts)
	last := facts[len(facts)-1].Seq
	for i, b := range w.bodies {
		facts = append(facts, fact.Fact{Seq: last + uint64(i) + 1, Key: fmt.Sprint("alert/", i), Body: b})
	}
	ahead := fact.Alert{Rule: "under_utilised", Scope: ScopeLease, Target: "L", Customer: "acme", At: at + 600}
	facts = append(facts, fact.Fact{Seq: last + 1000, Key: "ahead", Body: &fact.AlertRaised{Alert: ahead}})
	var messages []meter.UsageMessage
	for _, m := range w.usage {
		if m.Batch.Minute.End() > f.WindowStart(at) {
			messages = append(messages, m)
		}
	}
	f.Restore(at, last, facts, messages)
	return f
}

// TestEndOfALeaseEndsItsEpisode: what is not leased is not under-utilised; the customer's other lease goes on.
func TestEndOfALeaseEndsItsEpisode(t *testing.T) {
	w := newWorld(leaseOn("L", 0, 1000, "A"), leaseOn("M", 0, 1000, "B"))
	w.run(0, 40, full("A", 10), full("B", 20))
	w.told = nil
	w.block(minuteAt(41), []usage.Batch{}, &fact.LeaseStopped{Lease: "L", At: minuteAt(40), By: fact.ByCustomer})
	w.expect(t, "41 resolved lease L 0")
	w.run(41, 60, full("B", 20))
	w.block(minuteAt(61), nil, &fact.LeaseStopped{Lease: "M", At: minuteAt(60), By: fact.ByCustomer})
	w.expect(t, "41 resolved lease L 0", "61 resolved customer acme 0", "61 resolved lease M 0")
}
