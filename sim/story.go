package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	_ "time/tzdata" // the auditor's zones are not the product's

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

const (
	hour = int64(3600)
	day  = 24 * hour
)

// event is a fact and the second at which somebody states it.
type event struct {
	known  int64
	key    string
	body   fact.Body
	group  string // what it goes with when a history is made smaller
	twin   bool   // says something else under the key of an earlier event
	repeat bool   // says the same again
}

// story is everything that happens to a world by itself; what services decide comes on top.
type story struct {
	from, to int64 // leases and samples lie around in here
	events   []event
	nodes    []node
	terms    map[string]*terms // by document
	restore  bool              // the log comes back from an older copy once
	rebuild  bool              // the tables are lost once
	clocks   int               // who tick
	invoicer int               // who invoice
	raters   int
	wall     bool           // the log follows a wall clock
	noisy    []noise        // in order of when they are sent
	market   bool           // the market is in it
	drawn    map[string]int // of the later streams, for the figures
}

// Parts of a story that are no events, by the name under which they can be left out.
const (
	aRestore       = "the restore"
	aRebuild       = "the loss of the tables"
	secondClock    = "the second clock"
	secondInvoicer = "the second invoicer"
)

// groups names what can be left out.
func (s *story) groups() []string {
	out := []string{aRestore, aRebuild, secondClock, secondInvoicer, secondRater, wallClock, noises}
	for i := range s.nodes {
		out = append(out, "node "+s.nodes[i].name, "clone of "+s.nodes[i].name)
	}
	for _, e := range s.events {
		out = append(out, e.group, e.key)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *story) leaveOut(without map[string]bool) {
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return without[e.group] || without[e.key] })
	s.restore, s.rebuild = s.restore && !without[aRestore], s.rebuild && !without[aRebuild]
	if without[secondClock] {
		s.clocks = 1
	}
	if without[secondInvoicer] {
		s.invoicer = 1
	}
	if without[secondRater] {
		s.raters = 1
	}
	if without[noises] {
		s.noisy = nil
	}
	s.wall = s.wall && !without[wallClock]
}

// node is a machine with two devices and a collector that runs in some spans.
type node struct {
	name   string
	up     []span.Span
	idle   []span.Span    // nothing runs on it
	away   []span.Span    // the log cannot be reached
	holes  [2][]span.Span // the device was not seen
	cloned bool           // a second collector uses the name
}

func (n *node) device(k int) string { return fmt.Sprintf("%s/gpu%d", n.name, k) }

func in(list []span.Span, at int64) bool {
	return slices.ContainsFunc(list, func(s span.Span) bool { return s.Contains(span.Second(at)) })
}

// says is what the machine measures: whether a device is seen in a second, and how busy it is, -1 when that is not readable.
func (n *node) says(k int, at int64) (busy int64, seen bool) {
	if in(n.holes[k], at) {
		return 0, false
	}
	if at%41 < 3 {
		return -1, true
	}
	if in(n.idle, at) {
		return at % 3, true
	}
	return (at*7 + int64(k)*31) % 60, true
}

// author draws a story.
type author struct {
	*story
	dice      *rand.Rand
	contracts int
	signed    []*terms // of each contract
	deals     int      // of the market
}

// starts are seconds near an edge: clocks change in New York and on Lord Howe, months and days end.
func starts() []string {
	return []string{
		"2026-03-08T05:30:00Z", "2026-11-01T04:30:00Z", "2026-04-04T13:20:00Z", "2026-10-03T14:10:00Z",
		"2026-02-28T14:30:00Z", "2026-01-31T22:15:00Z", "2026-12-31T22:40:00Z",
	}
}

func pick[T any](d *rand.Rand, list ...T) T { return list[d.IntN(len(list))] }

// write draws a story; plain is what the first stream of dice draws.
func write(seed uint64, plain bool) *story {
	a := author{story: &story{terms: map[string]*terms{}, clocks: 1, invoicer: 1, raters: 1, drawn: map[string]int{}}, dice: rand.New(rand.NewPCG(seed, 1))}
	from, _ := time.Parse(time.RFC3339, pick(a.dice, starts()...))
	a.from = from.Unix() + a.dice.Int64N(1800)
	a.to = a.from + 2*hour + a.dice.Int64N(hour)
	a.contracts = 1 + a.dice.IntN(3)
	for i := range a.contracts {
		a.contract(i)
	}
	for i := range 1 + a.dice.IntN(3) {
		a.node(i)
	}
	for i := range 2 + a.dice.IntN(5) {
		a.lease(i)
	}
	a.restore, a.rebuild = a.one(7), a.one(6)
	if a.one(3) {
		a.clocks = 2
	}
	if a.one(3) {
		a.invoicer = 2
	}
	if !plain {
		a.writeMore(seed)
		a.writeFees(seed)
		a.writeMarket(seed)
		a.writeDeclarations(seed)
		a.writeKeys(seed)
	}
	slices.SortStableFunc(a.events, func(x, y event) int { return cmp.Compare(x.known, y.known) })
	return a.story
}

func (a *author) one(in int) bool { return a.dice.IntN(in) == 0 }

// state adds an event with the usual accidents: it is known late, stated again, or contradicted under its own key.
func (a *author) state(at int64, group, key string, body fact.Body, other func() fact.Body) {
	known := at
	if a.one(2) {
		known += pick(a.dice, a.dice.Int64N(30), a.dice.Int64N(1200), a.dice.Int64N(2*hour), a.dice.Int64N(4*hour), a.dice.Int64N(day))
	}
	a.events = append(a.events, event{known: known, key: key, body: body, group: group})
	if a.one(6) {
		again := known + a.dice.Int64N(2*hour)
		a.events = append(a.events, event{known: again, key: key, body: body, group: group, repeat: true})
	}
	if other != nil && a.one(12) {
		a.events = append(a.events, event{known: known + 1 + a.dice.Int64N(hour), key: key, body: other(), group: group, twin: true})
	}
}

func (a *author) contract(i int) {
	t := &terms{
		id: fmt.Sprintf("c%d", i), customer: fmt.Sprintf("customer%d", i), currency: pick(a.dice, "USD", "CNY", "JPY", "KWD"),
		zone:  pick(a.dice, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Chatham", "Asia/Shanghai"),
		names: map[int64]string{}, cycle: pick(a.dice, "hourly", "hourly", "hourly", "daily", "daily", "weekly", "monthly"), anchor: 1,
		grace:    pick(a.dice, int64(-1), 0, 0, 60, 600),
		minimum:  pick(a.dice, int64(0), 0, 60, 900),
		rounding: pick(a.dice, "half_away_from_zero", "half_even", "up", "down"), granularity: pick(a.dice, int64(1), 1, 60, 3600),
	}
	t.from = a.from - a.dice.Int64N(2*hour)
	length := map[string]int64{"hourly": 3 * hour, "daily": 30 * hour, "weekly": 5 * day, "monthly": 12 * day}[t.cycle]
	t.to = t.from + length + a.dice.Int64N(length)
	switch t.cycle {
	case "weekly":
		t.anchor = 1 + a.dice.IntN(7)
	case "monthly":
		t.anchor = pick(a.dice, 1, 1, 31, 28)
	}
	t.location, _ = time.LoadLocation(t.zone) // one of the names above
	t.rates = []rate{a.rate("h100"), a.rate("a100")}
	group := "contract " + t.id
	signed := t.from - a.dice.Int64N(hour)
	if a.one(6) {
		signed = a.from + a.dice.Int64N(2*hour) // signed after the fact
	}
	a.terms[t.document()] = t
	a.signed = append(a.signed, t)
	a.state(signed, group, group, &fact.ContractSigned{Contract: t.id, Customer: t.customer, Document: t.document()}, nil)
	for n := range a.dice.IntN(3) {
		a.amend(t, n)
	}
}

// amend changes prices, a minimum or a grace.
func (a *author) amend(t *terms, n int) {
	next := *t
	next.rates = slices.Clone(t.rates)
	next.rates[a.dice.IntN(2)].hundredth = 1 + a.dice.Int64N(9999)
	if a.one(2) {
		next.rates = append(next.rates, a.rate("x9"))
	}
	if a.one(4) {
		next.minimum, next.grace = pick(a.dice, int64(0), 120), pick(a.dice, int64(0), 300)
	}
	a.terms[next.document()] = &next
	effective := a.from + a.dice.Int64N(a.to-a.from)
	group := fmt.Sprintf("amendment %s/%d", t.id, n)
	a.state(effective-a.dice.Int64N(hour), group, group, &fact.ContractAmended{Contract: t.id, Effective: span.Second(effective), Document: next.document()}, nil)
}

func (a *author) rate(sku string) rate {
	r := rate{sku: sku, hundredth: 1 + a.dice.Int64N(9999), unit: pick(a.dice, "gpu-hour", "gpu-hour", "gpu-minute", "gpu-second", "gpu-day", "gpu-week", "gpu-month")}
	if a.one(4) {
		r.region = map[string]int64{"east": 100, "west": 1 + a.dice.Int64N(150)}
	}
	if a.one(4) {
		r.dedicated = 101 + a.dice.Int64N(99)
	}
	return r
}

// edge is a full hour in the world: where most mistakes live.
func (a *author) edge() int64 { return (a.from/hour + 1 + a.dice.Int64N(3)) * hour }

func (a *author) node(i int) {
	n := node{name: fmt.Sprintf("n%d", i), cloned: a.one(12)}
	from := a.edge() - a.dice.Int64N(400)
	for range 1 + a.dice.IntN(2) {
		to := from + 30 + a.dice.Int64N(900)
		n.up = append(n.up, span.Span{From: span.Second(from), To: span.Second(to)})
		for k := range n.holes {
			for range a.dice.IntN(6) {
				hole := from + a.dice.Int64N(to-from)
				n.holes[k] = append(n.holes[k], span.Span{From: span.Second(hole), To: span.Second(hole + pick(a.dice, int64(1), 5, 9, 10, 11, 19, 20, 21, 40))})
			}
			if a.one(2) { // a hole over the full hour
				edge := (from/hour + 1) * hour
				n.holes[k] = append(n.holes[k], span.Span{From: span.Second(edge - a.dice.Int64N(9)), To: span.Second(edge + a.dice.Int64N(9))})
			}
		}
		if a.one(3) {
			cut := from + a.dice.Int64N(to-from)
			n.away = append(n.away, span.Span{From: span.Second(cut), To: span.Second(cut + pick(a.dice, int64(30), 200, 4000, 20000))})
		}
		from = to + a.dice.Int64N(hour)
	}
	a.nodes = append(a.nodes, n)
}
