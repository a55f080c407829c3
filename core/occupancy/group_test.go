package occupancy

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// TestHolders: whatever moved since, a group's holders in a span are the leases that hold or end something there.
func TestHolders(t *testing.T) {
	const day = 86400
	instant := func(t *rapid.T, label string) span.Second {
		days := rapid.SampledFrom([]int64{1, 1, 2, 3, 400, 401, 402, 900}).Draw(t, label+" day")
		return span.Second(days*day + rapid.SampledFrom([]int64{-1, 0, 1, 50_000}).Draw(t, label))
	}
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(nil)
		for i := range rapid.IntRange(1, 30).Draw(t, "facts") {
			id := fmt.Sprint("L", rapid.IntRange(0, 5).Draw(t, "lease"))
			at := instant(t, "at")
			var body fact.Body = &fact.LeaseStarted{
				Lease: id, Customer: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "customer"), SKU: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "sku"), At: at,
				Count: 1, ShareMilli: 1000,
			}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				body = &fact.LeaseStopped{Lease: id, At: at, By: fact.ByFault}
			case 1:
				body = &fact.LeaseStateChanged{Lease: id, At: at, State: rapid.SampledFrom([]fact.LeaseState{fact.Running, fact.Suspended}).Draw(t, "state")}
			}
			b.Apply(fact.Fact{Key: fmt.Sprint(i), Seq: uint64(i + 1), Body: body})
		}
		in := span.Span{From: instant(t, "from"), To: instant(t, "to")}
		if in.Empty() {
			in.To = span.Open
		}
		for _, g := range []Group{{"a", "x"}, {"a", "y"}, {"b", "x"}, {"b", "y"}} {
			var want, got []string
			b.Leases(func(l *Lease) {
				if l.Started != nil && l.Group() == g && (slices.ContainsFunc(l.Tranches, func(tr Tranche) bool { return tr.Span.Overlaps(in) }) ||
					slices.ContainsFunc(l.Starts, func(s Start) bool { return s.Span.To != span.Open && in.Contains(s.LastSecond()) })) {
					want = append(want, l.ID)
				}
			})
			for _, l := range b.Holders(g, in) {
				got = append(got, l.ID)
			}
			slices.Sort(got)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("%v in %v (-want +got):\n%s", g, in, diff)
			}
		}
	})
}
