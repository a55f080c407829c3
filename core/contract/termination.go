package contract

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// Termination is what is due when one side ends the contract before its term is over (contract.terminated). A contract without it cannot be
// terminated, only amended.
type Termination struct {
	Refund   Refund   // of fees for the rest of the period that the end cuts
	Clawback bool     // a customer who leaves pays for reservations what their time costs on demand, if that is more
	Fee      *big.Rat // part of the fees and the commitment that were still to come, due from a customer who leaves; nil for none
}

// Refund is what becomes of the fees for the rest of the period that the end of the term cuts. The zero value is none.
type Refund uint8

// The closed list of refunds.
const (
	RefundNone    Refund = iota // fees of reservations and fees per month are due for the period as it would have been
	RefundProrata               // only for its local days up to the end
)

// RefundNames lists the refunds as a contract writes them, in the order of the constants.
func RefundNames() []string { return []string{"none", "prorata"} }

func (r Refund) String() string { return nameOf(RefundNames(), int(r)) }

func clawbackNames() []string { return []string{"none", "on_demand_difference"} }

func terminationFields() []string { return []string{"refund", "clawback", "fee"} }

func (r *reader) termination(s section, c *Contract) {
	f, ok := r.section(s.values["termination"], join(s.field, "termination"), terminationFields(), nil)
	if !ok {
		return
	}
	t := &Termination{}
	refund := func(text string) (int, error) { return parseChoice(text, RefundNames()) }
	chosen, _ := need(r, f, "refund", "write prorata", refund)
	t.Refund = Refund(chosen)
	clawback := func(text string) (int, error) { return parseChoice(text, clawbackNames()) }
	set(r, f, "clawback", "write on_demand_difference", clawback, func(v int) { t.Clawback = v == 1 })
	set(r, f, "fee", "write 5%", parseOff, func(v *big.Rat) { t.Fee = v })
	if t.Clawback {
		for _, rate := range c.Rates {
			for _, x := range rate.Reserved {
				r.listed(f, "clawback", rate, x.Region)
			}
		}
	}
	if t.Fee != nil && c.endless() {
		r.failf(f.values["fee"], join(f.field, "fee"), "give the term and its reservations an end, or remove the fee",
			"the fee is a part of what is still to come, and that has no end")
	}
	c.Termination = t
}

// endless tells whether a contract commits the customer without end.
func (c *Contract) endless() bool {
	return c.Spend != nil && c.Term.To == span.Open || slices.ContainsFunc(c.Rates, func(r Rate) bool {
		return slices.ContainsFunc(r.Reserved, func(x Reservation) bool { return x.Span.To == span.Open })
	})
}

// Reasons why a termination is refused.
const (
	NoTermination     = "no_termination"
	SecondTermination = "second_termination"
)

// Terminated is a term that one side ended before its time.
type Terminated struct {
	At     span.Second
	By     fact.EndedBy
	Agreed *Contract // the version that was in force at the end, with the term as it was agreed
	Period span.Span // the billing period that the end cuts, as it would have run by what was in force until then
}

// Clause is what the contract says of it.
func (t *Terminated) Clause() *Termination { return t.Agreed.Termination }

// Rest is the part of the period behind the end: empty where the end cuts none.
func (t *Terminated) Rest() span.Span { return span.Span{From: t.At, To: t.Period.To} }

// Charged tells whether it is a customer who left: a provider who does takes nothing back and earns no fee.
func (t *Terminated) Charged() bool { return t.By == fact.ByCustomer }

// terminate takes the end of the term, by what was stated before it. The first one stands.
func (a *agreement) terminate(s statement, b *fact.ContractTerminated, listings func([]Piece) []Listing) {
	a.sort()
	switch v, in := a.inForce(b.At - 1); {
	case len(a.versions) == 0:
		a.problem(s.Fact, a.customer, UnknownContract, "no signature of this contract is known", b.At)
	case a.ended != nil:
		a.problem(s.Fact, a.customer, SecondTermination, "the contract is terminated at "+a.ended.fact.At.String(), b.At)
	case b.At <= a.versions[0].Contract.Term.From:
		a.problem(s.Fact, a.customer, OutsideTerm, "the term begins at "+a.versions[0].Contract.Term.From.String()+"; it cannot be over by then", b.At)
	case !in || b.At >= v.Contract.Term.To:
		a.problem(s.Fact, a.customer, OutsideTerm, "the term is over at "+b.At.String()+" without it", b.At)
	case v.Contract.Termination == nil:
		a.problem(s.Fact, a.customer, NoTermination, "the contract has no termination clause at "+b.At.String()+"; amend the term instead", b.At)
	default:
		a.ended = &ended{s.Seq, b}
		if what := a.unpriced(listings); what != "" {
			a.ended = nil
			a.problem(s.Fact, a.customer, NoOnDemandPrice, what, b.At)
		}
	}
}

// ended is the termination that stands.
type ended struct {
	seq  uint64
	fact *fact.ContractTerminated
}

// by is the end as versions have it, of which the last is in force there.
func (e *ended) by(versions []Version) *Terminated {
	period, _ := newPeriods(versions).At(e.fact.At - 1)
	return &Terminated{e.fact.At, e.fact.By, versions[len(versions)-1].Contract, period.Span}
}

// unpriced says what the termination takes back and has no on-demand price, or "".
func (a *agreement) unpriced(listings func([]Piece) []Listing) string {
	t := a.ended.by(a.until(a.ended.fact.At))
	for _, l := range listings(a.pieces(span.Span{From: 0, To: t.At})) {
		for _, x := range t.TakenBack(l) {
			if what := unlisted(l, x.SKU, x.Region); what != "" {
				return what
			}
		}
	}
	return ""
}

// amendEnded takes an amendment behind a termination: it may change what held until the end and what is due for it, not whether there is one.
func (a *agreement) amendEnded(v Version, listings func([]Piece) []Listing) (problem string) {
	at := a.ended.fact.At
	switch {
	case v.From >= at:
		return "the contract is terminated at " + at.String() + "; sign a new contract instead"
	case v.Contract.Termination == nil || v.Contract.Term.To <= at:
		return "the contract is terminated at " + at.String() + "; keep its termination clause and a term that ends later"
	}
	before := a.versions
	a.versions = append(slices.Clone(before), v)
	a.sort()
	if problem = a.unpriced(listings); problem != "" {
		a.versions = before
	}
	return problem
}

// until are the versions that come into force before an instant.
func (a *agreement) until(at span.Second) []Version {
	return slices.DeleteFunc(slices.Clone(a.versions), func(v Version) bool { return v.From >= at })
}

func (a *agreement) sort() {
	slices.SortFunc(a.versions, func(x, y Version) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.Seq, y.Seq)) })
}

// Taken is capacity of a reservation in a part of a contract's time that a termination takes back.
type Taken struct {
	SKU string
	Reservation
	In    span.Span
	Since span.Second // when the reservation that is cut began, or the trial ended
}

// TakenBack lists the time in a listing of the reservations that a termination cuts and takes back: from their beginning on, by what the
// version in force there says of a reservation of the name. One that had ended by itself was kept.
func (t *Terminated) TakenBack(l Listing) []Taken {
	if !t.Charged() || !t.Clause().Clawback {
		return nil
	}
	var out []Taken
	for _, rate := range l.Contract.Rates {
		agreed, _ := t.Agreed.Rate(rate.SKU)
		for _, x := range rate.Reserved {
			i := slices.IndexFunc(agreed.Reserved, func(r Reservation) bool { return r.Name == x.Name })
			if i < 0 || !agreed.Reserved[i].Span.Overlaps(span.Span{From: t.At, To: span.Open}) {
				continue
			}
			since := max(agreed.Reserved[i].Span.From, t.Agreed.Trial.To) // a trial was free, and stays so
			in := span.Span{From: since, To: t.At}.Intersect(x.Span).Intersect(l.Span)
			if !in.Empty() {
				out = append(out, Taken{rate.SKU, x, in, since})
			}
		}
	}
	return out
}

// cut ends the term: the version in force there is in force up to it, from the beginning of the billing period on, under the position of the
// termination. What was agreed before for a later time lapses.
func (a *agreement) cut() {
	at := a.ended.fact.At
	a.versions = a.until(at)
	t := a.ended.by(a.versions)
	c := *t.Agreed
	c.Term.To = at
	from := max(a.versions[len(a.versions)-1].From, t.Period.From)
	a.versions = append(a.versions, Version{Seq: a.ended.seq, From: from, Contract: &c, Ended: t})
}

// terminated tells whether somebody stated the contract's end.
func (a *agreement) terminated() bool {
	return slices.ContainsFunc(a.statements, func(s statement) bool {
		_, ok := s.Body.(*fact.ContractTerminated)
		return ok
	})
}

// Terminated is how a contract was terminated, or nil.
func (r *Register) Terminated(id string) *Terminated {
	v, _ := r.Last(id)
	return v.Ended
}
