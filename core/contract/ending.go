package contract

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Reasons why the end of a package is refused.
const (
	UnknownPurchase = "unknown_purchase"
	OutsidePackage  = "outside_package"
	SecondEnd       = "second_end"
	NoOnDemandPrice = "no_on_demand_price"
)

// ending is what was stated of a package's early end, and where in the fact stream.
type ending struct {
	seq uint64
	key string
	*fact.PackageEnded
	reason, detail string // why it ends nothing, or ""
}

// applyEnd takes the early end of a package. It changes the fee, which belongs to the period of the purchase.
func (r *Register) applyEnd(f fact.Fact, b *fact.PackageEnded) Changed {
	r.ends[b.Contract] = append(r.ends[b.Contract], ending{seq: f.Seq, key: f.Key, PackageEnded: b})
	r.settleEnd(&r.ends[b.Contract][len(r.ends[b.Contract])-1])
	from := b.At
	if p := r.purchase(b.Contract, b.Purchase); p != nil {
		from = min(from, p.At)
	}
	return Changed{Contract: b.Contract, Customer: r.Customer(b.Contract), From: from, Leases: true}
}

// fromEnds is the first instant whose bill changes with what holds from an instant on: the fee of a package that ended later stands on all
// that held since its purchase.
func (r *Register) fromEnds(id string, from span.Second) span.Second {
	first := from
	for _, e := range r.ends[id] {
		if p := r.purchase(id, e.Purchase); p != nil && p.At < from && from <= e.At {
			first = min(first, p.At)
		}
	}
	return first
}

func (r *Register) purchase(id, key string) *Purchase {
	i, ok := r.bought[bought{id, key}]
	if !ok {
		return nil
	}
	return &r.purchases[id][i]
}

// settleEnds ends a contract's packages anew, in order of position: of several ends of one purchase the first that can be taken stands.
func (r *Register) settleEnds(id string) {
	if len(r.ends[id]) == 0 {
		return
	}
	for i := range r.purchases[id] {
		p := &r.purchases[id][i]
		p.Ended, p.Runs = nil, p.Whole
	}
	for i := range r.ends[id] {
		r.settleEnd(&r.ends[id][i])
	}
}

// settleEnd ends a package where nothing stated before ended it.
func (r *Register) settleEnd(e *ending) {
	p := r.purchase(e.Contract, e.Purchase)
	if e.reason, e.detail = r.judgeEnd(e, p); e.reason == "" {
		p.Ended, p.Runs.To = e.PackageEnded, e.At
	}
}

func (r *Register) judgeEnd(e *ending, p *Purchase) (reason, detail string) {
	switch {
	case r.Customer(e.Contract) == "":
		return UnknownContract, "no signature of contract " + e.Contract + " is known"
	case p == nil:
		return UnknownPurchase, "contract " + e.Contract + " knows no purchase " + e.Purchase
	case p.Reason != "":
		return UnknownPurchase, "purchase " + e.Purchase + " bought nothing: " + p.Reason
	case e.At < p.At || e.At >= p.Whole.To:
		return OutsidePackage, "at " + e.At.String() + " package " + p.Sold.Name + " does not run; it runs from " + p.At.String() + " until " + p.Whole.To.String()
	case p.Ended != nil:
		return SecondEnd, "purchase " + e.Purchase + " ended at " + p.Ended.At.String()
	}
	for _, l := range r.Listings(e.Contract, span.Span{From: p.At, To: e.At}) { // a term that ended before cuts nothing off the package
		if what := unlisted(l, p.Sold.SKU, p.Sold.Region); what != "" && p.Sold.endedBy(e.By) == EarlyEndClawback {
			return NoOnDemandPrice, what
		}
	}
	return "", ""
}

// endProblems lists the ends that ended nothing.
func (r *Register) endProblems(id string) []Problem {
	var out []Problem
	for _, e := range r.ends[id] {
		if e.reason != "" {
			out = append(out, Problem{Key: e.key, Customer: r.Customer(id), Reason: e.reason, Detail: e.detail, At: e.At})
		}
	}
	return out
}

// EarlyEnd is the rule by which what was bought is paid: EarlyEndNone while nobody ended it.
func (p *Purchase) EarlyEnd() EarlyEnd {
	if p.Ended == nil {
		return EarlyEndNone
	}
	return p.Sold.endedBy(p.Ended.By)
}

// endedBy is the package's rule for an end by one of the two sides: a provider who ends a package takes no discount back.
func (p *Package) endedBy(by fact.EndedBy) EarlyEnd {
	if by == fact.ByProvider && p.EarlyEnd == EarlyEndClawback {
		return EarlyEndProrata
	}
	return p.EarlyEnd
}

// Listing is a time in which one version of a contract and of its price book are in force.
type Listing struct {
	Piece
	Book *Book // nil for none
}

// Listings cuts the contract's time within s where another version or another price book comes into force.
func (r *Register) Listings(id string, s span.Span) []Listing { return r.listings(r.Pieces(id, s)) }

func (r *Register) listings(pieces []Piece) []Listing {
	var out []Listing
	for _, p := range pieces {
		cuts := r.bookEdges([]span.Second{p.Span.From}, p.Contract, p.Span)
		slices.Sort(cuts)
		cuts = append(slices.Compact(cuts), p.Span.To)
		for i, from := range cuts[:len(cuts)-1] {
			cut := Piece{p.Version, span.Span{From: from, To: cuts[i+1]}}
			out = append(out, Listing{cut, r.Book(r.BookAt(p.Contract, from))})
		}
	}
	return out
}

// unlisted says why a SKU has no on-demand price in a region, or "".
func unlisted(l Listing, sku, region string) string {
	rate, _ := l.Contract.RateFrom(l.Book, sku)
	_, known := rate.Region[region]
	switch {
	case rate.OnDemand.Amount == nil:
		return "contract " + l.Contract.ID + " has no on-demand price of " + sku + " at " + l.Span.From.String()
	case rate.PerSlice():
		return "contract " + l.Contract.ID + " has a price of " + sku + " per slice at " + l.Span.From.String() + ", and none of a GPU's capacity"
	case rate.Region != nil && !known:
		return "contract " + l.Contract.ID + " has no price of " + sku + " in region \"" + region + "\" at " + l.Span.From.String()
	default:
		return ""
	}
}
