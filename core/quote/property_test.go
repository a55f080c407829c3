package quote

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

const midnight span.Second = 1777564800 // 2026-04-30T16:00:00Z, local midnight of the first of May

// drawFacts are leases of two customers that meet on two devices around midnight.
func drawFacts(t *rapid.T) []fact.Fact {
	var out []fact.Fact
	state := func(key string, body fact.Body) {
		out = append(out, fact.Fact{Seq: uint64(len(out) + 1), Key: key, Hash: fact.HashJSON(body), Body: body})
	}
	for _, customer := range []string{"acme", "bolt"} {
		document := strings.NewReplacer("other", customer+"-2026", "whoever", customer).Replace(other)
		state("sign/"+customer, &fact.ContractSigned{Contract: customer + "-2026", Customer: customer, Document: document})
	}
	state("tick", &fact.SpotPriceChanged{Index: "h100", At: midnight - 7200, Currency: "CNY", Price: "12.00/gpu-hour"})
	for i := range rapid.IntRange(2, 6).Draw(t, "leases") {
		pick := func(list ...string) string { return rapid.SampledFrom(list).Draw(t, "choice") }
		id := fmt.Sprint("L", i)
		from := midnight + span.Second(rapid.IntRange(-3600, 3600).Draw(t, "from"))
		st := &fact.LeaseStarted{Lease: id, Customer: pick("acme", "bolt"), SKU: pick("h100", "h100", "a100"), PricingMode: pick(price.OnDemand, price.Spot), At: from}
		for _, device := range []string{"A", "B"} {
			if rapid.Bool().Draw(t, "held") {
				st.Devices = append(st.Devices, fact.Share{Node: "n", Device: device, ShareMilli: rapid.SampledFrom([]int64{1000, 600, 143}).Draw(t, "milli")})
			}
		}
		if i == 0 { // and one has a device of its own: its idle time is known
			st.Customer, st.SKU, st.Devices = "acme", "h100", []fact.Share{{Node: "n", Device: "C", ShareMilli: 1000}}
		}
		if len(st.Devices) == 0 {
			st.Count, st.ShareMilli = 2, 1000
		}
		if rapid.Bool().Draw(t, "named") {
			st.Contract = st.Customer + "-2026"
		}
		state(id, st)
		to := from + span.Second(rapid.IntRange(0, 3600).Draw(t, "seconds"))
		state(id+"/stop", &fact.LeaseStopped{Lease: id, At: to, By: rapid.SampledFrom([]fact.EndedBy{fact.ByCustomer, fact.ByProvider}).Draw(t, "by")})
	}
	return out
}

// TestQuotingChangesNothingOfOthers: whatever contract and mode one customer's leases are put under, every second of another customer
// keeps its key, also where both want one device; and the facts that were given stay what they were.
func TestQuotingChangesNothingOfOthers(t *testing.T) {
	t.Parallel()
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t)
		before := fmt.Sprintf("%+v", bodies(facts))
		c, err := contract.Parse("c.yaml", []byte(strings.Replace(other, "whoever", "bolt", 1)))
		if err != nil {
			t.Fatal(err)
		}
		c.ID = rapid.SampledFrom([]string{"other", "bolt-2026"}).Draw(t, "name") // bolt's own name too
		c.Source = []byte(strings.Replace(string(c.Source), "other", c.ID, 1))
		q := New(Request{Customer: "acme", From: Bound{at: midnight}, To: Bound{at: midnight + 31*86400}, Contracts: []*contract.Contract{c}})
		q.Facts(meter.Block{Facts: facts, At: span.Open})
		if err := q.Resolve(); err != nil && strings.Contains(err.Error(), "neither contract nor lease") {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		of := func(under terms) map[string]meter.Amounts {
			r, err := q.rate(under, nil)
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]meter.Amounts{}
			for _, list := range r.totals {
				for _, total := range list {
					if total.Key.Customer == "bolt" {
						out[fmt.Sprintf("%s %s %+v", total.Lease, total.Device, total.Key)] = total.Amounts
						met++
					}
				}
			}
			return out
		}
		want := of(terms{})
		for _, under := range []terms{{contract: q.quoted[0]}, {contract: q.quoted[0], mode: always(price.Spot), bare: true}} {
			if diff := cmp.Diff(want, of(under)); diff != "" {
				t.Fatalf("bolt (-as it is +quoted)\n%s\n%s", diff, before)
			}
		}
		if after := fmt.Sprintf("%+v", bodies(facts)); after != before {
			t.Fatalf("the facts were %s\nand are %s", before, after)
		}
	})
	if met == 0 {
		t.Error("no lease of another customer was ever met")
	}
}

func bodies(facts []fact.Fact) (out []string) {
	for _, f := range facts {
		out = append(out, fmt.Sprintf("%+v", f.Body))
	}
	return out
}

// drawContract is other with clauses that make a bill more than a sum of hours, and a price per day: the span is May, but all is used
// in two hours of it.
func drawContract(t *rapid.T) *contract.Contract {
	text := strings.Replace(strings.Replace(other, "whoever", "acme", 1), "12000.00/gpu-month", rapid.SampledFrom([]string{"20.00", "60.00", "300.00", "900.00"}).Draw(t, "fee")+"/gpu-month", 1)
	may := func(clause string) string {
		if rapid.Bool().Draw(t, clause) {
			return clause
		}
		return ""
	}
	text = strings.Replace(text, "    reserved:", may("    volume: {by: gpu-hours, per: period, method: volume, tiers: [{upto: 2, price: 100%}, {upto: 4, price: 70%}, {price: 40%}]}\n")+"    reserved:", 1)
	text += may("idle_relief: {below: 5%, after: 5m, off: 50%}\n") + may("commitment: {spend: 150.00/month, shortfall: bill}\n")
	text = strings.Replace(text, "rates:", "billing: {cycle: monthly"+may(", minimum: 30m")+may(", bill_by: observed")+"}\nrates:", 1)
	if rapid.Bool().Draw(t, "unknown holidays") { // of 2026 this calendar knows nothing
		text = strings.Replace(text, "off: 50%}]", "off: 50%, holidays: cn-2025}]", 1)
	}
	c, err := contract.Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// drawUsage is what a node's collector saw of its devices around midnight, by turns of some minutes busy, idle or not there.
func drawUsage(t *rapid.T) (out []meter.UsageMessage) {
	turn := int64(rapid.SampledFrom([]int{7, 30, 60}).Draw(t, "turn"))
	what := rapid.SliceOfN(rapid.SampledFrom([]uint8{0, 0, 3, 3, 50, usage.BusyUnknown, absent}), 5, 5).Draw(t, "busy")
	first := (midnight - 3600).Minute()
	for m := first; m < first+180; m++ {
		busy := what[int64(m-first)/turn%int64(len(what))]
		if busy == absent {
			continue
		}
		b := usage.Batch{Node: "n", Boot: "b", Run: 1, Seq: uint64(len(out) + 1), Minute: m, Spoken: span.FullMinute}
		for _, device := range []string{"A", "B", "C"} {
			block := usage.Block{Device: device, Seen: span.FullMinute}
			for i := range block.Busy {
				block.Busy[i] = busy
			}
			b.Blocks = append(b.Blocks, block.Append(nil))
		}
		out = append(out, meter.UsageMessage{Seq: b.Seq, Batch: b})
	}
	return out
}

const absent = 200

// TestEveryQuantityCostsItsBill: what the search says that a reserved quantity costs is what it costs when the log is rated under it.
func TestEveryQuantityCostsItsBill(t *testing.T) {
	t.Parallel()
	tried, relieved := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawContract(t)
		q := New(Request{Customer: "acme", From: Bound{at: midnight}, To: Bound{at: midnight + 31*86400}, Contracts: []*contract.Contract{c}})
		block := meter.Block{Facts: drawFacts(t), Usage: drawUsage(t), At: midnight + 40*86400}
		q.Facts(block)
		if err := q.Resolve(); err != nil {
			return // no lease of acme's
		}
		q.Samples(block)
		r, err := q.Result(nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Modes == nil {
			return
		}
		for _, l := range r.Others[0].Statements[0].Lines {
			if l.Key.Idle {
				relieved++
			}
		}
		for _, m := range r.Modes.List {
			for _, h := range m.Held {
				for n, cost := range h.Costs {
					may := contract.Retention{SKU: h.SKU, Name: h.Reservation.Name, Quantity: int64(n), From: date(t, "2026-05-01"), To: date(t, "2026-06-01")}
					varied, err := c.Vary(contract.Variation{Bare: true, Reserved: []contract.Retention{may}})
					if err != nil {
						t.Fatal(err)
					}
					o, err := q.offer(terms{contract: varied, mode: always(price.OnDemand), bare: true})
					if err != nil {
						t.Fatal(err)
					}
					if tried++; o.Total.Cmp(cost) != 0 {
						t.Fatalf("%d reserved: the search says %s, the bill is %s\n%s\n%s", n, cost, o.Total, c.Source, bodies(block.Facts))
					}
				}
			}
		}
	})
	if t.Logf("%d quantities, %d idle lines", tried, relieved); min(tried, relieved) == 0 && !testing.Short() {
		t.Errorf("%d quantities, %d idle lines: this does not try what it should", tried, relieved)
	}
}

func date(t *rapid.T, text string) calendar.Date {
	d, err := calendar.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
