package quote

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// rated is the log rated once under some terms.
type rated struct {
	state    *meter.State
	totals   map[periodKey][]meter.Total
	rows     map[sampled][]usage.Row
	problems []meter.Refusal // of the customer's statements
}

// sampled is a device, or a node with Device "".
type sampled struct{ node, device string }

type periodKey struct {
	contract string
	start    span.Second
}

// cell is what a total is of.
type cell struct {
	lease, device string
	key           meter.ChargeKey
}

// rate rates everything in one block: what is known decides, and not the order in which it became known.
func (q *Quote) rate(t terms, samples []meter.UsageMessage) (r *rated, err error) {
	if failure := must.Catch(func() { r = q.rateAll(t, samples) }); failure != nil {
		return nil, failure
	}
	return r, nil
}

func (q *Quote) rateAll(t terms, samples []meter.UsageMessage) *rated {
	cut := fact.Fact{Seq: q.log.last + 2, Key: "quote/cut", Body: &fact.CutRequested{Cut: "quote", At: q.at}} // open hours too
	s := meter.NewState()
	s.Begin(meter.Block{Seq: 1, Usage: samples, Facts: append(q.log.under(t, q.known), cut), FactsSeq: cut.Seq, At: q.at})
	out := s.Finish(meter.Reads{}) // nothing was put before
	sums := map[periodKey]map[cell]meter.Amounts{}
	for _, d := range out.Ledger {
		k, c := periodKey{d.Key.Contract, d.Key.PeriodStart}, cell{d.Lease, d.Device, d.Key}
		if sums[k] == nil {
			sums[k] = map[cell]meter.Amounts{}
		}
		sums[k][c] = sums[k][c].Plus(d.Amounts)
	}
	r := &rated{state: s, totals: map[periodKey][]meter.Total{}, rows: map[sampled][]usage.Row{}}
	for _, row := range out.Rows {
		of := sampled{row.Node, ""}
		if row.Device != "" {
			of = sampled{"", row.Device}
		}
		r.rows[of] = append(r.rows[of], row)
	}
	for k, of := range sums {
		for c, a := range of {
			if !a.IsZero() {
				r.totals[k] = append(r.totals[k], meter.Total{Lease: c.lease, Device: c.device, Key: c.key, Amounts: a})
			}
		}
		slices.SortFunc(r.totals[k], func(a, b meter.Total) int {
			return cmp.Or(meter.CompareKeys(a.Key, b.Key), cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Device, b.Device))
		})
	}
	r.problems = standing(out.Refusals, q.request.Customer, q.span.To)
	return r
}

// read answers what a trace asks for.
func (r *rated) read(n meter.Needs) (out meter.Reads) {
	for _, m := range n.Minutes {
		of := sampled{m.Node, m.Device}
		if m.Device != "" {
			of.node = ""
		}
		for _, row := range r.rows[of] {
			if m.From <= row.Minute && row.Minute < m.To {
				out.Rows = append(out.Rows, row)
			}
		}
	}
	return out
}

// standing are a customer's refusals that were not withdrawn, of what happened before an instant.
func standing(list []meter.Refusal, customer string, before span.Second) (out []meter.Refusal) {
	type name struct{ id, reason, detail string }
	sums := map[name]int64{}
	for _, r := range list {
		sums[name{r.ID, r.Reason, r.Detail}] += r.Delta
	}
	for _, r := range list {
		n := name{r.ID, r.Reason, r.Detail}
		if r.Customer == customer && r.At < before && sums[n] > 0 {
			sums[n] = 0
			out = append(out, r)
		}
	}
	return out
}

// offer prices the span under some terms.
func (q *Quote) offer(t terms) (*Offer, error) {
	r, err := q.rate(t, q.samples)
	if err != nil {
		return nil, err
	}
	return q.priced(t, r)
}

// priced makes the statements of what was rated.
func (q *Quote) priced(t terms, r *rated) (*Offer, error) {
	o := &Offer{Problems: r.problems, Total: money.FromMinor(new(big.Int), q.currency()), refused: map[string]int64{}}
	if t.contract != nil {
		o.Names = []string{t.contract.ID}
	} else {
		for _, v := range q.own {
			o.Names = append(o.Names, v.Contract.ID)
		}
	}
	leased := map[periodKey]int64{}
	for _, total := range r.state.Totals() {
		leased[periodKey{total.Contract, total.PeriodStart}] = total.LeasedMilliGPUSeconds
	}
	for _, id := range o.Names {
		if _, ok := r.state.Contracts().Last(id); !ok {
			return nil, fmt.Errorf("contract %s cannot be signed beside what the log states", id)
		}
		for period := range r.state.Contracts().Periods(id).From(q.span.From) {
			if period.From >= q.span.To {
				break
			}
			k := periodKey{id, period.From}
			if keyed := keyed(r.totals[k]); keyed != leased[k] {
				return nil, fmt.Errorf("contract %s, period of %s: leases hold %d milli-GPU-seconds, the quote %d; please report it", id, period.From, leased[k], keyed)
			}
			s, err := bill.Compute(r.state.Contracts(), id, period, r.totals[k])
			if err != nil {
				return nil, err
			}
			o.add(s)
			for _, total := range r.totals[k] {
				if total.Key.Standing == meter.Refused && total.Key.Kind == meter.Leased {
					o.refused[total.Lease] += total.Quantity
				}
			}
		}
	}
	q.uncontracted(o, r)
	slices.SortFunc(o.Unpriced, func(a, b Unpriced) int {
		return cmp.Or(cmp.Compare(a.Standing, b.Standing), cmp.Compare(a.Reason, b.Reason))
	})
	return o, nil
}

// keyed is the leased time that totals account for.
func keyed(totals []meter.Total) (milliGPUSeconds int64) {
	for _, t := range totals {
		if t.Key.Kind == meter.Leased {
			milliGPUSeconds += t.Quantity
		}
	}
	return milliGPUSeconds
}

func (o *Offer) add(s *bill.Statement) {
	o.Statements = append(o.Statements, s)
	o.Total = o.Total.Add(s.Total)
	for i := range s.Lines {
		if s.Lines[i].Item == nil {
			o.Billed += s.Lines[i].Quantity
		}
	}
	for i := range s.Unbilled {
		o.unpriced(s.Unbilled[i].Standing, s.Unbilled[i].Key.Reason, s.Unbilled[i].Quantity)
	}
}

func (o *Offer) unpriced(standing meter.Standing, reason string, milliGPUSeconds int64) {
	for i := range o.Unpriced {
		if u := &o.Unpriced[i]; u.Standing == standing && u.Reason == reason {
			u.MilliGPUSeconds += milliGPUSeconds
			return
		}
	}
	o.Unpriced = append(o.Unpriced, Unpriced{standing, reason, milliGPUSeconds})
}

// uncontracted adds the time of the span in which the customer's leases found no contract: it has no period, so no statement shows it.
func (q *Quote) uncontracted(o *Offer, r *rated) {
	contracts := r.state.Contracts()
	q.tranches(r, func(tr *occupancy.Tranche, in span.Span) {
		st := tr.Lease.Started
		edges := append(contracts.VersionEdges(nil, st.Contract, st.Customer, in), in.From, in.To)
		for _, w := range tr.Lease.Waivers {
			if w = w.Intersect(in); !w.Empty() {
				edges = append(edges, w.From, w.To)
			}
		}
		slices.Sort(edges)
		for i, from := range edges[:len(edges)-1] {
			_, reason := contracts.Resolve(st, from)
			if reason == "" || edges[i+1] == from {
				continue
			}
			how := meter.Refused
			if slices.ContainsFunc(tr.Lease.Waivers, func(w span.Span) bool { return w.Contains(from) }) {
				how = meter.Waived
			}
			o.unpriced(how, reason, int64(edges[i+1]-from)*tr.Milli)
		}
	})
}

// tranches calls f for what the customer's leases hold in the span.
func (q *Quote) tranches(r *rated, f func(tr *occupancy.Tranche, in span.Span)) {
	r.state.Book().Leases(func(l *occupancy.Lease) {
		if l.Started == nil || l.Started.Customer != q.request.Customer {
			return
		}
		for i := range l.Tranches {
			if in := l.Tranches[i].Span.Intersect(q.span); !in.Empty() {
				f(&l.Tranches[i], in)
			}
		}
	})
}
