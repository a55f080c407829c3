package render

import (
	"math/big"
	"strings"

	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/quote"
)

func (p *quotePage) wayName(m *quote.Mode) string {
	switch m.Name {
	case quote.OnDemand:
		return p.say("all on demand")
	case quote.Reserved:
		return p.say("reserved at the best quantity")
	case quote.Spot:
		return p.say("spot")
	case quote.OffPeak:
		return p.say("all off-peak, upper bound of what could be saved")
	}
	return p.word(string(m.Name))
}

// about says what a way is, and what it risks; of one without a rank, why.
func (p *quotePage) about(m *quote.Mode) []note {
	if m.Offer == nil {
		return []note{{"why", p.unranked(m)}}
	}
	list := []note{{"why", p.unranked(m)}}
	switch m.Name {
	case quote.OnDemand:
		if m.Why != "" {
			break
		}
		list = append(list, note{"risk", p.say("Nothing is owed for GPUs that are not used; that one is free when it is needed is not promised.")})
	case quote.Reserved:
		list = append(list, p.aboutReserved(m)...)
	case quote.Spot:
		list = append(list, note{"what", p.aboutSpot(m.Market)}, note{"risk", p.spotRisk(m.Market)})
	case quote.OffPeak:
		list = append(list, note{"what", p.aboutWindows(m)}, note{"risk", p.say("A bound, no offer: what runs around the clock cannot move, and what can may have to wait.")})
	}
	return list
}

func (p *quotePage) unranked(m *quote.Mode) string {
	switch {
	case m.Why == quote.OtherTime:
		return p.say("No rank: it cannot price all of the time, or prices other time than on demand does. Refused are %s.", p.hours(m.Offer.Refused()))
	case m.Why == quote.NotWholeDays:
		return p.say("A reservation is paid by local days: ask for a span of whole days.")
	case m.Why == "":
		return ""
	case m.Name == quote.Reserved:
		return p.say("The contract has no reservation price for what was held.")
	case m.Name == quote.Spot:
		return p.say("The contract has no spot terms for what was held.")
	default:
		return p.say("The contract has no window in which on demand is cheaper.")
	}
}

func (p *quotePage) aboutReserved(m *quote.Mode) []note {
	var list []note
	var unused, reserved int64
	for _, h := range m.Held {
		price := clean(h.Reservation.Name) + " " + p.figures(h.Reservation.Price.Text(p.r.Currency))
		n := h.Reservation.Quantity
		text := p.say("%s: none; %s does not pay for any quantity from 1 to %d.", clean(h.SKU), price, h.Most)
		if n > 0 {
			text = p.say("%s: %d of at most %d held at once, %s; the fee is %s, what goes beyond is on demand.",
				clean(h.SKU), n, h.Most, price, group(h.Fee.String()))
		}
		list = append(list, note{"what", text})
		unused += h.Unused
		reserved += n
	}
	risk := p.say("None: nothing is reserved.")
	if reserved > 0 {
		risk = p.say("The fee is due whether the GPUs are used or not; in the span none of what it pays for went unused.")
	}
	if unused > 0 {
		risk = p.say("The fee is due whether the GPUs are used or not; in the span %s of what it pays for went unused.", p.hours(unused))
	}
	return append(list, note{"risk", risk})
}

func (p *quotePage) aboutSpot(m *quote.Market) string {
	list := []string{p.say("As spot: %s.", p.names(m.SKUs))}
	if len(m.Kept) > 0 {
		list = append(list, p.say("Without spot terms, and so on demand: %s.", p.names(m.Kept)))
	}
	return p.prose(list)
}

// spotRisk says exactly what is counted.
func (p *quotePage) spotRisk(m *quote.Market) string {
	list := []string{p.say("Reclaims that would have hit a running lease: %d. By price, where it rose above the contract's max or was above it at the start: %d. By the log, where it states that the provider took a spot lease of the SKU and region back: %d.", m.Above+m.Taken, m.Above, m.Taken)}
	if m.Above > 0 {
		list = append(list, p.say("While the price stood above the max they held %s.", p.hours(m.Interrupted)))
	}
	if m.Taken > 0 {
		list = append(list, p.say("How long GPUs stay away after a reclaim is not in the log."))
	}
	if m.Unknown > 0 {
		list = append(list, p.say("For %s no price or no limit is known: what would have hit them cannot be told.", p.hours(m.Unknown)))
	}
	if len(m.Unlimited) > 0 {
		list = append(list, p.say("No max is agreed for %s: no price counts as a reclaim there.", p.names(m.Unlimited)))
	}
	return p.prose(list)
}

// prose joins sentences: Chinese ones stand without a space.
func (o Options) prose(sentences []string) string {
	if o.Language == Chinese {
		return strings.Join(sentences, "")
	}
	return strings.Join(sentences, " ")
}

func (p *quotePage) aboutWindows(m *quote.Mode) string {
	w := m.Windows
	all := max(1, w.Inside+w.Outside)
	return p.say("%s%% of the time is in windows and costs %s there, %s outside; the bill is the lowest possible, with the rest moved into %s.",
		percentOf(big.NewRat(w.Inside, all)), p.exact(w.Cost), p.exact(w.WithoutWindows), clean(w.Best))
}

// exact shows an amount before rounding.
func (p *quotePage) exact(v *big.Rat) string {
	return group(money.DecimalText(v, p.r.Currency.Digits(), 6))
}

func (p *quotePage) names(list []string) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = clean(n)
	}
	return strings.Join(out, p.say(", "))
}
