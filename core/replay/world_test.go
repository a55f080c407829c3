package replay_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

const (
	hour  = 3600
	day   = 24 * hour
	grace = 3 * hour
)

// world is a small random history: who signed what, who held what when, what was seen, and when each became known.
type world struct {
	from, to span.Second // leases begin and change in here
	deals    []deal
	leases   []tenancy
	views    []view
	log      replay.Log
	position map[string]int // of a statement in the log, by key
}

type deal struct {
	id, customer, zone, cycle string
	from                      span.Second // of the term
	minimum, granularity      int64
	rounding                  string
	west                      bool // prices the region west; leases in the east are then refused
	prices                    []pricing
}

// pricing is an hourly price in cents from an instant on.
type pricing struct {
	from  span.Second
	cents int64
}

type tenancy struct {
	id, customer, sku, region string
	steps                     []step
	waived                    []span.Span
}

// step is a change of a lease: start, hold, suspend, resume or stop.
type step struct {
	at    span.Second
	key   string
	kind  string
	by    fact.EndedBy
	holds map[string]int64 // milli by device; "" is unplaced
	count int64            // of an unplaced lease
}

// view is what one run of a node's collector saw of a device.
type view struct {
	node, device string
	run          uint64
	in           span.Span
	gaps         []span.Span
	late         int64
}

func (v *view) sees(t span.Second) bool {
	return v.in.Contains(t) && !slices.ContainsFunc(v.gaps, func(g span.Span) bool { return g.Contains(t) })
}

// shape says what a world may hold.
type shape struct {
	refusals bool  // shared devices and regions without a price
	late     int64 // seconds by which things may become known, beyond the grace when larger
	batch    int64 // seconds of a batch
}

func (d *deal) document(p pricing) string {
	unit := map[int64]string{1: "second", 60: "minute", 3600: "hour"}[d.granularity]
	region := ""
	if d.west {
		region = ", region: {west: 88%}"
	}
	rate := func(sku string, cents int64) string {
		return fmt.Sprintf("{sku: %s, on_demand: %d.%02d/gpu-hour%s}", sku, cents/100, cents%100, region)
	}
	return fmt.Sprintf("{contract: %s, customer: %s, currency: USD, timezone: %s, term: {from: %s, to: 2027-01-01}, "+
		"billing: {cycle: %s, grace: %ds, minimum: %ds, granularity: %s, rounding: %s}, rates: [%s, %s]}",
		d.id, d.customer, d.zone, d.from, d.cycle, grace, d.minimum, unit, d.rounding, rate("a100", p.cents), rate("h100", 2*p.cents))
}

func drawWorld(t *rapid.T, s shape) *world {
	w := &world{position: map[string]int{}}
	from, _ := span.Parse(rapid.SampledFrom([]string{
		"2026-03-07T12:00:00Z", "2026-10-31T12:00:00Z", "2026-04-04T03:00:00Z", "2026-01-30T18:00:00Z",
	}).Draw(t, "from")) // clocks change in New York (twice) and on Lord Howe; a month ends
	w.from, w.to = from, from+day+day/2
	for i := range rapid.IntRange(1, 3).Draw(t, "contracts") {
		w.deals = append(w.deals, drawDeal(t, w, i, s))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "leases") {
		w.leases = append(w.leases, drawLease(t, w, i, s))
	}
	w.state(t, s)
	w.measure(s.batch)
	w.log.Until = w.to + 3*day
	return w
}

func drawDeal(t *rapid.T, w *world, i int, s shape) deal {
	d := deal{
		id: fmt.Sprintf("c%d", i), customer: fmt.Sprintf("customer-%d", i), from: w.from - day,
		zone:        rapid.SampledFrom([]string{"UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Chatham"}).Draw(t, "zone"),
		cycle:       rapid.SampledFrom([]string{"daily", "daily", "hourly"}).Draw(t, "cycle"),
		minimum:     rapid.SampledFrom([]int64{0, 60, 1800}).Draw(t, "minimum"),
		granularity: rapid.SampledFrom([]int64{1, 60, 3600}).Draw(t, "granularity"),
		rounding:    rapid.SampledFrom([]string{"half_away_from_zero", "half_even", "up", "down"}).Draw(t, "rounding"),
		prices:      []pricing{{0, rapid.Int64Range(1, 9999).Draw(t, "cents")}},
		west:        s.refusals && rapid.Bool().Draw(t, "west"),
	}
	if rapid.Bool().Draw(t, "amended") {
		d.prices = append(d.prices, pricing{w.instant(t), rapid.Int64Range(1, 9999).Draw(t, "cents")})
	}
	return d
}

func (w *world) instant(t *rapid.T) span.Second {
	return w.from + span.Second(rapid.Int64Range(0, int64(w.to-w.from)-1).Draw(t, "instant"))
}

func drawLease(t *rapid.T, w *world, i int, s shape) tenancy {
	l := tenancy{
		id: fmt.Sprintf("L%d", i), customer: w.deals[rapid.IntRange(0, len(w.deals)-1).Draw(t, "customer")].customer,
		sku: rapid.SampledFrom([]string{"a100", "h100"}).Draw(t, "sku"), region: "west",
	}
	if s.refusals && rapid.IntRange(0, 5).Draw(t, "region") == 0 {
		l.region = "east"
	}
	devices := []string{l.id + "-a", l.id + "-b"}
	if s.refusals {
		devices = []string{"shared-a", "shared-b"}
	}
	placed := rapid.IntRange(0, 3).Draw(t, "placed") > 0
	running := true
	at := w.instant(t)
	l.steps = append(l.steps, w.hold(t, step{at: at, kind: "start"}, placed, devices))
	for range rapid.IntRange(0, 5).Draw(t, "steps") {
		at += span.Second(rapid.SampledFrom([]int64{1, 59, 3600, 20000}).Draw(t, "pace")) * span.Second(rapid.IntRange(1, 3).Draw(t, "times"))
		if at >= w.to {
			break
		}
		st := step{at: at}
		st.kind = rapid.SampledFrom([]string{"hold", "turn", "stop"}).Draw(t, "kind")
		switch st.kind {
		case "hold":
			st = w.hold(t, st, placed, devices)
		case "turn":
			st.kind = "suspend"
			if !running {
				st.kind = "resume"
			}
			running = !running
		case "stop":
			st.by = rapid.SampledFrom([]fact.EndedBy{fact.ByCustomer, fact.ByProvider, fact.ByFault, fact.ByExpired}).Draw(t, "by")
		}
		l.steps = append(l.steps, st)
		if st.kind == "stop" {
			break
		}
	}
	for s.refusals && rapid.Bool().Draw(t, "waived") {
		from := w.instant(t)
		l.waived = append(l.waived, span.Span{From: from, To: from + span.Second(rapid.Int64Range(1, day).Draw(t, "for"))})
	}
	for k := range l.steps {
		l.steps[k].key = fmt.Sprintf("%s/%d", l.id, k)
	}
	if placed {
		w.look(t, &l, devices[0], s)
	}
	return l
}

func (w *world) hold(t *rapid.T, st step, placed bool, devices []string) step {
	milli := func() int64 { return rapid.SampledFrom([]int64{1000, 500, 143, 600}).Draw(t, "milli") }
	if !placed {
		st.count = rapid.Int64Range(1, 8).Draw(t, "count")
		st.holds = map[string]int64{"": milli()}
		return st
	}
	st.holds = map[string]int64{}
	for _, d := range devices[:rapid.IntRange(1, len(devices)).Draw(t, "devices")] {
		st.holds[d] = milli()
	}
	return st
}

// look draws two runs of a collector around a lease's start, with gaps.
func (w *world) look(t *rapid.T, l *tenancy, device string, s shape) {
	node := "node-" + device
	if slices.ContainsFunc(w.views, func(v view) bool { return v.node == node }) {
		return
	}
	from := l.steps[0].at - span.Second(rapid.Int64Range(0, 300).Draw(t, "early"))
	for run := uint64(1); run <= 2; run++ {
		v := view{node: node, device: device, run: run, in: span.Span{From: from, To: from + span.Second(rapid.Int64Range(1, 4000).Draw(t, "seen"))}}
		for range rapid.IntRange(0, 4).Draw(t, "gaps") {
			at := from + span.Second(rapid.Int64Range(0, 4000).Draw(t, "gap"))
			v.gaps = append(v.gaps, span.Span{From: at, To: at + span.Second(rapid.SampledFrom([]int64{1, 9, 10, 11, 19, 20, 30, 600}).Draw(t, "length"))})
		}
		if s.late > 0 {
			v.late = rapid.Int64Range(0, s.late).Draw(t, "late")
		}
		w.views = append(w.views, v)
		from = v.in.To + span.Second(rapid.Int64Range(0, 15).Draw(t, "silence"))
	}
}

// state puts contracts, then everything that was stated, in the order in which it became known.
func (w *world) state(t *rapid.T, s shape) {
	add := func(known span.Second, key string, body fact.Body) {
		f := fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body}
		w.log.Statements = append(w.log.Statements, replay.Statement{Known: known, Fact: f})
	}
	late := func() span.Second {
		if s.late == 0 || rapid.Bool().Draw(t, "prompt") {
			return 0
		}
		return span.Second(rapid.Int64Range(0, s.late).Draw(t, "late"))
	}
	for i := range w.deals {
		d := &w.deals[i]
		add(w.from-day, "sign/"+d.id, &fact.ContractSigned{Contract: d.id, Customer: d.customer, Document: d.document(d.prices[0])})
		for _, p := range d.prices[1:] {
			add(p.from+late(), "amend/"+d.id, &fact.ContractAmended{Contract: d.id, Effective: p.from, Document: d.document(p)})
		}
	}
	for i := range w.leases {
		for k := range w.leases[i].steps {
			st := &w.leases[i].steps[k]
			add(st.at+late(), st.key, w.leases[i].body(st))
		}
		for k, in := range w.leases[i].waived {
			waiver := &fact.RefusalWaived{Lease: w.leases[i].id, From: in.From, To: in.To, By: "sales"}
			add(in.From+late(), fmt.Sprintf("waive/%s/%d", w.leases[i].id, k), waiver)
		}
	}
	slices.SortStableFunc(w.log.Statements, func(a, b replay.Statement) int { return cmp.Compare(a.Known, b.Known) })
	for i, st := range w.log.Statements {
		w.position[st.Fact.Key] = i
	}
}

func (l *tenancy) body(st *step) fact.Body {
	var devices []fact.Share
	var count, share int64
	for d, milli := range st.holds {
		if d == "" {
			count, share = st.count, milli
			continue
		}
		devices = append(devices, fact.Share{Node: "node-" + d, Device: d, ShareMilli: milli})
	}
	slices.SortFunc(devices, func(a, b fact.Share) int { return strings.Compare(a.Device, b.Device) })
	switch st.kind {
	case "start":
		return &fact.LeaseStarted{
			Lease: l.id, Customer: l.customer, SKU: l.sku, PricingMode: "on_demand", Region: l.region, At: st.at,
			Devices: devices, Count: count, ShareMilli: share,
		}
	case "hold":
		return &fact.LeaseResized{Lease: l.id, At: st.at, Devices: devices, Count: count, ShareMilli: share}
	case "suspend":
		return &fact.LeaseStateChanged{Lease: l.id, At: st.at, State: fact.Suspended}
	case "resume":
		return &fact.LeaseStateChanged{Lease: l.id, At: st.at, State: fact.Running}
	default:
		return &fact.LeaseStopped{Lease: l.id, At: st.at, By: st.by}
	}
}

// measure cuts the views into batches of so many seconds, numbered from 1 in every run.
func (w *world) measure(batch int64) {
	w.log.Measurements = nil
	for i := range w.views {
		v := &w.views[i]
		seq := uint64(0)
		for at := v.in.From; at < v.in.To; {
			to := min(v.in.To, at+span.Second(batch), at.Minute().End())
			seq++
			b := usage.Batch{Node: v.node, Boot: "b", Run: v.run, Seq: seq, Minute: at.Minute()}
			block := usage.Block{Device: v.device}
			for t := at; t < to; t++ {
				b.Spoken |= span.Bit(int(t - b.Minute.Start()))
				if v.sees(t) {
					block.Seen |= span.Bit(int(t - b.Minute.Start()))
				}
			}
			b.Blocks = [][]byte{block.Append(nil)}
			w.log.Measurements = append(w.log.Measurements, replay.Measurement{Known: at.Minute().End() + span.Second(v.late), Batch: b})
			at = to
		}
	}
}
