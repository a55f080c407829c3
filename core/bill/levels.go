package bill

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/span"
)

// held is what the level of one resource counts while it holds.
type held struct {
	span.Span
	level *big.Rat
}

// stretch is the level of all resources together, above 0, and how long it stood in parts of the unit's time.
type stretch struct{ level, time *big.Rat }

// stretches adds the resources of a piece up, from change to change.
func (p *meteredPiece) stretches() []stretch {
	type change struct {
		at span.Second
		by *big.Rat
	}
	changes := make([]change, 0, 2*len(p.held))
	for _, h := range p.held {
		changes = append(changes, change{h.From, h.level}, change{h.To, new(big.Rat).Neg(h.level)})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var out []stretch
	level, from := new(big.Rat), p.span.From
	for _, x := range changes {
		if x.at > from && level.Sign() > 0 {
			out = append(out, stretch{new(big.Rat).Set(level), big.NewRat(int64(x.at-from), p.seconds)})
		}
		level.Add(level, x.by)
		from = x.at
	}
	return out
}

// tierRow is what a tier by level comes to at one price.
type tierRow struct {
	tier, per, flat string   // as they are written; flat is "" for none
	quantity        *big.Rat // that it prices
	due             *big.Rat // quantity of the versions in which its flat fee is due
}

// byLevel charges the versions whose tiers are chosen by the level that stands at each second. Time that stood there costs the price of
// its tier by the version in force. A flat fee is due once, when any second of the period used its tier: as all that a meter prices by its
// period, each version's table holds for the whole of it and is charged by its part of the quantity, so that an amendment charges no fee twice.
func (c *pricing) byLevel(q metered) (amount *big.Rat, steps []string) {
	amount = new(big.Rat)
	var rows []*tierRow
	for i, p := range q.parts {
		if !p.ByLevel || p.quantity.Sign() == 0 {
			continue
		}
		used, own := q.tiersUsed(i)
		for _, tier := range p.Tiers.List {
			name := tier.Interval()
			if !used[name] {
				continue
			}
			per := tier.Price
			if per == nil {
				per = new(big.Rat).Mul(p.Price, tier.Percent)
			}
			row := &tierRow{tier: name, per: p.PriceText(per, c.Contract.Currency), quantity: new(big.Rat), due: new(big.Rat)}
			if own[name] != nil {
				row.quantity = own[name]
				part := new(big.Rat).Quo(row.quantity, p.Size)
				amount.Add(amount, part.Mul(part, per))
			}
			if tier.Flat != nil {
				row.flat, row.due = c.amount(tier.Flat), p.quantity
				share := new(big.Rat).Quo(p.quantity, q.total)
				amount.Add(amount, share.Mul(share, tier.Flat))
			}
			rows = row.join(rows)
		}
	}
	if len(rows) > 0 {
		steps = append(steps, "peak "+number(q.peak()))
	}
	for _, r := range rows {
		steps = append(steps, r.steps(q.total)...)
	}
	return amount, steps
}

// tiersUsed are the tiers of the n-th part's table that the levels of the period use, and what each prices of the part's own time.
func (q metered) tiersUsed(n int) (used map[string]bool, own map[string]*big.Rat) {
	used, own = map[string]bool{}, map[string]*big.Rat{}
	for i := range q.parts {
		p := &q.parts[i]
		for _, s := range p.stretches {
			for _, x := range q.parts[n].Tiers.Parts(s.level) {
				name := x.Interval()
				if used[name] = true; i != n {
					continue
				}
				if own[name] == nil {
					own[name] = new(big.Rat)
				}
				own[name].Add(own[name], new(big.Rat).Mul(x.Quantity, s.time))
			}
		}
	}
	return used, own
}

// peak is the highest level of the period.
func (q metered) peak() *big.Rat {
	peak := new(big.Rat)
	for _, p := range q.parts {
		for _, s := range p.stretches {
			if s.level.Cmp(peak) > 0 {
				peak = s.level
			}
		}
	}
	return peak
}

// join adds the row to one with the same words, or at the end.
func (r *tierRow) join(rows []*tierRow) []*tierRow {
	for _, o := range rows {
		if o.tier == r.tier && o.per == r.per && o.flat == r.flat {
			o.quantity = new(big.Rat).Add(o.quantity, r.quantity)
			o.due = new(big.Rat).Add(o.due, r.due)
			return rows
		}
	}
	return append(rows, r)
}

// steps are "tier >0 ≤5: 2.9 × 10.00/seat-month" and "flat 100.00", of which an amendment can leave a part: "flat 100.00 × 3 ÷ 5".
func (r *tierRow) steps(total *big.Rat) []string {
	out := []string{"tier " + r.tier + ": " + number(r.quantity) + " × " + r.per}
	switch {
	case r.flat == "":
	case r.due.Cmp(total) == 0:
		out = append(out, "flat "+r.flat)
	default:
		out = append(out, "flat "+r.flat+" × "+number(r.due)+" ÷ "+number(total))
	}
	return out
}
