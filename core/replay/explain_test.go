package replay_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
)

// reporter is a test or a rapid property.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// tried counts what explanations were of.
type tried struct{ lines, unbilled, corrected, items, topUps, idle, ahead, takenOff int }

// all explains every line of every invoice of a log and checks each: the segments sum to it, quantity and exact amount, and overlap
// nowhere; a charge that is not GPU time names what it stands on.
func (n *tried) all(t reporter, name string, log replay.Log, o replay.Options) {
	t.Helper()
	list, err := replay.ExplainAll(log, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, x := range list {
		n.lines++
		if x.Document.Kind == bill.KindCorrection {
			n.corrected++
		}
		if x.Document.Kind == bill.KindAdvance {
			n.ahead++
		}
		if x.TakesOff() {
			n.takenOff++
		}
		switch {
		case x.Unbilled != nil:
			n.unbilled++
		case x.Item != nil:
			n.items++
			checkItem(t, name, x)
		case x.Line.Idle:
			n.idle++
		default:
			checkUnrelieved(t, name, x)
		}
		n.topUps += checkSegments(t, name, x)
	}
}

func TestEveryLineOfTheCasesIsExplained(t *testing.T) {
	var n tried
	for _, name := range cases.List() {
		data, err := cases.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		n.all(t, name, s.Log(), replay.Options{Series: scenario.Series, Grace: s.GraceSeconds})
	}
	if n.lines < 500 || min(n.unbilled, n.corrected, n.items, n.topUps, n.idle, n.ahead, n.takenOff) == 0 {
		t.Errorf("the cases do not try what they should: %+v", n)
	}
}

func TestEveryLineOfRandomWorldsIsExplained(t *testing.T) {
	t.Parallel()
	var n tried
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 2, late: day})
		n.all(t, "world", w.log, replay.Options{Series: "T", Grace: grace})
	})
	if n.lines == n.items {
		t.Errorf("the worlds do not try what they should: %+v", n)
	}
}

func TestEveryLineOfRandomContractsIsExplained(t *testing.T) {
	var n tried
	for seed := range uint64(200) {
		c, err := contract.Parse("c.yaml", []byte(random.Contract(rand.New(rand.NewPCG(seed, 7)).IntN)))
		if err != nil {
			t.Fatal(err)
		}
		log := uses(c)
		log.Until = log.Statements[len(log.Statements)-1].Known + 3*span.SecondsPerHour
		n.all(t, string(c.Source), log, replay.Options{Series: "GH", Grace: 3 * span.SecondsPerHour})
	}
	if n.lines == 0 || n.items == 0 {
		t.Errorf("the contracts do not try what they should: %+v", n)
	}
}

// checkItem: a whole fee and the flat fee of an unused tier stand on the contract alone.
func checkItem(t reporter, name string, x *explain.Explanation) {
	t.Helper()
	alone := x.Line.Item == bill.ItemTier || x.Line.Item == bill.ItemAddon || x.Line.Count.Quantity == "0"
	if len(x.Item.Inputs) == 0 && x.Document.Kind == bill.KindInvoice && !alone {
		t.Errorf("%s: line %s (%s %s) stands on nothing", name, x.Name, x.Line.Item, x.Line.Name)
	}
	if x.Exact.RatString() != x.Line.Count.ExactFraction && x.Document.Kind != bill.KindCorrection {
		t.Errorf("%s: line %s is exactly %s, explained are %s", name, x.Name, x.Line.Count.ExactFraction, x.Exact.RatString())
	}
	if len(x.Segments) > 0 {
		t.Errorf("%s: item line %s has segments", name, x.Name)
	}
	if x.Line.Item != bill.ItemMeter || x.Document.Kind != bill.KindInvoice {
		return
	}
	sum, costs, each := new(big.Rat), new(big.Rat), len(x.Item.Inputs) > 0
	for _, in := range x.Item.Inputs {
		sum.Add(sum, in.Counts)
		if each = each && in.Costs != nil; each {
			costs.Add(costs, in.Costs)
		}
	}
	if each && costs.Cmp(x.Exact) != 0 {
		t.Errorf("%s: the readings of line %s cost %s of %s", name, x.Name, costs.RatString(), x.Exact.RatString())
	}
	if sum.Cmp(x.Item.Quantity) != 0 {
		t.Errorf("%s: the readings of line %s count %s of %s", name, x.Name, sum.RatString(), x.Item.Quantity.RatString())
	}
}

// checkUnrelieved: every second of an invoice's line under an idle rule has a reason why it has no relief, and only one.
func checkUnrelieved(t reporter, name string, x *explain.Explanation) {
	t.Helper()
	u := x.Unrelieved
	sum := u.Busy + u.Early + u.Shared + u.Unknown
	leased := x.Line.Quantity.MilliGPUSeconds - x.Line.Quantity.Coverage.TopUp
	if x.Document.Kind == bill.KindInvoice && sum != 0 && sum != leased && len(x.Versions) == 1 || min(u.Busy, u.Early, u.Shared, u.Unknown) < 0 {
		t.Errorf("%s line %s: %+v of %d", name, x.Name, u, leased)
	}
}

// checkSegments computes the sums again, apart from the assertion, and looks for overlaps of what is billed alike.
func checkSegments(t reporter, name string, x *explain.Explanation) (topUps int) {
	t.Helper()
	var milli int64
	exact := new(big.Rat)
	for i, g := range x.Segments {
		milli += g.MilliGPUSeconds
		if g.Exact != nil {
			exact.Add(exact, g.Exact)
		}
		if g.Key.Kind == meter.TopUp {
			topUps++
			continue
		}
		if g.MilliGPUSeconds != g.Span.Seconds()*g.Milli {
			t.Errorf("%s line %s: %v: %d milli-GPU-seconds", name, x.Name, g.Span, g.MilliGPUSeconds)
		}
		if i > 0 && x.Document.Kind == bill.KindInvoice {
			if p := x.Segments[i-1]; p.Lease == g.Lease && p.Device == g.Device && p.Key.Kind == g.Key.Kind && p.Span.Contains(g.Span.From) && p.Milli+g.Milli > 1000 && g.Device != "" {
				t.Errorf("%s line %s: %v and %v overlap", name, x.Name, p.Span, g.Span)
			}
		}
	}
	switch {
	case x.Item != nil:
	case x.Unbilled != nil:
		if milli != x.Unbilled.Quantity.MilliGPUSeconds {
			t.Errorf("%s line %s: segments sum to %d of %d", name, x.Name, milli, x.Unbilled.Quantity.MilliGPUSeconds)
		}
	default:
		if milli != x.Line.Quantity.MilliGPUSeconds {
			t.Errorf("%s line %s: segments sum to %d of %d", name, x.Name, milli, x.Line.Quantity.MilliGPUSeconds)
		}
		checkExact(t, name, x, exact)
	}
	return topUps
}

// checkExact holds the segments against the document's own fractions, where it has them.
func checkExact(t reporter, name string, x *explain.Explanation, exact *big.Rat) {
	t.Helper()
	if x.Document.Kind != bill.KindInvoice {
		return
	}
	want := new(big.Rat)
	for _, r := range x.Line.Rows {
		v, ok := new(big.Rat).SetString(r.ExactFraction)
		if !ok {
			t.Fatalf("%s: fraction %q", name, r.ExactFraction)
		}
		want.Add(want, v)
	}
	if want.Cmp(exact) != 0 {
		t.Errorf("%s line %s: segments sum to %s of %s", name, x.Name, exact.RatString(), want.RatString())
	}
}
