package random

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// day0 is the first day on which a drawn term can begin.
const day0 = "2025-06-01"

// Contract writes a contract that the language takes: every clause, field and choice comes up.
func Contract(choose Chooser) string { return contract(choose).block(choose, 0) }

// Deal says whose contract is drawn, in which currency, and for when.
type Deal struct {
	Contract, Customer, Currency string
	From                         time.Time // the term begins on this local date
	Days                         int       // and ends so many later, 4 at least
}

// ContractOf writes the contract of a deal. Its periods are days or longer, so that there are few of them.
func ContractOf(choose Chooser, d Deal) string {
	return (&writer{Chooser: choose, first: d.From, deal: &d}).contract().block(choose, 0)
}

// Book writes a price book that the language takes.
func Book(choose Chooser) string { return book(choose).block(choose, 0) }

// writer draws a contract. Later clauses speak of what earlier ones stated.
type writer struct {
	Chooser
	deal     *Deal     // nil for any
	first    time.Time // the first day on which the term can begin
	from, to int       // the term's days, counted from there; to is 0 for open
	cycle    string
	book     bool
	skus     []string
	whole    string              // the SKU that mig-1g.10gb is a slice of, or ""
	meters   map[string]string   // the unit of each
	levels   []string            // the meters that count levels by time
	sold     []commitment        // the packages
	listed   map[string][]string // the regions of each SKU that has an on-demand price, empty for any
	reserves []commitment        // the reservations
	names    int
}

// commitment is something that covers leases of a SKU.
type commitment struct {
	sku    string
	fields *node
}

func contract(choose Chooser) *node {
	start, _ := time.Parse(time.DateOnly, day0) // a constant
	return (&writer{Chooser: choose, first: start}).contract()
}

func (w *writer) contract() *node {
	w.meters, w.listed = map[string]string{}, map[string][]string{}
	root := fields()
	if w.deal != nil {
		root.put("contract", w.deal.Contract).put("customer", w.deal.Customer)
	} else {
		root.put("contract", w.name("acme-2026")).put("customer", w.name("acme"))
	}
	if w.deal != nil {
		root.put("currency", w.deal.Currency)
	} else {
		root.put("currency", w.one("CNY", "USD", "EUR", "JPY", "KWD"))
	}
	root.put("timezone", w.one("Asia/Shanghai", "America/New_York", "UTC", "Europe/Copenhagen", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"))
	root.set("term", w.term())
	w.cycle = "monthly"
	if w.oneIn(2) {
		root.set("billing", w.billing())
	}
	if w.book = w.oneIn(4); w.book {
		root.put("price_book", "list-cn")
	}
	root.set("rates", w.rates())
	w.maybe(root, "schedule", w.windows)
	w.maybe(root, "idle_relief", w.idle)
	w.maybe(root, "packages", w.packages)
	w.maybe(root, "meters", w.meterList)
	if len(w.meters) > 0 {
		w.maybe(root, "bundles", w.bundles)
	}
	w.maybe(root, "addons", w.addons)
	if w.cycle != "hourly" {
		w.maybe(root, "commitment", func() *node {
			return fields().put("spend", w.amount()+"/"+w.one("month", "month", "month", "quarter", "year")).put("shortfall", "bill")
		})
	}
	w.maybe(root, "limits", func() *node { return w.limits(slices.Contains(root.keys, "commitment")) })
	w.maybe(root, "arrears", w.arrears)
	w.maybe(root, "states", w.states)
	w.maybe(root, "termination", w.termination)
	w.earlyEnds()
	if w.oneIn(8) {
		root.set("trial", w.trial())
	}
	return root
}

func book(choose Chooser) *node {
	w := &writer{Chooser: choose}
	rates := &node{kind: list}
	for _, sku := range w.some("h100-80g", "a100", "h20") {
		rate := fields().put("sku", sku).put("on_demand", w.price())
		w.factors(rate)
		rates.items = append(rates.items, rate)
	}
	return fields().put("book", "list-cn").put("currency", w.one("CNY", "USD")).set("rates", rates)
}

// trial ends within the term, mostly after few days.
func (w *writer) trial() *node {
	most := 30
	if w.to > 0 {
		most = min(most, w.to-w.from)
	}
	days := 1 + w.Chooser(min(4, most))
	if w.oneIn(4) {
		days = 1 + w.Chooser(most)
	}
	switch w.Chooser(3) {
	case 0:
		return fields().put("until", w.day(w.from+days))
	case 1:
		if days < most || w.to == 0 { // an instant of the last day that is not in the way of any zone's midnight
			return fields().put("until", w.day(w.from+days)+w.one("T12:00:00Z", "T02:30:00+08:00"))
		}
	}
	return fields().put("days", strconv.Itoa(days))
}

// maybe sets a clause by chance.
func (w *writer) maybe(into *node, key string, draw func() *node) {
	if w.oneIn(3) {
		into.set(key, draw())
	}
}

func (w *writer) name(plain string) string {
	return w.one(plain, plain, "阿克梅 2026", "Müller & Söhne", "a.b/c_d", "x")
}

// own is a name that nothing else has.
func (w *writer) own(prefix string) string {
	w.names++
	return prefix + "-" + strconv.Itoa(w.names)
}

func (w *writer) amount() string {
	return w.one("35.00", "0", "4.5", "0.005", "1e3", "12.5E-1", "15120.00", "999999999", strconv.Itoa(w.Chooser(1000)))
}

func (w *writer) percent() string { return w.one("0%", "5%", "12.5%", "88%", "100%") }

func (w *writer) factor() string { return w.one(w.percent(), "125%", "1000%") }

func (w *writer) price() string {
	return w.amount() + "/gpu-" + w.one("second", "minute", "hour", "hour", "day", "week", "month", "year")
}

func (w *writer) duration(longest ...string) string {
	return w.one(append(longest, "0", "60s", "15m", "1h30m", "3h")...)
}

// day is a local date.
func (w *writer) day(n int) string {
	return w.first.AddDate(0, 0, n).Format(time.DateOnly)
}

func (w *writer) term() *node {
	if w.deal != nil {
		w.to = w.deal.Days
		return fields().put("from", w.day(0)).put("to", w.day(w.to))
	}
	w.from = w.Chooser(400)
	from, to := w.day(w.from), "open"
	if w.oneIn(6) {
		from += w.one("T08:00:00+08:00", "T00:00:00Z", "T23:59:59-05:00")
		w.from += 2 // the days inside it, whatever the zone
	}
	if !w.oneIn(3) {
		w.to = w.from + 4 + w.Chooser(500)
		to = w.day(w.to)
	}
	return fields().put("from", from).put("to", to)
}

func (w *writer) billing() *node {
	out := fields()
	w.cycle = w.one("hourly", "daily", "weekly", "biweekly", "monthly", "monthly", "quarterly", "yearly")
	if w.deal != nil && w.cycle == "hourly" {
		w.cycle = "daily"
	}
	out.put("cycle", w.cycle)
	anchors := map[string]int{"hourly": 1, "daily": 1, "weekly": 7, "biweekly": 7}
	most, ok := anchors[w.cycle]
	if !ok {
		most = 31
	}
	for _, f := range []struct{ key, value string }{
		{"anchor", strconv.Itoa(1 + w.Chooser(most))},
		{"grace", w.duration("3d", "1d12h")},
		{"granularity", w.one("second", "minute", "hour", "6s", "1m30s")},
		{"minimum", w.duration("1d")},
		{"rounding", w.one("half_away_from_zero", "half_even", "up", "down")},
		{"month", w.one("actual", "30d", "720h", "730h")},
		{"fee_month", w.one("actual", "30d", "28d")},
		{"bill_by", w.one("leased", "observed")},
	} {
		if w.oneIn(2) {
			out.put(f.key, f.value)
		}
	}
	return out
}

func (w *writer) windows() *node {
	out := &node{kind: list}
	for range 1 + w.Chooser(3) {
		f := fields().put("name", w.own("window")).set("for", texts(w.some("on_demand", "spot", "forward")...))
		f.set("windows", texts(w.some("Mon-Fri 22:00-08:00", "Sat-Sun 00:00-24:00", "daily 22:30-06:15", "Fri-Mon 12:00-00:00", "Sun 02:00-03:00")...))
		switch w.Chooser(4) {
		case 0:
			f.put("holidays", w.one("cn-2026", "us-federal-2026"))
		case 1:
			f.set("holidays", texts("cn-2025", "cn-2026"))
		}
		if w.oneIn(2) {
			f.put("off", w.percent())
		} else {
			f.put("add", w.factor())
		}
		out.items = append(out.items, f)
	}
	return out
}

func (w *writer) idle() *node {
	out := fields().put("below", w.one("1%", "5%", "100%")).put("after", w.one("0", "60s", "15m", "24h")).put("off", w.percent())
	if w.oneIn(2) {
		out.put("bridge", w.one("0", "10s", "60s"))
	}
	if w.oneIn(2) {
		out.put("unknown", "busy")
	}
	return out
}

func (w *writer) packages() *node {
	out := &node{kind: list}
	for range 1 + w.Chooser(3) {
		name, sku := w.own("package"), w.one(w.skus...)
		f := fields().put("name", name).put("sku", sku).put("unit", w.one("day", "week", "month", "year"))
		f.put("quantity", strconv.Itoa(1+w.Chooser(64))).put("price", w.amount())
		w.region(f)
		if w.oneIn(2) {
			f.put("overrun", "on_demand")
		}
		out.items = append(out.items, f)
		w.sold = append(w.sold, commitment{sku, f})
	}
	return out
}

// earlyEnds says of some packages what becomes of their fee.
func (w *writer) earlyEnds() {
	for _, x := range w.sold {
		if w.oneIn(2) {
			rules := []string{"none", "prorata", "clawback"}
			if !w.lists(x) {
				rules = rules[:2]
			}
			x.fields.put("early_end", w.one(rules...))
		}
	}
}

// list notes a SKU whose GPUs have an on-demand price, and its regions.
func (w *writer) list(rate *node, sku string, regions []string) {
	if (w.book || slices.Contains(rate.keys, "on_demand")) && !strings.Contains(rate.flow(), "/slice-") {
		w.listed[sku] = regions
	}
}

// lists tells whether a package's or reservation's capacity has an on-demand price.
func (w *writer) lists(x commitment) bool {
	in := ""
	if i := slices.Index(x.fields.keys, "region"); i >= 0 {
		in = x.fields.items[i].text
	}
	regions, listed := w.listed[x.sku]
	return listed && (len(regions) == 0 || slices.Contains(regions, in))
}

func (w *writer) region(f *node) {
	if w.oneIn(3) {
		f.put("region", w.one("cn-east", "eu-1"))
	}
}

func (w *writer) addons() *node {
	out := &node{kind: list}
	whole := map[string]string{"daily": "day", "weekly": "week", "monthly": "month", "quarterly": "quarter", "yearly": "year"}[w.cycle]
	for range 1 + w.Chooser(2) {
		f := fields().put("name", w.own("addon"))
		switch {
		case w.oneIn(4):
			f.put("price", w.amount()+"/once")
			w.pay(f)
		case w.cycle == "hourly" || w.oneIn(3): // an hour has no local days to share a month by
			f.put("price", w.price())
		case whole != "" && w.oneIn(3):
			f.put("price", w.amount()+"/"+whole).put("prorate", "false")
			w.pay(f)
		default:
			f.put("price", w.amount()+"/"+w.one("month", "month", "day", "week", "quarter", "year")).put("prorate", "true")
			w.pay(f)
		}
		out.items = append(out.items, f)
	}
	return out
}

// states has a part of GPU time or of a level in one to three states.
func (w *writer) states() *node {
	out := fields()
	for _, state := range w.some("running", "suspended", "stopped") {
		of := fields()
		part := w.factor
		if state == "running" {
			part = func() string { return w.one("1%", "90%", "100%", "125%") } // a running lease bills its GPUs
		}
		if w.oneIn(2) {
			of.put("gpu", part())
		}
		for _, name := range w.levels {
			if w.oneIn(2) {
				of.put(name, w.factor())
			}
		}
		out.set(state, of)
	}
	return out
}

func (w *writer) bundles() *node {
	out := &node{kind: list}
	for name, unit := range w.eachMeter() {
		f := fields().put("with", name).put("at_least", strings.TrimSpace(w.amount()+" "+unit))
		out.items = append(out.items, f.put("on", w.one(w.skus...)).put("off", w.percent()))
	}
	return out
}

// limits is a limit per the billing cycle or longer; a cap is per the cycle, and above what is committed to.
func (w *writer) limits(committed bool) *node {
	units := []string{"hour", "day", "week", "fortnight", "month", "quarter", "year"}
	own := slices.Index([]string{"hourly", "daily", "weekly", "biweekly", "monthly", "quarterly", "yearly"}, w.cycle)
	spend := w.one("1", "100", "12500", "800000")
	out := fields()
	switch w.Chooser(3) {
	case 0:
		out.put("spend", spend+"/"+units[own+w.Chooser(len(units)-own)]).put("action", "alert")
	case 1:
		out.put("spend", spend+"/"+units[own+w.Chooser(len(units)-own)]).put("action", "stop").put("overshoot", w.amount())
	default:
		if committed {
			spend = "999999999999"
		}
		out.put("spend", spend+"/"+units[own]).put("action", "cap")
	}
	if w.oneIn(2) {
		out.set("alert_at", texts(w.some("12.5%", "50%", "80%", "100%", "150%")...))
	}
	return out
}

func (w *writer) termination() *node {
	out := fields().put("refund", w.one("none", "prorata"))
	unlisted := slices.ContainsFunc(w.reserves, func(x commitment) bool { return !w.lists(x) })
	if w.oneIn(2) && !unlisted {
		out.put("clawback", w.one("none", "on_demand_difference"))
	}
	if w.to > 0 && w.oneIn(2) {
		out.put("fee", w.percent())
	}
	return out
}

func (w *writer) arrears() *node {
	out := &node{kind: list}
	after := []string{"12h", "24h", "7d", "15d"}
	for i, do := range w.some("warn", "stop", "freeze", "release") {
		f := fields()
		if i == 0 && w.oneIn(2) {
			f.put("at", "0")
		} else {
			f.put("after", after[i])
		}
		out.items = append(out.items, f.put("do", do))
	}
	return out
}
