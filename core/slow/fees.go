package slow

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// eachDay calls f for the local days of a span.
func eachDay(v *version, s span.Span, f func(day span.Span)) {
	for d := v.Zone.DateOf(s.From); v.Zone.StartOfDay(d) < s.To; d = d.AddDays(1) {
		f(span.Span{From: v.Zone.StartOfDay(d), To: v.Zone.StartOfDay(d.AddDays(1))})
	}
}

// reserved charges fees of reservations: price x local days / days of the unit. A day is charged by what is in force in its last
// second, in the period that holds its first second of the contract.
func (r *rater) reserved() {
	over := r.whole()
	for _, day := range r.days(over) {
		first, last := r.feeDay(day, r.end())
		if first > last || !over.Contains(first) {
			continue
		}
		v := r.feesAt(last, r.end())
		for _, rate := range v.Rates {
			for _, x := range rate.Reserved {
				if x.Advance || !r.ahead {
					if fee := v.dayFee(x, last); fee.Sign() > 0 || x.Span.Contains(last) {
						r.add(Key{Item: "reserved", Name: x.Name, SKU: rate.SKU}, big.NewRat(x.Quantity, 1), fee)
					}
				}
			}
		}
	}
}

// dayFee is what a reservation costs on the local day with that last second: price / days of the unit, or nothing when it does not hold.
func (v *version) dayFee(x contract.Reservation, last span.Second) *big.Rat {
	if !x.Span.Contains(last) {
		return new(big.Rat)
	}
	unit := map[contract.Unit]int64{
		contract.GPUDay: 1, contract.GPUWeek: 7, contract.GPUMonth: v.days(v.month(last)), contract.GPUYear: v.days(v.year(last)),
	}
	return times(times(x.Price.Amount, big.NewRat(x.Quantity, 1)), big.NewRat(1, unit[x.Price.Unit]))
}

// purchased charges packages: a fee due at t belongs to the period containing t.
func (r *rater) purchased() {
	for i := range r.purchases[r.id] {
		if p := &r.purchases[r.id][i]; r.period.Contains(p.At) {
			count := big.NewRat(p.Count, 1)
			r.add(Key{Item: "package", Name: p.sold.Name, SKU: p.sold.SKU}, count, times(r.fee(p), count))
		}
	}
}

// untaken is take-or-pay: unused = quantity - used, per second, its own line.
func (r *rater) untaken() {
	for _, p := range r.pieces(r.id, r.known) {
		for _, rate := range p.Rates {
			for _, f := range rate.Forward {
				milli := f.Quantity*1000*f.Span.Intersect(p.Span).Seconds() - r.taken[taken{p.version, rate.SKU, f.Name}]
				if f.TakeOrPay && milli != 0 {
					s := sale{version: p.version}
					r.add(Key{Item: "take_or_pay", Name: f.Name, SKU: rate.SKU}, counted(milli), times(s.perSecond(f.Price), big.NewRat(milli, 1)))
				}
			}
		}
	}
}

// monthly is a fee per month over the period's local days: each day by the version in force in its last second in the term, of the days of the
// billing month, else of the calendar month. fee is nil where a version has none.
func (r *rater) monthly(over span.Span, end *terminated, fee func(*version) *big.Rat) (months, exact *big.Rat) {
	months, exact = new(big.Rat), new(big.Rat)
	for _, day := range r.days(over) {
		_, last := r.feeDay(day.Intersect(over), end)
		if v := r.feesAt(last, end); v != nil {
			if f := fee(v); f != nil {
				part := big.NewRat(1, v.days(v.month(last)))
				months.Add(months, part)
				exact.Add(exact, times(f, part))
			}
		}
	}
	return months, exact
}

// addons charges a fee per month, by local days or whole at the price of the last version that has it, or a price on all leased
// time of all modes without window or relief.
func (r *rater) addons() {
	for _, name := range r.names(func(v *version) (names []string) {
		for _, a := range v.Addons {
			names = append(names, a.Name)
		}
		return names
	}) {
		k := Key{Item: "addon", Name: name}
		var whole *big.Rat
		months, exact := r.monthly(r.whole(), r.end(), func(v *version) *big.Rat {
			a, _ := v.Addon(name)
			if r.ahead && !a.Advance {
				return nil
			}
			if a.Monthly != nil && !a.Prorate {
				whole = a.Monthly
				return nil
			}
			return a.Monthly
		})
		if months.Sign() > 0 {
			r.add(k, months, exact)
		}
		if whole != nil {
			r.add(k, big.NewRat(1, 1), whole)
		}
		for s, milli := range r.seconds {
			if a, ok := s.Addon(name); ok && a.Monthly == nil && !s.topUp && milli != 0 {
				r.add(k, counted(milli), times(s.perSecond(a.Price), big.NewRat(milli, 1)))
			}
		}
	}
}

// names lists what the versions in force in the period name.
func (r *rater) names(of func(*version) []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range r.pieces(r.id, r.period) {
		for _, name := range of(p.version) {
			if !seen[name] {
				out = append(out, name)
			}
			seen[name] = true
		}
	}
	return out
}

// capped takes off what the rounded charges exceed a cap on the period by.
func (r *rater) capped(v *version) {
	if v.Limit == nil || v.Limit.Action != contract.LimitCap {
		return
	}
	digits := v.Currency.Digits()
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	beyond := new(big.Rat).SetFrac(r.out.Total, scale)
	if beyond.Sub(beyond, v.Limit.Spend); beyond.Sign() > 0 {
		k := Key{Item: "cap", Name: "cap"}
		r.add(k, big.NewRat(1, 1), new(big.Rat).Neg(beyond))
		l := r.out.Lines[k]
		l.Rounded = new(big.Int).Neg(round(beyond, digits, v.Billing.Rounding))
		r.out.Total.Add(r.out.Total, l.Rounded)
	}
}

// shortfall is max(0, commitment - C), C being the rounded charges so far; a commitment of a partial period counts local days.
func (r *rater) shortfall(v *version) {
	months, due := r.monthly(r.period, nil, func(v *version) *big.Rat {
		if v.Spend == nil {
			return nil
		}
		return v.Spend.Monthly
	})
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Currency.Digits())), nil)
	due.Sub(due, new(big.Rat).SetFrac(r.out.Total, scale))
	if months.Sign() > 0 && due.Sign() > 0 {
		k := Key{Item: "commitment", Name: "commitment"}
		r.add(k, months, due)
		l := r.out.Lines[k]
		l.Rounded = round(due, v.Currency.Digits(), v.Billing.Rounding)
		r.out.Total.Add(r.out.Total, l.Rounded)
	}
}

// meters charges what the readings of the period add up to: each version its part of the quantity, by its own prices at the whole.
func (r *rater) meters() {
	for _, name := range r.names(func(v *version) (names []string) {
		for _, m := range v.Meters {
			names = append(names, m.Name)
		}
		return names
	}) {
		q := r.metered(name)
		if q.last == nil {
			continue
		}
		exact := new(big.Rat)
		if r.free(r.id, r.period.From) {
			if q.total.Sign() > 0 {
				r.add(Key{Item: "meter", Name: name}, q.total, exact)
			}
			continue
		}
		if q.total.Sign() == 0 {
			m, _ := q.last.Meter(name)
			if exact = charge(m, q.total); exact.Sign() == 0 {
				continue
			}
		}
		for v, part := range q.parts {
			if part.Sign() > 0 {
				m, _ := v.Meter(name)
				exact.Add(exact, times(charge(m, q.total), new(big.Rat).Quo(part, q.total)))
			}
		}
		r.add(Key{Item: "meter", Name: name}, q.total, exact)
	}
}

// metered is what a meter adds up to in the period, and by version.
type metered struct {
	total *big.Rat
	parts map[*version]*big.Rat
	last  *version // in the period that has the meter
}

func (r *rater) metered(name string) metered {
	q := metered{new(big.Rat), map[*version]*big.Rat{}, nil}
	add := func(v *version, value *big.Rat) {
		if q.parts[v] == nil {
			q.parts[v] = new(big.Rat)
		}
		q.parts[v].Add(q.parts[v], value)
		q.total.Add(q.total, value)
	}
	resources := map[string][]reading{}
	for _, x := range r.readings {
		if x.Contract == r.id && x.Meter == name {
			resources[x.Resource] = append(resources[x.Resource], x)
		}
	}
	var m contract.Meter
	pieces := r.pieces(r.id, r.known)
	for _, p := range pieces {
		if found, ok := p.Meter(name); ok {
			m, q.last = found, p.version
		}
	}
	for _, list := range resources {
		switch m.Aggregate {
		case contract.Sum:
			r.summed(m, list, add)
		case contract.TimeWeighted:
			r.weighted(m, pieces, list, add)
		case contract.Max, contract.Last, contract.Unique:
			r.single(m, list, add)
		}
	}
	return q
}

// summed adds readings up, or what a counter that begins at 0 has grown by.
func (r *rater) summed(m contract.Meter, list []reading, add func(*version, *big.Rat)) {
	before := new(big.Rat)
	for _, x := range list {
		value := x.value
		if m.Cumulative {
			value = new(big.Rat).Sub(x.value, before)
			before = x.value
		}
		if r.known.Contains(x.At) {
			add(r.inForce(r.id, x.At), value)
		}
	}
}

// single counts one reading of the period for a resource: the highest, the last, or 1 for the first above zero.
func (r *rater) single(m contract.Meter, list []reading, add func(*version, *big.Rat)) {
	var best *reading
	for i := range list {
		x := &list[i]
		if !r.known.Contains(x.At) {
			continue
		}
		if best == nil || m.Aggregate == contract.Last || m.Aggregate == contract.Max && x.value.Cmp(best.value) > 0 ||
			m.Aggregate == contract.Unique && best.value.Sign() == 0 {
			best = x
		}
	}
	switch {
	case best == nil:
	case m.Aggregate != contract.Unique:
		add(r.inForce(r.id, best.At), best.value)
	case best.value.Sign() > 0:
		add(r.inForce(r.id, best.At), big.NewRat(1, 1))
	}
}

// weighted is level x time / the unit's time; a level holds until the next reading. Where the contract weighs the meter by lease states,
// the resource is the lease.
func (r *rater) weighted(m contract.Meter, pieces []piece, list []reading, add func(*version, *big.Rat)) {
	for _, p := range pieces {
		if _, ok := p.Meter(m.Name); !ok {
			continue
		}
		eachDay(p.version, p.Span, func(day span.Span) {
			day = day.Intersect(p.Span)
			s := sale{version: p.version, lengths: p.lengthsAt(day.From)}
			unit := s.seconds(m.PerTime)
			for i, x := range list {
				holds := span.Span{From: x.At, To: span.Open}
				if i+1 < len(list) {
					holds.To = list[i+1].At
				}
				for _, w := range r.weights(p.version, m.Name, x.Resource, holds.Intersect(day)) {
					add(p.version, times(times(x.value, big.NewRat(w.seconds, unit)), w.part))
				}
			}
		})
	}
}

// weight is what part of a level counts for so many seconds.
type weight struct {
	seconds int64
	part    *big.Rat
}

// weights asks of every second in which state the lease is; outside its life the whole level counts.
func (r *rater) weights(v *version, meter, resource string, in span.Span) []weight {
	whole := big.NewRat(1, 1)
	var l *lease
	if v.States != nil && v.States.Meters[meter] != nil {
		for _, x := range r.leases {
			if x.id == resource && x.Customer == v.Customer {
				l = x
			}
		}
	}
	if l == nil || in.Empty() {
		return []weight{{max(0, in.Seconds()), whole}}
	}
	seconds := map[fact.LeaseState]int64{}
	for at := in.From; at < in.To; at++ {
		seconds[l.stateAt(at)]++
	}
	out := []weight{{seconds[""], whole}}
	for state, part := range v.States.Meters[meter] {
		out = append(out, weight{seconds[state], part})
	}
	return out
}

func (l *lease) stateAt(at span.Second) (state fact.LeaseState) {
	for _, p := range l.was {
		if p.at <= at {
			state = p.state
		}
	}
	return state
}

// charge is what a quantity of a period costs: the allowance comes off first, then the model prices.
func charge(m contract.Meter, quantity *big.Rat) *big.Rat {
	rest := new(big.Rat).Set(quantity)
	if m.Free != nil {
		if rest.Sub(rest, m.Free); rest.Sign() < 0 {
			rest.SetInt64(0)
		}
	}
	due := new(big.Rat).Quo(rest, m.Size)
	switch m.Model {
	case contract.UnitModel:
		return times(m.Price, due)
	case contract.PackageModel:
		whole := new(big.Int).Set(due.Num())
		if !m.RoundDown {
			whole.Add(whole, new(big.Int).Sub(due.Denom(), big.NewInt(1)))
		}
		return times(m.Price, new(big.Rat).SetInt(whole.Quo(whole, due.Denom())))
	case contract.GraduatedModel, contract.VolumeModel:
	}
	sum := new(big.Rat)
	for _, p := range tiersOf(m.Tiers, rest) {
		price := p.Price
		if price == nil {
			price = times(m.Price, p.Percent)
		}
		sum.Add(sum, times(price, new(big.Rat).Quo(p.quantity, m.Size)))
		if p.Flat != nil {
			sum.Add(sum, p.Flat)
		}
	}
	return sum
}
