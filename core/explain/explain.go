package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// LineName is a line as a person names it: 2 is the second line, u1 the first of the time that is not billed.
type LineName struct {
	Number   int // from 1
	Unbilled bool
}

// ParseLine reads a line's name.
func ParseLine(text string) (LineName, error) {
	digits, unbilled := strings.CutPrefix(strings.ToLower(text), "u")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 {
		return LineName{}, fmt.Errorf("line %.20q; write its number, such as 2, or u1 for the first of the time that is not billed", text)
	}
	return LineName{n, unbilled}, nil
}

func (n LineName) String() string {
	if n.Unbilled {
		return fmt.Sprint("u", n.Number)
	}
	return fmt.Sprint(n.Number)
}

// Subject is the line that is asked about.
type Subject struct {
	Document *bill.Document
	Name     LineName
}

// Find checks that a document has a line and can be explained.
func Find(d *bill.Document, n LineName) (Subject, error) {
	s := Subject{d, n}
	of := len(d.Lines)
	if n.Unbilled {
		of = len(d.Unbilled)
	}
	switch {
	case d.Kind == bill.KindCancellation:
		return s, fmt.Errorf("%s takes %s back, line by line: explain that invoice", d.Invoice, d.Cancels)
	case n.Number > of && n.Unbilled:
		return s, fmt.Errorf("there is no line %s in %s: its time that is not billed has %s", n, d.Invoice, numbered("u", of))
	case n.Number > of:
		return s, fmt.Errorf("there is no line %s in %s: what it bills has %s", n, d.Invoice, numbered("", of))
	}
	return s, nil
}

// numbered says which lines there are.
func numbered(mark string, of int) string {
	switch of {
	case 0:
		return "no lines"
	case 1:
		return fmt.Sprintf("the line %s1", mark)
	default:
		return fmt.Sprintf("the lines %[1]s1 to %[1]s%[2]d", mark, of)
	}
}

// line is the billed line, or nil.
func (s Subject) line() *bill.DocumentLine {
	if s.Name.Unbilled {
		return nil
	}
	return &s.Document.Lines[s.Name.Number-1]
}

// TakesOff tells whether the line takes off what was billed in advance: it is explained by that closing.
func (s Subject) TakesOff() bool { return s.line() != nil && s.line().Advance != "" }

// Evidence is what the replay of a log knew when it closed a period.
type Evidence struct {
	Contracts *contract.Register
	Statement *bill.Statement // with the inputs of its items, see bill.Explain
	Totals    []meter.Total   // that it prices
	Segments  []meter.Segment // of the period: those that Subject.Concerns
}

// Concerns tells whether a segment may belong to the subject's line.
func (s Subject) Concerns(g meter.Segment) bool {
	if l := s.line(); l != nil {
		return g.Key.Standing == meter.Priced && bill.LineOf(g.Key) == l.Key()
	}
	u := s.Document.Unbilled[s.Name.Number-1]
	return g.Key.Standing == u.Standing && g.Key.Reason == u.Reason && g.Key.SKU == u.SKU
}

// Segment is a stretch of one lease's time on one unit at one price. What a correction takes back has a negative share.
type Segment struct {
	Lease, Device   string
	Span            span.Span // of a top-up: the start that it tops up
	Milli           int64     // of the unit
	MilliGPUSeconds int64
	Key             meter.ChargeKey // of one of its seconds
	Price           price.UnitPrice // none for time that is not billed
	Exact           *big.Rat        // MilliGPUSeconds x price; nil for time that is not billed
}

// Explanation is everything that a line stands on.
type Explanation struct {
	Subject
	Line     *bill.DocumentLine // nil of time that is not billed
	Unbilled *bill.UnbilledLine // nil of a billed line
	Contract *contract.Contract // in force at the period's end
	Versions map[uint64]*contract.Contract
	Segments []Segment  // of GPU time, by lease, device and time
	Item     *bill.Item // of other charges
	Exact    *big.Rat   // the line's amount before rounding; of a correction the difference of the two
	// Unrelieved says why time of the line had no idle relief, in milli-GPU-seconds.
	Unrelieved meter.Unrelieved
}

// Line explains a line from what was known when its period was closed, or billed in advance where the line takes that off; before is
// what the closing before knew, for a correction, else nil. That everything sums to the line is asserted: an assertion that fails comes back as an error, since the document may be
// another than the replay's.
func Line(s Subject, now, before *Evidence) (*Explanation, error) {
	var x *Explanation
	var err error
	if f := must.Catch(func() { x, err = line(s, now, before) }); f != nil {
		err = f
	}
	if err != nil {
		return nil, fmt.Errorf("explain line %s of %s: %w", s.Name, s.Document.Invoice, err)
	}
	return x, nil
}

func line(s Subject, now, before *Evidence) (*Explanation, error) {
	x := &Explanation{
		Subject: s, Line: s.line(), Contract: now.Statement.Contract, Versions: map[uint64]*contract.Contract{}, Exact: new(big.Rat),
	}
	own := int64(1)
	if s.TakesOff() {
		own = -1
	}
	pieces := pieces{}
	if s.Name.Unbilled {
		return x, x.unbilled(now, pieces)
	}
	for _, part := range []struct {
		evidence *Evidence
		sign     int64
	}{{now, own}, {before, -1}} {
		if part.evidence == nil {
			continue
		}
		l := part.evidence.Statement.Line(x.Line.Key())
		if l == nil {
			continue
		}
		x.Exact.Add(x.Exact, new(big.Rat).Mul(l.Exact, big.NewRat(part.sign, 1)))
		if l.Item != nil && (x.Item == nil || part.evidence == now) {
			x.Item = l.Item
		}
		if err := pieces.add(s, part.evidence, part.sign); err != nil {
			return nil, err
		}
	}
	x.take(pieces, now, before)
	for _, g := range now.Segments {
		if s.Concerns(g) {
			x.Unrelieved = x.Unrelieved.Plus(g.Unrelieved)
		}
	}
	if x.Item == nil {
		x.check()
	}
	return x, nil
}

// unbilled takes the segments of the one statement line that the document's line shows: there may be several of one reason and SKU.
func (x *Explanation) unbilled(now *Evidence, all pieces) error {
	x.Unbilled = &x.Document.Unbilled[x.Name.Number-1]
	must.True(len(now.Statement.Unbilled) == len(x.Document.Unbilled), "the replay has %d unbilled lines", len(now.Statement.Unbilled))
	key := now.Statement.Unbilled[x.Name.Number-1].Key
	own := *now
	own.Segments = slices.DeleteFunc(slices.Clone(now.Segments), func(g meter.Segment) bool { return bill.LineOf(g.Key) != key })
	if err := all.add(x.Subject, &own, 1); err != nil {
		return err
	}
	x.take(all, now, nil)
	var sum int64
	for _, g := range x.Segments {
		sum += g.MilliGPUSeconds
	}
	must.True(sum == x.Unbilled.Quantity.MilliGPUSeconds, "segments of line %s sum to %d milli-GPU-seconds of %d", x.Name, sum, x.Unbilled.Quantity.MilliGPUSeconds)
	return nil
}

// check asserts that the segments sum to the line, to the last milli-second and the last digit.
func (x *Explanation) check() {
	var milli int64
	exact := new(big.Rat)
	for _, g := range x.Segments {
		milli += g.MilliGPUSeconds
		exact.Add(exact, g.Exact)
	}
	must.True(milli == x.Line.Quantity.MilliGPUSeconds, "segments of line %s sum to %d milli-GPU-seconds of %d", x.Name, milli, x.Line.Quantity.MilliGPUSeconds)
	must.True(exact.Cmp(x.Exact) == 0, "segments of line %s sum to %s of %s", x.Name, exact.RatString(), x.Exact.RatString())
}

// take merges pieces into segments, in order.
func (x *Explanation) take(all pieces, now, before *Evidence) {
	for _, p := range all {
		x.Segments = append(x.Segments, p.segments()...)
	}
	slices.SortFunc(x.Segments, func(a, b Segment) int {
		return cmp.Or(
			cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Span.From, b.Span.From), cmp.Compare(a.Span.To, b.Span.To),
			cmp.Compare(a.Milli, b.Milli), meter.CompareKeys(a.Key, b.Key),
		)
	})
	for _, g := range x.Segments {
		for _, e := range []*Evidence{before, now} {
			if e == nil {
				continue
			}
			if v, ok := e.Contracts.Version(g.Key.Version); ok {
				x.Versions[v.Seq] = v.Contract
			}
		}
	}
}

// alike is what segments of one piece have in common: nothing that a customer could tell apart, and the day only where it is priced.
type alike struct {
	lease, device string
	key           meter.ChargeKey
	price         string
}

// piece is the time of one lease on one unit that is priced alike, as changes of its share.
type piece struct {
	alike
	unit    price.UnitPrice
	changes map[span.Second]int64
	topUps  map[topUp]int64 // milli-GPU-seconds
}

type topUp struct {
	start span.Span
	milli int64
}

type pieces map[alike]*piece

// add takes the segments of a line, known now or billed before.
func (all pieces) add(s Subject, e *Evidence, sign int64) error {
	prices := map[meter.ChargeKey]price.UnitPrice{}
	for _, g := range e.Segments {
		if !s.Concerns(g) {
			continue
		}
		unit, known := prices[g.Key]
		if !known && g.Key.Standing == meter.Priced {
			var err error
			if unit, err = e.Statement.Price(e.Contracts, g.Key); err != nil {
				return fmt.Errorf("price lease %s: %w", g.Lease, err)
			}
			prices[g.Key] = unit
		}
		of := alike{lease: g.Lease, device: g.Device, key: g.Key}
		of.key.LocalDay = 0
		if s.Document.Kind == bill.KindCorrection { // what a later amendment repeats did not change
			of.key.Version, of.key.Book = 0, 0
		}
		if unit.PerMilliGPUSecond != nil {
			of.price = unit.String()
		}
		p := all[of]
		if p == nil {
			p = &piece{of, unit, map[span.Second]int64{}, map[topUp]int64{}}
			p.key = g.Key
			all[of] = p
		}
		if g.Key.Kind == meter.TopUp {
			p.topUps[topUp{g.Span, g.Milli}] += sign * g.Quantity
			continue
		}
		p.changes[g.Span.From] += sign * g.Milli
		p.changes[g.Span.To] -= sign * g.Milli
	}
	return nil
}

// segments are the longest stretches with one share.
func (p *piece) segments() []Segment {
	var out []Segment
	add := func(s span.Span, milli, quantity int64) {
		if quantity == 0 {
			return
		}
		g := Segment{Lease: p.lease, Device: p.device, Span: s, Milli: milli, MilliGPUSeconds: quantity, Key: p.key, Price: p.unit}
		if per := p.unit.PerMilliGPUSecond; per != nil {
			g.Exact = new(big.Rat).Mul(per, new(big.Rat).SetInt64(quantity))
		}
		out = append(out, g)
	}
	var milli int64
	var from span.Second
	for _, at := range slices.Sorted(maps.Keys(p.changes)) {
		change := p.changes[at]
		if change == 0 {
			continue // goes on
		}
		add(span.Span{From: from, To: at}, milli, int64(at-from)*milli)
		from, milli = at, milli+change
	}
	must.True(milli == 0, "lease %s on %s: a segment has no end", p.lease, p.device)
	for t, quantity := range p.topUps {
		add(t.start, t.milli, quantity)
	}
	return out
}
