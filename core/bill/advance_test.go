package bill

import (
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// ahead is the contract with a fee of 31.00 for a GPU-month of the a100, paid in advance, up to a date.
func ahead(id, to string) string {
	text := strings.Replace(terms(id, "acme", "", "36.00"), "to: 2027-01-01", "to: "+to, 1)
	return strings.Replace(text, "on_demand: 10.00/gpu-hour}", "on_demand: 10.00/gpu-hour, reserved: [{name: base, quantity: 1, price: 31.00/gpu-month, from: 2026-01-01, to: "+to+", pay: advance}]}", 1)
}

func (l *log) signAhead(id string) {
	l.state(&fact.ContractSigned{Contract: id, Customer: "acme", Document: ahead(id, "2027-01-01")})
}

// settle bills everything due, in advance or not.
func (l *log) settle(cut Cut) (documents []*Document) {
	l.t.Helper()
	for _, d := range l.DueAt(cut) {
		n := 0
		var s *Statement
		var document *Document
		var err error
		if d.Advance {
			if s, err = Advance(l.ContractsAt(cut), d.Contract, d.Period); err == nil {
				document = NewAdvance(s)
			}
		} else {
			n = 1
			if s, err = Compute(l.ContractsAt(cut), d.Contract, d.Period, nil); err == nil {
				document, err = l.Draft(s, nil, n)
			}
		}
		if err != nil {
			l.t.Fatal(err)
		}
		closed, issued, err := l.Issue(d.Period, n, cut, document)
		if err != nil {
			l.t.Fatal(err)
		}
		l.state(closed, issued)
		documents = append(documents, document.Numbered(issued.Series, issued.Number))
	}
	return documents
}

func dueAhead(list []Due) string {
	var out []string
	for _, d := range list {
		text := due([]Due{d})
		if d.Advance {
			text += " in advance"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestAdvanceIsDueWhenAPeriodBegins(t *testing.T) {
	l := newLog(t, 7200)
	l.signAhead("c1") // late: January is closed, February, which runs, is paid at once
	cut, ok := l.cut(march - day)
	equal(t, true, ok)
	equal(t, "c1 until -28, c1 until 0 in advance", dueAhead(l.DueAt(cut)))
	l.settle(cut)
	equal(t, "", dueAhead(l.DueAt(cut)))
	equal(t, march, l.NextDue(march-day))
	equal(t, march+7200, l.NextDue(march))
	_, ok = l.cut(march - 1)
	equal(t, false, ok)
	cut, ok = l.cut(march)
	equal(t, true, ok)
	equal(t, "c1 until 31 in advance", dueAhead(l.DueAt(cut)))
	equal(t, "31.00", l.settle(cut)[0].Total)
	n, _ := l.Closed("c1", march)
	equal(t, 0, n)
	equal(t, span.Span{}, l.ClosedPeriod("c1", march))
	_, ok = l.cut(march + 1)
	equal(t, false, ok)
	cut, ok = l.cut(march + 7200)
	equal(t, true, ok)
	closed := l.settle(cut)[0]
	equal(t, "0.00", closed.Total)
	equal(t, 2, len(closed.Lines))
	equal(t, "INV-000002", closed.Lines[1].Advance)
	cut, ok = l.cut(april + 7200) // the clock slept: April is paid late, in one cut with March's close
	equal(t, true, ok)
	equal(t, "c1 until 31, c1 until 61 in advance", dueAhead(l.DueAt(cut)))
}

// A fee that is agreed while its period runs asks for a cut at once; one of a period that is over waits for the close.
func TestAdvanceThatIsAgreedLate(t *testing.T) {
	l := newLog(t, 7200)
	l.sign("c1", "")
	cut, _ := l.cut(march)
	l.settle(cut)
	l.state(&fact.ContractAmended{Contract: "c1", Effective: march + 15*day, Document: ahead("c1", "2027-01-01")})
	cut, ok := l.cut(march + 60)
	equal(t, true, ok)
	equal(t, "c1 until 31 in advance", dueAhead(l.DueAt(cut)))
	equal(t, "16.00", l.settle(cut)[0].Total)
	l.sign("c2", "")
	cut, _ = l.cut(march + 7200)
	l.settle(cut)
	l.state(&fact.ContractAmended{Contract: "c2", Effective: april - day, Document: ahead("c2", "2027-01-01")})
	cut, _ = l.cut(april)
	equal(t, "c1 until 61 in advance, c2 until 61 in advance", dueAhead(l.DueAt(cut)))
}

// A halted customer's fees wait as its closes do, and what an amendment leaves of a period that was paid is closed all the same.
func TestAdvanceOfAPeriodThatIsGone(t *testing.T) {
	l := newLog(t, 7200)
	l.signAhead("c1")
	cut, _ := l.cut(march)
	l.settle(cut)
	l.state(&fact.ContractAmended{Contract: "c1", Effective: march - day, Document: ahead("c1", "2026-03-01")})
	cut, _ = l.cut(march + 7200)
	equal(t, "c1 until 0", dueAhead(l.DueAt(cut)))
	l.settle(cut)
	equal(t, april+7200, l.NextDue(march+7200))
	cut, ok := l.cut(april + 7200)
	equal(t, true, ok)
	equal(t, "c1 until 31", dueAhead(l.DueAt(cut)))
	equal(t, "-31.00", l.settle(cut)[0].Total)
	equal(t, "", dueAhead(l.DueAt(cut)))
	equal(t, span.Open, l.NextDue(april+7200))
	l.signAhead("c2")
	l.state(&fact.CustomerHalted{Customer: "acme", Reason: "tested", Block: 1})
	cut, _ = l.cut(april + 9000)
	for _, d := range l.DueAt(cut) {
		if b := l.CheckAdvance(d); b == nil || !strings.Contains(b.Reason, "the customer is halted: tested") {
			t.Errorf("%s: %+v", dueAhead([]Due{d}), b)
		}
	}
}

// The bill in advance and the one that takes it off, cancelled, sum to nothing; and what is taken off is what was issued.
func TestTakeOff(t *testing.T) {
	l := newLog(t, 7200)
	l.signAhead("c1")
	cut, _ := l.cut(march)
	advance := l.settle(cut)[1]
	l.state(&fact.ContractAmended{Contract: "c1", Effective: march + 15*day, Document: strings.Replace(ahead("c1", "2027-01-01"), "31.00/", "62.00/", 1)})
	cut, _ = l.cut(april + 7200)
	var closed *Document
	for _, d := range l.settle(cut) {
		if d.Kind == KindInvoice && d.Period.From == advance.Period.From {
			closed = d
		}
	}
	for name, d := range map[string]*Document{"advance": advance, "closed": closed} {
		golden(t, name, d)
		taken, err := d.Cancellation()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, negatedText(d.Total), taken.Total)
		equal(t, d.Lines[len(d.Lines)-1].Advance, taken.Lines[len(d.Lines)-1].Advance)
	}
	equal(t, "16.00", closed.Total) // 15 of 31 days at 31.00 and 16 at 62.00 are 47.00
	for _, spoil := range []func(*Document){
		func(d *Document) { d.Currency = "?" },
		func(d *Document) { d.Lines[0].Amount = "?" },
		func(d *Document) { d.RoundingBound = "?" },
	} {
		broken := *advance
		broken.Lines = append([]DocumentLine{}, advance.Lines...)
		spoil(&broken)
		again := *closed
		if err := again.TakeOff(&broken); err == nil || !strings.Contains(err.Error(), "take "+advance.Invoice+" off") {
			t.Errorf("%+v was taken off: %v", broken, err)
		}
	}
}
