package slow

import (
	"math/big"
	"time"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// sale is everything that decides the price of a milli-GPU-second.
type sale struct {
	*version
	book              *book
	sku, region, tier string
	dedicated         bool
	mode              string
	tick              *tick
	covered           string // by which reservation, forward or package
	forward           *contract.Forward
	window            *contract.Window
	idle, topUp       bool
	atOnce            int64 // milli-GPUs, where tiers by them price it
	slice             int64 // milli of a slice, where a price is per slice
	state             fact.LeaseState
	lengths           [2]int64 // seconds of the month and year around it
}

// priced is an amount, or why there is none.
type priced struct {
	amount  *big.Rat
	refusal string
}

// price follows "Order of prices". A tiered price per GPU-hour takes the place of the on-demand price.
func (w *World) price(s sale, tiered *big.Rat) priced {
	if p, known := w.prices[s]; known && tiered == nil {
		return p
	}
	p := s.price(tiered)
	if tiered == nil {
		w.prices[s] = p
	}
	return p
}

func (s *sale) price(tiered *big.Rat) priced {
	// (1) price of (SKU, mode): contract, else price book, else refusal; cap limits this price
	rate, listed := s.rate()
	var amount *big.Rat
	switch {
	case !listed, s.mode == "spot" && rate.Spot == nil, s.mode == "on_demand" && rate.OnDemand.Amount == nil:
		return priced{refusal: "no_rate"}
	case s.mode != "spot" && s.mode != "on_demand":
		return priced{refusal: "unsupported_mode"}
	case rate.OnDemand.Amount == nil:
	case tiered != nil:
		amount = s.perSecond(contract.Price{Amount: tiered, Unit: contract.GPUHour})
	default:
		amount = s.perSecond(s.listPrice(rate))
	}
	cap := func(final bool) {
		if c := rate.Cap; c != nil && c.Final == final && amount != nil {
			amount = least(amount, s.perSecond(c.Price))
		}
	}
	cap(false)
	// (2) x region x service tier x dedicated; a present map without the key is a refusal
	for _, f := range []struct {
		factors      map[string]*big.Rat
		key, refusal string
	}{{rate.Region, s.region, "no_region"}, {rate.ServiceTier, s.tier, "no_service_tier"}} {
		factor, ok := f.factors[f.key]
		switch {
		case f.factors == nil:
		case !ok:
			return priced{refusal: f.refusal}
		default:
			amount = times(amount, factor)
		}
	}
	if s.dedicated && rate.Dedicated != nil {
		amount = times(amount, rate.Dedicated)
	}
	amount = times(times(amount, s.part()), s.scaledBy(rate))
	// (3) mode: covered = 0, forward price, or spot = min(tick, max)
	var most *big.Rat
	switch {
	case s.forward != nil:
		amount = times(s.perSecond(s.forward.Price), s.part())
	case s.covered != "":
		amount = new(big.Rat)
	case s.mode == "spot" && s.tick == nil:
		return priced{refusal: "no_spot_price"}
	case s.mode == "spot":
		if rate.Spot.Max != nil && amount == nil {
			return priced{refusal: "no_rate"}
		}
		if rate.Spot.Max != nil {
			most = times(amount, rate.Spot.Max)
		}
		amount = least(times(s.perSecond(s.tick.price), s.part()), most)
	}
	// (4) at most one window; spot's max applies again after it
	if s.window != nil {
		amount = least(times(amount, s.window.Factor), most)
	}
	cap(true)
	// (5) idle relief
	if s.idle {
		amount = times(amount, left(s.Idle.Off))
	}
	return priced{amount: amount}
}

// listPrice is the on-demand price, or the one that tiers by GPUs held at once give in its place.
func (s *sale) listPrice(rate contract.Rate) contract.Price {
	if s.atOnce == 0 || !rate.AtOnce.Absolute() {
		return rate.OnDemand
	}
	return contract.Price{Amount: average(&rate.AtOnce.Tiers, big.NewRat(s.atOnce, 1000)), Unit: contract.GPUHour}
}

// scaledBy is the part of the price that percentages by GPUs held at once leave.
func (s *sale) scaledBy(rate contract.Rate) *big.Rat {
	if s.atOnce == 0 || rate.AtOnce.Absolute() {
		return big.NewRat(1, 1)
	}
	return average(&rate.AtOnce.Tiers, big.NewRat(s.atOnce, 1000))
}

// part is what bills in the lease's state: of the on-demand price, and of what takes its place.
func (s *sale) part() *big.Rat {
	if s.States == nil {
		return big.NewRat(1, 1)
	}
	return s.States.GPU[s.state]
}

// rate is what the contract states of the SKU, and for the rest the price book.
func (s *sale) rate() (contract.Rate, bool) {
	rate, stated := s.Rate(s.sku)
	if s.book == nil || s.book.Currency != s.Currency {
		return rate, stated
	}
	list, listed := s.book.Rate(s.sku)
	if rate.OnDemand.Amount == nil {
		rate.OnDemand = list.OnDemand
	}
	if rate.Region == nil {
		rate.Region = list.Region
	}
	if rate.ServiceTier == nil {
		rate.ServiceTier = list.ServiceTier
	}
	if rate.Dedicated == nil {
		rate.Dedicated = list.Dedicated
	}
	return rate, stated || listed
}

func times(amount, factor *big.Rat) *big.Rat {
	if amount == nil {
		return nil
	}
	return new(big.Rat).Mul(amount, factor)
}

// least is the lower of two amounts; nil is no limit.
func least(amount, most *big.Rat) *big.Rat {
	if most != nil && amount.Cmp(most) > 0 {
		return most
	}
	return amount
}

// perSlice tells whether a price of the SKU is per slice.
func (s *sale) perSlice() bool {
	rate, _ := s.rate()
	return rate.OnDemand.PerSlice || rate.Cap != nil && rate.Cap.Price.PerSlice
}

func left(off *big.Rat) *big.Rat { return new(big.Rat).Sub(big.NewRat(1, 1), off) }

// perSecond is a price for a second of a milli-GPU.
func (s *sale) perSecond(p contract.Price) *big.Rat {
	milli := int64(1000)
	if p.PerSlice && s.slice > 0 { // "Slices": the price is per slice, whatever its share
		milli = s.slice
	}
	return new(big.Rat).Quo(p.Amount, big.NewRat(s.seconds(p.Unit)*milli, 1))
}

// seconds is how long a unit lasts: "Units".
func (s *sale) seconds(unit contract.Unit) int64 {
	month := s.lengths[0]
	switch s.Billing.Month {
	case contract.Month30d, contract.Month720h:
		month = 720 * 3600
	case contract.Month730h:
		month = 730 * 3600
	case contract.MonthActual:
	}
	return map[contract.Unit]int64{
		contract.GPUSecond: 1, contract.GPUMinute: 60, contract.GPUHour: 3600, contract.GPUDay: 86400, contract.GPUWeek: 604800,
		contract.GPUMonth: month, contract.GPUYear: s.lengths[1],
	}[unit]
}

// lengthsAt are the seconds of the month and the year around an instant: of the billing period if it is monthly, else of the local
// calendar month; of the anchored year.
func (v *version) lengthsAt(at span.Second) [2]int64 {
	day := v.Zone.StartOfDay(v.Zone.DateOf(at))
	if _, known := v.lengths[day]; !known {
		v.lengths[day] = [2]int64{v.month(at).Seconds(), v.year(at).Seconds()}
	}
	return v.lengths[day]
}

func (v *version) month(at span.Second) span.Span {
	anchor := 1
	if v.Billing.Cycle == calendar.Monthly {
		anchor = v.Billing.Anchor
	}
	return v.anchored(at, anchor, 1, 0)
}

// year is the yearly period, else the year from one anniversary of the term's start to the next.
func (v *version) year(at span.Second) span.Span {
	begun := v.Zone.DateOf(v.Term.From)
	anchor := begun.Day
	if v.Billing.Cycle == calendar.Yearly {
		begun, anchor = v.counts(), v.Billing.Anchor
	}
	return v.anchored(at, anchor, 12, int(begun.Month)-1)
}

// anchored is the span around an instant between two anchors, which lie so many months apart, counted from January + offset. An
// anchor past the end of its month is its last day.
func (v *version) anchored(at span.Second, anchor, months, offset int) span.Span {
	start := func(month int) span.Second {
		d := calendar.Date{Year: month / 12, Month: time.Month(month%12 + 1), Day: 1}
		for days := anchor - 1; days > 0; days-- {
			if next := d.AddDays(1); next.Month == d.Month {
				d = next
			}
		}
		return v.Zone.StartOfDay(d)
	}
	m := (v.Zone.DateOf(at).Year-2)*12 + offset
	for start(m+months) <= at {
		m += months
	}
	return span.Span{From: start(m), To: start(m + months)}
}

// days is how many local days a span has.
func (v *version) days(s span.Span) (count int64) {
	eachDay(v, s, func(span.Span) { count++ })
	return count
}

// windowAt is the window of a mode at a second: the first in the file whose modes and time match. It is unknown where it hangs on a
// day that no holiday calendar of the contract speaks of.
func (v *version) windowAt(mode string, at span.Second) (window *contract.Window, known bool) {
	if v.Schedule == nil {
		return nil, true
	}
	clock := v.Zone.Clock(at)
	for i := range v.Schedule.Windows {
		w := &v.Schedule.Windows[i]
		for _, m := range w.Modes {
			if m != mode {
				continue
			}
			switch in, known := inWindow(w, clock.Date, clock.Second/60); {
			case in:
				return w, true
			case !known:
				return nil, false
			}
		}
	}
	return nil, true
}

// inWindow tells whether a range of the date holds the minute, or one of the date before. A window belongs to the local date it
// starts on. A date that no calendar speaks of could count as any weekday: where all of them do not come to the same, it is unknown.
func inWindow(w *contract.Window, date calendar.Date, minute int64) (in, known bool) {
	known = true
	for back := range 2 {
		on, m := date.AddDays(-back), minute+int64(back)*1440
		held := func(weekday int) bool {
			for _, r := range w.Ranges {
				if r.From <= m && m < r.To && r.Weekdays[weekday] {
					return true
				}
			}
			return false
		}
		weekday, sure := countsAs(w, on)
		days := 0
		for day := 1; day <= 7; day++ {
			if held(day) {
				days++
			}
		}
		if days == 7 || sure && held(weekday) {
			return true, true
		}
		known = known && (sure || days == 0)
	}
	return false, known
}

// countsAs is the weekday as which a date counts: a holiday as Sunday, a make-up day as the weekday it replaces.
func countsAs(w *contract.Window, d calendar.Date) (weekday int, sure bool) {
	if len(w.Holidays) == 0 {
		return d.Weekday(), true
	}
	for _, h := range w.Holidays {
		if counts, speaks := h.Weekday(d); speaks {
			sure = true
			if counts != d.Weekday() {
				return counts, true
			}
		}
	}
	return d.Weekday(), sure
}
