package replay_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// slowly gives the slow rater what a log knows at its end.
func slowly(log replay.Log) *slow.World {
	var facts []fact.Fact
	known := map[string]bool{}
	for _, s := range log.Statements {
		if s.Known <= log.Until && !known[s.Fact.Key] {
			known[s.Fact.Key] = true
			facts = append(facts, s.Fact)
		}
	}
	var batches []usage.Batch
	for _, m := range log.Measurements {
		if m.Known <= log.Until {
			batches = append(batches, m.Batch)
		}
	}
	return slow.New(facts, batches, log.Until)
}

// period is one contract's.
type period struct {
	contract string
	span.Span
}

// exactly is a line in full.
func exactly(quantity, exact *big.Rat, minor *big.Int) string {
	return fmt.Sprintf("%s cost exactly %s, %s minor units", quantity.RatString(), exact.RatString(), minor)
}

func ofSlow(s *slow.Statement) map[slow.Key]string {
	out := map[slow.Key]string{}
	for k, l := range s.Lines {
		out[k] = exactly(l.Quantity, l.Exact, l.Rounded)
	}
	return out
}

func ofFast(s *bill.Statement) map[slow.Key]string {
	out := map[slow.Key]string{}
	for i := range s.Lines {
		l := &s.Lines[i]
		quantity := new(big.Rat).SetInt64(l.Quantity)
		if l.Item != nil {
			quantity = l.Item.Quantity
		}
		out[slowKey(l.Key)] = exactly(quantity, l.Exact, l.Amount.Minor())
	}
	return out
}

func slowKey(k bill.LineKey) slow.Key {
	return slow.Key{
		Item: string(k.Item), Name: k.Name, SKU: k.SKU, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated,
		Mode: k.PricingMode, Window: k.Window, Idle: k.Idle, Commitment: k.Commitment,
	}
}

// cells are the leased time of a period as the ledger holds it.
func cells(totals []meter.Total) map[slow.Cell]int64 {
	out := map[slow.Cell]int64{}
	for _, t := range totals {
		if t.Key.Kind != meter.Leased {
			continue
		}
		for coverage, milli := range map[string]int64{slow.Measured: t.Measured, slow.Inferred: t.Inferred, slow.Missing: t.Missing} {
			c := slow.Cell{Lease: t.Lease, Device: t.Device, Standing: string(t.Key.Standing), Reason: t.Key.Reason, Coverage: coverage}
			if out[c] += milli; out[c] == 0 {
				delete(out, c)
			}
		}
	}
	return out
}

func totalsOf(r *replay.Result, p period) []meter.Total {
	return slices.DeleteFunc(slices.Clone(r.Totals), func(t meter.Total) bool { return t.Key.Contract != p.contract || t.Key.PeriodStart != p.From })
}

// disagreement compares both raters on the ledger as it stands at the end of a replay.
func disagreement(r *replay.Result, s *slow.Statement, p period) string {
	totals := totalsOf(r, p)
	fast, err := bill.ComputeUntil(r.Contracts(), p.contract, p.Span, r.State.At(), totals)
	if err != nil {
		return err.Error()
	}
	diff := gocmp.Diff(ofSlow(s), ofFast(fast)) + gocmp.Diff(s.Leased, cells(totals))
	if minor := fast.Total.Minor(); minor.Cmp(s.Total) != 0 {
		diff += fmt.Sprintf("total: slow %s, fast %s", s.Total, minor)
	}
	if diff != "" {
		return fmt.Sprintf("%s %v (-slow +fast)\n%s", p.contract, p.Span, diff)
	}
	return ""
}

// TestCasesAgree: the slow rater bills every case like the fast one.
func TestCasesAgree(t *testing.T) {
	unable, judged := 0, 0
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
		var first, last span.Second // of the leases
		for _, x := range s.Log().Statements {
			if at := instant(x.Fact.Body); at > 0 {
				first, last = cmp.Or(min(first, at), at), max(last, at)
			}
		}
		var leased int64
		for _, total := range r.Totals {
			leased += total.Quantity
		}
		if last-first > 3*day || leased > 30*hour*1000 {
			continue // it goes second by second
		}
		w := slowly(s.Log())
		if why := w.Unable(); len(why) > 0 {
			t.Logf("%s: not judged: %v", name, why)
			unable++
			continue
		}
		seen := map[period]bool{}
		for _, c := range s.Close {
			p := period{c.Contract, c.Span}
			if !seen[p] {
				seen[p] = true
				judged++
				switch all := w.Periods(p.contract, p.From+1); {
				case slices.Contains(all, p.Span):
				case len(all) > 0 && all[len(all)-1].From == p.From || len(totalsOf(r, p)) > 0:
					t.Errorf("%s: the slow rater's periods end with %v, the case closes %v", name, all[len(all)-1], p.Span)
					continue
				default:
					continue // it began until an amendment became known
				}
				if d := disagreement(r, w.Statement(p.contract, p.Span), p); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
		}
	}
	if unable > 3 || judged < 100 {
		t.Errorf("%d cases are beyond the slow rater, %d periods were judged", unable, judged)
	}
}
