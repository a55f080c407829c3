package contract

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// UnknownPackage refuses a purchase of something that the contract does not sell.
const UnknownPackage = "unknown_package"

// Piece is a part of a contract's time and the version in force there.
type Piece struct {
	Version
	Span span.Span
}

// Pieces lists the versions of a contract that are in force within s, in order of time.
func (r *Register) Pieces(id string, s span.Span) []Piece {
	a := r.agreements[id]
	if a == nil {
		return nil
	}
	return a.pieces(s)
}

func (a *agreement) pieces(s span.Span) []Piece {
	var out []Piece
	for i, v := range a.versions {
		in := span.Span{From: v.From, To: span.Open}.Intersect(v.Contract.Term).Intersect(s)
		if i+1 < len(a.versions) {
			in.To = min(in.To, a.versions[i+1].From)
		}
		if !in.Empty() {
			out = append(out, Piece{v, in})
		}
	}
	return out
}

// Supply is capacity that covers leases of one SKU under one contract for a time.
type Supply struct {
	Name   string // of the reservation, forward or package
	SKU    string
	Slices []string // SKUs of slices that are covered too, by their share
	Milli  int64
	Region string // only leases there are covered; empty for anywhere
	Span   span.Span
	Priced bool // of a forward: what it covers has a price
}

// Covers tells whether the supply covers leases of a SKU in a region.
func (s *Supply) Covers(sku, region string) bool {
	return (s.Region == "" || s.Region == region) && (s.SKU == sku || slices.Contains(s.Slices, sku))
}

// Supplies lists what covers a contract's leases of a SKU within s, and of those that compete with them, see Pool. At every instant the
// order is the one in which it is used (design page 3b, Reserved, forward, packages): reservations by when they begin, then as they
// stand in the file, forwards alike, packages by purchase.
func (r *Register) Supplies(id, sku string, s span.Span) []Supply {
	var out []Supply
	add := func(x Supply, in span.Span) {
		if x.Span = x.Span.Intersect(in).Intersect(s); !x.Span.Empty() {
			out = append(out, x)
		}
	}
	pool := r.Pool(id, sku)
	for _, p := range r.Pieces(id, s) {
		var reserved, forward []Supply
		for _, rate := range p.Contract.Rates {
			if !slices.Contains(pool, rate.SKU) {
				continue
			}
			for _, x := range rate.Reserved {
				own := Supply{Name: x.Name, SKU: rate.SKU, Milli: x.Quantity * fact.WholeShareMilli, Region: x.Region, Span: x.Span}
				if x.Slices {
					own.Slices = p.Contract.slicesOf(rate.SKU)
				}
				reserved = append(reserved, own)
			}
			for _, x := range rate.Forward {
				forward = append(forward, Supply{Name: x.Name, SKU: rate.SKU, Milli: x.Quantity * fact.WholeShareMilli, Region: x.Region, Span: x.Span, Priced: true})
			}
		}
		byBeginning := func(a, b Supply) int { return cmp.Compare(a.Span.From, b.Span.From) }
		slices.SortStableFunc(reserved, byBeginning)
		slices.SortStableFunc(forward, byBeginning)
		for _, x := range slices.Concat(reserved, forward) {
			add(x, p.Span)
		}
	}
	var bought []Purchase
	for _, p := range r.purchases[id] {
		if p.Reason == "" && slices.Contains(pool, p.Sold.SKU) && p.Runs.Overlaps(s) {
			bought = append(bought, p)
		}
	}
	slices.SortStableFunc(bought, func(a, b Purchase) int { return cmp.Compare(a.At, b.At) })
	for _, p := range bought {
		add(Supply{Name: p.Sold.Name, SKU: p.Sold.SKU, Milli: p.Sold.Quantity * p.Count * fact.WholeShareMilli, Region: p.Sold.Region, Span: p.Runs}, s)
	}
	return out
}

// supplied names a SKU that some version of a contract has commitments for, or tiers by GPUs held at once.
type supplied struct{ contract, sku string }

// clashingName says which name one version has for a forward and another for a package or reservation of the SKU, or "": a package that
// was bought may still run, and its name must not turn into that of something with a price.
func clashingName(versions []Version, c *Contract) string {
	for _, v := range versions {
		for _, pair := range [2][2]*Contract{{v.Contract, c}, {c, v.Contract}} {
			for _, rate := range pair[0].Rates {
				for _, f := range rate.Forward {
					if pair[1].covers(rate.SKU, f.Name) {
						return "the name " + f.Name + " of a forward was that of a package or reservation; choose another"
					}
				}
			}
		}
	}
	return ""
}

// covers tells whether a package or reservation of a SKU has a name.
func (c *Contract) covers(sku, name string) bool {
	return slices.ContainsFunc(c.reservedFor(sku), func(r Reservation) bool { return r.Name == name }) ||
		slices.ContainsFunc(c.Packages, func(p Package) bool { return p.SKU == sku && p.Name == name })
}

// noteSupplies remembers what a version can cover, and what it counts at once.
func (r *Register) noteSupplies(c *Contract) {
	r.notePool(c)
	for _, rate := range c.Rates {
		if len(c.reservedFor(rate.SKU))+len(rate.Forward) > 0 {
			r.supplied[supplied{c.ID, rate.SKU}] = true
		}
		r.perSlice = r.perSlice || rate.PerSlice()
		if rate.AtOnce != nil {
			r.counted[supplied{c.ID, rate.SKU}] = true
		}
	}
	for _, p := range c.Packages {
		r.supplied[supplied{c.ID, p.SKU}] = true
	}
}

// Supplied tells whether some version of a contract has commitments for a SKU.
func (r *Register) Supplied(id, sku string) bool { return r.supplied[supplied{id, sku}] }

// Suppliers appends to dst the contracts whose commitments may cover a lease: the one it names, or any of the customer's.
func (r *Register) Suppliers(dst []string, named, customer, sku string) []string {
	return r.among(dst, r.supplied, named, customer, sku)
}

// Counts tells whether some version of a contract has tiers by the GPUs of a SKU that are held at once.
func (r *Register) Counts(id, sku string) bool { return r.counted[supplied{id, sku}] }

// Counting appends to dst the contracts that may price a lease by the GPUs held at once: the one it names, or any of the customer's.
func (r *Register) Counting(dst []string, named, customer, sku string) []string {
	return r.among(dst, r.counted, named, customer, sku)
}

// among appends to dst the contracts of a lease that are in a set with its SKU.
func (r *Register) among(dst []string, set map[supplied]bool, named, customer, sku string) []string {
	if len(set) == 0 {
		return dst
	}
	if named != "" {
		if set[supplied{named, sku}] {
			dst = append(dst, named)
		}
		return dst
	}
	for _, a := range r.customers[customer] {
		if set[supplied{a.id, sku}] {
			dst = append(dst, a.id)
		}
	}
	return dst
}

// bought names a purchase: the contract, and the fact's key.
type bought struct{ contract, key string }

// buy takes a purchase, and the ends of it that were stated before.
func (r *Register) buy(f fact.Fact, b *fact.PackagePurchased) {
	p := Purchase{Seq: f.Seq, Key: f.Key, PackagePurchased: b}
	r.settle(&p)
	r.bought[bought{b.Contract, f.Key}] = len(r.purchases[b.Contract])
	r.purchases[b.Contract] = append(r.purchases[b.Contract], p)
	for i := range r.ends[b.Contract] {
		if e := &r.ends[b.Contract][i]; e.Purchase == f.Key {
			r.settleEnd(e)
		}
	}
}

// settle finds what a purchase bought: the package as the version in force at its instant sells it. A later version changes
// nothing about it.
func (r *Register) settle(p *Purchase) {
	p.Sold, p.Whole, p.Runs, p.Ended, p.Reason = Package{}, span.Span{}, span.Span{}, nil, ""
	v, ok := r.InForce(p.Contract, p.At)
	switch {
	case r.agreements[p.Contract] == nil || len(r.agreements[p.Contract].versions) == 0:
		p.Reason = UnknownContract
	case !ok || p.At >= Beyond:
		p.Reason = OutsideTerm
	default:
		i := slices.IndexFunc(v.Contract.Packages, func(x Package) bool { return x.Name == p.Package })
		if i < 0 {
			p.Reason = UnknownPackage
			return
		}
		p.Sold = v.Contract.Packages[i]
		p.Whole = p.Sold.Unit.Runs(v.Contract.Zone, p.At)
		p.Runs = p.Whole
	}
}

// settleAll settles the purchases of a contract anew, whose versions changed.
func (r *Register) settleAll(id string) {
	for i := range r.purchases[id] {
		r.settle(&r.purchases[id][i])
	}
	r.settleEnds(id)
}

// purchaseProblems lists the purchases that bought nothing.
func (r *Register) purchaseProblems(id string) []Problem {
	var out []Problem
	for _, p := range r.purchases[id] {
		if p.Reason == "" {
			continue
		}
		detail := map[string]string{
			UnknownContract: "no signature of contract " + id + " is known",
			OutsideTerm:     "the contract is not in force at " + p.At.String(),
			UnknownPackage:  "the contract sells no package " + p.Package + " at " + p.At.String(),
		}[p.Reason]
		out = append(out, Problem{Key: p.Key, Customer: r.Customer(id), Reason: p.Reason, Detail: detail, At: p.At})
	}
	return out
}
