package bill

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

const day = 86400

// log is an invoicer with the log that it reads, and the part of the rater in it.
type log struct {
	*Invoicer
	t   *testing.T
	seq uint64
}

func newLog(t *testing.T, grace int64) *log {
	return &log{NewInvoicer("INV", grace), t, 0}
}

func (l *log) state(bodies ...fact.Body) {
	for _, b := range bodies {
		l.seq++
		l.Apply(fact.Fact{Seq: l.seq, Key: fmt.Sprint("fact/", l.seq), Body: b})
	}
}

func (l *log) sign(id, billing string) {
	l.seq++
	l.Apply(signed(l.seq, id, "acme", billing, "36.00"))
}

// cut asks for a cut at a time and finishes it, or returns false.
func (l *log) cut(at span.Second, totals ...fact.Total) (Cut, bool) {
	l.Tick(at)
	r := l.DecideCut()
	if r == nil {
		return Cut{}, false
	}
	l.state(r)
	if l.DecideCut() != nil {
		l.t.Error("a second cut is asked for while one is on its way")
	}
	l.state(&fact.CutDone{Cut: r.Cut, At: at, Block: 10 * l.seq, Totals: totals})
	cuts := l.Cuts()
	return cuts[len(cuts)-1], true
}

// due names the periods by contract and the day of their end, counted from the first of March.
func due(list []Due) string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("%s until %d", d.Contract, (d.Period.To-march)/day))
	}
	return strings.Join(out, ", ")
}

// close issues an empty invoice for everything due.
func (l *log) close(cut Cut) {
	for _, d := range l.DueAt(cut) {
		s, err := Compute(l.Contracts(), d.Contract, d.Period, nil)
		if err != nil {
			l.t.Fatal(err)
		}
		closed, issued, err := l.Issue(d.Period, 1, cut, NewDocument(s, nil, 1))
		if err != nil {
			l.t.Fatal(err)
		}
		l.state(closed, issued)
	}
}

func TestOneCutServesEveryoneDue(t *testing.T) {
	l := newLog(t, 3600)
	l.sign("c1", "")           // the provider's hour of grace
	l.sign("c2", ", grace: 0") // zero is zero
	l.sign("c3", ", grace: 2h")
	january, ok := l.cut(march - 28*day + 7200)
	if !ok {
		t.Fatal("no cut for January")
	}
	equal(t, "c1 until -28, c2 until -28, c3 until -28", due(l.DueAt(january)))
	l.close(january)
	for _, tt := range []struct {
		at   span.Second
		want string
	}{{march - 1, ""}, {march, "c2 until 0"}, {march + 3599, ""}, {march + 3600, "c1 until 0"}, {march + 7200, "c3 until 0"}, {march + 7201, ""}} {
		cut, ok := l.cut(tt.at)
		if !ok != (tt.want == "") {
			t.Errorf("at %v a cut is asked for: %v", tt.at, ok)
		}
		if ok {
			equal(t, true, strings.Contains(due(l.DueAt(cut)), tt.want))
			l.close(cut)
			equal(t, "", due(l.DueAt(cut)))
		}
	}
	number, _ := l.Number()
	equal(t, uint64(6), number) // January and February of three contracts
	equal(t, march+31*day, l.NextDue(march+7200))
	equal(t, march+31*day+3600, l.NextDue(march+31*day))
	n, block := l.Closed("c1", march-28*day)
	equal(t, true, n == 1 && block > 0)
	equal(t, span.Span{From: march - 28*day, To: march}, l.ClosedPeriod("c1", march-28*day))
	equal(t, span.Span{}, l.ClosedPeriod("c1", march))
	equal(t, april+7200, l.LastDue(march+day))
}

func TestOpenEndedTerm(t *testing.T) {
	l := newLog(t, 0)
	text := strings.Replace(terms("c1", "acme", "", "36.00"), "to: 2027-01-01", "to: open", 1)
	l.state(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: text})
	cut, ok := l.cut(april)
	equal(t, true, ok)
	equal(t, "c1 until -28, c1 until 0, c1 until 31", due(l.DueAt(cut)))
	l.close(cut)
	equal(t, span.Span{From: march, To: april}, l.ClosedPeriod("c1", march))
	_, ok = l.cut(april + 1)
	equal(t, false, ok)
	equal(t, april+30*day, l.NextDue(april))
}

// TestContractSignedAfterTheCut: a cut closes nothing for a contract that it cannot know, however old its periods are.
func TestContractSignedAfterTheCut(t *testing.T) {
	l := newLog(t, 0)
	l.sign("c1", "")
	cut, _ := l.cut(march)
	l.sign("c2", "")
	equal(t, "c1 until -28, c1 until 0", due(l.DueAt(cut)))
	l.close(cut)
	_, ok := l.cut(march + RetrySeconds - 1)
	equal(t, false, ok)
	cut, ok = l.cut(march + RetrySeconds)
	equal(t, true, ok)
	equal(t, "c2 until -28, c2 until 0", due(l.DueAt(cut)))
}

// TestWhatIsStatedBehindACutsBlock: of two amendments that are stated while a cut is on its way the one in its block counts, the one
// behind it waits for the next cut, although the answer comes after both.
func TestWhatIsStatedBehindACutsBlock(t *testing.T) {
	l := newLog(t, 0)
	l.sign("c1", "")
	l.Tick(march)
	r := l.DecideCut()
	l.state(r, &fact.ContractAmended{Contract: "c1", Effective: march - 1, Document: terms("c1", "acme", "", "18.00")})
	block := l.seq
	l.state(
		&fact.ContractAmended{Contract: "c1", Effective: march - 1, Document: terms("c1", "acme", "", "9.00")},
		&fact.CutDone{Cut: r.Cut, At: march, Block: 90, FactsSeq: block},
	)
	price := func(cut Cut) string {
		v, _ := l.ContractsAt(cut).Governing("c1", march-1)
		return v.Contract.Rates[0].OnDemand.Amount.RatString()
	}
	cut := l.Cuts()[0]
	equal(t, "18", price(cut))
	equal(t, "", due(l.Amended(cut))) // nothing was closed before
	l.close(cut)
	next, ok := l.cut(march + RetrySeconds)
	equal(t, true, !ok && next.Cut == "") // nothing is due
	next, _ = l.cut(april)
	equal(t, "9", price(next))
	equal(t, "c1 until 0", due(l.Amended(next)))

	known := l.ContractsAt(next)
	l.state(&fact.ContractAmended{Contract: "c1", Effective: march, Document: terms("c1", "acme", "", "1.00")})
	equal(t, "9", price(next))
	again := l.ContractsAt(next)
	equal(t, true, again != known && again == l.ContractsAt(next)) // it looks back once, not for every question
}

// TestRetryOnlyWhenSomethingWasStated: a blocked period asks again an hour later, and only if it may have got better.
func TestRetryOnlyWhenSomethingWasStated(t *testing.T) {
	stated := []fact.Body{
		&fact.LeaseStarted{Lease: "L"}, &fact.LeaseResized{Lease: "L"}, &fact.LeaseStateChanged{Lease: "L"}, &fact.LeaseStopped{Lease: "L"},
		&fact.RefusalWaived{Lease: "L"}, &fact.RefusalCarried{Contract: "c9"}, &fact.ContractSigned{Contract: "c9"}, &fact.ContractAmended{Contract: "c9"},
	}
	for _, body := range stated {
		l := newLog(t, 0)
		l.sign("c1", "")
		if _, ok := l.cut(march); !ok {
			t.Fatal("no cut")
		}
		if _, ok := l.cut(march + 10*RetrySeconds); ok {
			t.Error("asked again although nothing was stated")
		}
		l.state(body)
		if _, ok := l.cut(march + RetrySeconds); !ok {
			t.Errorf("%T does not ask again", body)
		}
		if _, ok := l.cut(march + 3*RetrySeconds); ok {
			t.Errorf("%T asks again for ever", body)
		}
		l.state(&fact.AlertRaised{})
		if _, ok := l.cut(march + 5*RetrySeconds); ok {
			t.Error("an alert asks again")
		}
	}
}

func TestRepeatsOfAFactAreIgnored(t *testing.T) {
	l := newLog(t, 0)
	l.sign("c1", "")
	issued := fact.Fact{Seq: 5, Key: "invoice", Body: &fact.InvoiceIssued{Series: "INV", Number: 1}}
	l.Apply(issued)
	issued.Seq = 6
	l.Apply(issued)
	l.Apply(fact.Fact{Seq: 7, Key: "other", Body: &fact.InvoiceIssued{Series: "OTHER", Number: 9}})
	number, at := l.Number()
	equal(t, [2]uint64{1, 5}, [2]uint64{number, at})
	equal(t, "INV", l.Series())
}

// TestCheck: every reason blocks, and what may be carried is carried when it was stated in front of what the cut knows, whatever is
// stated again behind it.
func TestCheck(t *testing.T) {
	refusedKey, bare := key(1, 1), meter.ChargeKey{Customer: "acme", Kind: meter.Leased, Standing: meter.Refused, Reason: "no_contract"}
	refusedKey.Standing, refusedKey.Reason = meter.Refused, "overlap"
	topUp := key(1, 1)
	topUp.Kind = meter.TopUp
	good := []meter.Total{measured("L", "A", key(1, 1), hour), measured("L", "A", topUp, 5)}
	tests := []struct {
		name                 string
		leased               int64
		totals, uncontracted []meter.Total
		refusals             []meter.Refusal
		halted               bool
		want                 string // part of the reason; empty closes
		carries              bool   // refusal.carried opens it
	}{
		{name: "good, top-ups stand outside", leased: hour, totals: good},
		{name: "a milli-second too little", leased: hour + 1, totals: good, want: "conservation"},
		{name: "a milli-second too much", leased: hour - 1, totals: good, want: "conservation"},
		{name: "nothing in the ledger", leased: hour, want: "conservation"},
		{name: "halted", leased: hour, totals: good, halted: true, want: "halted: broken"},
		{name: "refused time", leased: hour, totals: []meter.Total{measured("L", "A", refusedKey, hour)}, want: "lease L has 1.000000000 refused GPU-hours (overlap)", carries: true},
		{name: "refused time of two, told in any order", leased: 2 * hour, totals: []meter.Total{measured("M", "A", refusedKey, hour), measured("L", "B", refusedKey, hour)}, want: "lease L has 1.000000000 refused", carries: true},
		{name: "no contract", leased: hour, totals: good, uncontracted: []meter.Total{measured("M", "", bare, hour)}, want: "lease M has 1.000000000 refused", carries: true},
		{name: "refused fact", leased: hour, totals: good, refusals: []meter.Refusal{{ID: "f", Reason: "after_stop", Customer: "acme", At: april - 1}}, want: "fact f is refused", carries: true},
		{name: "refused fact without an instant", leased: hour, totals: good, refusals: []meter.Refusal{{ID: "f", Customer: "acme"}}, want: "fact f is refused", carries: true},
		{name: "refused fact of a later period", leased: hour, totals: good, refusals: []meter.Refusal{{ID: "f", Customer: "acme", At: april}}},
		{name: "refused fact of another customer", leased: hour, totals: good, refusals: []meter.Refusal{{ID: "f", Customer: "zeta"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, carried := range []string{"", "before", "after"} {
				l := newLog(t, 0)
				l.sign("c1", "")
				carry := &fact.RefusalCarried{Contract: "c1", PeriodStart: march}
				if carried == "before" {
					l.state(carry)
				}
				if tt.halted {
					l.state(&fact.CustomerHalted{Customer: "acme", Reason: "broken"})
				}
				cut, _ := l.cut(april, fact.Total{Contract: "c0", PeriodStart: march, LeasedMilliGPUSeconds: 3}, fact.Total{Contract: "c1", PeriodStart: march, LeasedMilliGPUSeconds: tt.leased})
				if carried != "" {
					l.state(carry) // behind the cut
				}
				d := Due{Contract: "c1", Customer: "acme", Period: period()}
				want := tt.want
				if tt.carries && carried == "before" {
					want = ""
				}
				b := l.Check(d, cut, tt.totals, tt.uncontracted, tt.refusals)
				if (b == nil) != (want == "") || b != nil && !strings.Contains(b.Reason, want) {
					t.Errorf("carried %q: blocked by %v, want %q", carried, b, want)
				}
				only := l.CheckCorrection(d, cut, tt.totals)
				if (only == nil) != (tt.want == "" || tt.carries) {
					t.Errorf("carried %q: a correction is blocked by %v", carried, only)
				}
			}
		})
	}
}

// TestConservationOfAnUnlistedPeriod: a cut that states nothing of a period leaves what an earlier one stated, and what a
// later one states does not reach back.
func TestConservationOfAnUnlistedPeriod(t *testing.T) {
	l := newLog(t, 0)
	l.sign("c1", "")
	of := func(leased int64) fact.Total {
		return fact.Total{Contract: "c1", PeriodStart: march, LeasedMilliGPUSeconds: leased}
	}
	first, _ := l.cut(april, of(hour))
	unlisted, _ := l.cut(april + 30*day)
	later, _ := l.cut(april+61*day, of(2*hour))
	d := Due{Contract: "c1", Customer: "acme", Period: period()}
	for i, c := range []struct {
		cut  Cut
		want int64
	}{{first, hour}, {unlisted, hour}, {later, 2 * hour}} {
		if b := l.CheckCorrection(d, c.cut, []meter.Total{measured("L", "A", key(1, 1), c.want)}); b != nil {
			t.Errorf("cut %d: %s", i, b.Reason)
		}
	}
}

// TestLateFactsBehindAllTerms: when no period falls due any more, what is stated late asks for a cut by itself, once; while a term or its
// grace runs, it waits for the next one.
func TestLateFactsBehindAllTerms(t *testing.T) {
	const end = march + 31*day
	l := newLog(t, 3600)
	l.state(&fact.ContractSigned{Contract: "c1", Customer: "acme", Document: strings.Replace(terms("c1", "acme", "", "36.00"), "to: 2027-01-01", "to: 2026-04-01", 1)})
	cut, _ := l.cut(march + 3600)
	l.close(cut)
	l.state(&fact.LeaseStopped{Lease: "L"})
	if _, ok := l.cut(end + 3599); ok {
		t.Error("a cut is asked for while the last period's grace runs")
	}
	cut, _ = l.cut(end + 3600)
	equal(t, "c1 until 31", due(l.DueAt(cut)))
	l.close(cut)
	if _, ok := l.cut(end + 10*day); ok {
		t.Error("a cut is asked for although nothing was stated")
	}
	l.state(&fact.LeaseStopped{Lease: "L"})
	if _, ok := l.cut(end + 10*day); !ok {
		t.Error("nobody asks for a cut, and the late fact is never corrected")
	}
	if _, ok := l.cut(end + 20*day); ok {
		t.Error("one late fact asks for ever")
	}
}
