package sim

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
)

// fee is paid for local days, whether anybody uses anything or not: of a reservation, or of an add-on per month.
type fee struct {
	name      string
	hundredth int64 // of the currency per unit, and per GPU of a reservation
	ahead     bool  // it is paid when a period begins
	whole     bool  // of an add-on: every period costs the whole month
	// Of a reservation; an add-on has no unit.
	quantity int64
	unit     string
	from, to int64 // local midnights
}

// spare is the SKU of reservations. Nobody leases it, so that they are fees and cover nothing.
const spare = "spare"

// What the fourth stream of dice draws, by the names of the figures.
const (
	someFees     = "contract with fees by local days"
	endedEarlier = "term with fees that ends earlier, known late"
)

// writeFees gives some contracts fees, in every version of its own, from dice of its own.
func (a *author) writeFees(seed uint64) {
	a.dice = rand.New(rand.NewPCG(seed, 6))
	for _, t := range a.signed {
		if !a.one(5) {
			continue
		}
		a.drawn[someFees]++
		var fees []fee
		if t.cycle == "hourly" || a.one(2) { // an hour has no local days to share a month by
			for k := range 1 + a.dice.IntN(2) {
				fees = append(fees, a.reservation(t, fmt.Sprintf("base-%d", k)))
			}
		}
		if t.cycle != "hourly" && (len(fees) == 0 || a.one(2)) {
			fees = append(fees, fee{name: "support", hundredth: a.dice.Int64N(99999), ahead: !a.one(3), whole: t.cycle == "monthly" && a.one(2)})
		}
		if a.one(3) {
			a.endEarlier(t)
		}
		a.charge(t.id, fees)
	}
}

// endEarlier ends a term sooner by an amendment that is known late: what lies behind was often billed in advance by then.
func (a *author) endEarlier(t *terms) {
	latest := a.lastAmendment(t) + 1
	if latest >= t.to-1 {
		return
	}
	next := *t
	effective := latest + a.dice.Int64N(t.to-1-latest)
	next.to = effective + 1 + a.dice.Int64N(t.to-effective)
	a.drawn[endedEarlier]++
	a.amendment(&next, "end", effective, a.dice.Int64N(t.to-effective+day))
}

func (a *author) reservation(t *terms, name string) fee {
	f := fee{
		name: name, hundredth: a.dice.Int64N(99999), ahead: !a.one(3), quantity: 1 + a.dice.Int64N(9), unit: pick(a.dice, "gpu-day", "gpu-week", "gpu-month"),
		from: t.midnight(t.from, 0), to: t.midnight(t.to-1, 1),
	}
	if a.one(3) {
		f.from = t.midnight(t.from+a.dice.Int64N(t.to-t.from), 0)
	}
	if a.one(3) {
		f.to = t.midnight(f.from+a.dice.Int64N(t.to-f.from), 1)
	}
	return f
}

// midnight is when the local day begins that lies so many days behind that of an instant.
func (t *terms) midnight(at int64, days int) int64 {
	year, month, date := time.Unix(at, 0).In(t.location).Date()
	return time.Date(year, month, date+days, 0, 0, 0, 0, t.location).Unix()
}

// charge puts fees into all documents of a contract; another version may have other prices, and be paid at another time.
func (a *author) charge(id string, fees []fee) {
	charged := map[string]string{} // documents, with fees by those without
	for _, e := range a.events {
		document := documentOf(e.body)
		if document == nil || e.body.Entity() != id || e.repeat {
			continue
		}
		before := *document
		if charged[before] == "" {
			t := a.terms[before]
			delete(a.terms, before)
			t.fees = a.version(t, fees)
			charged[before] = t.document()
			a.terms[t.document()] = t
		}
		*document = charged[before]
	}
}

// documentOf is the document that a fact states of a contract, or nil.
func documentOf(b fact.Body) *string {
	switch b := b.(type) {
	case *fact.ContractSigned:
		return &b.Document
	case *fact.ContractAmended:
		return &b.Document
	}
	return nil
}

// version is what one version makes of the fees, within its term.
func (a *author) version(t *terms, fees []fee) []fee {
	out := slices.Clone(fees)
	for i := range out {
		f := &out[i]
		if a.one(3) {
			f.hundredth = a.dice.Int64N(99999)
		}
		if a.one(6) {
			f.ahead = !f.ahead
		}
		if f.to = min(f.to, t.midnight(t.to-1, 1)); f.from >= f.to {
			f.from, f.to = t.midnight(t.from, 0), t.midnight(t.to-1, 1)
		}
	}
	return out
}

// clauses are the fees as a contract states them: the rate of the reservations, and the add-ons.
func (t *terms) clauses() (reserved, addons string) {
	var reservations, others []string
	date := func(at int64) string { return time.Unix(at, 0).In(t.location).Format(time.DateOnly) }
	for _, f := range t.fees {
		pay := "arrears"
		if f.ahead {
			pay = "advance"
		}
		price := fmt.Sprintf("%d.%02d", f.hundredth/100, f.hundredth%100)
		if f.unit == "" {
			others = append(others, fmt.Sprintf("{name: %s, price: %s/month, prorate: %v, pay: %s}", f.name, price, !f.whole, pay))
			continue
		}
		reservations = append(reservations, fmt.Sprintf("{name: %s, quantity: %d, price: %s/%s, from: %s, to: %s, pay: %s}",
			f.name, f.quantity, price, f.unit, date(f.from), date(f.to), pay))
	}
	if len(reservations) > 0 {
		reserved = fmt.Sprintf("{sku: %s, on_demand: 1.00/gpu-hour, reserved: [%s]}", spare, strings.Join(reservations, ", "))
	}
	if len(others) > 0 {
		addons = fmt.Sprintf(", addons: [%s]", strings.Join(others, ", "))
	}
	return reserved, addons
}

// days is how many local days a fee's unit has: a month is the billing month, or else the calendar month around an instant.
func (t *terms) days(unit string, at int64) int64 {
	switch unit {
	case "gpu-day":
		return 1
	case "gpu-week":
		return 7
	}
	anchor := 1
	if t.cycle == "monthly" {
		anchor = t.anchor
	}
	local := time.Unix(at, 0).In(t.location)
	begins := func(month int) time.Time {
		last := time.Date(local.Year(), local.Month()+time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC)
		return time.Date(last.Year(), last.Month(), min(anchor, last.Day()), 0, 0, 0, 0, time.UTC)
	}
	month := 0
	if date := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC); date.Before(begins(0)) {
		month = -1
	}
	return int64(begins(month+1).Sub(begins(month)) / (24 * time.Hour))
}

// feesOf is the exact fee of every line, day by day: a local day costs what the version in force in its last second says, in the period
// that holds its first second of the contract. Only days whose first lies in [from, to) count, ahead only what is paid in advance.
func feesOf(list []version, from, to int64, ahead bool) map[line]*big.Rat {
	out := map[line]*big.Rat{}
	if !slices.ContainsFunc(list, func(v version) bool { return len(v.fees) > 0 }) {
		return out
	}
	begin, end := list[0].from, list[0].to
	for _, v := range list {
		begin, end = min(begin, v.from), max(end, v.to)
	}
	midnight := func(n int) int64 { return list[0].midnight(begin, n) }
	for n := 0; midnight(n) < end; n++ {
		first, last := secondsInForce(list, midnight(n), midnight(n+1))
		if first < from || first >= to || first > last {
			continue
		}
		_, within := secondsInForce(list, midnight(n), min(midnight(n+1), to))
		inForce(list, last).addDay(out, first, last, ahead, func(f fee) bool { return f.unit != "" })
		inForce(list, within).addDay(out, first, within, ahead, func(f fee) bool { return f.unit == "" })
	}
	return out
}

// addDay adds a local day's part of some fees, or all of one that is whole.
func (v *version) addDay(out map[line]*big.Rat, first, last int64, ahead bool, of func(fee) bool) {
	for _, f := range v.fees {
		k := line{contract: v.id, period: v.period(first), item: "addon", name: f.name}
		price := big.NewRat(f.hundredth, 100)
		switch {
		case !of(f), ahead && !f.ahead:
			continue
		case f.whole:
			out[k] = price
			continue
		case f.unit != "":
			if last < f.from || last >= f.to {
				continue
			}
			k.item, k.sku = "reserved", spare
			price.Mul(price, big.NewRat(f.quantity, 1))
		}
		if out[k] == nil {
			out[k] = new(big.Rat)
		}
		out[k].Add(out[k], price.Mul(price, big.NewRat(1, v.days(f.unit, last))))
	}
}

// secondsInForce are the first and the last second of a span in which some version is in force; last is before first where none is.
func secondsInForce(list []version, from, to int64) (first, last int64) {
	edges := []int64{from, to}
	for _, v := range list {
		for _, at := range []int64{v.from, v.to} {
			if from < at && at < to {
				edges = append(edges, at)
			}
		}
	}
	slices.Sort(edges)
	first, last = to, from-1
	for i, at := range edges[:len(edges)-1] {
		if inForce(list, at) != nil {
			first, last = min(first, at), edges[i+1]-1
		}
	}
	return first, last
}

// stated are the versions of a contract that were stated before a position, in the order of coming into force.
func (w *watcher) stated(contract string, before uint64) (out []version) {
	for _, v := range w.versions[contract] {
		if v.seq < before {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b version) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.seq, b.seq)) })
	return out
}

// ahead is what a period was billed in advance.
type ahead struct {
	end int64 // of the period, as it was known then
	*bill.Document
}

// paysAhead tells whether a contract can have bills in advance.
func (w *watcher) paysAhead(contract string) bool {
	return contract == market || slices.ContainsFunc(w.versions[contract], func(v version) bool {
		return slices.ContainsFunc(v.fees, func(f fee) bool { return f.ahead })
	})
}

// takenOff holds a closing against what its period was billed in advance: the first takes off every line of it with the other sign and by
// its name, no other takes anything off.
func (w *watcher) takenOff(d *bill.Document, t *terms, period string) error {
	key := d.Contract + " " + period
	paid := w.ahead[key]
	if d.Closing == 0 {
		return nil
	}
	text := func(invoice string, l *bill.DocumentLine, sign int64) (string, error) {
		amount, err := minor(l.Amount, t)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(invoice, " ", l.Item, " ", l.Name, " ", amount.Mul(amount, big.NewInt(sign))), nil
	}
	var want, got []string
	if paid != nil && d.Closing == 1 {
		for i := range paid.Lines {
			one, err := text(paid.Invoice, &paid.Lines[i], -1)
			if err != nil {
				return err
			}
			want = append(want, one)
		}
	}
	for i := range d.Lines {
		if l := &d.Lines[i]; l.Advance != "" {
			one, err := text(l.Advance, l, 1)
			if err != nil {
				return err
			}
			got = append(got, one)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("closing %d of %s takes off %q, billed in advance was %q", d.Closing, key, got, want)
	}
	return nil
}

// owedAhead names the billing period of a contract that runs at an instant, if fees of it are to be paid in advance and nothing of it was
// billed by a cut that was answered up to a position. Periods and fees are those that were stated before another one.
func (w *watcher) owedAhead(contract string, at int64, before, answered uint64) string {
	t := w.latest(contract, before).terms
	if t == nil || w.halted[w.customer(contract)] > 0 || !w.paysAhead(contract) || at < t.from || at >= t.to {
		return ""
	}
	period := t.period(at)
	if first, billed := w.firstCut[contract+" "+period]; billed && first <= answered {
		return ""
	}
	for k, exact := range feesOf(w.stated(contract, before), 0, t.to, true) {
		if k.period == period && t.floor(exact).Sign() > 0 { // less than a minor unit may round to nothing
			return contract + " " + period
		}
	}
	return ""
}

// aheadInTime: what is to be paid in advance was billed at the first cut that could know of it.
func (w *watcher) aheadInTime() error {
	var missing []string
	for contract := range w.versions {
		for name, cut := range w.cuts {
			if period := w.owedAhead(contract, int64(cut.At), w.knownAt(name)+1, w.done[name]); period != "" {
				missing = append(missing, fmt.Sprintf("%s has fees in advance that cut %s did not bill", period, name))
			}
		}
	}
	return first(missing)
}

// unpaidAhead is an error where fees in advance of a running period are not billed although everybody came to rest.
func (w *watcher) unpaidAhead() error {
	var unpaid []string
	for contract := range w.versions {
		if period := w.owedAhead(contract, w.last, every, every); period != "" {
			unpaid = append(unpaid, fmt.Sprintf("%s has fees in advance that nobody billed by %s", period, instantText(w.last)))
		}
	}
	return first(unpaid)
}
