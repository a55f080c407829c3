package quote

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/trust"
	"github.com/gpuhour/gpuhour/core/usage"
)

// Request is what is asked.
type Request struct {
	Customer  string
	From, To  Bound                // To is the first instant after it
	Contracts []*contract.Contract // to be priced under, whoever's they are; the first also prices the modes
}

// Bound is a local date or an instant.
type Bound struct {
	date  calendar.Date
	at    span.Second
	dated bool
}

// ParseBound reads "2026-05-01", the midnight it begins with, or an instant such as "2026-05-01T00:00:00+08:00".
func ParseBound(text string) (Bound, error) {
	if strings.Contains(text, "T") {
		at, err := span.Parse(text)
		return Bound{at: at}, err
	}
	date, err := calendar.ParseDate(text)
	if err != nil {
		err = fmt.Errorf("%.40q is neither a local date nor an instant; write 2026-05-01 or 2026-05-01T00:00:00+08:00", text)
	}
	return Bound{date: date, dated: true}, err
}

func (b Bound) in(zone calendar.Zone) span.Second {
	if b.dated {
		return zone.StartOfDay(b.date)
	}
	return b.at
}

// Result is a quote.
type Result struct {
	Customer string
	Zone     calendar.Zone // in which the span was read
	Span     span.Span
	Currency money.Currency
	Own      *Offer // under the customer's own contracts, as they are billed; nil when none was in force
	Others   []*Offer
	Modes    *Modes // nil when no GPU was held, or no one contract can price them
}

// Offer is what the span comes to under one contract, or under the customer's own ones together.
type Offer struct {
	Names      []string          // of the contracts
	Statements []*bill.Statement // of each contract and period, in order
	Unpriced   []Unpriced
	Problems   []meter.Refusal // statements that the contracts cannot take, such as a reading of a meter that they do not have
	Billed     int64           // GPU time on the statements' lines, in milli-GPU-seconds
	Total      money.Rounded
	refused    map[string]int64 // milli-GPU-seconds by lease, of the statements' periods
}

// Unpriced is GPU time that no line bills: refused, waived, free or unobserved, and why.
type Unpriced struct {
	Standing        meter.Standing
	Reason          string
	MilliGPUSeconds int64
}

// Refused is the time that the contracts cannot price: the total is without it.
func (o *Offer) Refused() (milliGPUSeconds int64) {
	for _, u := range o.Unpriced {
		if u.Standing == meter.Refused {
			milliGPUSeconds += u.MilliGPUSeconds
		}
	}
	return milliGPUSeconds
}

// Quote gathers what a log knows of a customer, and prices it. It is given the facts of all blocks, then told with Resolve that there
// are no more, then given the samples of all blocks, then asked for the Result.
type Quote struct {
	request Request
	log     gathered
	keys    map[string]bool
	trust   *trust.Keys
	known   *contract.Register   // everything that the log states of contracts
	quoted  []*contract.Contract // the request's, as if the customer had signed them
	own     []contract.Version   // the last of each of the customer's contracts that was in force in the span
	zone    calendar.Zone
	span    span.Span
	at      span.Second // how far is rated: a little beyond the span
	samples []meter.UsageMessage
}

// New asks for a quote.
func New(r Request) *Quote {
	return &Quote{request: r, log: newGathered(r.Customer), keys: map[string]bool{}, trust: trust.New(), known: contract.NewRegister()}
}

// Facts takes the facts of the log's next block.
func (q *Quote) Facts(b meter.Block) {
	for _, f := range b.Facts {
		q.log.take(f)
		if !q.keys[f.Key] {
			q.keys[f.Key] = true
			q.known.Apply(f)
			q.trust.Take(f)
		}
	}
	q.log.until = max(q.log.until, b.At)
}

// afterwards is how much of what comes after the span is rated with it: the samples near its end say what was seen before it.
const afterwards = 2 * span.SecondsPerHour

// Resolve ends the facts. The error says why there can be no quote, and what to ask for instead.
func (q *Quote) Resolve() error {
	if err := q.resolveSpan(); err != nil {
		return err
	}
	for _, v := range q.known.Latest() {
		if v.Contract.Customer == q.request.Customer && len(q.periods(v.Contract.ID)) > 0 {
			q.own = append(q.own, v)
		}
	}
	q.at = min(q.log.until, q.span.To+afterwards)
	q.log.settle()
	if err := q.check(); err != nil {
		return err
	}
	for _, c := range q.request.Contracts {
		own, err := q.adopt(c)
		if err != nil {
			return err
		}
		q.quoted = append(q.quoted, own)
	}
	return nil
}

// adopt is a contract as if the customer had signed it. Where another customer has one of that name it gets another.
func (q *Quote) adopt(c *contract.Contract) (*contract.Contract, error) {
	v := contract.Variation{ID: c.ID, Customer: q.request.Customer}
	for owner := q.known.Customer(v.ID); owner != "" && owner != q.request.Customer; owner = q.known.Customer(v.ID) {
		v.ID += "*"
	}
	if c.ID == v.ID && c.Customer == v.Customer {
		return c, nil
	}
	return c.Vary(v)
}

// Sampled tells whether Samples has anything to look for.
func (q *Quote) Sampled() bool { return len(q.log.devices) > 0 }

// Samples takes the usage of the log's next block.
func (q *Quote) Samples(b meter.Block) {
	from := q.span.From - max(span.SecondsPerHour, q.lookback())
	for _, m := range b.Usage {
		if m.Batch.Last() < from || m.Batch.Minute.Start() >= q.at || q.trust.Judge(&m.Batch, b.FactsSeq, b.At) != nil {
			continue
		}
		if m.Batch.Blocks = q.log.concerned(m.Batch.Blocks); len(m.Batch.Blocks) > 0 {
			q.samples = append(q.samples, m)
		}
	}
}

// lookback is how long before a second samples may decide about its price, under any of the contracts.
func (q *Quote) lookback() span.Second {
	r := contract.NewRegister()
	for i, c := range q.quoted {
		r.Apply(fact.Fact{Seq: uint64(i + 1), Key: c.ID, Body: signature(c)})
	}
	return max(q.known.Lookback(), r.Lookback())
}

// concerned are the blocks of devices that the customer's leases hold.
func (g *gathered) concerned(blocks [][]byte) (out [][]byte) {
	for _, b := range blocks {
		if device, err := usage.BlockDevice(b); err == nil && g.devices[device] {
			out = append(out, b)
		}
	}
	return out
}

// Result prices what was gathered. rated is told before each rating how many were done and how many there are; it may be nil.
func (q *Quote) Result(rated func(done, of int)) (*Result, error) {
	out := &Result{Customer: q.request.Customer, Zone: q.zone, Span: q.span, Currency: q.currency()}
	var err error
	if len(q.own) > 0 {
		if out.Own, err = q.offer(terms{}); err != nil {
			return nil, err
		}
	}
	for i, c := range q.quoted {
		o, err := q.offer(terms{contract: c})
		if err != nil {
			return nil, err
		}
		o.Names = []string{q.request.Contracts[i].ID}
		out.Others = append(out.Others, o)
	}
	out.Modes, err = q.modes(rated)
	return out, err
}

// first is the contract whose currency is the quote's: the first of the customer's own, else of the request's.
func (q *Quote) first() *contract.Contract {
	if len(q.own) > 0 {
		return q.own[0].Contract
	}
	return q.request.Contracts[0]
}

func (q *Quote) currency() money.Currency { return q.first().Currency }
