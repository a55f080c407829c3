package replay_test

import (
	"cmp"
	"math/big"
	"slices"
	"testing"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
)

// oracle bills a world the slow and obvious way: second by second, with no spans, hours, masks or differences.
type oracle struct {
	w     *world
	held  map[heldKey]coverage        // milli-seconds that leases hold
	sold  map[soldKey]int64           // milli-seconds of priced time and top-ups
	label map[string]map[int64]string // of a minute in a contract's zone: its period
	state map[string][]byte           // by device and second of the world: seen, inferred, or 0
}

type heldKey struct {
	lease, device, contract, period string
	reason, standing                string // reason is empty for priced time
}

type coverage struct{ leased, measured, inferred, missing int64 }

type lineKey struct{ contract, period, sku, region string }

// soldKey is a line at one price in cents an hour.
type soldKey struct {
	lineKey
	cents int64
}

func consult(t testing.TB, w *world, until span.Second) *oracle {
	o := &oracle{w: w, held: map[heldKey]coverage{}, sold: map[soldKey]int64{}, label: map[string]map[int64]string{}, state: map[string][]byte{}}
	for i := range w.deals {
		o.labels(t, &w.deals[i], until)
	}
	for i := range w.views {
		o.look(&w.views[i], until)
	}
	books := make([]book, len(w.leases))
	for at := w.from; at < until; at++ {
		changed := at == w.from
		for i := range w.leases {
			for k := range w.leases[i].steps {
				if st := &w.leases[i].steps[k]; st.at == at {
					o.turn(&w.leases[i], &books[i], st)
					changed = true
				}
			}
		}
		if changed {
			o.share(books)
		}
		for i := range w.leases {
			o.second(&w.leases[i], &books[i], at)
		}
	}
	return o
}

// labels names the period of every minute by the local date, or local hour and offset. No offset of these zones has
// seconds, so a minute has one name.
func (o *oracle) labels(t testing.TB, d *deal, until span.Second) {
	zone, err := calendar.LoadZone(d.zone)
	if err != nil {
		t.Fatal(err)
	}
	o.label[d.id] = map[int64]string{}
	for at := o.w.from - 60; at <= until+60; at += 60 {
		o.label[d.id][int64(at)/60] = d.label(zone.Text(at))
	}
}

func (d *deal) label(local string) string {
	if d.cycle == "hourly" {
		return local[:13] + local[19:]
	}
	return local[:10]
}

// book is what one lease holds now.
type book struct {
	running bool
	began   span.Second
	holds   map[string]int64 // as stated, milli by device
	stack   []part           // what is held while running, oldest first
}

// part is some milli of a device from one fact on; granted is what the device has left for it.
type part struct {
	device         string
	milli, granted int64
	began          span.Second
	position       int
	lease          string
}

// turn applies a change; the milli that were held in the second before are those of the stack as it stands.
func (o *oracle) turn(l *tenancy, b *book, st *step) {
	position := o.w.position[st.key]
	switch st.kind {
	case "start", "hold":
		b.holds = map[string]int64{}
		for d, milli := range st.holds {
			b.holds[d] = milli * max(1, st.count)
		}
		if st.kind == "start" {
			b.running, b.began = true, st.at
		}
	case "resume":
		b.running, b.began = true, st.at
	case "suspend":
		o.end(l, b, st.at, fact.ByCustomer)
	case "stop":
		o.end(l, b, st.at, st.by)
	}
	if !b.running {
		b.stack = nil
		return
	}
	for _, d := range []string{"", l.id + "-a", l.id + "-b", "shared-a", "shared-b"} {
		b.hold(d, part{device: d, began: st.at, position: position, lease: l.id})
	}
}

// hold brings a device to what is stated: more is a new part, less takes from the newest.
func (b *book) hold(device string, fresh part) {
	excess := -b.holds[device]
	for _, p := range b.stack {
		if p.device == device {
			excess += p.milli
		}
	}
	if excess < 0 {
		fresh.milli = -excess
		b.stack = append(b.stack, fresh)
		return
	}
	for i := len(b.stack) - 1; i >= 0 && excess > 0; i-- {
		if b.stack[i].device != device {
			continue
		}
		take := min(excess, b.stack[i].milli)
		b.stack[i].milli -= take
		excess -= take
	}
	b.stack = slices.DeleteFunc(b.stack, func(p part) bool { return p.milli == 0 })
}

// share gives every device's 1,000 milli to who began first.
func (o *oracle) share(books []book) {
	var all []*part
	for i := range books {
		for k := range books[i].stack {
			all = append(all, &books[i].stack[k])
		}
	}
	slices.SortFunc(all, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.position, b.position), cmp.Compare(a.lease, b.lease))
	})
	room := map[string]int64{}
	for _, p := range all {
		p.granted = p.milli
		if p.device == "" {
			continue
		}
		if _, known := room[p.device]; !known {
			room[p.device] = 1000
		}
		p.granted = min(p.milli, room[p.device])
		room[p.device] -= p.granted
	}
}

func (o *oracle) deal(customer string) *deal {
	i := slices.IndexFunc(o.w.deals, func(d deal) bool { return d.customer == customer })
	return &o.w.deals[i]
}

// second bills one second of a lease.
func (o *oracle) second(l *tenancy, b *book, at span.Second) {
	if !b.running {
		return
	}
	d := o.deal(l.customer)
	period := o.label[d.id][int64(at)/60]
	reason := ""
	if d.west && l.region != "west" {
		reason = "no_region"
	}
	for i := range b.stack {
		p := &b.stack[i]
		standing := "refused"
		if slices.ContainsFunc(l.waived, func(s span.Span) bool { return s.Contains(at) }) {
			standing = "waived"
		}
		granted := standing
		if reason == "" {
			granted = "priced"
		}
		o.add(heldKey{l.id, p.device, d.id, period, reason, granted}, p.granted, at)
		o.add(heldKey{l.id, p.device, d.id, period, cmp.Or(reason, "overlap"), standing}, p.milli-p.granted, at)
		if reason == "" {
			o.charge(lineKey{d.id, period, l.sku, l.region}, p.granted, d, at)
		}
	}
}

func (o *oracle) add(k heldKey, milli int64, at span.Second) {
	if milli == 0 {
		return
	}
	c := o.held[k]
	c.leased += milli
	switch states := o.state[k.device]; {
	case states == nil || states[at-o.w.from] == 0:
		c.missing += milli
	case states[at-o.w.from] == seen:
		c.measured += milli
	default:
		c.inferred += milli
	}
	o.held[k] = c
}

// What is known of a device in a second.
const (
	seen     = 1
	inferred = 2
)

// look notes what all views say of a view's device: an unseen second is inferred when the nearest seen ones, within ten
// seconds before and after, are of one run.
func (o *oracle) look(v *view, until span.Second) {
	run := func(at span.Second) uint64 {
		for i := range o.w.views {
			if other := &o.w.views[i]; other.device == v.device && other.sees(at) {
				return other.run
			}
		}
		return 0
	}
	near := func(at, step span.Second) uint64 {
		for i := span.Second(1); i <= 10; i++ {
			if r := run(at + i*step); r != 0 {
				return r
			}
		}
		return 0
	}
	if o.state[v.device] == nil {
		o.state[v.device] = make([]byte, until-o.w.from)
	}
	for at := max(o.w.from, v.in.From-10); at < min(until, v.in.To+10); at++ {
		before, after := near(at, -1), near(at, 1)
		switch {
		case run(at) != 0:
			o.state[v.device][at-o.w.from] = seen
		case before != 0 && before == after:
			o.state[v.device][at-o.w.from] = inferred
		}
	}
}

// charge adds milli-seconds at the price in force at an instant.
func (o *oracle) charge(k lineKey, milliSeconds int64, d *deal, at span.Second) {
	cents := d.prices[0].cents
	for _, p := range d.prices[1:] {
		if p.from <= at {
			cents = p.cents
		}
	}
	o.sold[soldKey{k, cents}] += milliSeconds
}

// amount is the exact amount of a line: the sum over its prices.
func (o *oracle) amount(d *deal, k lineKey) *big.Rat {
	sum := new(big.Rat)
	for s, milliSeconds := range o.sold {
		if s.lineKey != k {
			continue
		}
		price := big.NewRat(s.cents, 100*3600*1000)
		if k.sku == "h100" {
			price.Mul(price, big.NewRat(2, 1))
		}
		if d.west {
			price.Mul(price, big.NewRat(88, 100))
		}
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(milliSeconds)))
	}
	return sum
}

// end charges what a start's minimum and granularity add, at the instant of the stop, for what the device had left for it.
func (o *oracle) end(l *tenancy, b *book, at span.Second, by fact.EndedBy) {
	if !b.running {
		return
	}
	b.running = false
	d := o.deal(l.customer)
	if by == fact.ByProvider || by == fact.ByFault || d.west && l.region != "west" {
		return
	}
	elapsed := int64(at - b.began)
	billable := elapsed
	for billable%d.granularity != 0 {
		billable++
	}
	billable = max(billable, d.minimum)
	for _, p := range b.stack {
		o.charge(lineKey{d.id, o.label[d.id][int64(at)/60], l.sku, l.region}, p.granted*(billable-elapsed), d, at)
	}
}

// total is the invoice of a period: every line rounded alone.
func (o *oracle) total(d *deal, period string) string {
	rounding, err := money.ParseRounding(d.rounding)
	if err != nil {
		panic(err)
	}
	sum := money.FromMinor(new(big.Int), "USD")
	for _, sku := range []string{"a100", "h100"} {
		for _, region := range []string{"west", "east"} {
			sum = sum.Add(money.New(o.amount(d, lineKey{d.id, period, sku, region}), "USD").Round(rounding))
		}
	}
	return sum.String()
}
