package meter

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// regrouped is a span in which a group's demand for commitments may have changed.
type regrouped struct {
	group occupancy.Group
	span  span.Span
}

// regroup remembers where a fact changed what a lease holds: it may hold nothing there any more.
func (w *work) regroup(l *occupancy.Lease, touched []occupancy.Touched) {
	if l.Started == nil || l.Started.PricingMode != price.OnDemand {
		return
	}
	for _, t := range touched {
		w.regrouped = append(w.regrouped, regrouped{l.Group(), t.Span})
	}
}

// rerank lists what commitments make of the touched spans before limit: everything that is held there by the groups that hold
// something of the touched units, because who is covered depends on all of them (page 3b, Reserved, forward, packages).
func (s *State) rerank(w *work, limit span.Second) []occupancy.Touched {
	c := &s.classifier
	spans := map[occupancy.Group][]span.Span{}
	add := func(g occupancy.Group, in span.Span) {
		if in.To = min(in.To, limit); in.Empty() {
			return
		}
		if c.suppliers = c.contracts.Suppliers(c.suppliers[:0], "", g.Customer, g.SKU); len(c.suppliers) > 0 {
			spans[g] = append(spans[g], in)
		}
	}
	for _, r := range w.regrouped {
		add(r.group, r.span)
	}
	for _, t := range w.touched {
		in := span.Span{From: t.Span.From, To: min(t.Span.To, limit)}
		if in.Empty() {
			continue
		}
		c.tranches = c.book.On(c.tranches[:0], t.Unit, in)
		for i := range c.tranches {
			if l := c.tranches[i].Lease; l.Started.PricingMode == price.OnDemand {
				add(l.Group(), c.tranches[i].Span.Intersect(in))
			}
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
