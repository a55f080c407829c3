package contract

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// Provision is one thing that a contract says, in the words of the language.
type Provision struct {
	Clause string // contract, billing, rates, schedule ...
	Of     string // whom it is said of: a SKU, a window, "h100-80g base"; "" in a clause that speaks of one thing
	Field  string // quantity, spot max ...
	Text   string
	Stated bool // false: the document leaves it out, and the default holds
}

// Provisions lists everything that the contract says, stated or by default, in the order of the language. Two contracts with the
// same provisions bill alike.
func (c *Contract) Provisions() []Provision {
	p := &provisions{contract: c, stated: statedIn(c.Source)}
	p.head()
	p.billing()
	for i := range c.Rates {
		p.rate(fmt.Sprintf("rates[%d]", i), &c.Rates[i])
	}
	p.capacity()
	p.schedule()
	p.relief()
	p.meters()
	p.charges()
	p.states()
	return p.list
}

// provisions collects them.
type provisions struct {
	contract *Contract
	stated   map[string]bool
	clause   string
	of       string
	list     []Provision
}

// about begins a clause, or what it says of one more thing.
func (p *provisions) about(clause, of string) { p.clause, p.of = clause, of }

// say adds a provision that stands in the document.
func (p *provisions) say(field, text string) {
	p.list = append(p.list, Provision{p.clause, p.of, field, text, true})
}

// may adds a provision that has a default: path is where the document would state it.
func (p *provisions) may(field, text, path string) {
	p.list = append(p.list, Provision{p.clause, p.of, field, text, p.stated[path]})
}

// given adds a provision unless it is empty.
func (p *provisions) given(field, text string) {
	if text != "" {
		p.say(field, text)
	}
}

func (p *provisions) head() {
	c := p.contract
	p.about("contract", "")
	p.say("contract", c.ID)
	p.say("customer", c.Customer)
	p.say("currency", c.Currency.String())
	p.say("timezone", c.Zone.String())
	p.say("from", c.BoundText(c.Term.From))
	p.say("to", c.BoundText(c.Term.To))
	p.given("price_book", c.PriceBook)
	if !c.Trial.Empty() {
		p.about("trial", "")
		p.say("until", c.BoundText(c.Trial.To))
	}
}

func (p *provisions) billing() {
	b := p.contract.Billing
	p.about("billing", "")
	p.may("cycle", b.Cycle.String(), "billing.cycle")
	if b.Cycle.MaxAnchor() > 1 {
		p.may("anchor", fmt.Sprint(b.Anchor), "billing.anchor")
	}
	grace := "the provider's"
	if b.GraceKnown {
		grace = DurationText(b.GraceSeconds)
	}
	p.may("grace", grace, "billing.grace")
	p.may("granularity", granularityText(b.GranularitySeconds), "billing.granularity")
	p.may("minimum", DurationText(b.MinimumSeconds), "billing.minimum")
	p.may("rounding", b.Rounding.String(), "billing.rounding")
	p.may("month", b.Month.String(), "billing.month")
	p.may("fee_month", b.FeeMonth.String(), "billing.fee_month")
	p.may("bill_by", choice(BillByNames(), b.Observed), "billing.bill_by")
}

// choice is the first name, or the second where a rule is on.
func choice(names []string, second bool) string {
	if second {
		return names[1]
	}
	return names[0]
}

func (p *provisions) rate(path string, r *Rate) {
	currency := p.contract.Currency
	p.about("rates", r.SKU)
	p.given("slice_of", r.SliceOf)
	switch {
	case r.OnDemand.Amount != nil:
		p.say("on_demand", r.OnDemand.Text(currency))
	case p.contract.PriceBook != "":
		p.may("on_demand", "price book "+p.contract.PriceBook, "")
	default:
		p.may("on_demand", "not sold", "")
	}
	p.given("region", FactorsText(r.Region))
	p.given("service_tier", FactorsText(r.ServiceTier))
	if r.Dedicated != nil {
		p.say("dedicated", money.PercentText(r.Dedicated))
	}
	if r.Cap != nil {
		p.say("cap", r.Cap.Price.Text(currency))
		p.may("cap on", choice(CapNames(), r.Cap.Final), path+".cap.on")
	}
	if s := r.Spot; s != nil {
		p.say("spot index", s.Index)
		if s.Max != nil {
			p.say("spot max", money.PercentText(s.Max)+" of on_demand")
		}
		p.may("spot lock", s.Lock.String(), path+".spot.lock")
		p.may("spot reclaimed_free_within", DurationText(s.ReclaimedFreeSeconds), path+".spot.reclaimed_free_within")
	}
	if r.Volume != nil {
		p.volume(r.Volume, 0)
		p.may("volume flat", choice(flatNames(), r.Volume.FlatAlways), path+".volume.flat")
	}
	if r.AtOnce != nil {
		p.volume(r.AtOnce, 1)
	}
}

// volume adds the tiers of a SKU, by what they count.
func (p *provisions) volume(v *Volume, by int) {
	p.say("volume by", VolumeByNames()[by])
	p.tiers("volume", &v.Tiers, func(price *big.Rat) string { return Price{Amount: price, Unit: GPUHour}.Text(p.contract.Currency) })
	var counted []string
	for _, x := range []struct {
		on   bool
		name string
	}{{v.Covered, "covered"}, {v.Spot, "spot"}} {
		if x.on {
			counted = append(counted, x.name)
		}
	}
	p.given("volume count", strings.Join(counted, ", "))
}

// tiers adds a table, a provision for each tier.
func (p *provisions) tiers(name string, t *Tiers, price func(*big.Rat) string) {
	p.say(name, choice(methods(), !t.Graduated))
	for _, tier := range t.List {
		var text string
		if tier.Percent != nil {
			text = money.PercentText(tier.Percent)
		} else {
			text = price(tier.Price)
		}
		if tier.Flat != nil {
			text += ", flat " + p.amount(tier.Flat)
		}
		p.say(name+" "+tier.Interval(), text)
	}
}

// amount writes an amount with the currency's digits at least.
func (p *provisions) amount(v *big.Rat) string {
	return money.DecimalText(v, p.contract.Currency.Digits(), money.MaxDigits)
}

// capacity is what is committed to: reservations, forwards, packages.
func (p *provisions) capacity() {
	c := p.contract
	for i, r := range c.Rates {
		for k, x := range r.Reserved {
			p.about("reserved", r.SKU+" "+x.Name)
			p.say("quantity", fmt.Sprint(x.Quantity))
			p.say("price", x.Price.Text(c.Currency))
			p.within(x.Span, x.Region)
			p.may("pay", choice([]string{"in arrears", "in advance"}, x.Advance), fmt.Sprintf("rates[%d].reserved[%d].pay", i, k))
			p.may("slices", fmt.Sprint(x.Slices), fmt.Sprintf("rates[%d].reserved[%d].slices", i, k))
		}
		for k, x := range r.Forward {
			p.about("forward", r.SKU+" "+x.Name)
			p.say("quantity", fmt.Sprint(x.Quantity))
			p.say("price", x.Price.Text(c.Currency))
			p.within(x.Span, x.Region)
			p.may("take_or_pay", fmt.Sprint(x.TakeOrPay), fmt.Sprintf("rates[%d].forward[%d].take_or_pay", i, k))
		}
	}
	for i, x := range c.Packages {
		p.about("packages", x.Name)
		p.say("sku", x.SKU)
		p.say("unit", x.Unit.String())
		p.say("quantity", fmt.Sprint(x.Quantity))
		p.say("price", p.amount(x.Price))
		p.given("region", x.Region)
		p.may("early_end", x.EarlyEnd.String(), fmt.Sprintf("packages[%d].early_end", i))
	}
}

func (p *provisions) within(s span.Span, region string) {
	p.say("from", p.contract.BoundText(s.From))
	p.say("to", p.contract.BoundText(s.To))
	p.given("region", region)
}

func (p *provisions) schedule() {
	if p.contract.Schedule == nil {
		return
	}
	for _, w := range p.contract.Schedule.Windows {
		p.about("schedule", w.Name)
		p.say("for", strings.Join(w.Modes, ", "))
		ranges := make([]string, len(w.Ranges))
		for i, r := range w.Ranges {
			ranges[i] = r.String()
		}
		p.say("windows", strings.Join(ranges, ", "))
		var calendars []string
		for _, h := range w.Holidays {
			calendars = append(calendars, h.Name)
		}
		p.given("holidays", strings.Join(calendars, ", "))
		p.say("price", w.Text)
	}
}

func (p *provisions) relief() {
	i := p.contract.Idle
	if i == nil {
		return
	}
	p.about("idle_relief", "")
	p.say("below", fmt.Sprint(i.BelowPercent, "%"))
	p.say("after", DurationText(i.AfterSeconds))
	p.say("off", money.PercentText(i.Off))
	p.may("bridge", DurationText(i.BridgeSeconds), "idle_relief.bridge")
}

func (p *provisions) meters() {
	c := p.contract
	for i, m := range c.Meters {
		path := fmt.Sprintf("meters[%d]", i)
		p.about("meters", m.Name)
		if m.Price != nil {
			p.say("price", m.PriceText(m.Price, c.Currency))
		}
		if m.Free != nil {
			p.say("free", strings.TrimSpace(decimalText(m.Free)+" "+m.Unit))
		}
		p.may("model", MeterModelNames()[m.Model], path+".model")
		if m.Model == PackageModel {
			p.may("round", choice(roundNames(), m.RoundDown), path+".round")
		}
		if m.Tiers != nil {
			p.tiers("tiers", m.Tiers, func(price *big.Rat) string { return m.PriceText(price, c.Currency) })
			p.may("tiers flat", choice(flatNames(), m.Tiers.FlatAlways), path+".flat")
		}
		if m.Tiers != nil && m.Aggregate == TimeWeighted {
			p.may("tiers_by", choice(tiersByNames(), m.ByLevel), path+".tiers_by")
		}
		p.each(m.Each)
		p.may("aggregate", m.Aggregate.String(), path+".aggregate")
		if m.Aggregate == Sum {
			p.may("value", choice(valueNames(), m.Cumulative), path+".value")
		}
	}
	for _, b := range c.Bundles {
		m, _ := c.Meter(b.With)
		p.about("bundles", b.With+" "+b.On)
		p.say("at_least", strings.TrimSpace(decimalText(b.AtLeast)+" "+m.Unit))
		p.say("off", money.PercentText(b.Off))
	}
}

func (p *provisions) charges() {
	c := p.contract
	for i, a := range c.Addons {
		p.about("addons", a.Name)
		if a.Fee == nil {
			p.say("price", a.Price.Text(c.Currency))
			continue
		}
		p.say("price", a.Fee.Text(c.Currency))
		if a.Fee.Unit != Once {
			p.may("prorate", fmt.Sprint(a.Prorate), fmt.Sprintf("addons[%d].prorate", i))
		}
		p.may("pay", choice([]string{"in arrears", "in advance"}, a.Advance), fmt.Sprintf("addons[%d].pay", i))
	}
	if c.Spend != nil {
		p.about("commitment", "")
		p.say("spend", c.Spend.Text(c.Currency))
	}
	if l := c.Limit; l != nil {
		p.about("limits", "")
		p.say("spend", l.Text(c.Currency))
		p.say("action", l.Action.String())
		p.may("alert_at", l.AlertText(), "limits.alert_at")
		if l.Overshoot != nil {
			p.say("overshoot", p.amount(l.Overshoot))
		}
	}
	if t := c.Termination; t != nil {
		p.about("termination", "")
		p.say("refund", t.Refund.String())
		p.may("clawback", choice(clawbackNames(), t.Clawback), "termination.clawback")
		fee := "none"
		if t.Fee != nil {
			fee = money.PercentText(t.Fee)
		}
		p.may("fee", fee, "termination.fee")
	}
	for _, step := range c.Arrears {
		p.about("arrears", DurationText(step.AfterSeconds))
		p.say("do", step.Do.String())
	}
}

// BoundText is an instant as the contract would write it: a local date where the local day begins then, open for no end.
func (c *Contract) BoundText(at span.Second) string {
	if at == span.Open {
		return "open"
	}
	if day := c.Zone.DateOf(at); c.Zone.StartOfDay(day) == at {
		return day.String()
	}
	return c.Zone.Text(at)
}

// FactorsText is "cn-east 100%, cn-west 88%", in order of name; empty for no map.
func FactorsText(factors map[string]*big.Rat) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(factors)) {
		parts = append(parts, name+" "+money.PercentText(factors[name]))
	}
	return strings.Join(parts, ", ")
}

// DurationText writes seconds as a contract does: 1h30m, or 0.
func DurationText(seconds int64) string {
	out := ""
	for _, u := range []struct {
		letter string
		length int64
	}{{"d", 24 * span.SecondsPerHour}, {"h", span.SecondsPerHour}, {"m", span.SecondsPerMinute}, {"s", 1}} {
		if n := seconds / u.length; n > 0 {
			out += fmt.Sprint(n, u.letter)
			seconds -= n * u.length
		}
	}
	return cmp.Or(out, "0")
}

// String is the range as a contract writes it: "Mon-Fri 22:00-08:00".
func (r LocalRange) String() string {
	names := []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	first, days := 0, 0
	for d := 1; d <= 7; d++ {
		if r.Weekdays[d] {
			days++
		}
		if before := (d+5)%7 + 1; r.Weekdays[d] && !r.Weekdays[before] {
			first = d
		}
	}
	which := "daily"
	if days < 7 {
		which = names[first-1]
		if days > 1 {
			which += "-" + names[(first+days-2)%7]
		}
	}
	to := r.To
	if to > minutesPerDay {
		to -= minutesPerDay
	}
	return fmt.Sprintf("%s %02d:%02d-%02d:%02d", which, r.From/60, r.From%60, to/60, to%60)
}

// Holds tells whether a minute of a local weekday (ISO, Monday 1) lies in the range: in that of its day, or in one that began the day
// before.
func (r LocalRange) Holds(weekday int, minute int64) bool {
	before := (weekday+5)%7 + 1
	return r.Weekdays[weekday] && r.From <= minute && minute < r.To || r.Weekdays[before] && minute+minutesPerDay < r.To
}
