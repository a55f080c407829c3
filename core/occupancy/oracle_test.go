package occupancy

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// horizon bounds the instants that are drawn, so that every second can be looked at.
const horizon span.Second = 40

// thousandth is one milli of a unit: the oracle keeps each one alone, the newest last.
type thousandth struct {
	Began span.Second
	Seq   uint64
}

// oracle walks one lease's facts a second at a time.
type oracle struct {
	terms    *drawnTerms
	held     map[Unit][]thousandth
	wanted   map[Unit]int
	state    fact.LeaseState
	entered  uint64
	holds    bool
	over     bool
	started  *fact.LeaseStarted
	starts   []span.Span
	last     []fact.LeaseState // of the starts: in which state each was last
	problems int
}

// drawnTerms say of every second whether a lease that does not run holds its GPUs.
type drawnTerms struct {
	bills map[fact.LeaseState][horizon]bool
	edges []span.Second
}

func (x *drawnTerms) Holds(_ *fact.LeaseStarted, state fact.LeaseState, at span.Second) bool {
	return state == fact.Running || x.bills[state][min(at, horizon-1)]
}

func (x *drawnTerms) VersionEdges(dst []span.Second, _, _ string, s span.Span) []span.Second {
	for _, at := range x.edges {
		if s.From < at && at < s.To {
			dst = append(dst, at)
		}
	}
	return dst
}

// drawTerms changes its mind up to twice.
func drawTerms(t *rapid.T) *drawnTerms {
	x := &drawnTerms{bills: map[fact.LeaseState][horizon]bool{}}
	for range rapid.IntRange(0, 2).Draw(t, "amendments") {
		x.edges = append(x.edges, span.Second(rapid.Int64Range(1, int64(horizon)-1).Draw(t, "effective")))
	}
	for _, state := range []fact.LeaseState{fact.Suspended, fact.Halted} {
		var bills [horizon]bool
		for at := range bills {
			bills[at] = at > 0 && bills[at-1]
			if at == 0 || slices.Contains(x.edges, span.Second(at)) {
				bills[at] = rapid.Bool().Draw(t, "bills")
			}
		}
		x.bills[state] = bills
	}
	return x
}

func consult(terms *drawnTerms, facts []fact.Fact, until span.Second) *oracle {
	o := &oracle{terms: terms, held: map[Unit][]thousandth{}, wanted: map[Unit]int{}}
	var first uint64
	for _, f := range facts {
		if s, ok := f.Body.(*fact.LeaseStarted); ok && (o.started == nil || f.Seq < first) {
			o.started, first = s, f.Seq
		}
	}
	for at := span.Second(0); at <= until; at++ {
		for _, start := range [2]bool{true, false} {
			for _, f := range facts { // in order of position
				if _, is := f.Body.(*fact.LeaseStarted); is == start && At(f.Body) == at {
					o.step(f, at)
				}
			}
		}
		o.turn(at)
	}
	return o
}

func (o *oracle) step(f fact.Fact, at span.Second) {
	if b, ok := f.Body.(*fact.LeaseStarted); ok {
		if b != o.started {
			o.problems++
			return
		}
		o.want(b.Lease, b.Devices, b.Count*b.ShareMilli)
		o.enter(fact.Running, at, f.Seq)
		return
	}
	if o.over || o.started == nil || at < o.started.At {
		o.problems++
		return
	}
	switch b := f.Body.(type) {
	case *fact.LeaseResized:
		o.want(b.Lease, b.Devices, b.Count*b.ShareMilli)
		o.fit(at, f.Seq)
	case *fact.LeaseStateChanged:
		o.enter(b.State, at, f.Seq)
	case *fact.LeaseStopped:
		o.halt(at)
		o.state, o.over = "", b.By != fact.ByFault
	}
}

func (o *oracle) enter(state fact.LeaseState, at span.Second, seq uint64) {
	o.state, o.entered = state, seq
	o.turn(at)
}

// turn holds or lets go by what the terms say of the second.
func (o *oracle) turn(at span.Second) {
	if o.state == "" || !o.terms.Holds(nil, o.state, at) {
		o.halt(at)
		return
	}
	if !o.holds {
		o.run(at, o.entered)
	}
	o.last[len(o.last)-1] = o.state
}

func (o *oracle) want(lease string, devices []fact.Share, unplaced int64) {
	clear(o.wanted)
	for _, d := range devices {
		o.wanted[Unit{Device: d.Device}] = int(d.ShareMilli)
	}
	if len(devices) == 0 {
		o.wanted[Unit{Lease: lease}] = int(unplaced)
	}
}

func (o *oracle) run(at span.Second, seq uint64) {
	o.holds = true
	o.last = append(o.last, "")
	o.starts = append(o.starts, span.Span{From: at, To: span.Open})
	o.fit(at, seq)
}

func (o *oracle) halt(at span.Second) {
	if o.holds {
		o.starts[len(o.starts)-1].To = at
	}
	o.holds = false
	clear(o.held)
}

// fit takes the newest away and adds new ones until every unit has what is wanted.
func (o *oracle) fit(at span.Second, seq uint64) {
	if !o.holds {
		return
	}
	for u, list := range o.held {
		o.held[u] = list[:min(len(list), o.wanted[u])]
	}
	for u, n := range o.wanted {
		for len(o.held[u]) < n {
			o.held[u] = append(o.held[u], thousandth{at, seq})
		}
	}
}

// heldAs is a thousandth and the state in which its lease holds it.
type heldAs struct {
	thousandth
	State fact.LeaseState
}

// at is who holds how many milli of a unit at a second, told apart by when they began.
func (o *oracle) at(u Unit) map[heldAs]int64 {
	out := map[heldAs]int64{}
	for _, m := range o.held[u] {
		out[heldAs{m, o.state}]++
	}
	return out
}

func units(lease string) []Unit { return []Unit{{Device: "A"}, {Device: "B"}, {Lease: lease}} }

func heldIn(b *Book, u Unit, at span.Second) map[heldAs]int64 {
	out := map[heldAs]int64{}
	for _, tr := range b.On(nil, u, second(at)) {
		out[heldAs{thousandth{tr.Began, tr.Seq}, tr.State}] += tr.Milli
	}
	return out
}

// drawFact states something of a lease, from the hundred possibilities that matter.
func drawFact(t *rapid.T, lease string, seq uint64) fact.Fact {
	at := span.Second(rapid.Int64Range(1, int64(horizon)-1).Draw(t, "at"))
	var devices []fact.Share
	var count, share int64
	for _, name := range rapid.SampledFrom([][]string{{"A"}, {"B"}, {"A", "B"}, nil}).Draw(t, "devices") {
		devices = append(devices, fact.Share{Node: "n-" + name, Device: name, ShareMilli: rapid.Int64Range(1, 5).Draw(t, "share")})
	}
	if devices == nil {
		count, share = rapid.Int64Range(1, 3).Draw(t, "count"), 2
	}
	f := fact.Fact{Seq: seq, Key: fmt.Sprintf("%s/%d", lease, seq)}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		f.Body = &fact.LeaseStarted{Lease: lease, Customer: "acme", At: at, Devices: devices, Count: count, ShareMilli: share}
	case 2, 3, 4, 5:
		f.Body = &fact.LeaseResized{Lease: lease, At: at, Devices: devices, Count: count, ShareMilli: share}
	case 6, 7, 8:
		state := rapid.SampledFrom([]fact.LeaseState{fact.Running, fact.Suspended, fact.Halted}).Draw(t, "state")
		f.Body = &fact.LeaseStateChanged{Lease: lease, At: at, State: state}
	default:
		by := rapid.SampledFrom([]fact.EndedBy{fact.ByCustomer, fact.ByProvider, fact.ByFault}).Draw(t, "by")
		f.Body = &fact.LeaseStopped{Lease: lease, At: at, By: by}
	}
	return f
}

func drawFacts(t *rapid.T, lease string) []fact.Fact {
	start := &fact.LeaseStarted{Lease: lease, Customer: "acme", At: 3, Devices: []fact.Share{{Node: "n-A", Device: "A", ShareMilli: 4}}}
	facts := []fact.Fact{{Seq: 1, Key: lease + "/1", Body: start}}
	if rapid.IntRange(0, 5).Draw(t, "no start") == 0 {
		facts = nil
	}
	for range rapid.IntRange(0, 8).Draw(t, "facts") {
		facts = append(facts, drawFact(t, lease, uint64(len(facts)+1)))
	}
	return facts
}

// TestTimelineAgainstSeconds holds the book against the oracle: in any order of arrival, every second of every unit is
// held by the same tranches, starts are the same, and what could not be taken is counted.
func TestTimelineAgainstSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts, terms := drawFacts(t, "L"), drawTerms(t)
		book := NewBook(terms)
		for _, i := range rapid.Permutation(indexes(facts)).Draw(t, "arrival") {
			book.Apply(facts[i])
		}
		for at := span.Second(0); at < horizon; at++ {
			now := consult(terms, facts, at)
			for _, u := range units("L") {
				if diff := gocmp.Diff(now.at(u), heldIn(book, u, at)); diff != "" {
					t.Fatalf("%v at second %d (-oracle +book):\n%s", u, at, diff)
				}
			}
		}
		want, got := consult(terms, facts, horizon), book.Lease("L")
		if got == nil {
			return // nothing was stated
		}
		var starts []span.Span
		for i, s := range got.Starts {
			if starts = append(starts, s.Span); i >= len(want.last) {
				break
			}
			last := want.last[i] // of a start without length
			switch {
			case s.Span.To == span.Open:
				last = ""
			case !s.Span.Empty():
				last = consult(terms, facts, s.Span.To-1).state
			}
			if s.State != last {
				t.Fatalf("start %v was in state %q, the oracle says %q", s.Span, s.State, last)
			}
		}
		if diff := gocmp.Diff(want.starts, starts); diff != "" || want.problems != len(got.Problems) {
			t.Fatalf("starts (-oracle +book):\n%s%d problems, the oracle counts %d", diff, len(got.Problems), want.problems)
		}
	})
}

func indexes(facts []fact.Fact) []int {
	out := make([]int, len(facts))
	for i := range out {
		out[i] = i
	}
	return out
}

// look is everything that can be billed of one unit's second.
func look(b *Book, u Unit, at span.Second) string {
	var out []string
	for _, tr := range b.On(nil, u, second(at)) {
		out = append(out, fmt.Sprintf("%s holds %d since %d/%d, %s", tr.Lease.ID, tr.Milli, tr.Began, tr.Seq, tr.State))
	}
	for _, e := range b.Ended(u, second(at)) {
		out = append(out, fmt.Sprintf("%s ended %v %v by %s, %v, %s", e.Lease.ID, e.Start.Span, e.Milli, e.Start.EndedBy, e.Start.AfterFault, e.Start.State))
	}
	for _, id := range []string{"L", "M"} {
		mine := func(s string) bool { return s[:1] == id }
		if l := b.Lease(id); l != nil && slices.ContainsFunc(out, mine) && slices.ContainsFunc(l.Waivers, func(w span.Span) bool { return w.Contains(at) }) {
			out = append(out, id+" waived")
		}
	}
	if len(out) > 0 {
		out = append(out, fmt.Sprintf("%d are saleable", b.Saleable(u, at)))
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

// drawDeclaration oversells a device of the world or keeps a part of it back.
func drawDeclaration(t *rapid.T, seq uint64) fact.Fact {
	at := span.Second(rapid.Int64Range(1, int64(horizon)-1).Draw(t, "declared at"))
	device, milli := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "declared"), rapid.SampledFrom([]int64{1, 900, 1000, 2000}).Draw(t, "saleable")
	return fact.Fact{Seq: seq, Key: fmt.Sprint("declared/", seq), Body: &fact.DeviceDeclared{Device: device, At: at, SaleableMilli: milli}}
}

// TestSaleableAgainstSeconds: in any order of arrival each second has what was declared last up to it, and an edge where anything was.
func TestSaleableAgainstSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var facts []fact.Fact
		for range rapid.IntRange(0, 6).Draw(t, "declarations") {
			facts = append(facts, drawDeclaration(t, uint64(len(facts)+1)))
		}
		book := NewBook(nil)
		for _, i := range rapid.Permutation(indexes(facts)).Draw(t, "arrival") {
			book.Apply(facts[i])
		}
		for _, device := range []string{"A", "B"} {
			want := int64(1000)
			for at := span.Second(0); at < horizon; at++ {
				var edges []span.Second
				for _, f := range facts { // in order of position
					if d := f.Body.(*fact.DeviceDeclared); d.Device == device && d.At == at {
						want, edges = d.SaleableMilli, append(edges, at)
					}
				}
				got := book.SaleableEdges(nil, Unit{Device: device}, second(at))
				if saleable := book.Saleable(Unit{Device: device}, at); saleable != want || !slices.Equal(got, edges) {
					t.Fatalf("at %d %d of %s are saleable with edges %v, want %d with %v", at, saleable, device, got, want, edges)
				}
			}
		}
		if saleable := book.Saleable(Unit{Lease: "L"}, 5); saleable < 65536*fact.WholeShareMilli {
			t.Fatalf("an unplaced lease may have %d", saleable)
		}
	})
}

// TestTouchedCoversEveryChange: looking again only at what was touched is as good as looking at everything.
func TestTouchedCoversEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var facts []fact.Fact
		for _, lease := range []string{"L", "M"} {
			facts = append(facts, drawFacts(t, lease)...)
		}
		for _, lease := range []string{"L", "M"} {
			from := span.Second(rapid.Int64Range(1, 30).Draw(t, "waived"))
			facts = append(facts, fact.Fact{Key: "w/" + lease, Body: &fact.RefusalWaived{Lease: lease, From: from, To: from + 9}})
		}
		for range rapid.IntRange(0, 3).Draw(t, "declarations") {
			facts = append(facts, drawDeclaration(t, uint64(len(facts)+1)))
		}
		terms := drawTerms(t)
		book := NewBook(terms)
		all := append(units("L"), Unit{Lease: "M"})
		known := map[Unit]map[span.Second]string{}
		for _, u := range all {
			known[u] = map[span.Second]string{}
			for at := span.Second(0); at < horizon; at++ {
				known[u][at] = look(book, u, at)
			}
		}
		amended := rapid.IntRange(0, len(facts)).Draw(t, "amended after")
		for n, i := range rapid.Permutation(indexes(facts)).Draw(t, "arrival") {
			touched := book.Apply(facts[i])
			if n == amended {
				*terms = *drawTerms(t)
				book.Changing(func(l *Lease) { touched = append(touched, book.Reconsider(l)...) })
			}
			for _, c := range touched {
				for at := c.Span.From; at < min(c.Span.To, horizon); at++ {
					known[c.Unit][at] = look(book, c.Unit, at)
				}
			}
			for _, u := range all {
				for at := span.Second(0); at < horizon; at++ {
					if now := look(book, u, at); now != known[u][at] {
						t.Fatalf("%s changed %v at %d without a touch:\nwas %s\nnow %s", facts[i].Key, u, at, known[u][at], now)
					}
				}
			}
			checkSearches(t, book, all)
		}
	})
}

// checkSearches holds Extent, Live and Node against a look at every second.
func checkSearches(t *rapid.T, book *Book, all []Unit) {
	for _, u := range all {
		e := span.Span{From: span.Open}
		for at := span.Second(0); at < horizon; at++ {
			if look(book, u, at) != "[]" {
				e = span.Span{From: min(e.From, at), To: at + 1}
			}
		}
		got := book.Extent(u)
		open := slices.ContainsFunc(book.On(nil, u, second(horizon)), func(tr Tranche) bool { return tr.Span.To == span.Open })
		switch {
		case e.Empty() != got.Empty():
			t.Fatalf("%v: extent %v, seconds say %v", u, got, e)
		case !e.Empty() && (got.From != e.From || open != (got.To == span.Open) || !open && got.To != e.To):
			t.Fatalf("%v: extent %v, seconds say %v", u, got, e)
		}
		node := ""
		if u.Device != "" && book.On(nil, u, span.Span{From: 0, To: horizon}) != nil {
			node = "n-" + u.Device
		}
		if got := book.Node(u, horizon); got != node {
			t.Fatalf("%v is on node %q, want %q", u, got, node)
		}
	}
	for _, from := range []span.Second{0, 20, horizon} {
		copied := *book
		copied.live = map[Unit]bool{}
		for u := range book.live {
			copied.live[u] = true
		}
		var want []Unit
		for _, u := range all {
			if book.Extent(u).To > from {
				want = append(want, u)
			}
		}
		slices.SortFunc(want, func(a, b Unit) int { return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Lease, b.Lease)) })
		if got := copied.Live(from); !slices.Equal(got, want) {
			t.Fatalf("live from %d: %v, want %v", from, got, want)
		}
	}
}
