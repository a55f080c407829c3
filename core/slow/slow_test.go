package slow_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// bill is a small world of one contract, and what a person found one period of it to cost with pencil and paper.
type bill struct {
	name   string
	terms  string // the contract behind its head, see document
	stated []fact.Body
	seen   []usage.Batch
	of     string // an instant of the period, the first one when left out
	want   []string
}

// document is a contract of customer a in USD and UTC for 2026, unless it says otherwise itself.
func document(terms string) string {
	head := "contract: c, customer: a"
	for _, clause := range []string{"currency: USD", "timezone: UTC", "term: {from: 2026-01-01, to: 2027-01-01}"} {
		if key, _, _ := strings.Cut(clause, " "); !strings.Contains(terms, key) {
			head += ", " + clause
		}
	}
	return "{" + head + ", " + terms + "}"
}

// check bills every world and compares its lines: what they are, their quantity (GPU-hours of time) and their amount.
func check(t *testing.T, bills []bill) {
	t.Helper()
	for _, b := range bills {
		t.Run(b.name, func(t *testing.T) {
			w := world(t, b.terms, b.seen, b.stated...)
			periods := w.Periods("c", at(cmp.Or(b.of, "2026-01-01T00:00:00Z"))+1)
			s := w.Statement("c", periods[len(periods)-1])
			if diff := gocmp.Diff(b.want, lines(s)); diff != "" {
				t.Errorf("(-by hand +slow)\n%s", diff)
			}
			sum := new(big.Int)
			for _, l := range s.Lines {
				sum.Add(sum, l.Rounded)
			}
			if sum.Cmp(s.Total) != 0 {
				t.Errorf("the total is %s, the lines are %s", s.Total, sum)
			}
		})
	}
}

func world(t *testing.T, terms string, seen []usage.Batch, stated ...fact.Body) *slow.World {
	t.Helper()
	facts := []fact.Fact{{Seq: 1, Key: "sign", Body: &fact.ContractSigned{Contract: "c", Customer: "a", Document: document(terms)}}}
	for i, body := range stated {
		facts = append(facts, fact.Fact{Seq: uint64(i + 2), Key: fmt.Sprint("k", i), Body: body})
	}
	w := slow.New(facts, seen, at("2027-01-01T00:00:00Z"))
	if why := w.Unable(); len(why) > 0 {
		t.Fatal(why)
	}
	return w
}

// lines are the lines that are not empty, in order.
func lines(s *slow.Statement) []string {
	var out []string
	for k, l := range s.Lines {
		quantity := l.Quantity
		if k.Item == "" {
			quantity = new(big.Rat).Mul(quantity, big.NewRat(1, 3600*1000))
		}
		words := []string{k.Item, k.Name, k.SKU, k.Region, k.ServiceTier, k.Mode, k.Window, k.Commitment}
		if k.Idle {
			words = append(words, "idle")
		}
		words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
		amount := money.FromMinor(l.Rounded, "USD").String()
		out = append(out, fmt.Sprintf("%s: %s for %s", strings.Join(words, " "), quantity.RatString(), amount))
	}
	slices.Sort(out)
	return out
}

func at(text string) span.Second {
	second, err := span.Parse(text)
	if err != nil {
		panic(err)
	}
	return second
}

// start is a lease of whole GPUs without a place; its SKU and what else a test needs are set by change.
func start(lease, from string, gpus int64, change ...func(*fact.LeaseStarted)) fact.Body {
	b := &fact.LeaseStarted{Lease: lease, Customer: "a", SKU: "h100", PricingMode: "on_demand", At: at(from), Count: gpus, ShareMilli: 1000}
	for _, f := range change {
		f(b)
	}
	return b
}

func in(region string) func(*fact.LeaseStarted) {
	return func(b *fact.LeaseStarted) { b.Region = region }
}

func spot(b *fact.LeaseStarted) { b.PricingMode = "spot" }

func on(device string, milli int64) func(*fact.LeaseStarted) {
	return func(b *fact.LeaseStarted) {
		b.Count, b.ShareMilli, b.Devices = 0, 0, []fact.Share{{Node: "n", Device: device, ShareMilli: milli}}
	}
}

func stop(lease, when string) fact.Body { return stopBy(lease, when, fact.ByCustomer) }

func stopBy(lease, when string, by fact.EndedBy) fact.Body {
	return &fact.LeaseStopped{Lease: lease, At: at(when), By: by}
}

func amend(effective, terms string) fact.Body {
	return &fact.ContractAmended{Contract: "c", Effective: at(effective), Document: document(terms)}
}

// watched are batches of one run in which a device is so busy in every second of a span, but for those that were not seen.
func watched(device, from, to string, busy func(second span.Second) (percent uint8, seen bool)) (out []usage.Batch) {
	for minute := at(from) / 60; minute < at(to)/60; minute++ {
		block := usage.Block{Device: device}
		for i := range 60 {
			if percent, seen := busy(minute*60 + span.Second(i)); seen {
				block.Seen |= span.Bit(i)
				block.Busy[i] = percent
			}
		}
		out = append(out, usage.Batch{
			Node: "n", Boot: "b", Run: 1, Seq: uint64(len(out) + 1), Minute: span.Minute(minute), Spoken: span.SecondMask(1<<60 - 1), Blocks: [][]byte{block.Append(nil)},
		})
	}
	return out
}
