package replay_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
)

// paidAhead is a bill in advance, and when it was decided.
type paidAhead struct {
	*fact.PeriodClosed
	at span.Second
	*bill.Document
}

// history is what a log decided, by closing.
type history struct {
	ahead  map[string]paidAhead                // by contract and start of the period
	closed map[string][]*fact.PeriodClosed     // likewise, from the close on
	taken  map[string]map[slow.Key]string      // what closes took off, as amounts
	sums   map[string]map[slow.Key]string      // of closed periods
	asked  map[string]span.Second              // when cuts were asked for
	of     func(fact.PeriodClosed) (id string) // how a period is named
}

func decided(t *rapid.T, log replay.Log) *history {
	facts, err := replay.Decided(log, replay.Options{Series: "T", Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	h := &history{
		ahead: map[string]paidAhead{}, closed: map[string][]*fact.PeriodClosed{}, taken: map[string]map[slow.Key]string{},
		asked: map[string]span.Second{}, of: func(c fact.PeriodClosed) string { return fmt.Sprint(c.Contract, " ", c.PeriodStart) },
	}
	var last *fact.PeriodClosed
	var issued []replay.Issued
	for _, f := range facts {
		switch b := f.Body.(type) {
		case *fact.CutRequested:
			h.asked[b.Cut] = b.At
		case *fact.PeriodClosed:
			last = b
		case *fact.InvoiceIssued:
			d, err := bill.ParseDocument(b.Document)
			if err != nil || d.Closing != last.N || (d.Kind == bill.KindAdvance) != (last.N == 0) {
				t.Fatalf("closing %d has a document of kind %s, closing %d: %v", last.N, d.Kind, d.Closing, err)
			}
			issued = append(issued, replay.Issued{Fact: b, Document: d})
			h.closing(t, last, d)
		}
	}
	h.sums = sums(issued)
	return h
}

func (h *history) closing(t *rapid.T, c *fact.PeriodClosed, d *bill.Document) {
	name := h.of(*c)
	if c.N == 0 {
		if _, twice := h.ahead[name]; twice || len(h.closed[name]) > 0 {
			t.Fatalf("%s is billed in advance twice, or behind its close", name)
		}
		h.ahead[name] = paidAhead{c, h.asked[c.Cut], d}
		return
	}
	h.closed[name] = append(h.closed[name], c)
	if c.N != len(h.closed[name]) {
		t.Fatalf("closing %d of %s is the %d. of it", c.N, name, len(h.closed[name]))
	}
	for _, l := range d.Lines {
		if l.Advance != "" {
			if h.taken[name] == nil {
				h.taken[name] = map[slow.Key]string{}
			}
			h.taken[name][lineKey(&l)] = minor(d, &l)
		}
	}
}

func lineKey(l *bill.DocumentLine) slow.Key { return slowKey(l.Key()) }

func minor(d *bill.Document, l *bill.DocumentLine) string {
	v, err := money.ParseRounded(l.Amount, money.Currency(d.Currency))
	if err != nil {
		panic(err)
	}
	return v.Minor().String()
}

// contractsAt is the slow rater with the contracts that were known at an instant.
func contractsAt(log replay.Log, at span.Second) *slow.World {
	known := replay.Log{Until: at}
	for _, s := range log.Statements {
		switch s.Fact.Body.(type) {
		case *fact.ContractSigned, *fact.ContractAmended, *fact.ContractTerminated, *fact.PriceBookPublished:
			known.Statements = append(known.Statements, s)
		}
	}
	return slowly(known)
}

// checkAhead holds a bill in advance against the slow rater with what was known when it was decided, and the close against it.
func (h *history) checkAhead(t *rapid.T, log replay.Log, a paidAhead) {
	want := rounded(contractsAt(log, a.at).Advance(a.PeriodClosed.Contract, span.Span{From: a.PeriodStart, To: a.PeriodEnd}))
	got, taken := map[slow.Key]string{}, map[slow.Key]string{}
	for i := range a.Lines {
		l := &a.Lines[i]
		if v := minor(a.Document, l); v != "0" {
			got[lineKey(l)] = v
		}
		v, _ := new(big.Int).SetString(minor(a.Document, l), 10)
		taken[lineKey(l)] = v.Neg(v).String()
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
		t.Fatalf("%s in advance at %v (-slow +fast)\n%s", h.of(*a.PeriodClosed), a.at, diff)
	}
	name := h.of(*a.PeriodClosed)
	if len(h.closed[name]) > 0 {
		if diff := cmp.Diff(taken, h.taken[name]); diff != "" {
			t.Fatalf("%s takes off (-in advance +taken off)\n%s", name, diff)
		}
	}
}

// Every fee that says so is billed when its period begins, as the slow rater has it from what was known then, and taken off the close;
// TestRatersAgree holds what was billed in all against the whole statement.
func TestFeesInAdvance(t *testing.T) {
	t.Parallel()
	billed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{contracts: 1 + chooser(t)(2), late: 2 * day})
		h := decided(t, w.log)
		for _, a := range h.ahead {
			billed++
			h.checkAhead(t, w.log, a)
		}
		for _, d := range w.deals {
			for _, p := range w.periods(run(t, w.log), d) {
				known := contractsAt(w.log, p.From)
				then := known.Periods(d.id, p.From+1)
				if p.From > w.log.Until || len(then) == 0 || then[len(then)-1].From != p.From {
					continue // it became a period later
				}
				owed := known.Advance(p.contract, then[len(then)-1]).Total.Sign() > 0
				a, paid := h.ahead[fmt.Sprint(p.contract, " ", p.From)]
				if owed && (!paid || a.at != p.From) {
					t.Fatalf("%v is not billed in advance when it begins, but %v at %v\n%s", p, paid, a.at, w)
				}
			}
		}
	})
	if billed == 0 {
		t.Error("nothing was ever billed in advance")
	}
}

// agreement draws a contract of fees alone, and amendments that move its prices, its end, its periods and what is paid in advance.
func agreement(t *rapid.T) *world {
	w := &world{}
	choose := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).IntN // evenly, unlike rapid: ends and instants have to lie apart
	one := func(list ...string) string { return list[choose(len(list))] }
	zone, cycle, rest := one("UTC", "Asia/Kolkata", "America/New_York"), one("monthly", "monthly", "weekly", "biweekly", "daily"), one("0", "3h", "2d")
	begins, trial := one("2026-02-10", "2026-02-27"), one("", "", "", "2026-02-28T13:30:00Z", "2026-03-04T18:45:00Z")
	per, spent := one("day", "week", "month", "quarter", "year"), one("month", "quarter", "year") // an amendment keeps them
	document := func() string {
		if choose(4) == 0 { // closes a stub
			zone, cycle = one("UTC", "Asia/Kolkata", "America/New_York"), one("monthly", "weekly", "biweekly", "daily")
		}
		ends := one("2026-03-01", "2026-03-08", "2026-03-20", "2026-05-01")
		fee := func(name string) string {
			return fmt.Sprintf("{name: %s, quantity: %d, price: %d.%02d/gpu-%s, from: %s, to: %s, pay: %s}", name, 1+choose(3), choose(500), choose(100),
				one("day", "week", "month", "quarter"), one(begins, "2026-02-28"), ends, one("advance", "advance", "arrears"))
		}
		tried := ""
		if trial != "" {
			until := trial
			if ends < until { // a term that is cut short in the trial ends it
				until = ends
			}
			tried = fmt.Sprintf(", trial: {until: %q}", until)
		}
		return fmt.Sprintf("{contract: c0, customer: a, currency: %s, timezone: %s, term: {from: %s, to: %s}%s, billing: {cycle: %s, grace: %s, rounding: %s, fee_month: %s}, "+
			"rates: [{sku: a100, on_demand: %s, reserved: [%s, %s]}], addons: [{name: s, price: %d/%s, prorate: true, pay: %s}%s]%s}",
			"USD", zone, begins, ends, tried, cycle, rest, one("half_even", "up", "down"), one("actual", "30d", "28d"), one("1/gpu-hour", "4/gpu-hour", "900/gpu-month"), fee("base"), fee("more"), choose(99), per,
			one("advance", "arrears"), one("", fmt.Sprintf(", {name: setup, price: %d/once, pay: %s}", 1+choose(99), one("advance", "arrears"))),
			one("", ", commitment: {spend: 3000/"+spent+", shortfall: bill}")+one("", ", termination: {refund: none}", ", termination: {refund: prorata, fee: 5%}",
				", termination: {refund: prorata, clawback: on_demand_difference}", ", termination: {refund: none, clawback: on_demand_difference, fee: 12.5%}"))
	}
	from, _ := span.Parse("2026-02-08T00:00:00Z")
	w.add(from, "sign/metronome", &fact.ContractSigned{Contract: "metronome", Customer: "metronome", Document: "{contract: metronome, customer: metronome, " +
		"currency: USD, timezone: UTC, term: {from: 2026-02-08, to: open}, billing: {cycle: daily, grace: 0}, rates: [{sku: none, on_demand: 1/gpu-hour}]}"})
	within := func(days int) span.Second { return from + span.Second(choose(days*day)) }
	for i := range 2 + choose(3) {
		text := document()
		c, err := contract.Parse("c.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		at := within(25)
		switch {
		case i == 0:
			w.add([]span.Second{from, at}[choose(2)], "sign", &fact.ContractSigned{Contract: "c0", Customer: "a", Document: text})
		case at >= c.Term.To:
			continue // it would be refused
		default:
			w.add(max(w.log.Statements[1].Known, within(45)), fmt.Sprint("amend/", i), &fact.ContractAmended{Contract: "c0", Effective: at, Document: text})
		}
	}
	for i := range choose(3) {
		b := &fact.ContractTerminated{Contract: "c0", At: within(40), By: []fact.EndedBy{fact.ByCustomer, fact.ByCustomer, fact.ByProvider}[choose(3)]}
		w.add(max(w.log.Statements[1].Known, within(60)), fmt.Sprint("terminate/", i), b)
	}
	slices.SortStableFunc(w.log.Statements, func(a, b replay.Statement) int { return int(a.Known - b.Known) })
	refused := register(w.log).Problems("c0")
	w.log.Statements = slices.DeleteFunc(w.log.Statements, func(s replay.Statement) bool { // what is refused blocks the close
		return slices.ContainsFunc(refused, func(p contract.Problem) bool { return p.Key == s.Fact.Key })
	})
	w.log.Until = from + 90*day
	return w
}

// Whatever moves the prices, the periods, the end of the term and what is paid in advance, and however late it is known: every period of the term is
// closed up to its end, every period that was billed in advance is closed too, and its documents sum to what the slow rater makes of it.
func TestFeesInAdvanceSumUp(t *testing.T) {
	t.Parallel()
	var ahead, gone, cut, late, left, kept int
	rapid.Check(t, func(t *rapid.T) {
		w := agreement(t)
		h := decided(t, w.log)
		s := slowly(w.log)
		if why := s.Unable(); len(why) > 0 {
			t.Fatalf("beyond the slow rater: %v", why)
		}
		c := latest(w.log)
		periods := map[span.Second]span.Span{}
		for _, p := range s.Periods("c0", w.log.Until) {
			periods[p.From] = p
			list := h.closed[fmt.Sprint("c0 ", p.From)]
			if p.To+3*day < w.log.Until && (len(list) == 0 || list[len(list)-1].PeriodEnd < p.To) {
				t.Fatalf("%v is not closed up to its end: %v\n%s", p, list, w)
			}
		}
		for name, a := range h.ahead {
			ahead++
			h.checkAhead(t, w.log, a)
			if list := h.closed[name]; len(list) == 0 && a.PeriodEnd+3*day < w.log.Until {
				t.Fatalf("%s was billed in advance and is not closed\n%s", name, w)
			}
			if a.at > a.PeriodStart {
				late++
			}
			if a.PeriodStart >= c.Term.To {
				gone++
			} else if a.PeriodEnd > c.Term.To {
				cut++
			}
		}
		for _, list := range h.closed {
			last := list[len(list)-1]
			if last.Contract != "c0" {
				continue
			}
			want := map[slow.Key]string{} // of what is no period any more
			if p, is := periods[last.PeriodStart]; is {
				want = rounded(s.Statement("c0", p))
			}
			for k := range want {
				switch k.Item {
				case "clawback":
					left++
				case "termination":
					kept++
				}
			}
			if diff := cmp.Diff(want, h.sums[period{"c0", span.Span{From: last.PeriodStart}}.name()]); diff != "" {
				t.Fatalf("billed of %v (-slow +fast)\n%s\n%s", last.PeriodStart, diff, w)
			}
		}
	})
	if min(ahead, gone, cut, late) == 0 || !testing.Short() && min(left, kept) == 0 {
		t.Errorf("%d bills in advance, %d of periods that are gone, %d of shorter ones, %d late; %d clawbacks, %d fees", ahead, gone, cut, late, left, kept)
	}
}

// latest is the version that came into force last.
func latest(log replay.Log) *contract.Contract { return register(log).Latest()[0].Contract }

// register knows all that a log states of contracts but the metronome's.
func register(log replay.Log) *contract.Register {
	r := contract.NewRegister()
	for i, s := range log.Statements {
		s.Fact.Seq = uint64(i + 1)
		if !strings.HasSuffix(s.Fact.Key, "metronome") {
			r.Apply(s.Fact)
		}
	}
	return r
}
