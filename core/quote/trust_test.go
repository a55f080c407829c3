package quote

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

// TestOnlyTakenBatchesArePriced: a quote looks at the batches that the rater took, as of their block, and can price them although it keeps
// only the customer's blocks of them.
func TestOnlyTakenBatchesArePriced(t *testing.T) {
	s, err := scenario.Parse("s.yaml", []byte(`story: a watched device
contracts:
  - {contract: acme-2026, customer: acme, currency: CNY, timezone: Asia/Shanghai, term: {from: 2026-01-01, to: 2027-01-01},
     rates: [{sku: h100, on_demand: 30.00/gpu-hour}]}
events:
  - {at: 2026-05-10T16:00:00Z, lease_started: {lease: L, customer: acme, sku: h100, pricing_mode: on_demand, devices: [{node: n, device: GPU-0, share_milli: 1000}]}}
  - {at: 2026-05-10T20:00:00Z, lease_stopped: {lease: L, by: customer}}
close: [{contract: acme-2026, period: 2026-05}]
`))
	if err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	public := fact.PublicKey(key.Public().(ed25519.PublicKey))
	from, fromErr := ParseBound("2026-05-01")
	to, toErr := ParseBound("2026-06-01")
	if err := errors.Join(fromErr, toErr); err != nil {
		t.Fatal(err)
	}
	q := New(Request{Customer: "acme", From: from, To: to})
	var facts []fact.Fact
	for _, x := range s.Log().Statements {
		facts = append(facts, x.Fact)
	}
	facts = append(facts, fact.Fact{Key: "e", Body: &fact.NodeEnrolled{Node: "n", PublicKey: public, By: "ops"}},
		fact.Fact{Key: "r", Body: &fact.NodeRevoked{Node: "n", PublicKey: public, By: "ops"}})
	for i := range facts {
		facts[i].Seq = uint64(i + 1)
	}
	n := uint64(len(facts))
	q.Facts(meter.Block{At: s.Log().Until, FactsSeq: n, Facts: facts})
	if err := q.Resolve(); err != nil {
		t.Fatal(err)
	}
	const start span.Second = 1_778_428_800 // 2026-05-10T16:00:00Z
	say := func(run uint64, signed bool) meter.UsageMessage {
		b := usage.Batch{Node: "n", Run: run, Seq: 1, Minute: start.Minute() + span.Minute(run), Spoken: span.FullMinute}
		for _, device := range []string{"GPU-0", "GPU-1"} {
			block := usage.Block{Device: device, Seen: span.FullMinute}
			b.Blocks = append(b.Blocks, block.Append(nil))
		}
		if signed {
			if err := trust.Sign(key, &b); err != nil {
				t.Fatal(err)
			}
		}
		return meter.UsageMessage{Seq: run, Batch: b}
	}
	q.Samples(meter.Block{At: start + 600, FactsSeq: n - 2, Usage: []meter.UsageMessage{say(1, false)}})
	q.Samples(meter.Block{At: start + 600, FactsSeq: n - 1, Usage: []meter.UsageMessage{say(2, true), say(3, false)}})
	q.Samples(meter.Block{At: start + 600, FactsSeq: n, Usage: []meter.UsageMessage{say(4, true)}})
	var taken []uint64
	for _, m := range q.samples {
		taken = append(taken, m.Seq)
	}
	if d := cmp.Diff([]uint64{1, 2}, taken); d != "" {
		t.Errorf("batches: %s", d)
	}
	rated := map[span.Minute]bool{}
	for _, row := range q.rateAll(terms{}, q.samples).rows[sampled{"", "GPU-0"}] {
		rated[row.Minute-start.Minute()] = true
	}
	if d := cmp.Diff(map[span.Minute]bool{1: true, 2: true}, rated); d != "" {
		t.Errorf("minutes: %s", d)
	}
}
