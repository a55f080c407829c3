package slow

import (
	"math/big"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Key is what makes a line (rule "Lines and rounding"). Item is empty for GPU time.
type Key struct {
	Item, Name, SKU, Region, ServiceTier string
	Dedicated                            bool
	Mode, Window                         string
	Idle                                 bool
	Commitment                           string
}

// Line is a line of a statement: amounts in the contract's currency, rounded ones in whole minor units.
type Line struct {
	Quantity *big.Rat // milli-GPU-seconds of GPU time; else of the item's own unit
	Exact    *big.Rat
	Rounded  *big.Int
}

// Statement is one contract's period as known at the end of the world.
type Statement struct {
	Lines  map[Key]*Line
	Total  *big.Int       // the sum of the rounded lines, in minor units
	Leased map[Cell]int64 // milli-GPU-seconds of leased time, billed or not
}

// Statement bills a period. It is nil where no version of the contract speaks of the period's end.
func (w *World) Statement(id string, period span.Span) *Statement {
	v := w.governing(id, period)
	if v == nil {
		return nil
	}
	r := w.rater(id, period)
	r.time() // (a)
	if w.free(id, period.From) {
		r.purchased()
		r.meters()
		r.rounded(v)
		return r.out
	}
	r.amounts(v)  // (b), (c), (d)
	r.reserved()  // (e)
	r.purchased() // (e)
	r.untaken()   // (e)
	r.meters()    // (e)
	r.addons()    // (e)
	r.rounded(v)
	r.capped(v)    // (f)
	r.shortfall(v) // (g)
	r.settled(v)
	return r.out
}

// Advance is what is paid of a period when it begins ("Advance fees"): fees of reservations and add-ons that say so. It is nil as
// Statement is.
func (w *World) Advance(id string, period span.Span) *Statement {
	v := w.governing(id, period)
	if v == nil {
		return nil
	}
	r := w.rater(id, period)
	r.ahead = true
	r.reserved()
	r.addons()
	r.rounded(v)
	return r.out
}

// governing is the version that speaks of a period's end: what was billed before a term was cut short is corrected by its words.
func (w *World) governing(id string, period span.Span) (v *version) {
	for _, x := range w.versions[id] {
		if x.from < period.To {
			v = x
		}
	}
	return v
}

func (w *World) rater(id string, period span.Span) *rater {
	return &rater{
		World: w, id: id, period: period, known: period.Intersect(span.Span{From: period.From, To: w.until}), seconds: map[sale]int64{},
		taken: map[taken]int64{}, out: &Statement{Lines: map[Key]*Line{}, Total: new(big.Int), Leased: map[Cell]int64{}},
	}
}

// rounded rounds every line and adds them up.
func (r *rater) rounded(v *version) {
	for _, l := range r.out.Lines {
		l.Rounded = round(l.Exact, v.Currency.Digits(), v.Billing.Rounding)
		r.out.Total.Add(r.out.Total, l.Rounded)
	}
}

// round rounds to minor units of so many digits. No amount given is negative.
func round(exact *big.Rat, digits int, by money.Rounding) *big.Int {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	scaled := new(big.Rat).Mul(exact, new(big.Rat).SetInt(scale))
	whole := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	rest := new(big.Rat).Sub(scaled, new(big.Rat).SetInt(whole))
	half := rest.Cmp(big.NewRat(1, 2))
	up := map[money.Rounding]bool{
		money.HalfAwayFromZero: half >= 0,
		money.HalfEven:         half > 0 || half == 0 && whole.Bit(0) == 1,
		money.Up:               rest.Sign() > 0,
	}
	if up[by] {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}

func (r *rater) add(k Key, quantity, exact *big.Rat) {
	l := r.out.Lines[k]
	if l == nil {
		l = &Line{new(big.Rat), new(big.Rat), nil}
		r.out.Lines[k] = l
	}
	l.Quantity.Add(l.Quantity, quantity)
	l.Exact.Add(l.Exact, exact)
}

// amounts prices what was sold: quantity x price, by (c) volume tiers at the whole quantity and (d) bundles.
func (r *rater) amounts(end *version) {
	onDemand, covered, spot := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for s, milli := range r.seconds {
		switch {
		case s.covered != "":
			covered[s.sku] += milli
		case s.mode == "on_demand":
			onDemand[s.sku] += milli
		default:
			spot[s.sku] += milli
		}
	}
	used := func(sku string, v *contract.Volume) *big.Rat {
		milli := onDemand[sku]
		if v.Covered {
			milli += covered[sku]
		}
		if v.Spot {
			milli += spot[sku]
		}
		return counted(milli)
	}
	for s, milli := range r.seconds {
		if milli == 0 {
			continue
		}
		amount := r.price(s, nil).amount
		if rate, _ := s.Rate(s.sku); rate.Volume != nil && s.covered == "" && s.mode == "on_demand" {
			average := average(&rate.Volume.Tiers, used(s.sku, rate.Volume))
			if rate.Volume.Absolute() {
				amount = r.price(s, average).amount
			} else {
				amount = times(amount, average)
			}
		}
		for _, b := range s.Bundles {
			if b.On == s.sku && r.metered(b.With).total.Cmp(b.AtLeast) >= 0 {
				amount = times(amount, left(b.Off))
			}
		}
		quantity := big.NewRat(milli, 1)
		window := ""
		if s.window != nil {
			window = s.window.Name
		}
		r.add(Key{
			SKU: s.sku, Region: s.region, ServiceTier: s.tier, Dedicated: s.dedicated, Mode: s.mode, Window: window, Idle: s.idle, Commitment: s.covered,
		}, quantity, times(amount, quantity))
	}
	for _, rate := range end.Rates { // flat fees belong to the period
		if rate.Volume == nil || !end.Term.Overlaps(r.period) {
			continue
		}
		for _, p := range tiersOf(&rate.Volume.Tiers, used(rate.SKU, rate.Volume)) {
			if p.Flat != nil {
				r.add(Key{Item: "tier", Name: p.Interval(), SKU: rate.SKU}, big.NewRat(1, 1), p.Flat)
			}
		}
	}
}

// tierPart is what a tier prices of a quantity.
type tierPart struct {
	contract.Tier
	quantity *big.Rat
}

// tiersOf is "Volume tiers": bounds are (lo, hi]; graduated prices each part, volume prices all by the tier that is reached. With
// `flat: always` the first tier is used by no quantity too.
func tiersOf(t *contract.Tiers, quantity *big.Rat) []tierPart {
	var out []tierPart
	for i, tier := range t.List {
		entered := quantity.Cmp(tier.Above) > 0
		passed := tier.UpTo != nil && quantity.Cmp(tier.UpTo) > 0
		switch {
		case i == 0 && t.FlatAlways && quantity.Sign() == 0:
			out = append(out, tierPart{tier, new(big.Rat)})
		case entered && t.Graduated && passed:
			out = append(out, tierPart{tier, new(big.Rat).Sub(tier.UpTo, tier.Above)})
		case entered && t.Graduated:
			out = append(out, tierPart{tier, new(big.Rat).Sub(quantity, tier.Above)})
		case entered && !passed:
			out = append(out, tierPart{tier, quantity})
		}
	}
	return out
}

// average is f = sum(part x price) / Q.
func average(t *contract.Tiers, quantity *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, p := range tiersOf(t, quantity) {
		price := p.Price
		if price == nil {
			price = p.Percent
		}
		sum.Add(sum, times(price, p.quantity))
	}
	return sum.Quo(sum, quantity)
}
