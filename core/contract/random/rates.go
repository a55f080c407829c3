package random

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func (w *writer) rates() *node {
	out := &node{kind: list}
	w.skus = w.some("h100-80g", "a100", "mig-1g.10gb", "显卡 4090")
	if w.whole = w.skus[0]; w.whole == slice || !slices.Contains(w.skus, slice) || w.oneIn(3) {
		w.whole = ""
	}
	for _, sku := range w.skus {
		rate := fields().put("sku", sku)
		spotOnly := w.oneIn(6)
		if !spotOnly && (!w.book || !w.oneIn(3)) {
			rate.put("on_demand", w.ratePrice(sku))
		}
		if sku == slice && w.whole != "" {
			rate.put("slice_of", w.whole)
		}
		regions := w.factors(rate)
		if spotOnly || w.oneIn(3) {
			rate.set("spot", w.spot(len(rate.keys) > 1 && rate.keys[1] == "on_demand"))
		}
		w.maybe(rate, "reserved", func() *node { return w.reserved(sku) })
		w.maybe(rate, "forward", w.forward)
		list := false // a cap on the list price, which does not stand with absolute tier prices
		w.maybe(rate, "cap", func() *node { return w.limit(sku, &list) })
		w.list(rate, sku, regions)
		w.maybe(rate, "volume", func() *node { return w.volume(list) })
		out.items = append(out.items, rate)
	}
	return out
}

// slice is the SKU that may be a part of another.
const slice = "mig-1g.10gb"

// ratePrice is a price of a SKU, per slice or per GPU.
func (w *writer) ratePrice(sku string) string {
	price := w.price()
	if sku == slice && w.oneIn(2) {
		return strings.Replace(price, "/gpu-", "/slice-", 1)
	}
	return price
}

// factors sets what a price is multiplied by, and tells the regions, empty for any.
func (w *writer) factors(rate *node) []string {
	regions := []string{}
	for _, f := range []struct {
		key  string
		keys []string
	}{{"region", []string{"cn-east", "cn-west", "eu-1"}}, {"service_tier", []string{"t3", "t4"}}} {
		if !w.oneIn(3) {
			continue
		}
		m := fields()
		for _, key := range w.some(f.keys...) {
			m.put(key, w.factor())
		}
		if f.key == "region" {
			regions = m.keys
		}
		rate.set(f.key, m)
	}
	if w.oneIn(3) {
		rate.put("dedicated", w.factor())
	}
	return regions
}

func (w *writer) spot(onDemand bool) *node {
	out := fields().put("index", w.one("h100-80g", "指数"))
	if onDemand && w.oneIn(2) {
		out.put("max", w.factor()+" of on_demand")
	}
	if w.oneIn(2) {
		out.put("lock", w.one("none", "start", "hour"))
	}
	if w.oneIn(2) {
		out.put("reclaimed_free_within", w.duration())
	}
	return out
}

// days sets from and to within the term.
func (w *writer) days(f *node) *node {
	length := 400
	if w.to > 0 {
		length = w.to - w.from - 1
	}
	from := w.from + w.Chooser(length)
	f.put("from", w.day(from))
	if w.to == 0 && w.oneIn(2) {
		return f.put("to", "open")
	}
	last := from + 1 + w.Chooser(60)
	if w.to > 0 {
		last = min(last, w.to)
	}
	return f.put("to", w.day(last))
}

func (w *writer) reserved(sku string) *node {
	out := &node{kind: list}
	for range 1 + w.Chooser(2) {
		f := fields().put("name", w.own("base")).put("quantity", strconv.Itoa(1+w.Chooser(64)))
		w.days(f.put("price", w.amount()+"/gpu-"+w.one("day", "week", "month", "month", "quarter", "year")))
		w.region(f)
		if w.oneIn(2) {
			f.put("burst", "on_demand")
		}
		w.pay(f)
		if w.oneIn(2) {
			cut := "false"
			if sku == w.whole {
				cut = "true"
			}
			f.put("slices", cut)
		}
		w.reserves = append(w.reserves, commitment{sku, f})
		out.items = append(out.items, f)
	}
	return out
}

func (w *writer) pay(f *node) {
	if w.oneIn(2) {
		f.put("pay", w.one("advance", "advance", "arrears"))
	}
}

func (w *writer) forward() *node {
	out := &node{kind: list}
	for i := range 1 + w.Chooser(2) {
		f := fields()
		if i > 0 || w.oneIn(2) {
			f.put("name", w.own("forward"))
		}
		f.put("quantity", strconv.Itoa(1+w.Chooser(64)))
		w.days(f.put("price", w.amount()+"/gpu-"+w.one("second", "minute", "hour", "day", "week")))
		w.region(f)
		if w.oneIn(2) {
			f.put("take_or_pay", w.one("true", "false"))
		}
		out.items = append(out.items, f)
	}
	return out
}

func (w *writer) limit(sku string, list *bool) *node {
	if w.oneIn(2) {
		*list = true
		return text(w.ratePrice(sku))
	}
	on := w.one("list", "final")
	*list = on == "list"
	return fields().put("price", w.ratePrice(sku)).put("on", on)
}

func (w *writer) volume(percents bool) *node {
	by := w.one("gpu-hours", "gpus")
	out := fields().put("by", by)
	if by == "gpu-hours" && w.oneIn(2) {
		out.put("per", "period")
	}
	out.put("method", w.one("graduated", "volume"))
	amount := func() string { return w.amount() + "/gpu-hour" }
	if percents {
		amount = nil
	}
	if by == "gpus" {
		w.table(out, amount, []string{"0.5", "1.143", "4"}, false)
	} else {
		w.tiers(out, amount)
	}
	if w.oneIn(3) {
		out.set("count", texts(w.some("covered", "spot")...))
	}
	return out
}

// tiers sets a table, of percentages or of amounts.
func (w *writer) tiers(into *node, amount func() string) (percents bool) {
	percents = w.table(into, amount, []string{"0.5", "1000", "2e3"}, true)
	if w.oneIn(3) {
		into.put("flat", w.one("used", "always"))
	}
	return percents
}

// table sets the list of tiers.
func (w *writer) table(into *node, amount func() string, bounds []string, flat bool) (percents bool) {
	percents = amount == nil || w.oneIn(2)
	bounds = bounds[:w.Chooser(len(bounds)+1)]
	out := &node{kind: list}
	for i := range len(bounds) + 1 {
		f := fields()
		if i < len(bounds) {
			f.put("upto", bounds[i])
		}
		price := w.factor()
		if !percents {
			price = amount()
		}
		f.put("price", price)
		if flat && w.oneIn(3) {
			f.put("flat", w.amount())
		}
		out.items = append(out.items, f)
	}
	into.set("tiers", out)
	return percents
}

func (w *writer) meterList() *node {
	out := &node{kind: list}
	for range 1 + w.Chooser(3) {
		out.items = append(out.items, w.meter())
	}
	return out
}

func (w *writer) meter() *node {
	name, unit := w.own("meter"), w.one("GB", "GB-month", "TB-hour", "requests", "")
	per := unit
	if unit == "" {
		per = "1"
	}
	w.meters[name] = unit
	timed := unit == "GB-month" || unit == "TB-hour"
	out := fields().put("name", name)
	model := w.one("unit", "package", "graduated", "volume", "each")
	tiered := model == "graduated" || model == "volume"
	if !tiered {
		if unit == "" {
			per = "1000"
		} else if w.oneIn(3) {
			per = "10 " + unit
		}
		out.put("price", w.amount()+"/"+per).put("model", model)
		if model == "package" && w.oneIn(2) {
			out.put("round", w.one("up", "down"))
		}
	} else {
		out.put("model", model)
		if w.tiers(out, func() string { return w.amount() + "/" + per }) {
			out.put("price", w.amount()+"/"+per)
		}
	}
	if model == "each" {
		return w.each(out, timed)
	}
	byLevel := tiered && timed && w.oneIn(2)
	if !byLevel && w.oneIn(2) {
		out.put("free", strings.TrimSpace(w.amount()+" "+unit))
	}
	aggregate, choices := "sum", []string{"sum", "max", "last", "unique"}
	if timed {
		aggregate, choices = "time_weighted", append(choices, "time_weighted")
	}
	switch {
	case byLevel:
		out.put("tiers_by", "level")
		if w.oneIn(2) {
			out.put("aggregate", aggregate)
		}
	case w.oneIn(2):
		aggregate = w.one(choices...)
		out.put("aggregate", aggregate)
	}
	if tiered && !byLevel && w.oneIn(3) {
		out.put("tiers_by", "quantity")
	}
	if aggregate == "sum" && w.oneIn(2) {
		out.put("value", w.one("delta", "cumulative"))
	}
	if aggregate == "time_weighted" {
		w.levels = append(w.levels, name)
	}
	return out
}

// each prices every reading by itself. Its bounds are far enough apart for readings on either side of them and between.
func (w *writer) each(out *node, timed bool) *node {
	if w.oneIn(2) {
		out.put("flat", w.amount())
	}
	if w.oneIn(2) {
		out.put("min", w.one("0", "1.75", "35.00"))
	}
	if w.oneIn(2) {
		out.put("max", w.one("35.00", "1e3", "15120.00"))
	}
	if timed || w.oneIn(3) {
		out.put("aggregate", "sum")
	}
	if w.oneIn(3) {
		out.put("value", "delta")
	}
	return out
}

// eachMeter lists the meters in order of name, so that a seed draws the same for ever.
func (w *writer) eachMeter() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, name := range slices.Sorted(maps.Keys(w.meters)) {
			if !yield(name, w.meters[name]) {
				return
			}
		}
	}
}
