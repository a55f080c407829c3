package contract

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/money"
)

// Meter prices something other than GPU time, by what meter.recorded facts state of it (design page 3b, Meters). Its quantity
// is that of a billing period, in its unit.
type Meter struct {
	Name       string
	Unit       string // GB, GB-month ...; empty for a mere count
	PerTime    Unit   // month of GB-month: what a time-weighted quantity is divided by; 0 for a unit without time
	Price      *big.Rat
	Size       *big.Rat // how many units the price is for; 1 unless stated
	Model      MeterModel
	RoundDown  bool     // of the package model: one that is begun is free
	Free       *big.Rat // of every period, taken off before all else
	Tiers      *Tiers   // of the graduated and the volume model
	ByLevel    bool     // of those: the level that stands at a second chooses its tiers; else the quantity of the period does
	Each       *Each    // of the each model
	Aggregate  Aggregate
	Cumulative bool // readings are a counter that begins at 0 and never falls; else each is an addition
}

// MeterModel is how a quantity becomes an amount.
type MeterModel uint8

// The closed list of models.
const (
	UnitModel    MeterModel = iota // in proportion
	PackageModel                   // whole packages: one that is begun is paid, or free
	GraduatedModel
	VolumeModel
	EachModel // every reading by itself
)

// MeterModelNames lists the models as a contract writes them, in the order of the constants.
func MeterModelNames() []string { return []string{"unit", "package", "graduated", "volume", "each"} }

// Aggregate is how the readings of a period become a quantity. Max, last and unique look at each resource and add the resources
// up; they know nothing of what was read before the period. A time-weighted meter reads levels: each holds until the
// resource's next one, also over the edge of a period.
type Aggregate uint8

// The closed list of aggregates.
const (
	Sum          Aggregate = iota
	Max                    // the highest reading of each resource
	Last                   // the last reading of each resource
	Unique                 // how many resources were read above 0
	TimeWeighted           // level x time / the unit's time
)

// AggregateNames lists the aggregates as a contract writes them, in the order of the constants.
func AggregateNames() []string { return []string{"sum", "max", "last", "unique", "time_weighted"} }

func (a Aggregate) String() string { return nameOf(AggregateNames(), int(a)) }

func meterFields() []string {
	return []string{"name", "price", "free", "model", "tiers", "tiers_by", "flat", "min", "max", "aggregate", "value", "round"}
}

func roundNames() []string { return []string{"up", "down"} }

func valueNames() []string { return []string{"delta", "cumulative"} }

// Meter is the meter of that name.
func (c *Contract) Meter(name string) (Meter, bool) {
	i := slices.IndexFunc(c.Meters, func(m Meter) bool { return m.Name == name })
	if i < 0 {
		return Meter{}, false
	}
	return c.Meters[i], true
}

// PriceText is the price as a contract writes it: "0.80/GB", "2.00/1000", "2.00/10 GB".
func (m Meter) PriceText(price *big.Rat, currency money.Currency) string {
	per := m.Unit
	if one := big.NewRat(1, 1); m.Size.Cmp(one) != 0 || m.Unit == "" {
		per = strings.TrimSpace(decimalText(m.Size) + " " + m.Unit)
	}
	return money.DecimalText(price, currency.Digits(), money.MaxDigits) + "/" + per
}

func (r *reader) meters(s section, c *Contract) {
	for _, f := range r.sections(s, "meters", meterFields(), nil) {
		m := r.meter(f)
		if _, double := c.Meter(m.Name); double && m.Name != "" {
			r.failf(f.values["name"], join(f.field, "name"), "write another name", "%q is a meter already", m.Name)
		}
		c.Meters = append(c.Meters, m)
	}
}

func (r *reader) meter(f section) Meter {
	m := Meter{Size: big.NewRat(1, 1)}
	m.Name, _ = need(r, f, "name", "name it, such as egress", parseName)
	model := func(text string) (int, error) { return parseChoice(text, MeterModelNames()) }
	set(r, f, "model", "write unit", model, func(v int) { m.Model = MeterModel(v) })
	set(r, f, "price", "write 0.80/GB", parseMeterPrice, func(p meterPrice) { m.Price, m.Size, m.Unit, m.PerTime = p.amount, p.size, p.unit, p.time })
	round := func(text string) (int, error) { return parseChoice(text, roundNames()) }
	set(r, f, "round", "write up", round, func(v int) {
		m.RoundDown = v == 1
		if m.Model != PackageModel {
			r.failf(f.values["round"], join(f.field, "round"), "remove it", "only packages are rounded, not the model %s", MeterModelNames()[m.Model])
		}
	})
	r.meterTiers(f, &m)
	free := func(text string) (*big.Rat, error) { return parseMeasure(text, m.Unit) }
	set(r, f, "free", "write 100 GB", free, func(v *big.Rat) { m.Free = v })
	r.aggregate(f, &m)
	r.tiersBy(f, &m)
	r.each(f, &m)
	return m
}

// meterTiers reads what the tiered models have and the others have not. Absolute tier prices replace the meter's.
func (r *reader) meterTiers(f section, m *Meter) {
	_, priced := f.values["price"]
	tiered := m.Model == GraduatedModel || m.Model == VolumeModel
	switch _, stated := f.values["tiers"]; {
	case tiered:
		m.Tiers = &Tiers{Graduated: m.Model == GraduatedModel}
		r.tiers(f, m.Tiers, func(text string) (*big.Rat, error) { return m.tierPrice(text, priced) })
		r.flat(f, m.Tiers)
	case stated:
		r.failf(f.values["tiers"], join(f.field, "tiers"), "write model: graduated, or remove them", "the model has no tiers")
	case f.values["flat"] != nil && m.Model != EachModel:
		r.failf(f.values["flat"], join(f.field, "flat"), "remove it", "the model has no flat fees")
	}
	switch absolute := tiered && len(m.Tiers.List) > 0 && m.Tiers.Absolute(); {
	case absolute && priced:
		r.failf(f.values["price"], join(f.field, "price"), "remove one of them", "the tiers state amounts, and the meter a price")
	case !absolute && !priced && (!tiered || len(m.Tiers.List) > 0):
		r.failf(f.node, f.field, "write price: 0.80/GB", "`price:` is missing")
	}
}

// tierPrice reads an absolute tier price; the first one gives the meter its unit.
func (m *Meter) tierPrice(text string, known bool) (*big.Rat, error) {
	p, err := parseMeterPrice(text)
	if err != nil {
		return nil, err
	}
	known = known || m.Tiers != nil && len(m.Tiers.List) > 0
	switch {
	case p.size.Cmp(m.Size) != 0:
		return nil, fmt.Errorf("%.60q is for several units; write the price of one", text)
	case known && p.unit != m.Unit:
		return nil, fmt.Errorf("%.60q is not per %s; write one unit for all tiers", text, m.Unit)
	}
	m.Unit, m.PerTime = p.unit, p.time
	return p.amount, nil
}

// aggregate reads how readings become a quantity. A unit with time is time-weighted unless another aggregate is stated: then
// the readings are in that unit already.
func (r *reader) aggregate(f section, m *Meter) {
	if m.PerTime != 0 {
		m.Aggregate = TimeWeighted
	}
	choice := func(text string) (int, error) { return parseChoice(text, AggregateNames()) }
	set(r, f, "aggregate", "write sum", choice, func(v int) { m.Aggregate = Aggregate(v) })
	if m.Aggregate == TimeWeighted && m.PerTime == 0 {
		r.failf(f.node, f.field, "write a price per GB-month or GB-hour", "a time-weighted meter needs a unit with time")
	}
	value := func(text string) (int, error) { return parseChoice(text, valueNames()) }
	set(r, f, "value", "write delta", value, func(v int) {
		m.Cumulative = v == 1
		if m.Aggregate != Sum {
			r.failf(f.values["value"], join(f.field, "value"), "remove it", "only the aggregate sum reads additions or a counter; %s reads levels", m.Aggregate)
		}
	})
}

type meterPrice struct {
	amount, size *big.Rat
	unit         string
	time         Unit
}

// parseMeterPrice reads 0.80/GB, 0.35/GB-month, 2.00/1000 or 2.00/10 GB.
func parseMeterPrice(text string) (meterPrice, error) {
	number, per, found := strings.Cut(text, "/")
	amount, err := parseMoney(number)
	switch {
	case err != nil:
		return meterPrice{}, fmt.Errorf("price %w", err)
	case !found || per == "":
		return meterPrice{}, fmt.Errorf("unit is missing; write %s/GB or %s/1000", number, number)
	}
	p := meterPrice{amount: amount, size: big.NewRat(1, 1), unit: per}
	if strings.ContainsAny(per[:1], "0123456789") {
		size, unit, spaced := strings.Cut(per, " ")
		if p.size, err = parseQuantity(size); err != nil {
			return meterPrice{}, err
		}
		if p.size.Sign() == 0 {
			return meterPrice{}, fmt.Errorf("%.60q is a price for nothing; write %s/1000", text, number)
		}
		if p.unit = unit; spaced && unit == "" {
			return meterPrice{}, fmt.Errorf("%.60q ends with a space; remove it", text)
		}
	}
	if p.unit == "" {
		return p, nil
	}
	p.time, err = parseMeterUnit(p.unit)
	return p, err
}

// parseMeterUnit checks a free word and finds its time: month of GB-month.
func parseMeterUnit(unit string) (Unit, error) {
	if _, err := parseName(unit); err != nil {
		return 0, err
	}
	if strings.ContainsAny(unit, " /%") || strings.ContainsAny(unit[:1], "0123456789-.") {
		return 0, fmt.Errorf("%.40q is no unit; write one word such as GB or GB-month", unit)
	}
	if i := strings.LastIndexByte(unit, '-'); i >= 0 {
		if k := slices.Index(UnitNames(), "gpu"+unit[i:]); k >= 0 {
			return GPUSecond + Unit(k), nil
		}
	}
	return 0, nil
}

// parseMeasure reads "100 GB" into a meter's unit.
func parseMeasure(text, unit string) (*big.Rat, error) {
	number, stated, _ := strings.Cut(text, " ")
	v, err := parseQuantity(number)
	if err != nil {
		return nil, err
	}
	factor, ok := conversion(stated, unit)
	if !ok {
		if unit == "" {
			return nil, fmt.Errorf("the meter counts without a unit; write %.40s", number)
		}
		return nil, fmt.Errorf("%.60q is not in %s; write %.40s %s", text, unit, number, unit)
	}
	return v.Mul(v, factor), nil
}

// conversion is the factor that takes a quantity from one unit to another: the same, or bytes in thousands (design page 3b,
// Units: TB = 1000 GB), with the same time.
func conversion(from, to string) (*big.Rat, bool) {
	if from == to {
		return big.NewRat(1, 1), true
	}
	fromBase, fromTime, _ := strings.Cut(from, "-")
	toBase, toTime, _ := strings.Cut(to, "-")
	a, b := slices.Index(byteUnits(), fromBase), slices.Index(byteUnits(), toBase)
	if a < 0 || b < 0 || fromTime != toTime {
		return nil, false
	}
	factor := big.NewRat(1, 1)
	for range max(a-b, b-a) {
		factor.Mul(factor, big.NewRat(1000, 1))
	}
	if a < b {
		factor.Inv(factor)
	}
	return factor, true
}

// byteUnits are a thousand of the one before each.
func byteUnits() []string { return []string{"MB", "GB", "TB"} }

// meterChange names what an amendment must not change of a meter: what its readings mean, because those of one period belong
// together. Prices may change.
func meterChange(versions []Version, c *Contract) string {
	for _, v := range versions {
		for _, m := range c.Meters {
			before, ok := v.Contract.Meter(m.Name)
			if ok && (before.Unit != m.Unit || before.Aggregate != m.Aggregate || before.Cumulative != m.Cumulative) {
				return "the unit, aggregate or value of meter " + m.Name
			}
		}
	}
	return ""
}
