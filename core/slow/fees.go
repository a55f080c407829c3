package slow

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
)

// eachDay calls f for the local days of a span. A date that the zone skips is none.
func eachDay(v *version, s span.Span, f func(day span.Span)) {
	for d := v.Zone.DateOf(s.From); v.Zone.StartOfDay(d) < s.To; d = d.AddDays(1) {
		if day := (span.Span{From: v.Zone.StartOfDay(d), To: v.Zone.StartOfDay(d.AddDays(1))}); !day.Empty() {
			f(day)
		}
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
						days, _ := v.reservedDay(x.Price.Unit, last)
						r.add(Key{Item: "reserved", Name: x.Name, SKU: rate.SKU}, big.NewRat(x.Quantity*days, 1), fee)
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
	days, of := v.reservedDay(x.Price.Unit, last)
	return times(times(x.Price.Amount, big.NewRat(x.Quantity, 1)), big.NewRat(days, of))
}

// reservedDay is how many days of so many of a reservation's unit the day of an instant is.
func (v *version) reservedDay(unit contract.Unit, at span.Second) (days, of int64) {
	if unit == contract.GPUYear {
		return 1, v.days(v.year(at))
	}
	return v.feeDay(map[contract.Unit]contract.FeeUnit{
		contract.GPUDay: contract.PerDay, contract.GPUWeek: contract.PerWeek, contract.GPUMonth: contract.PerMonth, contract.GPUQuarter: contract.PerQuarter,
	}[unit], at)
}

// feeDay is how many days of so many of a fee's unit the day of an instant is: "Units", whole per unit. Quarters and years are periods from the
// month in which the term begins or its trial ends, on the day on which bills begin.
func (v *version) feeDay(unit contract.FeeUnit, at span.Second) (days, of int64) {
	anchor, begun := 1, int(v.counts().Month)-1
	if c := v.Billing.Cycle; c == calendar.Monthly || c == calendar.Quarterly || c == calendar.Yearly {
		anchor = v.Billing.Anchor
	}
	switch unit {
	case contract.PerDay:
		return 1, 1
	case contract.PerWeek:
		return 1, 7
	case contract.PerMonth:
		if n := map[contract.FeeMonth]int64{contract.FeeMonth30d: 30, contract.FeeMonth28d: 28}[v.Billing.FeeMonth]; n > 0 {
			return v.owned(n, v.month(at), v.Zone.DateOf(at)), n
		}
		return 1, v.days(v.month(at))
	case contract.PerQuarter:
		return 1, v.days(v.anchored(at, anchor, 3, begun))
	case contract.PerYear:
		return 1, v.days(v.anchored(at, anchor, 12, begun))
	case contract.Once:
	}
	must.Never("a fee per unit %d has no days", unit)
	return 0, 0
}

// owned is how many of the n days of a month of fixed length a date owns. Day k of them belongs to the last date that has come so far: a date
// comes as far as its day of the month says, at most n, counted on from the first date's.
func (v *version) owned(n int64, month span.Span, date calendar.Date) (count int64) {
	number := func(d calendar.Date) int64 { return int64(d.Year*12+int(d.Month))*n + min(int64(d.Day), n) }
	var dates []calendar.Date
	eachDay(v, month, func(day span.Span) { dates = append(dates, v.Zone.DateOf(day.From)) })
	for k := range n {
		owner := dates[0]
		for _, d := range dates {
			if number(d) <= number(dates[0])+k {
				owner = d
			}
		}
		if owner == date {
			count++
		}
	}
	return count
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

// byDays is a fee over the period's local days: each day by the version in force in its last second in the term, of the days of the fee's
// unit. fee is nil where a version has none.
func (r *rater) byDays(over span.Span, end *terminated, fee func(*version) *contract.Fee) (units, exact *big.Rat) {
	units, exact = new(big.Rat), new(big.Rat)
	for _, day := range r.days(over) {
		_, last := r.feeDay(day.Intersect(over), end)
		if v := r.feesAt(last, end); v != nil {
			if f := fee(v); f != nil {
				part := big.NewRat(v.feeDay(f.Unit, last))
				units.Add(units, part)
				exact.Add(exact, times(f.Amount, part))
			}
		}
	}
	return units, exact
}

// addons charges a fee by local days, whole at the price of the last version that has it, or once, or a price on all leased time of all
// modes without window or relief.
func (r *rater) addons() {
	for _, name := range r.names(func(v *version) (names []string) {
		for _, a := range v.Addons {
			names = append(names, a.Name)
		}
		return names
	}) {
		k := Key{Item: "addon", Name: name}
		var whole *big.Rat
		units, exact := r.byDays(r.whole(), r.end(), func(v *version) *contract.Fee {
			a, _ := v.Addon(name)
			if r.ahead && !a.Advance || a.Fee != nil && a.Fee.Unit == contract.Once {
				return nil
			}
			if a.Fee != nil && !a.Prorate {
				whole = a.Fee.Amount
				return nil
			}
			return a.Fee
		})
		if units.Sign() > 0 {
			r.add(k, units, exact)
		}
		if whole != nil {
			r.add(k, big.NewRat(1, 1), whole)
		}
		if fee := r.onceIn(name); fee != nil {
			r.add(k, big.NewRat(1, 1), fee)
		}
		for s, milli := range r.seconds {
			if a, ok := s.Addon(name); ok && a.Fee == nil && !s.topUp && milli != 0 {
				r.add(k, counted(milli), times(s.perSecond(a.Price), big.NewRat(milli, 1)))
			}
		}
	}
}

// onceIn is a fee that is due once, in the period in which the contract first states it; else nil.
func (r *rater) onceIn(name string) *big.Rat {
	var first *version
	from := span.Open
	for _, v := range r.versions[r.id] {
		a, _ := v.Addon(name)
		if a.Fee == nil || a.Fee.Unit != contract.Once {
			continue
		}
		for _, p := range r.pieces(r.id, span.Span{From: v.from, To: span.Open}) {
			if p.version == v && p.From < from {
				first, from = v, p.From
			}
		}
	}
	if first == nil || !r.period.Contains(max(from, r.versions[r.id][0].trialEnd())) {
		return nil
	}
	a, _ := first.Addon(name)
	if r.ahead && !a.Advance {
		return nil
	}
	return a.Fee.Amount
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
	units, due := r.byDays(r.period, nil, func(v *version) *contract.Fee { return v.Spend })
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Currency.Digits())), nil)
	due.Sub(due, new(big.Rat).SetFrac(r.out.Total, scale))
	if units.Sign() > 0 && due.Sign() > 0 {
		k := Key{Item: "commitment", Name: "commitment"}
		r.add(k, units, due)
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
		if m, _ := q.last.Meter(name); q.total.Sign() == 0 {
			exact = charge(m, q.total)
		}
		for v, part := range q.parts {
			switch m, _ := v.Meter(name); {
			case m.Model == contract.EachModel:
				exact.Add(exact, eachOf(m, q.readings[v]))
			case part.Sign() == 0:
			case m.ByLevel:
				exact.Add(exact, r.byLevel(m, v, new(big.Rat).Quo(part, q.total)))
			default:
				exact.Add(exact, times(charge(m, q.total), new(big.Rat).Quo(part, q.total)))
			}
		}
		if q.total.Sign() > 0 || exact.Sign() > 0 {
			r.add(Key{Item: "meter", Name: name}, q.total, exact)
		}
	}
}

// metered is what a meter adds up to in the period, and by version.
type metered struct {
	total    *big.Rat
	parts    map[*version]*big.Rat
	readings map[*version][]*big.Rat // one by one, of additions and counters
	last     *version                // in the period that has the meter
}

func (r *rater) metered(name string) metered {
	q := metered{new(big.Rat), map[*version]*big.Rat{}, map[*version][]*big.Rat{}, nil}
	add := func(v *version, value *big.Rat) {
		if q.parts[v] == nil {
			q.parts[v] = new(big.Rat)
		}
		q.parts[v].Add(q.parts[v], value)
		q.total.Add(q.total, value)
	}
	var m contract.Meter
	pieces := r.pieces(r.id, r.known)
	for _, p := range pieces {
		if found, ok := p.Meter(name); ok {
			m, q.last = found, p.version
		}
	}
	for _, list := range r.resources(name) {
		switch m.Aggregate {
		case contract.Sum:
			r.summed(m, list, func(v *version, value *big.Rat) {
				add(v, value)
				q.readings[v] = append(q.readings[v], value)
			})
		case contract.TimeWeighted:
			r.weighted(m, pieces, list, add)
		case contract.Max, contract.Last, contract.Unique:
			r.single(m, list, add)
		}
	}
	return q
}

// resources are the readings of a meter by resource.
func (r *rater) resources(name string) map[string][]reading {
	out := map[string][]reading{}
	for _, x := range r.readings {
		if x.Contract == r.id && x.Meter == name {
			out[x.Resource] = append(out[x.Resource], x)
		}
	}
	return out
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
	l := r.weighing(v, meter, resource)
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

// weighing is the lease by whose states a version weighs a meter's levels of a resource, if there is one.
func (r *rater) weighing(v *version, meter, resource string) (l *lease) {
	if v.States != nil && v.States.Meters[meter] != nil {
		for _, x := range r.leases {
			if x.id == resource && x.Customer == v.Customer {
				l = x
			}
		}
	}
	return l
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
	case contract.EachModel: // a reading has a price, and a quantity of the period none
		return new(big.Rat)
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
