package clickhouse

import (
	"fmt"
	"testing"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

// BenchmarkPut is what a step of the rater waits for: a tick of a small fleet, and hours of a large one.
func BenchmarkPut(b *testing.B) {
	s, err := Open(b.Context(), startEngine(b, b.TempDir()).ClientOptions(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	block := uint64(0)
	for _, rows := range []int{10, 100_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			for b.Loop() {
				block++
				p := store.Put{Outcomes: []meter.Outcome{manyRows(block, rows)}, Progress: store.Progress{Service: "rater", Block: block}}
				if err := s.Put(b.Context(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStanding looks up twenty thousand unit hours.
func BenchmarkStanding(b *testing.B) {
	s, err := Open(b.Context(), startEngine(b, b.TempDir()).ClientOptions(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p := store.Put{Outcomes: []meter.Outcome{manyRows(1, 100_000)}, Progress: store.Progress{Service: "rater", Block: 1}}
	if err := s.Put(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	var units []meter.UnitHour
	for _, d := range p.Outcomes[0].Ledger[:20_000] {
		units = append(units, meter.UnitHour{Unit: meter.Unit{Device: d.Device}, Hour: d.Hour})
	}
	for b.Loop() {
		if ledger, _, err := s.Standing(b.Context(), units, 1); err != nil || len(ledger) != len(units) {
			b.Fatal(len(ledger), err)
		}
	}
}

// manyRows has n rows in each table but refusal, with ids as long as real ones and 250 bytes of samples a minute.
func manyRows(block uint64, n int) meter.Outcome {
	o := meter.Outcome{Block: block}
	for i := range n {
		device := fmt.Sprintf("GPU-7a1c9e40-52b8-4d1e-9f03-%012x", i%1000)
		node := fmt.Sprintf("node-%04d", i%1000/8)
		contract := fmt.Sprintf("contract-%03d", i%1000/50)
		data := make([]byte, 250)
		for k := range data {
			data[k] = byte(i*k*7) % 100
		}
		o.Rows = append(o.Rows, usage.Row{Node: node, Device: device, Minute: span.Minute(29_714_400 + i/1000), Block: block, Spoken: span.FullMinute, Seen: span.FullMinute, Data: data})
		o.Ledger = append(o.Ledger, meter.Difference{Block: block, Entry: meter.Entry{
			Lease: fmt.Sprintf("lease-%06d", i%1000/8), Device: device, Hour: span.Hour(495_240 + i/1000),
			Key: meter.ChargeKey{Customer: "acme", Contract: contract, PeriodStart: 1782864000, SKU: "h100-80gb", PricingMode: "on_demand", Kind: meter.Leased, Standing: meter.Priced},
		}, Amounts: meter.Amounts{Quantity: 3_600_000, Measured: 3_600_000}})
		o.Devices = append(o.Devices, meter.DeviceDifference{
			Block: block, DeviceEntry: meter.DeviceEntry{Node: node, Device: device, Hour: span.Hour(495_240 + i/1000)}, DeviceSeconds: meter.DeviceSeconds{SeenLeased: 3600},
		})
	}
	return o
}
