package bill

import (
	"runtime"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// gpuMonth is a month of one GPU, March 2026 in New York with its change of the clock: of its 743 hours the first 720, which are
// 43,200 minutes. The GPU works by day and idles from 01:00 to 06:00 UTC.
type gpuMonth struct {
	facts []fact.Fact
	from  span.Hour
	busy  [24][]byte // the device's block in every minute, by hour of the UTC day
	rows  []usage.Row
	spent time.Duration // on writing rows down
}

const minutesOfMonth = 720 * 60

func newGPUMonth() *gpuMonth {
	const document = `contract: c1
customer: acme
currency: USD
timezone: America/New_York
term: {from: 2026-01-01, to: 2027-01-01}
rates: [{sku: h100, on_demand: 3.60/gpu-hour, volume: {by: gpu-hours, method: graduated, tiers: [{upto: 100, price: 100%}, {upto: 500, price: 95%}, {price: 90%}]}}]
idle_relief: {below: 5%, after: 15m, off: 50%}
schedule: [{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, Sat-Sun 00:00-24:00], holidays: us-federal-2026, off: 40%}]
`
	m := &gpuMonth{from: span.Second(1772341200).Hour()} // 2026-03-01T05:00:00Z, local midnight
	m.facts = []fact.Fact{
		{Seq: 1, Key: "c", Body: &fact.ContractSigned{Contract: "c1", Customer: "acme", Document: document}},
		{Seq: 2, Key: "l", Body: &fact.LeaseStarted{
			Lease: "L1", Customer: "acme", Contract: "c1", SKU: "h100", PricingMode: "on_demand", At: m.from.Start(),
			Devices: []fact.Share{{Node: "n1", Device: "GPU-1", ShareMilli: 1000}},
		}},
	}
	block := usage.Block{Device: "GPU-1", Seen: span.FullMinute}
	idle := block.Append(nil)
	for i := range block.Busy {
		block.Busy[i] = 85
	}
	working := block.Append(nil)
	for hour := range m.busy {
		m.busy[hour] = working
		if 1 <= hour && hour < 6 {
			m.busy[hour] = idle
		}
	}
	return m
}

// state is a rater that has put every minute and is about to close the month's hours.
func (m *gpuMonth) state() *meter.State {
	s := meter.NewState()
	last := (m.from + 721).FirstMinute()
	s.Restore(m.from.Start()+meter.HourDelaySeconds, m.facts, nil, map[meter.Unit]span.Minute{{Device: "GPU-1"}: last, {Node: "n1"}: last})
	return s
}

// read answers what a block needs, as a store does that has just decoded it: the device was seen in every second. Every hour needs as
// many rows of each kind, so they are written over those of the hour before.
func (m *gpuMonth) read(n meter.Needs) meter.Reads {
	k := 0
	for _, r := range n.Minutes {
		for at := r.From; at < r.To; at++ {
			if k == len(m.rows) {
				m.rows = append(m.rows, usage.Row{Node: "n1", Device: r.Device, Run: 7, Spoken: span.FullMinute})
			}
			row := &m.rows[k]
			row.Minute, row.SeqFirst, row.SeqLast = at, uint64(at), uint64(at)
			if data := m.busy[at.Hour()%24]; r.Device != "" && (row.Seen == 0 || &row.Data[0] != &data[0]) {
				row.Seen, row.Data = span.FullMinute, data
			}
			k++
		}
	}
	return meter.Reads{Rows: m.rows[:k]}
}

// close closes the month's hours one by one and adds up the ledger, as a store does.
func (m *gpuMonth) close(b *testing.B, s *meter.State) []meter.Total {
	var totals []meter.Total
	for k := range 720 {
		at := (m.from + span.Hour(k) + 1).Start() + meter.HourDelaySeconds
		needs := s.Begin(meter.Block{Seq: uint64(k) + 1, At: at})
		start := b.Elapsed()
		reads := m.read(needs)
		m.spent += b.Elapsed() - start
		out := s.Finish(reads)
		for i := range out.Ledger {
			totals = addRow(totals, &out.Ledger[i])
		}
	}
	return totals
}

// addRow finds the total of a row from the end, where those of its day are.
func addRow(totals []meter.Total, d *meter.Difference) []meter.Total {
	for i := len(totals) - 1; i >= 0; i-- {
		if t := &totals[i]; t.Key == d.Key {
			t.Amounts = t.Plus(d.Amounts)
			return totals
		}
		if totals[i].Key.LocalDay != d.Key.LocalDay {
			break
		}
	}
	return append(totals, meter.Total{Lease: d.Lease, Device: d.Device, Key: d.Key, Amounts: d.Amounts})
}

// BenchmarkMonth is one month of one GPU under off-peak windows, idle relief and volume tiers, as the rater and the invoicer do it:
// each of its 720 hours is closed from the stored rows of its 43,200 minutes, and the period is priced. To have the rows is the
// store's time and left out, though not in ns/op.
func BenchmarkMonth(b *testing.B) {
	m := newGPUMonth()
	var before, after runtime.MemStats
	var classified, priced time.Duration
	var allocs uint64
	for b.Loop() {
		b.StopTimer()
		s := m.state()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		start := b.Elapsed()
		totals := m.close(b, s)
		middle := b.Elapsed()
		statement := m.price(b, s, totals)
		classified, priced = classified+middle-start, priced+b.Elapsed()-middle
		b.StopTimer()
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		b.StartTimer()
		if len(statement.Lines) != 4 {
			b.Fatalf("%d lines", len(statement.Lines))
		}
	}
	classified -= m.spent
	perMinute := func(n int64) float64 { return float64(n) / float64(b.N) / minutesOfMonth }
	b.ReportMetric(perMinute(classified.Nanoseconds()), "classify-ns/minute")
	b.ReportMetric(perMinute(priced.Nanoseconds()), "price-ns/minute")
	b.ReportMetric(perMinute((classified + priced).Nanoseconds()), "ns/minute")
	b.ReportMetric(float64((classified+priced).Nanoseconds())/float64(b.N)/1e6, "ms/month")
	b.ReportMetric(perMinute(int64(allocs)), "allocs/minute")
}

func (m *gpuMonth) price(b *testing.B, s *meter.State, totals []meter.Total) *Statement {
	v, ok := s.Contracts().InForce("c1", m.from.Start())
	if !ok {
		b.Fatal("the contract is not in force")
	}
	statement, err := Compute(s.Contracts(), "c1", v.Contract.Period(m.from.Start()).Span, totals)
	if err != nil {
		b.Fatal(err)
	}
	return statement
}
