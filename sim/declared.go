package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
)

// nowhere is a node that no lease names. guestLease begins the names of leases that crowd a device, those of the market behind its own
// letter.
const (
	nowhere    = "nowhere"
	guestLease = "G"
)

// What the fifth stream of dice draws, by the names of the figures.
const (
	raised     = "declaration that raises what is saleable"
	lowered    = "declaration that lowers it"
	repeated   = "declaration that changes nothing"
	below      = "declaration below 1000"
	takenBack  = "declaration of 1000 that takes one back"
	sameSecond = "declaration in the second of another one of its device"
	afterwards = "declaration known more than an hour late"
	unnamed    = "declaration of a device that no lease names"
	guests     = "lease that crowds a declared device"
)

// writeDeclarations declares devices in some stories and crowds them with leases, from dice of its own: without a crowd declarations
// would seldom decide.
func (a *author) writeDeclarations(seed uint64) {
	a.dice = rand.New(rand.NewPCG(seed, 13)) // so that the seeds of TestLaterRegressions draw nothing here and stay the histories they were
	if !a.one(4) && (!a.market || a.one(2)) {
		return
	}
	for i := range a.nodes {
		n := &a.nodes[i]
		likes := a.sold(n.name == market)
		for k := range 2 {
			if len(likes) > 0 && a.one(2) {
				a.sellOut(n, k, likes)
			}
		}
	}
	if a.one(4) {
		a.declare(nowhere+"/gpu0", a.from)
		a.drawn[unnamed]++
	}
}

// sold are the leases of the market, or of all others, after which more can be made. Nobody prices an x9 for sure.
func (a *author) sold(ofTheirs bool) (out []*fact.LeaseStarted) {
	for _, e := range a.events {
		start, ok := e.body.(*fact.LeaseStarted)
		if ok && !e.repeat && !e.twin && ofMarket(start.Lease) == ofTheirs && start.SKU != "x9" {
			out = append(out, start)
		}
	}
	return out
}

// sellOut declares a device around an instant at which it is leased several times.
func (a *author) sellOut(n *node, k int, likes []*fact.LeaseStarted) {
	around := int64(pick(a.dice, likes...).At)
	for _, l := range likes {
		if slices.ContainsFunc(l.Devices, func(s fact.Share) bool { return s.Device == n.device(k) }) {
			around = int64(l.At)
		}
	}
	edges := []int64{around}
	crowd := pick(a.dice, 1, 2, 2, 3, 3)
	for range crowd {
		empty := crowd == 1 && !a.one(3) // a start without length that nobody else's time lies around
		edges = append(edges, a.guest(n, k, *pick(a.dice, likes...), around, empty)...)
	}
	a.declare(n.device(k), edges...)
}

// guest draws a lease of a device after the example of another one, and lists the instants at which it changes. An empty one ends in its
// own second.
func (a *author) guest(n *node, k int, start fact.LeaseStarted, around int64, empty bool) (edges []int64) {
	a.drawn[guests]++
	id := fmt.Sprintf("%s%d", guestLease, a.drawn[guests])
	if n.name == market {
		id = marketLease + id
	}
	at := around + pick(a.dice, 0, a.dice.Int64N(60), a.dice.Int64N(600), -a.dice.Int64N(300))
	start.Lease, start.At, start.Count, start.ShareMilli, start.Devices = id, span.Second(at), 0, 0, a.crowding(n, k)
	a.state(at, id, id, &start, nil)
	edges = append(edges, at)
	changes, rest := pick(a.dice, 0, 0, 1, 2), pick(a.dice, 0, a.dice.Int64N(200), a.dice.Int64N(900))
	if empty {
		changes, rest = 0, 0
	}
	running := true
	for change := range changes {
		at += 1 + a.dice.Int64N(300)
		key := fmt.Sprintf("%s/%d", id, change)
		edges = append(edges, at)
		if a.one(2) {
			a.state(at, id, key, &fact.LeaseResized{Lease: id, At: span.Second(at), Devices: a.crowding(n, pick(a.dice, k, k, k, 1-k))}, nil)
			continue
		}
		state := fact.Running
		if running {
			state = fact.Suspended
		}
		running = !running
		a.state(at, id, key, &fact.LeaseStateChanged{Lease: id, At: span.Second(at), State: state}, nil)
	}
	if at += rest; changes > 0 {
		at++ // what runs again behind a stop by a fault would never end
	}
	a.stop(id, id, at)
	return append(edges, at)
}

// crowding is a share of a device, at times of the node's other one too.
func (a *author) crowding(n *node, k int) (out []fact.Share) {
	for other := range 2 {
		if other == k || a.one(5) {
			out = append(out, fact.Share{Node: n.name, Device: n.device(other), ShareMilli: pick(a.dice, int64(1000), 1000, 700, 500, 143)})
		}
	}
	return out
}

// declare says several times what is saleable of a device: mostly at an edge of what it is leased for or in between, and often long
// before, at times late or in the second of another declaration.
func (a *author) declare(device string, edges ...int64) {
	at := pick(a.dice, edges...)
	if a.one(2) {
		at = slices.Min(edges) - a.dice.Int64N(day)
	}
	said := map[int64]int64{}
	for k := range 1 + a.dice.IntN(4) {
		if k > 0 && !a.one(6) {
			at = pick(a.dice, edges...) + pick(a.dice, 0, 0, 1, a.dice.Int64N(300), -a.dice.Int64N(300))
		}
		milli := pick(a.dice, int64(2000), 2000, 3000, 1500, 64_000, 700, 500, 143, 1)
		if k > 0 && a.one(4) {
			milli = 1000
		}
		a.tell(said, at, milli)
		name := fmt.Sprintf("%s/declared-%d", device, k)
		body := &fact.DeviceDeclared{Device: device, At: span.Second(at), SaleableMilli: milli}
		a.state(at+pick(a.dice, 0, -a.dice.Int64N(hour), a.dice.Int64N(8*hour)), name, name, body, func() fact.Body {
			other := *body
			if other.At += span.Second(pick(a.dice, 0, 60)); other.At == body.At {
				other.SaleableMilli = pick(a.dice, int64(1000), 4000, 400)
			}
			return &other
		})
	}
}

// tell counts what a declaration changes of those drawn before, as if none were late or contradicted.
func (a *author) tell(said map[int64]int64, at, milli int64) {
	before, latest := int64(1000), int64(-1)
	for when, was := range said {
		if when <= at && when > latest {
			before, latest = was, when
		}
	}
	what := repeated
	switch {
	case milli == 1000 && before != 1000:
		what = takenBack
	case milli > before:
		what = raised
	case milli < before:
		what = lowered
	}
	a.drawn[what]++
	if milli < 1000 {
		a.drawn[below]++
	}
	if latest == at {
		a.drawn[sameSecond]++
	}
	said[at] = milli
}

// decided is what declarations made of the time of leases on devices, in milli-GPU-seconds by both, top-ups left away: sold, or refused,
// which it would not be if every device were sold once.
type decided struct{ sold, refused map[string]int64 }

func newDecided() decided { return decided{map[string]int64{}, map[string]int64{}} }

// weigh adds time sold, and what it would be without declarations.
func (d decided) weigh(name string, sold, undeclared int64) {
	switch {
	case sold > undeclared:
		d.sold[name] += sold - undeclared
	case sold < undeclared:
		d.refused[name] += undeclared - sold
	}
}

// count puts them into the figures, of plain tenants or of the market.
func (d decided) count(f *Figures, whose string) {
	for what, list := range map[string]map[string]int64{"sold": d.sold, "refused": d.refused} {
		if len(list) == 0 {
			continue
		}
		total := int64(0)
		for _, milliSeconds := range list {
			total += milliSeconds
		}
		f.count(fmt.Sprintf("declared: seeds with time %s by it, of %s", what, whose), 1)
		f.count(fmt.Sprintf("declared: leases of a device with time %s by it, of %s", what, whose), len(list))
		f.count(fmt.Sprintf("declared: GPU-seconds %s by it, of %s", what, whose), int(total/1000))
	}
}

// weighMarket holds the market's time against the same log without declarations, for the figures.
func (r *road) weighMarket(world *slow.World, s *samples) {
	w, declared := r.watch, false
	facts := slices.DeleteFunc(slices.Clone(w.facts), func(f fact.Fact) bool {
		b, ok := f.Body.(*fact.DeviceDeclared)
		declared = declared || ok && strings.HasPrefix(b.Device, market)
		return ok
	})
	if !declared {
		return
	}
	without, d := slowly(facts, s.market, span.Second(w.last)), newDecided()
	for _, p := range w.market {
		is, was := pricedBy(world, p.Span), pricedBy(without, p.Span)
		for name := range is {
			d.weigh(name, is[name], was[name])
		}
		for name := range was {
			if _, both := is[name]; !both {
				d.weigh(name, 0, was[name])
			}
		}
	}
	d.count(&r.figures, "the market")
}

// pricedBy is what a period sells, by lease and device.
func pricedBy(world *slow.World, p span.Span) map[string]int64 {
	out := map[string]int64{}
	if s := statementOf(world, p); s != nil {
		for c, milliSeconds := range s.Leased {
			if c.Standing == "priced" {
				out[c.Lease+" "+c.Device] += milliSeconds
			}
		}
	}
	return out
}

// allDeclared: a declaration of a device that no lease names is listed, and no other.
func (r *road) allDeclared() error {
	open, err := r.tables.OpenRefusals(context.Background(), every)
	if err != nil {
		return err
	}
	listed, named := map[string]int64{}, map[string]bool{}
	for _, x := range open {
		if x.Reason == "unknown_device" {
			listed[x.ID] += x.Delta
		}
	}
	for _, f := range r.watch.facts {
		var devices []fact.Share
		switch b := f.Body.(type) {
		case *fact.LeaseStarted:
			devices = b.Devices
		case *fact.LeaseResized:
			devices = b.Devices
		}
		for _, d := range devices {
			named[d.Device] = true
		}
	}
	var wrong []string
	for _, f := range r.watch.facts {
		b, ok := f.Body.(*fact.DeviceDeclared)
		if !ok {
			continue
		}
		want := int64(1)
		if named[b.Device] {
			want = 0
		}
		if listed[f.Key] != want {
			wrong = append(wrong, fmt.Sprintf("declaration %s is listed %d times as of an unknown device, not %d times", f.Key, listed[f.Key], want))
		}
		delete(listed, f.Key)
	}
	for key := range listed {
		wrong = append(wrong, fmt.Sprintf("%s is listed as of an unknown device and is no declaration", key))
	}
	return first(wrong)
}
