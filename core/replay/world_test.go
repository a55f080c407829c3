package replay_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

const (
	hour  = 3600
	day   = 24 * hour
	grace = 3 * hour
)

// world is a small random history of one or more contracts: who signed what, who held what when, what was seen, and when each
// became known.
type world struct {
	shape
	from   span.Second // of the terms
	around span.Second // leases begin and change in the two hours from here on
	last   span.Second // that a fact speaks of
	deals  []*deal
	views  []view
	log    replay.Log
}

// shape says what a world may hold.
type shape struct {
	contracts int                           // 0 for one
	batch     int64                         // seconds of a batch; 0 for any
	late      int64                         // seconds by which things may become known
	together  bool                          // all contracts are one customer's
	alone     bool                          // no two leases share a device
	unplaced  bool                          // no lease has a device
	pool      bool                          // all leases share devices
	fit       func(*contract.Contract) bool // what contracts may say; one that does not fit is made plain
	rates     func(random.Chooser) string   // draws rates and what goes with them, in place of any
	meters    func(random.Chooser) string   // draws meters and the states that weigh them, in place of any
}

type deal struct {
	id, customer, text string
	versions           []*contract.Contract
	leases             int
}

// view is what one run of a node's collector saw of a device.
type view struct {
	device string
	run    uint64
	in     span.Span
	gaps   []span.Span
	busy   []uint8 // by turns of so many seconds
	turn   int64
	late   int64
	every  span.Second // seconds between two looks
}

func (v *view) sees(at span.Second) bool {
	return at%v.every == 0 && v.in.Contains(at) && !slices.ContainsFunc(v.gaps, func(g span.Span) bool { return g.Contains(at) })
}

func chooser(t *rapid.T) random.Chooser {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
}

// days on and around which clocks change (New York, Copenhagen, Lord Howe, Casablanca), months end, holidays fall.
func days() []string {
	return []string{
		"2026-03-07", "2026-10-31", "2026-04-04", "2026-01-30", "2026-02-27", "2025-12-30", "2025-10-25", "2026-03-28", "2026-02-14",
		"2026-03-21", "2026-10-03", "2025-09-26", "2026-05-01", "2026-12-31",
	}
}

func drawWorld(t *rapid.T, s shape) *world {
	w := &world{shape: s}
	choose := chooser(t)
	first, _ := time.Parse(time.DateOnly, days()[choose(len(days()))])
	for i := range max(1, s.contracts) {
		w.deals = append(w.deals, w.deal(t, i, first))
	}
	w.from = w.deals[0].versions[0].Term.From
	zone := w.deals[0].versions[0].Zone
	tomorrow := zone.StartOfDay(zone.DateOf(w.from).AddDays(1 + choose(2)))
	w.around = []span.Second{w.from - 60, w.from, tomorrow - hour, tomorrow + 1*hour + 1800, tomorrow - 100}[choose(5)]
	w.sign(t)
	for _, d := range w.deals {
		w.use(t, d)
	}
	w.declare(t)
	w.finish(t)
	return w
}

// declare oversells devices that leases name, or keeps parts of them back; of devices that no two leases share it keeps nothing.
func (w *world) declare(t *rapid.T) {
	choose := chooser(t)
	var devices []string
	for _, s := range w.log.Statements {
		for _, d := range occupancy.Devices(s.Fact.Body) {
			if !slices.Contains(devices, d.Device) {
				devices = append(devices, d.Device)
			}
		}
	}
	for _, device := range devices {
		for k := range choose(4) - 1 {
			milli := []int64{1000, 1100, 1500, 2000, 3000, 64_000, 900, 500, 143}
			if w.alone {
				milli = milli[:6]
			}
			at := w.instant(t)
			if choose(3) == 0 {
				at = w.from - 2*day
			}
			w.state(t, at, fmt.Sprintf("declare/%s/%d", device, k), &fact.DeviceDeclared{Device: device, At: at, SaleableMilli: milli[choose(len(milli))]})
		}
	}
}

// finish puts what was stated in order, lets clocks run on until all of it is billed, and measures.
func (w *world) finish(t *rapid.T) {
	slices.SortStableFunc(w.log.Statements, func(a, b replay.Statement) int { return cmp.Compare(a.Known, b.Known) })
	last := max(w.last, w.log.Statements[len(w.log.Statements)-1].Known)
	for _, v := range w.views {
		last = max(last, v.in.To+span.Second(v.late))
	}
	if c := w.deals[0].versions[0]; c.Term.Contains(w.last) && c.Billing.Cycle <= calendar.Monthly && rapid.IntRange(0, 3).Draw(t, "to the end") == 0 {
		last = max(last, c.Period(w.last).Span.To+span.Second(c.Billing.GraceSeconds))
	}
	w.log.Until = (last/day + 2) * day // a cut of the metronome
	w.measure(cmp.Or(w.batch, []int64{1, 7, 10, 60}[chooser(t)(4)]))
}

// state adds a statement about an instant.
func (w *world) state(t *rapid.T, at span.Second, key string, body fact.Body) {
	known := at
	if w.late > 0 && chooser(t)(3) == 0 {
		known += span.Second(rapid.Int64Range(0, w.late).Draw(t, "late"))
	}
	w.add(known, key, body)
	w.last = max(w.last, at)
}

func (w *world) add(known span.Second, key string, body fact.Body) {
	f := fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body}
	w.log.Statements = append(w.log.Statements, replay.Statement{Known: known, Fact: f})
}

// instant is one near which something happens, or any in the two hours.
func (w *world) instant(t *rapid.T) span.Second {
	if chooser(t)(3) == 0 {
		return w.around + span.Second([]int64{0, 1, 59, 60, 600, 3599, 3600, 3601}[chooser(t)(8)])
	}
	return w.around + span.Second(rapid.Int64Range(0, 2*hour).Draw(t, "instant"))
}

// sign states contracts, amendments, price books and spot prices.
func (w *world) sign(t *rapid.T) {
	choose := chooser(t)
	early := w.from - 2*day
	w.add(early, "sign/metronome", &fact.ContractSigned{Contract: "metronome", Customer: "metronome", Document: "{contract: metronome, customer: metronome, " +
		"currency: USD, timezone: UTC, term: {from: " + early.String()[:10] + ", to: open}, billing: {cycle: daily, grace: 0}, rates: [{sku: none, on_demand: 1/gpu-hour}]}"})
	regions := []string{"", "cn-east", "cn-west", "eu-1"}
	currency := w.deals[0].versions[0].Currency.String()
	for i, d := range w.deals {
		w.add(early, "sign/"+d.id, &fact.ContractSigned{Contract: d.id, Customer: d.customer, Document: d.text})
		for k := range choose(3) {
			zone := d.versions[0].Zone
			if text, c := w.amended(t, d, midnight(zone.DateOf(w.from))); c != nil {
				d.versions = append(d.versions, c)
				at := w.instant(t)
				w.state(t, at, fmt.Sprintf("amend/%s/%d", d.id, k), &fact.ContractAmended{Contract: d.id, Effective: at, Document: text})
			}
		}
		for k := range choose(4) - 1 {
			at := w.instant(t)
			by := []fact.EndedBy{fact.ByCustomer, fact.ByCustomer, fact.ByProvider}[choose(3)]
			w.state(t, at, fmt.Sprintf("terminate/%s/%d", d.id, k), &fact.ContractTerminated{Contract: d.id, At: at, By: by})
		}
		if i > 0 {
			continue // prices are everybody's
		}
		for k := range 1 + choose(3) {
			at := early
			if k > 0 {
				at = w.instant(t)
			}
			text := "book: list-cn\ncurrency: " + currency + "\nrates:\n"
			for _, sku := range []string{"h100-80g", "a100", "mig-1g.10gb", "显卡 4090"} {
				text += fmt.Sprintf("  - {sku: %s, on_demand: %d.%02d/gpu-hour, region: {cn-east: 100%%, eu-1: %d%%}}\n", sku, choose(99), choose(100), choose(200))
			}
			w.state(t, at, fmt.Sprintf("book/%d", k), &fact.PriceBookPublished{Book: "list-cn", Effective: at, Document: text})
		}
	}
	for _, index := range []string{"h100-80g", "指数"} {
		for _, region := range regions {
			for k := range choose(4) {
				at := early
				if k > 0 || choose(4) == 0 {
					at = w.instant(t)
				}
				price := fmt.Sprintf("%d.%02d/gpu-%s", choose(60), choose(100), []string{"hour", "hour", "day", "minute", "month"}[choose(5)])
				w.state(t, at, fmt.Sprintf("tick/%s/%s/%d", index, region, k), &fact.SpotPriceChanged{Index: index, Region: region, At: at, Currency: currency, Price: price})
			}
		}
	}
}

func midnight(d calendar.Date) time.Time {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC)
}

// use states leases, purchases and readings of a deal.
func (w *world) use(t *rapid.T, d *deal) {
	choose := chooser(t)
	c := d.versions[choose(len(d.versions))]
	for range 1 + choose(4) {
		w.lease(t, d, c)
	}
	for i, p := range c.Packages {
		for k := range choose(3) {
			at, key := w.instant(t), fmt.Sprintf("package/%s/%d/%d", d.id, i, k)
			w.state(t, at, key, &fact.PackagePurchased{Contract: d.id, Package: p.Name, At: at, Count: int64(1 + choose(2))})
			for n := range choose(3) {
				end := at + span.Second([]int64{0, 1, 1800, hour, day, 3 * day, -1}[choose(7)])
				b := &fact.PackageEnded{Contract: d.id, Purchase: key, At: end, By: []fact.EndedBy{fact.ByCustomer, fact.ByProvider}[choose(2)]}
				w.state(t, min(end, at+2*hour), fmt.Sprintf("%s/end/%d", key, n), b)
			}
		}
	}
	for i, m := range c.Meters {
		for k := range choose(5) {
			at := w.instant(t)
			quantity := strconv.Itoa([]int{k, k * 100, choose(3000)}[choose(3)]) + []string{"", ".5"}[choose(2)]
			w.state(t, at, fmt.Sprintf("reading/%s/%d/%d", d.id, i, k), &fact.MeterRecorded{
				Contract: d.id, Meter: m.Name, Resource: []string{"r", "s", d.id + "-L0", "c0-L0"}[choose(4)], At: at, Quantity: quantity,
			})
		}
	}
}

// lease states one lease from start to stop.
func (w *world) lease(t *rapid.T, d *deal, c *contract.Contract) {
	choose := chooser(t)
	id := fmt.Sprintf("%s-L%d", d.id, d.leases)
	d.leases++
	rate := c.Rates[choose(len(c.Rates))]
	at := w.instant(t)
	start := &fact.LeaseStarted{
		Lease: id, Customer: d.customer, SKU: rate.SKU, PricingMode: "on_demand", Region: pick(choose, rate.Region), ServiceTier: pick(choose, rate.ServiceTier),
		Dedicated: choose(2) == 0, At: at,
	}
	if rate.Spot != nil && (choose(2) == 0 || rate.OnDemand.Amount == nil) {
		start.PricingMode = "spot"
	}
	if choose(2) == 0 {
		start.Contract = d.id
	}
	if choose(40) == 0 {
		start.SKU = "unknown"
	}
	devices := []string{id + "-a", id + "-b"}
	if w.pool || !w.alone && choose(2) == 0 {
		devices = []string{"shared-a", "shared-b"}
	}
	placed := w.pool || !w.unplaced && choose(3) > 0
	start.Devices, start.Count, start.ShareMilli = w.holds(t, placed, devices)
	w.state(t, at, id, start)
	if placed {
		w.look(t, at, devices[0])
	}
	running := true
	for k := range choose(5) {
		key := fmt.Sprintf("%s/%d", id, k)
		at += span.Second([]int64{0, 1, 59, 600, 1300}[choose(5)])
		switch choose(3) {
		case 0:
			b := &fact.LeaseResized{Lease: id, At: at}
			b.Devices, b.Count, b.ShareMilli = w.holds(t, placed, devices)
			w.state(t, at, key, b)
		case 1:
			state := []fact.LeaseState{fact.Suspended, fact.Suspended, fact.Halted}[choose(3)]
			if !running && choose(4) > 0 {
				state = fact.Running
			}
			running = state == fact.Running
			w.state(t, at, key, &fact.LeaseStateChanged{Lease: id, At: at, State: state})
		case 2:
			w.state(t, at, key, &fact.RefusalWaived{Lease: id, From: at - 100, To: at + 900, By: "sales"})
		}
	}
	if c.Billing.Cycle <= calendar.Daily && choose(10) == 0 {
		return // it goes on
	}
	at += span.Second([]int64{0, 1, 60, 1800, 3600}[choose(5)])
	by := []fact.EndedBy{fact.ByCustomer, fact.ByProvider, fact.ByFault, fact.ByExpired}[choose(4)]
	w.state(t, at, id+"/stop", &fact.LeaseStopped{Lease: id, At: at, By: by})
}

// pick is mostly a key of the map, if there is one.
func pick[V any](choose random.Chooser, of map[string]V) string {
	keys := []string{""}
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if len(keys) > 1 && choose(20) > 0 {
		keys = keys[1:]
	}
	return keys[choose(len(keys))]
}

func (w *world) holds(t *rapid.T, placed bool, devices []string) (list []fact.Share, count, share int64) {
	choose := chooser(t)
	milli := func() int64 { return []int64{1000, 1000, 500, 143, 600}[choose(5)] }
	if !placed {
		return nil, int64(1 + choose(8)), milli()
	}
	for _, d := range devices[:1+choose(2)] {
		list = append(list, fact.Share{Node: "node-" + d, Device: d, ShareMilli: milli()})
	}
	return list, 0, 0
}

// look draws two runs of a collector around a lease's start, with gaps, and what they measured.
func (w *world) look(t *rapid.T, at span.Second, device string) {
	if slices.ContainsFunc(w.views, func(v view) bool { return v.device == device }) {
		return
	}
	choose := chooser(t)
	from := at - span.Second(choose(300))
	for run := uint64(1); run <= 2; run++ {
		v := view{device: device, run: run, in: span.Span{From: from, To: from + span.Second(1+choose(3000))}, turn: []int64{7, 60, 1000}[choose(3)], every: []span.Second{1, 1, 1, 2, 10}[choose(5)]}
		for range choose(4) {
			gap := from + span.Second(choose(2000))
			v.gaps = append(v.gaps, span.Span{From: gap, To: gap + span.Second([]int64{1, 9, 10, 11, 20, 60, 61, 600}[choose(8)])})
		}
		for range 5 {
			v.busy = append(v.busy, []uint8{0, 0, 1, 4, 5, 99, usage.BusyUnknown}[choose(7)])
		}
		if w.late > 0 {
			v.late = rapid.Int64Range(0, w.late).Draw(t, "late")
		}
		w.views = append(w.views, v)
		from = v.in.To + span.Second(choose(15))
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
			b := usage.Batch{Node: "node-" + v.device, Boot: "b", Run: v.run, Seq: seq, Minute: at.Minute()}
			block := usage.Block{Device: v.device}
			for t := at; t < to; t++ {
				second := int(t - b.Minute.Start())
				b.Spoken |= span.Bit(second)
				if v.sees(t) {
					block.Seen |= span.Bit(second)
					block.Busy[second] = v.busy[int64(t)/v.turn%int64(len(v.busy))]
				}
			}
			b.Blocks = [][]byte{block.Append(nil)}
			w.log.Measurements = append(w.log.Measurements, replay.Measurement{Known: at.Minute().End() + span.Second(v.late), Batch: b})
			at = to
		}
	}
}
