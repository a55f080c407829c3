package meter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// midnight is a local midnight of Asia/Kolkata, half an hour after a full hour.
const midnight span.Second = 1767724200 // 2026-01-06T18:30:00Z

// The worlds of the properties lie around it and touch four hours.
const (
	worldFrom = midnight - 2400
	worldTo   = midnight + 2400
)

// tables is the store in memory: sums by entry, read by looking at everything.
type tables struct {
	rows     []usage.Row
	ledger   map[Entry]Amounts
	devices  map[DeviceEntry]DeviceSeconds
	refusals map[string]int64 // by reason
}

func newTables() *tables {
	return &tables{ledger: map[Entry]Amounts{}, devices: map[DeviceEntry]DeviceSeconds{}, refusals: map[string]int64{}}
}

func (x *tables) put(o *Outcome) {
	x.rows = append(x.rows, o.Rows...)
	for _, d := range o.Ledger {
		if x.ledger[d.Entry] = x.ledger[d.Entry].Plus(d.Amounts); x.ledger[d.Entry].IsZero() {
			delete(x.ledger, d.Entry)
		}
	}
	for _, d := range o.Devices {
		if x.devices[d.DeviceEntry] = x.devices[d.DeviceEntry].Plus(d.DeviceSeconds); x.devices[d.DeviceEntry] == (DeviceSeconds{}) {
			delete(x.devices, d.DeviceEntry)
		}
	}
	for _, r := range o.Refusals {
		x.refusals[r.Reason] += r.Delta
	}
}

func (x *tables) read(n Needs) Reads {
	r := Reads{Ledger: map[Entry]Amounts{}, Devices: map[DeviceEntry]DeviceSeconds{}}
	for _, row := range x.rows {
		if slices.ContainsFunc(n.Minutes, func(m MinuteRange) bool {
			return m.From <= row.Minute && row.Minute < m.To && m.Device == row.Device && (m.Device != "" || m.Node == row.Node)
		}) {
			r.Rows = append(r.Rows, row)
		}
	}
	for _, uh := range n.Standing {
		for e, a := range x.ledger {
			if e.Hour == uh.Hour && e.Device == uh.Unit.Device && (e.Device != "" || e.Lease == uh.Unit.Lease) {
				r.Ledger[e] = a
			}
		}
		for e, a := range x.devices {
			if e.Hour == uh.Hour && e.Device == uh.Unit.Device {
				r.Devices[e] = a
			}
		}
	}
	return r
}

// lastMinutes is what a store knows of who was sampled last.
func (x *tables) lastMinutes() map[Unit]span.Minute {
	out := map[Unit]span.Minute{}
	for _, r := range x.rows {
		u := Unit{Device: r.Device}
		if r.Device == "" {
			u.Node = r.Node
		}
		out[u] = max(out[u], r.Minute)
	}
	return out
}

func (x *tables) play(s *State, b Block) Outcome {
	out := s.Finish(x.read(s.Begin(b)))
	x.put(&out)
	return out
}

func (x *tables) quantity(keep func(Entry) bool) (milliSeconds int64) {
	for e, a := range x.ledger {
		if keep(e) {
			milliSeconds += a.Quantity
		}
	}
	return milliSeconds
}

// document is a contract in a zone of half an hour.
func document(id, cycle, billing, price string) string {
	return fmt.Sprintf(`contract: %s
customer: acme
currency: INR
timezone: Asia/Kolkata
term: {from: 2026-01-01, to: 2027-01-01}
billing: {cycle: %s%s}
rates: [{sku: h100, on_demand: %s/gpu-hour, region: {in: 100%%}, spot: {index: h100, max: 90%% of on_demand}}]
`, id, cycle, billing, price)
}

func signed(id, text string) *fact.ContractSigned {
	return &fact.ContractSigned{Contract: id, Customer: "acme", Document: text}
}

// numbered gives bodies positions from a start on.
func numbered(from uint64, bodies ...fact.Body) []fact.Fact {
	var out []fact.Fact
	for i, b := range bodies {
		out = append(out, fact.Fact{Seq: from + uint64(i), Key: fmt.Sprintf("%s/%d", b.Type(), from+uint64(i)), Hash: fact.HashJSON(b), Body: b})
	}
	return out
}

func lease(id string, at span.Second, devices ...fact.Share) *fact.LeaseStarted {
	b := &fact.LeaseStarted{Lease: id, Customer: "acme", Contract: "c1", SKU: "h100", PricingMode: "on_demand", Region: "in", At: at, Devices: devices}
	if len(devices) == 0 {
		b.Count, b.ShareMilli = 1, 1000
	}
	return b
}

func share(device string, milli int64) fact.Share {
	return fact.Share{Node: "n1", Device: device, ShareMilli: milli}
}

// batch says that devices were seen in all the seconds of s, which lie in one minute.
func batch(node string, run, seq uint64, s span.Span, busy uint8, devices ...string) usage.Batch {
	m := s.From.Minute()
	b := usage.Batch{Node: node, Boot: "b", Run: run, Seq: seq, Minute: m, Spoken: span.MaskOf(m, s)}
	for _, d := range devices {
		b.Blocks = append(b.Blocks, seen(d, b.Spoken, busy))
	}
	return b
}

func seen(device string, mask span.SecondMask, busy uint8) []byte {
	block := usage.Block{Device: device, Seen: mask}
	mask.Each(func(i int) { block.Busy[i] = busy })
	return block.Append(nil)
}

// batches covers a span with whole minutes or their parts.
func batches(node string, run, seq uint64, s span.Span, busy uint8, devices ...string) []usage.Batch {
	var out []usage.Batch
	for at := s.From; at < s.To; at = at.Minute().End() {
		out = append(out, batch(node, run, seq+uint64(len(out)), span.Span{From: at, To: min(s.To, at.Minute().End())}, busy, devices...))
	}
	return out
}

func messages(from uint64, list ...usage.Batch) []UsageMessage {
	var out []UsageMessage
	for i, b := range list {
		out = append(out, UsageMessage{Seq: from + uint64(i), Batch: b})
	}
	return out
}

func drawInstant(t *rapid.T, label string) span.Second {
	near := rapid.SampledFrom([]span.Second{midnight, midnight - 1800, midnight + 1800, midnight - 60, midnight + 60}).Draw(t, label+" near")
	by := rapid.OneOf(rapid.Int64Range(-12, 12), rapid.Int64Range(-600, 600)).Draw(t, label)
	return near + span.Second(by)
}

func drawDevices(t *rapid.T) []fact.Share {
	var out []fact.Share
	for _, d := range rapid.SampledFrom([][]string{{"A"}, {"B"}, {"A", "B"}, nil}).Draw(t, "devices") {
		node := "n1"
		if d == "B" {
			node = rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
		}
		out = append(out, fact.Share{Node: node, Device: d, ShareMilli: rapid.SampledFrom([]int64{300, 500, 1000}).Draw(t, "milli")})
	}
	return out
}

// drawClauses are those of a contract that decide about seconds.
func drawClauses(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"", "",
		"idle_relief: {below: 5%, after: 30s, off: 50%}\n",
		"idle_relief: {below: 60%, after: 2m, off: 50%, bridge: 10s}\n",
		"idle_relief: {below: 5%, after: 15m, off: 100%, bridge: 30s}\n",
		"idle_relief: {below: 5%, after: 0, off: 20%, bridge: 60s}\n",
	}).Draw(t, "clauses") + rapid.SampledFrom([]string{
		"", "",
		"states: {suspended: {gpu: 30%}}\n",
		"states: {suspended: {gpu: 100%}, stopped: {gpu: 10%}}\n",
		"states: {running: {gpu: 90%}, stopped: {gpu: 200%}}\n",
	}).Draw(t, "states")
}

// drawTrial ends a trial in the middle of a world, in one of four.
func drawTrial(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "trial") > 0 {
		return ""
	}
	return fmt.Sprintf("trial: {until: %q}\n", drawInstant(t, "trial until"))
}

// drawFacts are contracts, leases and waivers in order of position.
func drawFacts(t *rapid.T) []fact.Fact {
	billing := rapid.SampledFrom([]string{"", "", ", bill_by: observed", ", minimum: 90s", ", granularity: minute", ", granularity: hour, minimum: 60s"}).Draw(t, "billing")
	cycle := rapid.SampledFrom([]string{"hourly", "daily", "monthly"}).Draw(t, "cycle")
	trial := drawTrial(t)
	bodies := []fact.Body{signed("c1", drawCommitments(t, drawSpot(t, document("c1", cycle, billing, "3.60")))+drawClauses(t)+drawSchedule(t)+trial)}
	if rapid.Bool().Draw(t, "amended") {
		again := rapid.SampledFrom([]string{cycle, cycle, "hourly", "daily", "weekly", "monthly"}).Draw(t, "amended cycle")
		text := document("c1", again, rapid.SampledFrom([]string{"", ", minimum: 300s"}).Draw(t, "amended billing"), "7.20")
		text = drawCommitments(t, drawSpot(t, text)) + drawClauses(t) + drawSchedule(t) + trial
		zone := rapid.SampledFrom([]string{"Asia/Kolkata", "Asia/Kolkata", "Asia/Shanghai", "America/New_York"}).Draw(t, "amended zone")
		text = strings.Replace(text, "Asia/Kolkata", zone, 1)
		bodies = append(bodies, &fact.ContractAmended{Contract: "c1", Effective: drawInstant(t, "effective"), Document: text})
	}
	if rapid.IntRange(0, 3).Draw(t, "second contract") == 0 {
		bodies = append(bodies, signed("c2", document("c2", "daily", "", "1.00")))
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "leases") {
		id := fmt.Sprint("L", i)
		b := lease(id, drawInstant(t, "start"), drawDevices(t)...)
		b.Contract = rapid.SampledFrom([]string{"c1", "c1", "", "missing"}).Draw(t, "contract")
		b.Region = rapid.SampledFrom([]string{"in", "in", "out", "elsewhere"}).Draw(t, "region")
		b.PricingMode = rapid.SampledFrom([]string{"on_demand", "on_demand", "spot"}).Draw(t, "mode")
		bodies = append(bodies, b)
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			at := b.At + span.Second(rapid.Int64Range(-5, 1500).Draw(t, "after"))
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				r := &fact.LeaseResized{Lease: id, At: at, Devices: drawDevices(t)}
				if r.Devices == nil {
					r.Count, r.ShareMilli = 2, 500
				}
				bodies = append(bodies, r)
			case 1:
				bodies = append(bodies, &fact.RefusalWaived{Lease: id, From: at, To: at + 300})
			case 2:
				by := rapid.SampledFrom([]fact.EndedBy{fact.ByCustomer, fact.ByProvider, fact.ByFault}).Draw(t, "by")
				bodies = append(bodies, &fact.LeaseStopped{Lease: id, At: at, By: by})
			default:
				state := rapid.SampledFrom([]fact.LeaseState{fact.Running, fact.Suspended, fact.Halted}).Draw(t, "state")
				bodies = append(bodies, &fact.LeaseStateChanged{Lease: id, At: at, State: state})
			}
		}
	}
	bodies = append(bodies, drawTicks(t)...)
	bodies = append(bodies, drawPurchases(t)...)
	bodies = append(bodies, drawDeclarations(t)...)
	first := bodies[0]
	rest := rapid.Permutation(bodies[1:]).Draw(t, "order")
	return endSome(t, numbered(1, append([]fact.Body{first}, rest...)...))
}

// drawDeclarations oversell devices or keep parts of them back, mostly not.
func drawDeclarations(t *rapid.T) []fact.Body {
	var out []fact.Body
	for range rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "declarations") {
		b := &fact.DeviceDeclared{Device: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "declared"), At: drawInstant(t, "declared at")}
		if rapid.IntRange(0, 3).Draw(t, "before all") == 0 {
			b.At = worldFrom - 86400
		}
		b.SaleableMilli = rapid.SampledFrom([]int64{100, 400, 900, 1000, 1200, 1500, 2000, 64_000}).Draw(t, "saleable")
		out = append(out, b)
	}
	return out
}

// drawBusy is what devices say of their utilisation, by run and minute: two nodes that name one run say the same.
func drawBusy(t *rapid.T) func(run uint64, m span.Minute) uint8 {
	values := rapid.SliceOfN(rapid.SampledFrom([]uint8{0, 0, 0, 4, 50, usage.BusyUnknown}), 5, 5).Draw(t, "busy")
	return func(run uint64, m span.Minute) uint8 { return values[(uint64(m)+run)%5] }
}

// drawBatches are two nodes' words, of up to two runs each, with gaps around the length that is inferred.
func drawBatches(t *rapid.T) []usage.Batch {
	var out []usage.Batch
	busy := drawBusy(t)
	thin := rapid.SampledFrom([]uint64{0, 0, 0xaaaaaaaaaaaaaaaa, ^uint64(0x0004010040100401)}).Draw(t, "thin") // of a source that looks less often
	for _, node := range []string{"n1", "n2"} {
		at := worldFrom + span.Second(rapid.Int64Range(0, 1800).Draw(t, "from"))
		for run := uint64(1); run <= uint64(rapid.IntRange(0, 2).Draw(t, "runs")); run++ {
			seq := uint64(1)
			for range rapid.IntRange(1, 30).Draw(t, "stretches") {
				to := at + span.Second(rapid.SampledFrom([]int64{1, 5, 30, 60, 200}).Draw(t, "length"))
				for _, b := range batches(node, run, seq, span.Span{From: at, To: min(to, worldTo)}, 0) {
					for _, d := range rapid.SampledFrom([][]string{{"A"}, {"B"}, {"A", "B"}}).Draw(t, "answered") {
						if (d == "A") == (node == "n1") || d == "B" && run == 2 {
							b.Blocks = append(b.Blocks, seen(d, b.Spoken&^span.SecondMask(rapid.SampledFrom([]uint64{0, 0, 6, 1 << 40}).Draw(t, "missed")|thin), busy(run, b.Minute)))
						}
					}
					out = append(out, b)
					seq++
				}
				at = to + span.Second(rapid.SampledFrom([]int64{0, 1, 9, 10, 11, 19, 20, 21, 300}).Draw(t, "gap"))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b usage.Batch) int { return cmp.Compare(a.Minute, b.Minute) })
	return out
}
