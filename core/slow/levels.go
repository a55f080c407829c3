package slow

import (
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// eachOf prices readings one by one: quantity x price + flat, then the bounds.
func eachOf(m contract.Meter, readings []*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, quantity := range readings {
		amount := times(new(big.Rat).Quo(quantity, m.Size), m.Price)
		if m.Each.Flat != nil {
			amount = new(big.Rat).Add(amount, m.Each.Flat)
		}
		amount = least(amount, m.Each.Max)
		if m.Each.Min != nil && amount.Cmp(m.Each.Min) < 0 {
			amount = m.Each.Min
		}
		sum.Add(sum, amount)
	}
	return sum
}

// byLevel is what the seconds under a version cost whose tiers are chosen by the level of each: level x price / the unit's seconds. Its
// flat fees are those of the tiers that any second of the period uses, by the version's part of the period.
func (r *rater) byLevel(m contract.Meter, v *version, part *big.Rat) *big.Rat {
	sum, flats := new(big.Rat), map[string]*big.Rat{}
	for x, seconds := range r.levels(m.Name) {
		level, _ := new(big.Rat).SetString(x.level)
		if level.Sign() == 0 {
			continue
		}
		for _, p := range tiersOf(m.Tiers, level) {
			if p.Flat != nil {
				flats[p.Interval()] = p.Flat
			}
			if x.version == v {
				price := p.Price
				if price == nil {
					price = times(m.Price, p.Percent)
				}
				sum.Add(sum, times(times(price, new(big.Rat).Quo(p.quantity, m.Size)), big.NewRat(seconds, x.unit)))
			}
		}
	}
	for _, flat := range flats {
		sum.Add(sum, times(flat, part))
	}
	return sum
}

// moment is what a second of a meter looks like.
type moment struct {
	version *version
	unit    int64  // seconds of the unit's time
	level   string // of all resources together
}

// levels counts the seconds of the period by what they look like.
func (r *rater) levels(name string) map[moment]int64 {
	out := map[moment]int64{}
	resources := r.resources(name)
	for _, p := range r.pieces(r.id, r.known) {
		m, ok := p.Meter(name)
		if !ok {
			continue
		}
		var stands []*stand
		for resource, list := range resources {
			s := &stand{readings: list, lease: r.weighing(p.version, name, resource)}
			if s.lease != nil {
				s.parts = p.States.Meters[name]
			}
			stands = append(stands, s)
		}
		eachDay(p.version, p.Span, func(day span.Span) {
			day = day.Intersect(p.Span)
			s := sale{version: p.version, lengths: p.lengthsAt(day.From)}
			x := moment{version: p.version, unit: s.seconds(m.PerTime)}
			for at := day.From; at < day.To; at++ {
				if x.level == "" || slices.ContainsFunc(stands, func(s *stand) bool { return s.changes(at) }) {
					x.level = levelAt(stands, at)
				}
				out[x]++
			}
		})
	}
	return out
}

// stand is one resource of a meter, and the lease by whose states it counts, if any.
type stand struct {
	readings []reading
	lease    *lease
	parts    map[fact.LeaseState]*big.Rat
}

// changes tells whether a second may have another level than the one before.
func (s *stand) changes(at span.Second) bool {
	return slices.ContainsFunc(s.readings, func(x reading) bool { return x.At == at }) || s.lease != nil && s.lease.stateAt(at) != s.lease.stateAt(at-1)
}

// levelAt adds up the last reading of each resource, as it counts in the state of its lease.
func levelAt(stands []*stand, at span.Second) string {
	level := new(big.Rat)
	for _, s := range stands {
		value := new(big.Rat)
		for _, x := range s.readings {
			if x.At <= at {
				value = x.value
			}
		}
		if s.lease != nil {
			if state := s.lease.stateAt(at); state != "" {
				value = times(value, s.parts[state])
			}
		}
		level.Add(level, value)
	}
	return level.RatString()
}
