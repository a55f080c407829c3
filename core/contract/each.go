package contract

import "math/big"

// Each is what a reading costs that is priced by itself, as a payment or a task is: its quantity x price + Flat, but no less than Min and no
// more than Max. Both bounds hold on the amount with the flat part in it.
type Each struct {
	Flat, Min, Max *big.Rat // amounts of one reading; nil for none
}

// each reads what the model each has and the others have not. A reading that is priced by itself has to be an addition: a counter or a
// level says nothing of the transactions behind it.
func (r *reader) each(f section, m *Meter) {
	if m.Model != EachModel {
		for _, key := range []string{"min", "max"} {
			if n, stated := f.values[key]; stated {
				r.failf(n, join(f.field, key), "write model: each, or remove it", "the model %s has no bounds of a reading's amount", MeterModelNames()[m.Model])
			}
		}
		return
	}
	m.Each = &Each{}
	set(r, f, "flat", "write 2.00", parseMoney, func(v *big.Rat) { m.Each.Flat = v })
	set(r, f, "min", "write 1.75", parseMoney, func(v *big.Rat) { m.Each.Min = v })
	set(r, f, "max", "write 12.00", parseMoney, func(v *big.Rat) { m.Each.Max = v })
	if least, most := m.Each.Min, m.Each.Max; least != nil && most != nil && least.Cmp(most) > 0 {
		r.failf(f.values["max"], join(f.field, "max"), "write an amount from min on", "it is below min, which is %s", decimalText(least))
	}
	if n, stated := f.values["free"]; stated {
		r.failf(n, join(f.field, "free"), "remove it", "an allowance is of a whole period, and each reading is priced by itself")
	}
	switch {
	case m.Aggregate != Sum:
		n := f.values["aggregate"]
		if n == nil {
			n = f.node
		}
		r.failf(n, join(f.field, "aggregate"), "write aggregate: sum", "only readings that are additions can be priced each, and the aggregate is %s", m.Aggregate)
	case m.Cumulative:
		r.failf(f.values["value"], join(f.field, "value"), "write value: delta", "only readings that are additions can be priced each, and a counter's are none")
	}
}

func (p *provisions) each(e *Each) {
	if e == nil {
		return
	}
	for _, x := range []struct {
		field  string
		amount *big.Rat
	}{{"flat", e.Flat}, {"min", e.Min}, {"max", e.Max}} {
		if x.amount != nil {
			p.say(x.field, p.amount(x.amount))
		}
	}
}

func tiersByNames() []string { return []string{"quantity", "level"} }

// tiersBy reads what chooses the tiers of a meter. Only levels stand at a second.
func (r *reader) tiersBy(f section, m *Meter) {
	n, stated := f.values["tiers_by"]
	if !stated {
		return
	}
	field := join(f.field, "tiers_by")
	choice := func(text string) (int, error) { return parseChoice(text, tiersByNames()) }
	set(r, f, "tiers_by", "write quantity", choice, func(v int) { m.ByLevel = v == 1 })
	switch {
	case m.Tiers == nil:
		r.failf(n, field, "write model: graduated, or remove it", "the model %s has no tiers", MeterModelNames()[m.Model])
	case m.ByLevel && m.Aggregate != TimeWeighted:
		r.failf(n, field, "write tiers_by: quantity, or prices per unit and time such as seat-month",
			"only a time-weighted meter has a level at each second, and the aggregate is %s", m.Aggregate)
	case m.ByLevel && m.Free != nil:
		r.failf(f.values["free"], join(f.field, "free"), "state a first tier with a price of 0",
			"an allowance is a part of the period's quantity, and tiers by level price each second by itself")
	}
}
