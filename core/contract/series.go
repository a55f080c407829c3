package contract

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
)

// Reasons why a reading is refused.
const (
	UnknownMeter = "unknown_meter"
	BadQuantity  = "bad_quantity"
	CounterFell  = "counter_fell"
	NoResource   = "no_resource"
)

// Reading is what was stated of a meter, and where in the fact stream.
type Reading struct {
	Seq uint64
	Key string
	*fact.MeterRecorded
	Value *big.Rat // in the meter's unit; nil when the reading is refused
}

// series are the readings of one resource on one meter, in order of (At, Seq).
type series struct {
	meter, resource string
	readings        []Reading
	refused         int    // how many of them are
	last            uint64 // position of the latest
}

// readings are all that was stated of one contract's meters.
type readings struct {
	series  map[[2]string]*series // by meter and resource
	refused map[uint64]Problem    // by position
}

func newReadings() *readings {
	return &readings{series: map[[2]string]*series{}, refused: map[uint64]Problem{}}
}

// applyReading takes a reading and judges it with those that follow it in its series.
func (r *Register) applyReading(f fact.Fact, b *fact.MeterRecorded) Changed {
	all := r.readings[b.Contract]
	if all == nil {
		all = newReadings()
		r.readings[b.Contract] = all
	}
	k := [2]string{b.Meter, b.Resource}
	if all.series[k] == nil {
		all.series[k] = &series{meter: b.Meter, resource: b.Resource}
	}
	s := all.series[k]
	s.last = max(s.last, f.Seq)
	at, _ := slices.BinarySearchFunc(s.readings, Reading{Seq: f.Seq, MeterRecorded: b}, Reading.compare)
	s.readings = slices.Insert(s.readings, at, Reading{Seq: f.Seq, Key: f.Key, MeterRecorded: b})
	r.judge(all, s, at)
	return Changed{Contract: b.Contract, Customer: r.Customer(b.Contract), From: b.At}
}

func (x Reading) compare(o Reading) int {
	return cmp.Or(cmp.Compare(x.At, o.At), cmp.Compare(x.Seq, o.Seq))
}

// judgeAll judges a contract's readings anew, when its versions changed.
func (r *Register) judgeAll(id string) {
	if all := r.readings[id]; all != nil {
		for _, s := range all.series {
			r.judge(all, s, 0)
		}
	}
}

// judge takes or refuses the readings of a series from one on: a counter is compared with the last reading taken before.
func (r *Register) judge(all *readings, s *series, from int) {
	var counter *big.Rat // as it stood last
	for _, x := range slices.Backward(s.readings[:from]) {
		if x.Value != nil {
			counter = x.Value
			break
		}
	}
	for i := from; i < len(s.readings); i++ {
		x := &s.readings[i]
		if _, before := all.refused[x.Seq]; before {
			delete(all.refused, x.Seq)
			s.refused--
		}
		var problem Problem
		if x.Value, problem.Reason, problem.Detail = r.read(x, counter); x.Value != nil {
			counter = x.Value
			continue
		}
		problem.Key, problem.Customer, problem.At = x.Key, r.Customer(x.Contract), x.At
		all.refused[x.Seq] = problem
		s.refused++
	}
}

// read is a reading's value, or why it cannot be taken.
func (r *Register) read(x *Reading, counter *big.Rat) (value *big.Rat, reason, detail string) {
	if r.Customer(x.Contract) == "" {
		return nil, UnknownContract, "no signature of contract " + x.Contract + " is known"
	}
	v, ok := r.InForce(x.Contract, x.At)
	if !ok {
		return nil, OutsideTerm, fmt.Sprintf("%s lies outside the term of contract %s", x.At, x.Contract)
	}
	m, ok := v.Contract.Meter(x.Meter)
	if !ok {
		return nil, UnknownMeter, fmt.Sprintf("contract %s has no meter %q at %s", x.Contract, x.Meter, x.At)
	}
	value, err := money.ParseDecimal(x.Quantity)
	switch {
	case err != nil:
		return nil, BadQuantity, err.Error()
	case value.Sign() < 0:
		return nil, BadQuantity, fmt.Sprintf("the quantity %s is negative", x.Quantity)
	case value.Cmp(big.NewRat(maxQuantity, 1)) > 0:
		return nil, BadQuantity, fmt.Sprintf("the quantity %s is above %d", x.Quantity, int64(maxQuantity))
	case m.Aggregate == Unique && x.Resource == "":
		return nil, NoResource, fmt.Sprintf("meter %s counts resources and the reading names none", x.Meter)
	case m.Cumulative && counter != nil && value.Cmp(counter) < 0:
		return nil, CounterFell, fmt.Sprintf("the counter %s of %q falls from %s to %s", x.Meter, x.Resource, decimalText(counter), x.Quantity)
	}
	return value, "", ""
}

// Series are the readings of one meter that are taken, by resource in order of its name, each in order of time.
func (r *Register) Series(id, meter string) [][]Reading {
	all := r.readings[id]
	if all == nil {
		return nil
	}
	var of []*series
	for _, s := range all.series {
		if s.meter == meter {
			of = append(of, s)
		}
	}
	slices.SortFunc(of, func(a, b *series) int { return cmp.Compare(a.resource, b.resource) })
	out := make([][]Reading, 0, len(of))
	for _, s := range of {
		taken := s.readings
		if s.refused > 0 {
			taken = slices.DeleteFunc(slices.Clone(taken), func(x Reading) bool { return x.Value == nil })
		}
		out = append(out, taken)
	}
	return out
}

// readingProblems are the refused readings of a contract, in order of position.
func (r *Register) readingProblems(id string) []Problem {
	all := r.readings[id]
	if all == nil {
		return nil
	}
	var out []Problem
	for _, seq := range slices.Sorted(maps.Keys(all.refused)) {
		out = append(out, all.refused[seq])
	}
	return out
}

// readingsBefore takes from another register what was stated in front of a position. Where nothing was stated since of a contract
// and a series, its judgement stands; else it is judged by this register's contracts.
func (r *Register) readingsBefore(from *Register, seq uint64) {
	for id, all := range from.readings {
		own := newReadings()
		r.readings[id] = own
		for k, s := range all.series {
			if s.last < seq && s.refused == 0 && r.agreements[id] == from.agreements[id] {
				own.series[k] = s
				continue
			}
			kept := &series{meter: s.meter, resource: s.resource}
			for _, x := range s.readings {
				if x.Seq < seq {
					kept.last = max(kept.last, x.Seq)
					kept.readings = append(kept.readings, Reading{Seq: x.Seq, Key: x.Key, MeterRecorded: x.MeterRecorded})
				}
			}
			own.series[k] = kept
			r.judge(own, kept, 0)
		}
	}
}
