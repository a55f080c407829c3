package replay_test

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
)

func run(t *rapid.T, log replay.Log) *replay.Result {
	r, err := replay.Run(log, replay.Options{Series: "T", Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bytes is every invoice as it is frozen, by number.
func bytes(t *rapid.T, r *replay.Result) []string {
	var out []string
	for _, i := range r.Invoices {
		data, err := i.Document.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	return out
}

func cuts(r *replay.Result) []span.Second {
	var out []span.Second
	for i := range r.Outcomes {
		for _, c := range r.Outcomes[i].Cuts {
			out = append(out, c.At)
		}
	}
	return out
}

func same(t *rapid.T, what string, want, got *replay.Result) {
	if diff := cmp.Diff(bytes(t, want), bytes(t, got)); diff != "" {
		t.Fatalf("%s: invoices differ (-want +got)\n%s", what, diff)
	}
}

// periods are those of a deal, by all that is known of it, from its term's start to a little after the last fact.
func (w *world) periods(r *replay.Result, d *deal) []period {
	var out []period
	for p := range r.Contracts().Periods(d.id).From(0) {
		if p.From > w.horizon() {
			break
		}
		out = append(out, period{d.id, p})
	}
	return out
}

func (w *world) horizon() span.Second { return min(w.last+day, w.log.Until-1) }

// The two raters agree on every period, to the exact amount of every line, and on the standing and coverage of every leased
// second; and what was billed so far is the slow rater's statement, rounded amount by rounded amount, whatever came late.
func TestRatersAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		agree(t, drawWorld(t, shape{contracts: 1 + chooser(t)(2), late: 2 * day}))
	})
}

// agree compares both raters on every period of a world, on the ledger and on what was billed.
func agree(t *rapid.T, w *world) *replay.Result {
	r, slowly := run(t, w.log), slowly(w.log)
	if why := slowly.Unable(); len(why) > 0 {
		t.Fatalf("beyond the slow rater: %v", why)
	}
	billed, ends := sums(r.Invoices), endsOf(r.Invoices)
	for _, d := range w.deals {
		periods := w.periods(r, d)
		if diff := cmp.Diff(slowly.Periods(d.id, w.horizon()+1), spans(periods)); diff != "" {
			t.Fatalf("periods (-slow +fast)\n%s\n%s", diff, w)
		}
		for _, p := range periods {
			s := slowly.Statement(p.contract, p.Span)
			if diff := disagreement(r, s, p); diff != "" {
				t.Fatalf("%s\n%s", diff, w)
			}
			if limit := compute(t, r, p).Charges().Minor(); limit.Cmp(charges(s)) != 0 {
				t.Fatalf("charges of %v: slow %s, fast %s\n%s", p, charges(s), limit, w)
			}
			if got, closed := billed[p.name()]; closed && ends[p.name()] >= p.To { // else it reaches further by now, and is not due
				if diff := cmp.Diff(rounded(s), got); diff != "" {
					t.Fatalf("billed of %v (-slow +fast)\n%s\n%s", p, diff, w)
				}
			}
			delete(billed, p.name())
		}
	}
	for name, lines := range billed { // of what was a period once, or is beyond the horizon
		if at, _ := span.Parse(strings.SplitN(name, " ", 2)[1]); len(lines) > 0 && at <= w.horizon() && !strings.HasPrefix(name, "metronome") {
			t.Fatalf("%s begins no period, and is billed %v\n%s", name, lines, w)
		}
	}
	return r
}

// charges are what counts against a spend limit, in minor units: every line but the shortfall and
// what is due for the end of the contract.
func charges(s *slow.Statement) *big.Int {
	sum := new(big.Int)
	for k, l := range s.Lines {
		if k.Item != "commitment" && k.Item != "clawback" && k.Item != "termination" {
			sum.Add(sum, l.Rounded)
		}
	}
	return sum
}

func spans(periods []period) []span.Span {
	var out []span.Span
	for _, p := range periods {
		out = append(out, p.Span)
	}
	return out
}

// endsOf are the ends of periods as they were billed last.
func endsOf(invoices []replay.Issued) map[string]span.Second {
	out := map[string]span.Second{}
	for _, i := range invoices {
		out[nameOf(i.Document)], _ = span.Parse(i.Document.Period.To)
	}
	return out
}

func (w *world) String() string {
	out := ""
	for _, s := range w.log.Statements {
		out += fmt.Sprintf("%v %s %T %+v\n", s.Known, s.Fact.Key, s.Fact.Body, s.Fact.Body)
	}
	for _, v := range w.views {
		out += fmt.Sprintf("%+v\n", v)
	}
	return out
}

func (p period) name() string { return p.contract + " " + p.From.String() }

// nameOf is the period of a document, which writes its start in the zone of the time.
func nameOf(d *bill.Document) string {
	from, err := span.Parse(d.Period.From)
	if err != nil {
		panic(err)
	}
	return period{d.Contract, span.Span{From: from}}.name()
}

// sums adds the documents of every closed period up, by line, in minor units. A line of nothing is none. What is billed in advance of a
// period that is open hangs on when its contract was known.
func sums(invoices []replay.Issued) map[string]map[slow.Key]string {
	amounts := map[string]map[slow.Key]*big.Int{}
	closed := map[string]bool{}
	for _, i := range invoices {
		d := i.Document
		name := nameOf(d)
		closed[name] = closed[name] || d.Kind == bill.KindInvoice
		if amounts[name] == nil {
			amounts[name] = map[slow.Key]*big.Int{}
		}
		for _, l := range d.Lines {
			k := slow.Key{
				Item: string(l.Item), Name: l.Name, SKU: l.SKU, Region: l.Region, ServiceTier: l.ServiceTier, Dedicated: l.Dedicated, Mode: l.PricingMode,
				Window: l.Window, Idle: l.Idle, Commitment: l.Commitment,
			}
			v, err := money.ParseRounded(l.Amount, money.Currency(d.Currency))
			if err != nil {
				panic(err)
			}
			if amounts[name][k] == nil {
				amounts[name][k] = new(big.Int)
			}
			amounts[name][k].Add(amounts[name][k], v.Minor())
		}
	}
	out := map[string]map[slow.Key]string{}
	for name, lines := range amounts {
		if !closed[name] {
			continue
		}
		out[name] = map[slow.Key]string{}
		for k, v := range lines {
			if v.Sign() != 0 {
				out[name][k] = v.String()
			}
		}
	}
	return out
}

func rounded(s *slow.Statement) map[slow.Key]string {
	out := map[slow.Key]string{}
	for k, l := range s.Lines {
		if l.Rounded.Sign() != 0 {
			out[k] = l.Rounded.String()
		}
	}
	return out
}

// amounts are the rounded lines of the fast rater.
func amounts(s *bill.Statement) map[slow.Key]string {
	out := map[slow.Key]string{}
	for i := range s.Lines {
		if l := &s.Lines[i]; !l.Amount.IsZero() {
			out[slowKey(l.Key)] = l.Amount.Minor().String()
		}
	}
	return out
}

// settled is what was billed of every period that is due by all that is known, and closed up to its end. One that was closed with
// nothing on its bill may as well not have been. An amendment may move an end and the grace behind it: whether it was known by
// then decides what was closed meanwhile.
func (w *world) settled(r *replay.Result) map[string]map[slow.Key]string {
	out, ends := sums(r.Invoices), endsOf(r.Invoices)
	maps.DeleteFunc(out, func(name string, lines map[slow.Key]string) bool {
		id, start, _ := strings.Cut(name, " ")
		at, _ := span.Parse(start)
		now, ok := r.Contracts().Periods(id).At(at)
		last, _ := r.Contracts().Last(id)
		waits := span.Second(grace)
		if last.Contract.Billing.GraceKnown {
			waits = span.Second(last.Contract.Billing.GraceSeconds)
		}
		return len(lines) == 0 || ok && now.Span.From == at && (ends[name] < now.Span.To || now.Span.To+waits > w.log.Until)
	})
	return out
}

// What is known decides, not the order in which it came, how often, in how many batches or between how many blocks. A period that is
// blocked asks for cuts when something is stated, so order and blocks may move a correction to another invoice; what is billed in
// all stays.
func TestOrderRepetitionBatchesAndBlocksDoNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 1 + chooser(t)(2), late: day})
		want := run(t, w.log)
		alike := func(what string, log replay.Log) {
			got := run(t, log)
			a, b := w.settled(want), w.settled(got)
			for _, x := range slices.Concat(want.Blocked, got.Blocked) { // closed where its end was known before what blocks it
				delete(a, period{x.Contract, x.Period}.name())
				delete(b, period{x.Contract, x.Period}.name())
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("%s (-want +got)\n%s\n%s", what, diff, w)
			}
		}
		pick := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).IntN
		alike("disorder", scenario.Disorder(w.log, cuts(want), pick))
		w.measure(rapid.SampledFrom([]int64{1, 7, 10, 60}).Draw(t, "batch"))
		same(t, "batches", want, run(t, w.log))
		for at := w.from - day; at < w.log.Until; {
			at += span.Second(rapid.Int64Range(1, day/2).Draw(t, "step"))
			w.log.Stops = append(w.log.Stops, at)
		}
		alike("more blocks", w.log)
	})
}

// An audit of what was written down decides everything alike.
func TestAuditAgrees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 1 + chooser(t)(2), late: 2 * day})
		a, err := replay.AuditOf(w.log, replay.Options{Series: "T", Grace: grace}, nil)
		if err != nil || len(a.Differences) > 0 || a.Cuts == 0 || a.Invoices == 0 {
			t.Fatalf("%v: %d cuts, %d invoices: %v\n%s", err, a.Cuts, a.Invoices, a.Differences, w)
		}
	})
}

// A cut that says more counts than its block holds is found, and one that does not say is of an old log.
func TestAuditComparesWhatCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 1})
		for _, says := range []func(uint64) uint64{func(uint64) uint64 { return 0 }, func(last uint64) uint64 { return last + 1 }} {
			a, err := replay.AuditOf(w.log, replay.Options{Series: "T", Grace: grace}, func(b fact.Body) {
				if cut, ok := b.(*fact.CutDone); ok {
					cut.FactsSeq = says(cut.FactsSeq)
				}
			})
			found := slices.ContainsFunc(a.Differences, func(d string) bool { return strings.Contains(d, "the log counts facts up to") })
			if err != nil || found != (says(0) > 0) {
				t.Fatalf("%v: %v\n%s", err, a.Differences, w)
			}
		}
	})
}

// Another customer's contract, leases and readings change nothing.
func TestCustomersAreIsolated(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 2, late: day, alone: true})
		both := sums(run(t, w.log).Invoices)
		var own replay.Log
		own.Until = w.log.Until
		for _, s := range w.log.Statements {
			if b := s.Fact.Body; !strings.HasPrefix(b.Entity(), "c1") {
				own.Statements = append(own.Statements, s)
			}
		}
		for _, m := range w.log.Measurements {
			if !strings.HasPrefix(m.Batch.Node, "node-c1") {
				own.Measurements = append(own.Measurements, m)
			}
		}
		alone := sums(run(t, own).Invoices)
		for name, lines := range alone {
			if diff := cmp.Diff(lines, both[name]); diff != "" {
				t.Fatalf("%s (-alone +with another)\n%s", name, diff)
			}
		}
	})
}

// compute is the statement of a period on the ledger at the end of a replay.
func compute(t *rapid.T, r *replay.Result, p period) *bill.Statement {
	s, err := bill.ComputeUntil(r.Contracts(), p.contract, p.Span, r.State.At(), totalsOf(r, p))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
