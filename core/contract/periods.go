package contract

import (
	"iter"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/span"
)

// Periods are the billing periods of a contract as its versions make them: each begins where the one before ends, and its first
// second names it. A version with another zone, cycle or anchor than the one before it closes a stub where it comes into force:
// the running period ends there, and the next one runs from there to the first boundary of the new zone, cycle and anchor after
// it (design page 3b, Changes of zone, cycle or anchor). So does the end of a trial, with what is in force there: a period is free or paid.
type Periods struct {
	links []link      // in order of time, without a gap
	to    span.Second // the end of the term, as the last version has it
}

// link is a time in which one zone, cycle and anchor hold, all of it in the trial, as it was signed, or none.
type link struct {
	span.Span               // To is span.Open for the last one
	contract  *Contract     // one of its versions: they agree in all that makes periods
	free      bool          // it is in the trial: nothing is charged for its days
	first     calendar.Date // the first local date whose fees are charged in it
}

// newPeriods takes versions in order of (From, Seq).
func newPeriods(versions []Version) *Periods {
	p := &Periods{}
	for _, v := range turns(versions) {
		p.to = v.Contract.Term.To
		n := len(p.links)
		free := versions[0].Contract.InTrial(v.From)
		if n > 0 && samePeriods(p.links[n-1].contract, v.Contract) && p.links[n-1].free == free {
			continue
		}
		next := link{span.Span{From: v.From, To: span.Open}, v.Contract, free, p.firstDate(v)}
		if n > 0 {
			p.links[n-1].To = v.From
		}
		p.links = append(p.links, next)
	}
	return p
}

// turns are the versions that come into force, each at an instant of its own, and the one in force at the trial's end once more there.
func turns(versions []Version) []Version {
	var out []Version
	for i, v := range versions {
		next := span.Open
		if i+1 < len(versions) {
			next = versions[i+1].From
		}
		if next == v.From {
			continue // it is replaced at once
		}
		out = append(out, v)
		if trial := versions[0].Contract.Trial; !trial.Empty() && v.From < trial.To && trial.To < next {
			v.From = trial.To
			out = append(out, v)
		}
	}
	return out
}

// samePeriods tells whether two versions have the same boundaries.
func samePeriods(a, b *Contract) bool {
	return a.Zone.Equal(b.Zone) && a.Billing.Cycle == b.Billing.Cycle && a.Billing.Anchor == b.Billing.Anchor && a.Counted() == b.Counted()
}

// firstDate is the first local date whose fees a link is to charge that begins with a version. The date of the switch in the new
// zone is its own and no more the stub's, so that no date is charged twice. What a period that is over has charged stays there:
// a new zone in which it is still the day before charges none of it again.
func (p *Periods) firstDate(v Version) calendar.Date {
	date := v.Contract.Zone.DateOf(v.From)
	if len(p.links) == 0 || p.links[len(p.links)-1].free { // a trial charged none
		return date
	}
	last := &p.links[len(p.links)-1]
	stub := last.full(v.From - 1)
	if stub.From = max(stub.From, last.From); stub.To <= v.From {
		stub.From = v.From // the period is over: there is no stub
	}
	date = later(date, last.first)
	if stub.From == last.From {
		return date
	}
	zone := last.contract.Zone
	charged := zone.DateOf(stub.From) // up to here
	if zone.StartOfDay(charged) < stub.From {
		charged = charged.AddDays(1)
	}
	return later(date, charged)
}

func later(a, b calendar.Date) calendar.Date {
	if a.Compare(b) > 0 {
		return a
	}
	return b
}

// full is the whole anchored period around an instant, whatever the link and the term cut off.
func (l *link) full(t span.Second) span.Span {
	return l.contract.whole(t)
}

// linkAt is the link that holds an instant, or nil before the first.
func (p *Periods) linkAt(t span.Second) *link {
	for i := len(p.links) - 1; i >= 0; i-- {
		if p.links[i].From <= t {
			return &p.links[i]
		}
	}
	return nil
}

// At is the period that holds an instant, or false outside the term. Its Full is the whole anchored period, of which a stub or
// what follows on it is a part.
func (p *Periods) At(t span.Second) (calendar.Period, bool) {
	l := p.linkAt(t)
	if l == nil || t >= p.to {
		return calendar.Period{}, false
	}
	full := l.full(t)
	return calendar.Period{Span: full.Intersect(l.Span).Intersect(span.Span{From: l.From, To: p.to}), Full: full}, true
}

// From gives the periods that end after an instant, in order of time.
func (p *Periods) From(t span.Second) iter.Seq[span.Span] {
	return func(yield func(span.Span) bool) {
		if len(p.links) == 0 {
			return
		}
		for at := max(t, p.links[0].From); ; {
			period, ok := p.At(at)
			if !ok || !yield(period.Span) {
				return
			}
			at = period.Span.To
		}
	}
}

// Remains is what of a period, as it was billed, is still that period: it ends earlier where a version that became known since
// has a boundary in it, and is empty where no period begins any more at its start. An end of the term does not count: what lies
// behind it is in force no more, and costs nothing by itself.
func (p *Periods) Remains(period span.Span) span.Span {
	l := p.linkAt(period.From)
	if l == nil {
		return period
	}
	now := l.full(period.From).Intersect(l.Span)
	if now.From != period.From {
		return span.Span{From: period.From, To: period.From}
	}
	return span.Span{From: period.From, To: min(period.To, now.To)}
}

// Days lists the local days whose dates fees count within a span, each as it lies in its link. Every date has one link; none counts in a
// trial, of whose last day a part may be paid.
func (p *Periods) Days(within span.Span) []span.Span {
	var out []span.Span
	for i := range p.links {
		l := &p.links[i]
		in := within.Intersect(l.Span)
		if l.free {
			continue
		}
		for at := in.From; at < in.To; {
			date, end := l.contract.Zone.Day(at)
			next := i+1 < len(p.links) && p.links[i+1].first.Compare(date) <= 0
			if date.Compare(l.first) >= 0 && !next {
				out = append(out, span.Span{From: l.contract.Zone.StartOfDay(date), To: end}.Intersect(l.Span))
			}
			at = end
		}
	}
	return out
}

// Periods are the billing periods of a contract: none of one that is not known. They are another value when a document or the
// end of the contract becomes known.
func (r *Register) Periods(id string) *Periods {
	if a := r.agreements[id]; a != nil {
		return a.periods
	}
	return &Periods{}
}
