package render

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/explain"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// sentences say how a segment's price is made, one a step, in order.
func (e *explained) sentences(g *explain.Segment) []string {
	out := make([]string, 0, len(g.Price.Steps))
	for i, s := range g.Price.Steps {
		out = append(out, e.sentence(g, s.Name, s.Text, i == 0))
	}
	if share := g.Key.SliceMilli; share > 0 && len(out) > 0 {
		text := e.say("A slice here is %s of a GPU.", money.DecimalText(big.NewRat(share, 1000), 0, 3))
		out = slices.Insert(out, 1, text)
	}
	return out
}

// sentence says one step. first tells the step that sets the price.
func (e *explained) sentence(g *explain.Segment, name, text string, first bool) string {
	of, factor := lastWord(text)
	switch name {
	case price.OnDemand:
		return e.listPrice(g, text)
	case "region":
		return e.say("In region %s it is multiplied by %s.", clean(of), factor)
	case "service_tier":
		return e.say("Service tier %s multiplies it by %s.", clean(of), factor)
	case "dedicated":
		return e.say("The whole node is reserved for the lease: × %s.", text)
	case "state":
		return e.say("The lease was %s: in this state %s of the price is charged.", e.word(of), factor)
	case "window":
		return e.window(g)
	case "idle_relief":
		return e.idleRelief(g, text)
	case price.Spot:
		return e.spotPrice(g, text)
	case "spot_max":
		return e.say("A spot price is limited to %s of the on-demand price; the market was above it.", text)
	case "cap":
		return e.say("The contract caps the price at %s.", e.figures(text))
	case "covered_by":
		return e.say("%s covers this time: its fee pays for it, so it costs nothing here.", clean(text))
	case "forward":
		return e.say("Forward %s covers this time at its own price of %s; region, tier and dedicated do not change it.", clean(g.Key.Commitment), e.figures(text))
	case "volume":
		if held, rest, ok := strings.Cut(text, atOnce); ok {
			return e.atOnce(e.figures(held), e.figures(rest), first)
		}
		if first {
			return e.say("Volume tiers price it by all use of the period: %s.", e.figures(text))
		}
		hours, rest, _ := strings.Cut(text, " gpu-hours ")
		return e.say("%s GPU-hours were used in the period: by its volume tiers that is %s of the price on average.", group(hours), clean(rest))
	case "bundle":
		return e.say("Enough of %s was used in the period: %s of the price remains.", clean(of), factor)
	default:
		return e.phrase(name) + " " + e.figures(text)
	}
}

// atOnce says what tiers by GPUs held at once do: they state a price, or scale it.
func (e *explained) atOnce(held, rest string, first bool) string {
	if first {
		return e.say("%s GPUs were held at once: by the volume tiers the price is %s.", held, rest)
	}
	return e.say("%s GPUs were held at once: by the volume tiers that is %s of the price.", held, rest)
}

// lastWord parts a name from the figure behind it: a name may hold spaces.
func lastWord(text string) (before, last string) {
	i := strings.LastIndex(text, " ")
	return text[:max(i, 0)], text[i+1:]
}

func (e *explained) listPrice(g *explain.Segment, text string) string {
	v := e.x.Versions[g.Key.Version]
	if v != nil && g.Key.Book != 0 {
		if rate, _ := v.Rate(g.Key.SKU); rate.OnDemand.Amount == nil {
			return e.say("Price book %s lists %s at %s.", clean(v.PriceBook), clean(g.Key.SKU), e.figures(text))
		}
	}
	return e.say("The contract prices %s at %s on demand.", clean(g.Key.SKU), e.figures(text))
}

// window says when a window holds and what it does.
func (e *explained) window(g *explain.Segment) string {
	var w *contract.Window
	if v := e.x.Versions[g.Key.Version]; v != nil {
		w = v.Schedule.Window(g.Key.Window)
	}
	if w == nil {
		return e.say("The window %s holds.", clean(g.Key.Window))
	}
	if len(w.Ranges) == 1 {
		if hours, ok := strings.CutPrefix(w.Ranges[0].String(), "daily "); ok {
			from, to, _ := strings.Cut(hours, "-")
			return e.say("From %s to %s the window %s holds: %s.", from, to, clean(w.Name), e.share(w.Text))
		}
	}
	ranges := make([]string, len(w.Ranges))
	for i, r := range w.Ranges {
		ranges[i] = glued(e.hoursOf(r.String()))
	}
	return e.say("In the hours %s the window %s holds: %s.", strings.Join(ranges, e.say(", ")), clean(w.Name), e.share(w.Text))
}

// hoursOf is "Mon-Fri 22:00-08:00" in the reader's language.
func (o Options) hoursOf(text string) string {
	days, hours, _ := strings.Cut(text, " ")
	if days == "daily" {
		return o.say("every day %s", hours)
	}
	first, last, several := strings.Cut(days, "-")
	if !several {
		return o.say(first) + " " + hours
	}
	return o.say("%s to %s ", o.say(first), o.say(last)) + hours
}

func (e *explained) idleRelief(g *explain.Segment, text string) string {
	v := e.x.Versions[g.Key.Version]
	if v == nil || v.Idle == nil {
		return e.share(text)
	}
	return e.say("The GPU had stayed below %s utilisation for %s: from then on %s.",
		fmt.Sprintf("%d%%", v.Idle.BelowPercent), e.duration(v.Idle.AfterSeconds), e.share(text))
}

func (e *explained) spotPrice(g *explain.Segment, text string) string {
	index, lock := "", contract.LockNone
	if v := e.x.Versions[g.Key.Version]; v != nil {
		if rate, _ := v.Rate(g.Key.SKU); rate.Spot != nil {
			index, lock = rate.Spot.Index, rate.Spot.Lock
		}
	}
	switch lock {
	case contract.LockStart:
		return e.say("Spot index %s stood at %s when the lease started: that price stays.", clean(index), e.figures(text))
	case contract.LockHour:
		return e.say("Spot index %s stood at %s when the lease's hour began: that price holds for the hour.", clean(index), e.figures(text))
	case contract.LockNone:
	}
	return e.say("Spot index %s stood at %s.", clean(index), e.figures(text))
}

// topUp says why a start is charged for more than it lasted.
func (e *explained) topUp(r *segmentRow) string {
	text := e.say("the start lasted %s", e.duration(r.Span.Seconds()))
	v := e.x.Versions[r.Key.Version]
	if v == nil {
		return text
	}
	if b := v.Billing; b.MinimumSeconds > 0 {
		text += e.say("; the minimum charge is %s", e.duration(b.MinimumSeconds))
	}
	if b := v.Billing; b.GranularitySeconds > 1 {
		text += e.say("; time is charged in steps of %s", e.duration(b.GranularitySeconds))
	}
	return text
}

// duration is a length of time in its largest whole unit.
func (o Options) duration(seconds int64) string {
	n, unit := seconds, o.say("second")
	switch {
	case seconds > 0 && seconds%span.SecondsPerHour == 0:
		n, unit = seconds/span.SecondsPerHour, o.say("hour")
	case seconds > 0 && seconds%span.SecondsPerMinute == 0:
		n, unit = seconds/span.SecondsPerMinute, o.say("minute")
	}
	if o.Language != Chinese && n != 1 {
		unit += "s"
	}
	return glued(group(fmt.Sprint(n)) + " " + unit)
}

// item says what a charge that is not GPU time stands on.
func (e *explained) item() {
	e.heading(e.say("How the amount is made"))
	item := e.x.Item
	for _, s := range item.Steps {
		name, text, _ := strings.Cut(s, " ")
		e.paragraph(e.itemSentence(name, text))
	}
	if len(item.Inputs) > 0 {
		e.heading(e.say("What it stands on"))
		e.inputs(item.Inputs)
	}
	e.rounded()
}

// itemSentence says one step of a charge.
func (e *explained) itemSentence(name, text string) string {
	count, of, _ := strings.Cut(text, " of ")
	part, whole, _ := strings.Cut(text, " ÷ ")
	switch name {
	case "price":
		return e.say("The price is %s.", e.figures(text))
	case "quantity":
		return e.say("It is for %s GPUs.", group(text))
	case "days":
		if exceeds(count, of) {
			return e.say("%s days are charged; the price pays %s of them.", group(count), group(of))
		}
		return e.say("%s of %s days are charged.", group(count), group(of))
	case "allowance":
		return e.say("The first %s of the period are free.", e.figures(text))
	case "billed":
		return e.say("%s are left to be charged.", e.figures(text))
	case "state": // stopped 200%: 0.5
		weighed, level, _ := strings.Cut(text, ": ")
		state, factor := lastWord(weighed)
		return e.say("While leases were %s, %s stood on the meter: of that %s counts.", e.word(state), e.figures(level), factor)
	case "packages":
		if e.x.Line.Item == bill.ItemPackage {
			return e.say("Packages bought in one go: %s.", group(text))
		}
		return e.say("%s packages are charged: a package that was begun is whole.", group(text))
	case "full_packages":
		return e.say("%s packages are charged: a package that is not full is free.", group(text))
	case "tier":
		return e.say("Tier %s.", e.figures(text))
	case "flat":
		return e.say("The tier's flat fee is %s.", e.figures(text))
	case "used":
		return e.say("%s were used in the period.", e.figures(text))
	case "part":
		return e.say("Of %s, the part of %s fell under these terms:", group(whole), group(part))
	case "on_demand":
		return e.say("The time that was used up is charged on demand: %s.", e.figures(text))
	case "region":
		return e.say("Region %s.", e.figures(text))
	case "elapsed":
		return e.say("%s GPU-hours went by.", group(text))
	case "at_most_the_fee":
		return e.say("That is no less than the fee, so the fee is due.")
	case "fees_until_then":
		return e.say("The fees of that time are %s; what on demand would have been more is this line.", e.figures(text))
	case "fees_to_come":
		return e.say("The contract was ended before its term; reservation fees of %s were still to come.", e.figures(text))
	case "spend_to_come":
		return e.say("Of the commitment, %s was still to come.", e.figures(text))
	case "share":
		return e.say("%s of that is due.", e.figures(text))
	case "trial":
		return e.say("The period lies in the trial: this use costs nothing.")
	case "untaken":
		return e.say("%s GPU-hours were held ready and not used.", group(text))
	case "spend":
		return e.say("The customer commits to %s.", e.figures(text))
	case "cap":
		return e.say("The customer pays at most %s.", e.figures(text))
	case "uncapped":
		return e.say("The other lines of the period come to %s; what is beyond the cap is this line, taken off.", e.figures(text))
	case "charges":
		return e.say("The other lines of the period come to %s; what is missing is this line.", e.figures(text))
	default:
		return e.meterSentence(name, text)
	}
}

// meterSentence says one step of readings that are priced by themselves, or of levels that choose tiers.
func (e *explained) meterSentence(name, text string) string {
	switch name {
	case "readings":
		return e.say("Readings that are priced, each by itself: %s.", group(text))
	case "at_min":
		return e.say("At the minimum of a reading: %s.", e.figures(text))
	case "by_price": // 2: 90 × 0.0299/yuan + 2 × 2.00
		count, sum, _ := strings.Cut(text, ": ")
		return e.say("By their quantity, %s of them: %s.", group(count), e.figures(sum))
	case "at_max":
		return e.say("At the maximum of a reading: %s.", e.figures(text))
	case "peak":
		return e.say("Each second is priced by the level of all resources together, of which %s was the highest.", group(text))
	default:
		return e.phrase(name) + " " + e.figures(text)
	}
}

// inputs is the table of what a charge stands on.
func (e *explained) inputs(list []bill.Input) {
	t := Table{Width: e.Width, Colour: e.Colour, Indent: 4, Columns: []Column{
		{Head: e.say("What"), Fit: Fill},
		{Head: e.say("From"), Fit: Wrap},
		{Head: e.say("To"), Fit: Wrap},
		{Head: e.say("Stated"), Align: Right},
		{Head: e.say("Counts"), Align: Right},
	}}
	each := slices.ContainsFunc(list, func(in bill.Input) bool { return in.Costs != nil })
	if each {
		t.Columns = append(t.Columns, Column{Head: e.say("Amount (%s)", clean(e.x.Document.Currency)), Align: Right})
	}
	most := e.most(shownInputs, len(list))
	for _, in := range list[:most] {
		from, to, stated := "", "", ""
		if in.Span.From != 0 {
			from = e.at(in.Span.From)
		}
		if !in.Span.Empty() {
			to = e.at(in.Span.To)
		}
		if in.Stated != nil {
			stated = group(money.DecimalText(in.Stated, 0, 12))
		}
		cells := []string{e.inputName(in), from, to, stated, e.counts(in)}
		if each {
			cells = append(cells, e.costs(in))
		}
		t.row(false, cells...)
	}
	e.p.WriteString(t.String())
	e.more(len(list) - most)
}

// costs is what a reading costs that is priced by itself.
func (e *explained) costs(in bill.Input) string {
	if in.Costs == nil {
		return ""
	}
	return group(money.DecimalText(in.Costs, e.x.Contract.Currency.Digits(), 12))
}

func (e *explained) counts(in bill.Input) string {
	if in.Unit == "" && in.Kind == bill.InputCharge {
		return group(money.DecimalText(in.Counts, e.x.Contract.Currency.Digits(), 12)) + " " + clean(e.x.Document.Currency)
	}
	unit := in.Unit
	if in.Kind == bill.InputDays || in.Kind == bill.InputPurchase || in.Kind == bill.InputOnce {
		unit = "" // the name says it
	}
	return strings.TrimSpace(group(money.DecimalText(in.Counts, 0, 9)) + " " + e.word(unit))
}

// inputName is what an input is, with whose it is.
func (e *explained) inputName(in bill.Input) string {
	switch in.Kind {
	case bill.InputTime, bill.InputCharge:
		l := &bill.DocumentLine{
			Item: in.Line.Item, Name: in.Line.Name, SKU: in.Line.SKU, Region: in.Line.Region, ServiceTier: in.Line.ServiceTier, Dedicated: in.Line.Dedicated,
			PricingMode: in.Line.PricingMode, Window: in.Line.Window, Idle: in.Line.Idle, Commitment: in.Line.Commitment,
		}
		if l.Item != "" {
			return e.itemName(l)
		}
		return e.Options.item(l)
	case bill.InputReading:
		return strings.TrimSpace(e.say("reading") + " " + clean(in.Name))
	case bill.InputLevel:
		name := strings.TrimSpace(e.say("level") + " " + clean(in.Name))
		if in.State != "" {
			name += e.say(", ") + glued(e.inState(in.State))
		}
		return name
	case bill.InputDays:
		if l := e.x.Line; l != nil && l.Item == bill.ItemTermination {
			return e.say("days still to come")
		}
		return e.say("days charged")
	case bill.InputOnce:
		return e.say("due, once")
	case bill.InputPurchase:
		return e.say("bought, runs")
	case bill.InputCapacity:
		return e.say("capacity")
	case bill.InputTaken:
		return e.say("taken")
	}
	return string(in.Kind)
}
