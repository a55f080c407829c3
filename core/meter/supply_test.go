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

// drawCommitments puts reservations, forwards and packages into a document, and gives the leases a second region with a price.
func drawCommitments(t *rapid.T, document string) string {
	days := func(label string) string {
		return rapid.SampledFrom([]string{
			"from: 2026-01-01, to: 2026-02-01", "from: 2026-01-07, to: 2026-01-08", "from: 2026-01-06, to: 2026-01-07", "from: 2026-01-02, to: 2026-01-07",
		}).Draw(t, label)
	}
	region := func() string {
		return rapid.SampledFrom([]string{"", "", ", region: in", ", region: out"}).Draw(t, "region")
	}
	list := func(key string, entry func(i int) string) string {
		var out []string
		for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, key) {
			out = append(out, entry(i))
		}
		if out == nil {
			return ""
		}
		return key + ": [" + strings.Join(out, ", ") + "]"
	}
	gpus := func() int { return rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "gpus") }
	reserved := list("reserved", func(i int) string {
		return fmt.Sprintf("{name: r%d, quantity: %d, price: 100/gpu-month, %s%s}", i, gpus(), days("reserved"), region())
	})
	forward := list("forward", func(i int) string {
		from := drawInstant(t, "forward")
		return fmt.Sprintf("{name: f%d, quantity: %d, price: 1.00/gpu-hour, from: %s, to: 2026-01-08%s}", i, gpus(), from, region())
	})
	packages := list("packages", func(i int) string {
		return fmt.Sprintf("{name: p%d, sku: h100, unit: day, quantity: %d, price: 9.00%s}", i, gpus(), region())
	})
	rate := "region: {in: 100%, out: 88%}"
	for _, clause := range []string{reserved, forward} {
		if clause != "" {
			rate += ", " + clause
		}
	}
	return strings.Replace(document, "region: {in: 100%}", rate, 1) + packages + "\n"
}

// drawPurchases buys packages that begin or end in the world, or in vain.
func drawPurchases(t *rapid.T) []fact.Body {
	var out []fact.Body
	for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "purchases") {
		out = append(out, &fact.PackagePurchased{
			Contract: rapid.SampledFrom([]string{"c1", "c1", "c2"}).Draw(t, "contract"), Package: rapid.SampledFrom([]string{"p0", "p0", "p1"}).Draw(t, "package"),
			At: drawInstant(t, "bought") - rapid.SampledFrom([]span.Second{0, 86400}).Draw(t, "before"), Count: rapid.Int64Range(1, 2).Draw(t, "count"),
		})
	}
	return out
}

// endSome ends some of the purchases early, or in vain.
func endSome(t *rapid.T, facts []fact.Fact) []fact.Fact {
	var ends []fact.Body
	for _, f := range facts {
		if _, bought := f.Body.(*fact.PackagePurchased); bought {
			for range rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "ends") {
				ends = append(ends, &fact.PackageEnded{
					Contract: rapid.SampledFrom([]string{"c1", "c1", "c2"}).Draw(t, "contract"), Purchase: f.Key, At: drawInstant(t, "ended"), By: fact.ByCustomer,
				})
			}
		}
	}
	return append(facts, numbered(uint64(len(facts)+1), ends...)...)
}

// drawCrowd are leases that compete for commitments, on devices of their own and on shared ones.
func drawCrowd(t *rapid.T) []fact.Fact {
	text := drawCommitments(t, document("c1", "daily", "", "3.60"))
	if !strings.Contains(text, "reserved: [") {
		text = strings.Replace(text, "region: {", "reserved: [{name: base, quantity: 1, price: 1/gpu-day, from: 2026-01-01, to: 2026-02-01}], region: {", 1)
	}
	if rapid.Bool().Draw(t, "suspended bills") {
		text += "states: {suspended: {gpu: 50%}}\n"
	}
	trial := drawTrial(t)
	bodies := []fact.Body{signed("c1", text+trial)}
	if rapid.IntRange(0, 3).Draw(t, "amended") == 0 {
		bodies = append(bodies, &fact.ContractAmended{
			Contract: "c1", Effective: drawInstant(t, "effective"), Document: drawCommitments(t, document("c1", "daily", "", "3.60")) + trial,
		})
	}
	for i := range rapid.IntRange(2, 6).Draw(t, "leases") {
		id := fmt.Sprint("L", i)
		b := lease(id, drawInstant(t, "start"))
		if rapid.Bool().Draw(t, "placed") {
			b = lease(id, b.At, share(rapid.SampledFrom([]string{"A", "B"}).Draw(t, "device"), rapid.SampledFrom([]int64{500, 1000}).Draw(t, "milli")))
		}
		b.Region = rapid.SampledFrom([]string{"in", "in", "out"}).Draw(t, "region")
		bodies = append(bodies, b)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := b.At + span.Second(rapid.Int64Range(1, 1500).Draw(t, "after"))
			if rapid.IntRange(0, 3).Draw(t, "suspended") == 0 {
				bodies = append(bodies, &fact.LeaseStateChanged{Lease: id, At: at, State: fact.Suspended})
			} else if rapid.Bool().Draw(t, "resized") && b.Count > 0 {
				bodies = append(bodies, &fact.LeaseResized{Lease: id, At: at, Count: rapid.Int64Range(1, 3).Draw(t, "count"), ShareMilli: rapid.SampledFrom([]int64{300, 1000}).Draw(t, "share")})
			} else {
				bodies = append(bodies, &fact.LeaseStopped{Lease: id, At: at, By: fact.ByCustomer})
			}
		}
	}
	bodies = append(bodies, drawPurchases(t)...)
	bodies = append(bodies, drawDeclarations(t)...)
	rest := rapid.Permutation(bodies[1:]).Draw(t, "order")
	if rapid.Bool().Draw(t, "stops come last") {
		slices.SortStableFunc(rest, func(a, b fact.Body) int { return stopRank(a) - stopRank(b) })
	}
	return endSome(t, numbered(1, append(bodies[:1:1], rest...)...))
}

func stopRank(b fact.Body) int {
	if _, ok := b.(*fact.LeaseStopped); ok {
		return 1
	}
	return 0
}

// TestSupplyAgainstSeconds: whatever becomes known when, each second's commitments cover what a hand that deals them out to one
// chunk after another covers, and what is covered and what is not is all that was granted.
func TestSupplyAgainstSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawCrowd(t)
		x, s := newTables(), NewState()
		for _, b := range drawBlocks(t, facts, nil) {
			x.play(s, b)
			checkTotals(t, s, x, b)
		}
		compare(t, consult(facts, nil, settled.Hour().Start()), x)
	})
}

// chunk is a hundred milli of a tranche, as far as its unit grants them.
type chunk struct {
	tranche occupancy.Tranche
	n       int
}

// covering is what covers a chunk.
type covering struct {
	name    string
	forward bool
	room    int64 // chunks
	region  string
}

// covered is what covers a chunk in a second, or nil: every commitment takes chunk after chunk.
func (o *oracle) covered(tr occupancy.Tranche, n int, at span.Second) *covering {
	if !o.committed {
		return nil
	}
	all, known := o.coverings[at]
	if !known {
		all = map[chunk]*covering{}
		for _, id := range []string{"c1", "c2"} {
			o.cover(all, id, at)
		}
		o.coverings[at] = all
	}
	return all[chunk{tr, n}]
}

func (o *oracle) cover(all map[chunk]*covering, id string, at span.Second) {
	var queue []chunk
	units := map[occupancy.Unit]bool{}
	commitments := o.commitments(id, at)
	if len(commitments) == 0 {
		return
	}
	o.book.Leases(func(l *occupancy.Lease) {
		for _, tr := range l.Tranches {
			if units[tr.Unit] || !tr.Span.Contains(at) {
				continue
			}
			units[tr.Unit] = true
			room := o.saleable(tr.Unit.Device, at) / 100
			for _, held := range o.book.On(nil, tr.Unit, span.Span{From: at, To: at + 1}) {
				key := o.key(held.Lease, held.State, at, at, Leased, false)
				for n := range int(held.Milli / 100) {
					if room--; room < 0 && tr.Unit.Device != "" {
						break
					}
					priced := key.Standing == Priced || key.Reason == contract.NoHolidayCalendar
					if key.Contract == id && priced && held.Lease.Started.PricingMode == "on_demand" {
						queue = append(queue, chunk{held, n})
					}
				}
			}
		}
	})
	slices.SortFunc(queue, func(a, b chunk) int {
		x, y := a.tranche, b.tranche
		return cmp.Or(cmp.Compare(x.Began, y.Began), cmp.Compare(x.Lease.ID, y.Lease.ID), cmp.Compare(x.Unit.Device, y.Unit.Device), cmp.Compare(x.Seq, y.Seq),
			cmp.Compare(a.n, b.n))
	})
	for _, by := range commitments {
		for _, c := range queue {
			if by.room > 0 && all[c] == nil && (by.region == "" || by.region == c.tranche.Lease.Started.Region) {
				all[c] = by
				by.room--
			}
		}
	}
}

// commitments lists what a contract has at a second, in its order.
func (o *oracle) commitments(id string, at span.Second) []*covering {
	var out []*covering
	add := func(name string, forward bool, gpus int64, region string, in span.Span) {
		if in.Contains(at) {
			out = append(out, &covering{name, forward, 10 * gpus, region})
		}
	}
	if v, ok := o.contracts.InForce(id, at); ok {
		rate, _ := v.Contract.Rate("h100")
		reserved, forward := slices.Clone(rate.Reserved), slices.Clone(rate.Forward)
		slices.SortStableFunc(reserved, func(a, b contract.Reservation) int { return int(a.Span.From - b.Span.From) })
		slices.SortStableFunc(forward, func(a, b contract.Forward) int { return int(a.Span.From - b.Span.From) })
		for _, r := range reserved {
			add(r.Name, false, r.Quantity, r.Region, r.Span)
		}
		for _, f := range forward {
			add(f.Name, true, f.Quantity, f.Region, f.Span)
		}
	}
	bought := slices.Clone(o.purchases)
	slices.SortStableFunc(bought, func(a, b purchase) int { return int(a.At - b.At) })
	for _, b := range bought {
		v, ok := o.contracts.InForce(id, b.At)
		if !ok || b.Contract != id {
			continue
		}
		for _, p := range v.Contract.Packages {
			if p.Name == b.Package {
				add(p.Name, false, p.Quantity*b.Count, p.Region, o.runsFor(b))
			}
		}
	}
	return out
}

// runsFor is the day of a package, which is over when its first end says so that speaks of an instant in it: the zone's clocks never change
// and the contract is in force from then on.
func (o *oracle) runsFor(b purchase) span.Span {
	in := span.Span{From: b.At, To: b.At + 86400}
	for _, e := range o.ends {
		if e.Contract == b.Contract && e.Purchase == b.key && in.Contains(e.At) {
			in.To = e.At
			break
		}
	}
	return in
}

// coveredKey is the key of a chunk that a commitment covers.
func (o *oracle) coveredKey(k ChargeKey, by *covering, tr occupancy.Tranche, at span.Second) ChargeKey {
	k.Commitment, k.Standing, k.Reason, k.Window, k.State = by.name, Priced, "", "", ""
	if v, ok := o.contracts.Version(k.Version); ok && by.forward {
		k.Window, k.Reason = v.Contract.Schedule.At("forward", v.Contract.Zone, at)
		if k.State = named(v, tr.State); k.Reason != "" {
			k.Standing, k.State = Refused, ""
			for _, w := range tr.Lease.Waivers {
				if w.Contains(at) {
					k.Standing = Waived
				}
			}
		}
	}
	return k
}
