package replay_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/quote"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
)

// quoted gives a quote what a log knows, in one block: the order in which it became known does not matter.
func quoted(t reporter, log replay.Log, r quote.Request) (*quote.Result, error) {
	t.Helper()
	q := quote.New(r)
	b := meter.Block{At: log.Until}
	for i, s := range log.Statements {
		if s.Known <= log.Until {
			s.Fact.Seq = uint64(i + 1)
			b.Facts = append(b.Facts, s.Fact)
		}
	}
	for i, m := range log.Measurements {
		if m.Known <= log.Until {
			b.Usage = append(b.Usage, meter.UsageMessage{Seq: uint64(i + 1), Batch: m.Batch})
		}
	}
	q.Facts(b)
	if err := q.Resolve(); err != nil {
		return nil, err
	}
	q.Samples(b)
	return q.Result(nil)
}

func bound(t reporter, at span.Second) quote.Bound {
	t.Helper()
	b, err := quote.ParseBound(at.String())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

// statements are the lines of an offer, by the start of their period.
func statements(o *quote.Offer) map[span.Second]map[string]any {
	out := map[span.Second]map[string]any{}
	for _, s := range o.Statements {
		out[s.Period.From] = written(s)
	}
	return out
}

func written(s *bill.Statement) map[string]any {
	unbilled := map[string]int64{}
	for _, l := range s.Unbilled {
		unbilled[string(l.Standing)+" "+l.Key.Reason] += l.Quantity
	}
	return map[string]any{"period": s.Period, "lines": ofFast(s), "total": s.Total.String(), "unbilled": unbilled}
}

// TestQuoteOfTheOwnContractIsItsBill: whatever a log holds, under the customer's own contracts the quote is what is billed, line by
// line; and the same contract asked for as another one gives the same again, where it was never amended or
// terminated. The log stays what it was.
func TestQuoteOfTheOwnContractIsItsBill(t *testing.T) {
	t.Parallel()
	again, modes := 0, map[quote.ModeName]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 1 + chooser(t)(2), late: day})
		r := run(t, w.log)
		for _, d := range w.deals {
			periods := w.periods(r, d)
			if last := len(periods) - 1; last >= 0 && periods[last].To > w.log.Until {
				periods = periods[:last]
			}
			if len(periods) == 0 {
				continue
			}
			ask := quote.Request{Customer: d.customer, From: bound(t, periods[0].From), To: bound(t, periods[len(periods)-1].To)}
			if len(d.versions) == 1 && r.Contracts().Terminated(d.id) == nil {
				ask.Contracts = []*contract.Contract{d.versions[0]}
			}
			got, err := quoted(t, w.log, ask)
			if err != nil {
				t.Fatalf("%v\n%s", err, w)
			}
			want := map[span.Second]map[string]any{}
			for _, p := range periods {
				want[p.From] = written(compute(t, r, p))
			}
			if diff := gocmp.Diff(want, statements(got.Own)); diff != "" {
				t.Fatalf("own contract of %s (-bill +quote)\n%s\n%s", d.customer, diff, w)
			}
			if len(ask.Contracts) > 0 {
				again++
				if diff := gocmp.Diff(want, statements(got.Others[0])); diff != "" {
					t.Fatalf("own contract of %s as another one (-bill +quote)\n%s\n%s", d.customer, diff, w)
				}
			}
			if got.Modes != nil {
				checkModes(t, got.Modes, modes)
			}
		}
		same(t, "after the quotes", r, run(t, w.log))
	})
	t.Logf("asked for again %d times, modes ranked %v", again, modes)
	if again == 0 || !testing.Short() && min(modes[quote.OnDemand], modes[quote.Reserved], modes[quote.Spot]) == 0 {
		t.Errorf("the worlds do not try what they should: %d, %v", again, modes)
	}
}

// TestQuoteOfTheCases: the quote of every case's own contracts is its bill.
func TestQuoteOfTheCases(t *testing.T) {
	tried := 0
	for _, name := range cases.List() {
		data, err := cases.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Close {
			p := period{c.Contract, c.Span}
			if now, ok := r.Contracts().Periods(p.contract).At(p.From); !ok || now.Span != p.Span {
				continue // it is no period any more
			}
			want, err := bill.Compute(r.Contracts(), p.contract, p.Span, totalsOf(r, p))
			if err != nil {
				t.Fatal(err)
			}
			ask := quote.Request{Customer: want.Contract.Customer, From: bound(t, p.From), To: bound(t, p.To)}
			got, err := quoted(t, s.Log(), ask)
			if err != nil && (strings.Contains(err.Error(), "cuts a period of contract") || strings.Contains(err.Error(), "converts currencies")) {
				continue // for another contract of the customer's
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, s := range got.Own.Statements {
				if s.Contract.ID != p.contract {
					continue
				}
				tried++
				if diff := gocmp.Diff(written(want), written(s)); diff != "" {
					t.Errorf("%s %v (-bill +quote)\n%s", name, p, diff)
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d periods", tried)
	}
}

// checkModes: savings are what the totals differ by, ranks rise, and no quantity of a reservation is cheaper than the best.
func checkModes(t *rapid.T, m *quote.Modes, ranked map[quote.ModeName]int) {
	var before *quote.Mode
	var onDemand quote.Mode
	for _, x := range m.List {
		if x.Name == quote.OnDemand {
			onDemand = x
		}
	}
	for i := range m.List {
		x := &m.List[i]
		if x.Why != "" {
			continue
		}
		ranked[x.Name]++
		if before != nil && before.Total.Cmp(x.Total) > 0 {
			t.Fatalf("%s at %s comes before %s at %s", before.Name, before.Total, x.Name, x.Total)
		}
		before = x
		if x.Total.Add(x.Saving).Cmp(onDemand.Total) != 0 {
			t.Fatalf("%s costs %s and saves %s of %s", x.Name, x.Total, x.Saving, onDemand.Total)
		}
		for _, h := range x.Held {
			for _, c := range h.Costs {
				if c.Cmp(h.Costs[h.Reservation.Quantity]) < 0 {
					t.Fatalf("%d of %s is not the best of %v", h.Reservation.Quantity, h.SKU, h.Costs)
				}
			}
		}
		if x.Name == quote.Reserved && x.Total.Cmp(onDemand.Total) > 0 {
			t.Fatalf("the best reserved quantity costs %s, none %s", x.Total, onDemand.Total)
		}
	}
}
