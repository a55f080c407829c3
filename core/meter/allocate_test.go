package meter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
)

// drawHour is a contract with up to four commitments and thirty unplaced leases that come and go around an hour.
func drawHour(t *rapid.T) *State {
	var reserved []string
	for i := range rapid.IntRange(1, 4).Draw(t, "commitments") {
		reserved = append(reserved, fmt.Sprintf("{name: r%d, quantity: %d, price: 1/gpu-day, from: 2026-01-0%d, to: 2026-02-01%s}", i,
			rapid.IntRange(1, 12).Draw(t, "gpus"), rapid.SampledFrom([]int{1, 2, 7}).Draw(t, "day"),
			rapid.SampledFrom([]string{"", "", ", region: in", ", region: out"}).Draw(t, "in region")))
	}
	rate := "region: {in: 100%, out: 88%, far: 70%}, reserved: [" + strings.Join(reserved, ", ") + "]"
	bodies := []fact.Body{signed("c1", strings.Replace(document("c1", "daily", "", "3.60"), "region: {in: 100%}", rate, 1))}
	for i := range rapid.IntRange(1, 30).Draw(t, "leases") {
		l := lease(fmt.Sprint("L", i), midnight+span.Second(rapid.IntRange(-2400, 1200).Draw(t, "start")))
		l.Count, l.ShareMilli = rapid.Int64Range(1, 3).Draw(t, "count"), rapid.SampledFrom([]int64{143, 500, 1000}).Draw(t, "share")
		l.Region = rapid.SampledFrom([]string{"in", "in", "out", "far", "nowhere"}).Draw(t, "region")
		bodies = append(bodies, l)
		if rapid.Bool().Draw(t, "stops") {
			bodies = append(bodies, &fact.LeaseStopped{Lease: l.Lease, At: l.At + span.Second(rapid.IntRange(1, 3000).Draw(t, "length")), By: fact.ByCustomer})
		}
	}
	s := NewState()
	for _, f := range numbered(1, bodies...) {
		s.takeFact(f, nil)
	}
	return s
}

// TestAllocation: at every second an allocation covers of every tranche what a walk along the order of demand gives it, supply
// after supply, and it names every second at which that changes.
func TestAllocation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawHour(t)
		c := &s.classifier
		c.within = midnight.Hour().Span()
		of := allocationOf{"c1", "h100", c.within}
		var tranches []occupancy.Tranche
		c.book.Leases(func(l *occupancy.Lease) { tranches = append(tranches, l.Tranches...) })
		slices.SortFunc(tranches, func(a, b occupancy.Tranche) int {
			return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Lease.ID, b.Lease.ID))
		})
		a := c.allocate(of)
		if a == nil {
			return // nothing is reserved in the hour
		}
		edges, before := map[occupancy.Tranche][]span.Second{}, map[occupancy.Tranche]string{}
		for i := range tranches {
			edges[tranches[i]] = a.edges(nil, &tranches[i], tranches[i].Span.Intersect(c.within))
		}
		for at := c.within.From; at < c.within.To; at += 7 { // 7 s apart is close enough for an hour of changes
			want := dealOut(c.contracts.Supplies("c1", "h100", c.within), tranches, at)
			for i := range tranches {
				tr := tranches[i]
				if !tr.Span.Contains(at) || tr.Lease.Started.Region == "nowhere" {
					continue
				}
				var got []string
				rest := a.parts(&tr, at, tr.Milli, func(by *contract.Supply, milli int64) { got = append(got, fmt.Sprint(by.Name, " ", milli)) })
				text := fmt.Sprint(strings.Join(got, ", "), " rest ", rest)
				if text != want[i] {
					t.Fatalf("%s of %v is covered %s, want %s", tr.Lease.ID, at, text, want[i])
				}
				last, known := before[tr]
				if known && last != text && !slices.ContainsFunc(edges[tr], func(e span.Second) bool { return at-7 < e && e <= at }) {
					t.Fatalf("%s changes before %v from %s to %s; its edges are %v", tr.Lease.ID, at, last, text, edges[tr])
				}
				before[tr] = text
			}
		}
	})
}

// dealOut gives each supply to the tranches in their order.
func dealOut(supplies []contract.Supply, tranches []occupancy.Tranche, at span.Second) []string {
	left, covered := make([]int64, len(tranches)), make([][]string, len(tranches))
	for i := range tranches {
		left[i] = tranches[i].Milli
	}
	for _, s := range supplies {
		for i := range tranches {
			region := tranches[i].Lease.Started.Region
			if !s.Span.Contains(at) || !tranches[i].Span.Contains(at) || region == "nowhere" || s.Region != "" && s.Region != region {
				continue
			}
			if n := min(left[i], s.Milli); n > 0 {
				covered[i] = append(covered[i], fmt.Sprint(s.Name, " ", n))
				left[i] -= n
				s.Milli -= n
			}
		}
	}
	out := make([]string, len(tranches))
	for i := range tranches {
		out[i] = fmt.Sprint(strings.Join(covered[i], ", "), " rest ", left[i])
	}
	return out
}
