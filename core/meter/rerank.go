package meter

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// regrouped is a span in which what a group holds may have changed, in a pricing mode.
type regrouped struct {
	group occupancy.Group
	span  span.Span
	mode  string
}

// regroup remembers where a fact changed what a lease holds: it may hold nothing there any more.
func (w *work) regroup(l *occupancy.Lease, touched []occupancy.Touched) {
	if l.Started == nil {
		return
	}
	for _, t := range touched {
		w.regrouped = append(w.regrouped, regrouped{l.Group(), t.Span, l.Started.PricingMode})
	}
}

// rerank lists what commitments and tiers by GPUs held at once make of the touched spans before limit: everything that is held there
// by the groups that hold something of the touched units, because who is covered, and how many are held at once, depends on all of
// them (page 3b, Reserved, forward, packages; Volume tiers).
func (s *State) rerank(w *work, limit span.Second) []occupancy.Touched {
	c := &s.classifier
	spans := map[occupancy.Group][]span.Span{}
	add := func(r regrouped) {
		g := r.group
		if r.span.To = min(r.span.To, limit); r.span.Empty() {
			return
		}
		if c.counting = c.contracts.Counting(c.counting[:0], "", g.Customer, g.SKU); len(c.counting) > 0 {
			spans[g] = append(spans[g], r.span)
		}
		if r.mode != price.OnDemand { // no other mode draws coverage
			return
		}
		c.suppliers = c.contracts.Suppliers(c.suppliers[:0], "", g.Customer, g.SKU)
		for _, id := range c.suppliers {
			for _, sku := range c.contracts.Pool(id, g.SKU) {
				of := occupancy.Group{Customer: g.Customer, SKU: sku}
				spans[of] = append(spans[of], r.span)
			}
		}
	}
	for _, r := range w.regrouped {
		add(r)
	}
	for _, t := range w.touched {
		in := span.Span{From: t.Span.From, To: min(t.Span.To, limit)}
		if in.Empty() {
			continue
		}
		c.tranches = c.book.On(c.tranches[:0], t.Unit, in)
		for i := range c.tranches {
			l := c.tranches[i].Lease
			add(regrouped{l.Group(), c.tranches[i].Span.Intersect(in), l.Started.PricingMode})
		}
	}
	var out []occupancy.Touched
	for g, list := range spans {
		for _, in := range merged(list) {
			for _, l := range c.book.Holders(g, in) {
				out = append(out, l.Within(in)...)
			}
		}
	}
	return out
}

// merged joins spans that overlap or meet.
func merged(list []span.Span) []span.Span {
	slices.SortFunc(list, func(a, b span.Span) int { return cmp.Compare(a.From, b.From) })
	var out []span.Span
	for _, s := range list {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}
