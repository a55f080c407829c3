package bill

import (
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// ItemMeter is metered use other than GPU time.
const ItemMeter ItemKind = "meter"

// meters charges what the period's readings add up to (design page 3b, Meters). As for volume tiers, each version charges its
// own part of the quantity by its own prices at the whole quantity: an amendment restarts neither an allowance, a tier nor a
// package.
func (c *pricing) meters() error {
	names := named(c, func(v *contract.Contract) []contract.Meter { return v.Meters }, func(m contract.Meter) string { return m.Name })
	for _, name := range names {
		c.meter(c.metered(name))
	}
	return nil
}

// metered is what a meter adds up to in a period.
type metered struct {
	name   string
	total  *big.Rat
	parts  []meteredPart // in order of time
	states []string      // how states of leases weighed it, as steps
	// inputs are the readings that count, where they are asked for.
	inputs []Input
}

// meteredPart is the part of a quantity that falls under one version.
type meteredPart struct {
	contract.Meter
	version   uint64
	quantity  *big.Rat
	readings  []*big.Rat // where each is priced by itself
	stretches []stretch  // where the level chooses tiers in any part of the period
}

// meter adds a meter's line. Without a quantity there is one only where a fee is due all the same, by the latest version.
func (c *pricing) meter(q metered) {
	if len(q.parts) == 0 {
		return
	}
	if c.inTrial() {
		if q.total.Sign() > 0 {
			for i := range q.inputs {
				q.inputs[i].Costs = nil
			}
			c.item(LineKey{Item: ItemMeter, Name: q.name}, Item{Quantity: q.total, Unit: q.parts[0].Unit, Steps: append(q.states, "trial"), Inputs: q.inputs}, new(big.Rat))
		}
		return
	}
	exact, steps := c.eachReading(q)
	levels, tiers := c.byLevel(q)
	exact.Add(exact, levels)
	steps = append(steps, tiers...)
	if q.total.Sign() == 0 {
		if due, how := c.charge(q.parts[len(q.parts)-1].Meter, q.total); due.Sign() > 0 {
			exact.Add(exact, due)
			steps = append(steps, how...)
		}
		if exact.Sign() == 0 {
			return
		}
	}
	for _, p := range c.alike(q) {
		share := new(big.Rat).Quo(p.quantity, q.total)
		if share.Cmp(big.NewRat(1, 1)) != 0 {
			steps = append(steps, "part "+number(p.quantity)+" ÷ "+number(q.total))
		}
		exact.Add(exact, share.Mul(share, p.amount))
		steps = append(steps, p.steps...)
	}
	steps = slices.Concat(q.states, steps)
	c.item(LineKey{Item: ItemMeter, Name: q.name}, Item{Quantity: q.total, Unit: q.parts[0].Unit, Steps: steps, Inputs: q.inputs}, exact)
}

// chargedPart is a part of a quantity, and what the whole costs by its words.
type chargedPart struct {
	quantity, amount *big.Rat
	steps            []string
}

// alike charges the parts that hold something and that the period's quantity prices; those that follow each other with the same words are
// one.
func (c *pricing) alike(q metered) []chargedPart {
	var out []chargedPart
	for _, p := range q.parts {
		if p.quantity.Sign() == 0 || p.ByLevel || p.Each != nil {
			continue
		}
		amount, steps := c.charge(p.Meter, q.total)
		if n := len(out); n > 0 && slices.Equal(out[n-1].steps, steps) {
			out[n-1].quantity.Add(out[n-1].quantity, p.quantity)
		} else {
			out = append(out, chargedPart{p.quantity, amount, steps})
		}
	}
	return out
}

func number(v *big.Rat) string { return money.DecimalText(v, 0, 12) }

// charge is what a quantity of a period costs, exact, with the steps that make it.
func (c *pricing) charge(m contract.Meter, quantity *big.Rat) (amount *big.Rat, steps []string) {
	left := new(big.Rat).Set(quantity)
	if m.Free != nil {
		if left.Sub(left, m.Free); left.Sign() < 0 {
			left.SetInt64(0)
		}
		steps = append(steps, "allowance "+number(m.Free), "billed "+number(left))
	}
	size := new(big.Rat).Quo(left, m.Size) // how often the price is due
	if m.Tiers == nil {
		if m.Model == contract.PackageModel {
			size, steps = packages(m, size, steps)
		}
		return size.Mul(size, m.Price), append(steps, "price "+m.PriceText(m.Price, c.Contract.Currency))
	}
	amount = new(big.Rat)
	for _, p := range m.Tiers.Parts(left) {
		per := p.Price
		if per == nil {
			per = new(big.Rat).Mul(m.Price, p.Percent)
		}
		part := new(big.Rat).Mul(new(big.Rat).Quo(p.Quantity, m.Size), per)
		amount.Add(amount, part)
		steps = append(steps, "tier "+p.Interval()+": "+number(p.Quantity)+" × "+m.PriceText(per, c.Contract.Currency))
		if p.Flat != nil {
			amount.Add(amount, p.Flat)
			steps = append(steps, "flat "+c.amount(p.Flat))
		}
	}
	return amount, steps
}

// packages is how many of so many packages are paid.
func packages(m contract.Meter, size *big.Rat, steps []string) (*big.Rat, []string) {
	if m.RoundDown {
		whole := new(big.Rat).SetInt(new(big.Int).Quo(size.Num(), size.Denom()))
		return whole, append(steps, "full_packages "+number(whole))
	}
	whole := ceil(size)
	return whole, append(steps, "packages "+number(whole))
}

func ceil(v *big.Rat) *big.Rat {
	whole, rest := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return new(big.Rat).SetInt(whole)
}

// metered adds up a meter's readings, by the version in force at each.
func (c *pricing) metered(name string) metered {
	q := metered{name: name, total: new(big.Rat)}
	pieces := c.meteredPieces(name)
	if len(pieces) == 0 {
		return q
	}
	for _, readings := range c.contracts.Series(c.Contract.ID, name) {
		if pieces[0].meter.Aggregate == contract.TimeWeighted {
			c.weigh(pieces, readings)
		} else {
			collect(pieces, span.Span{From: c.Period.From, To: c.until}, readings)
		}
	}
	q.states = stateSteps(pieces)
	for i := range pieces {
		p := &pieces[i]
		q.inputs = append(q.inputs, p.inputs...)
		quantity := p.sum
		if p.meter.Aggregate == contract.TimeWeighted {
			quantity.Quo(quantity, new(big.Rat).SetInt64(p.seconds))
		}
		q.total.Add(q.total, quantity)
		if n := len(q.parts); n > 0 && q.parts[n-1].version == p.version {
			q.parts[n-1].quantity.Add(q.parts[n-1].quantity, quantity)
		} else {
			q.parts = append(q.parts, meteredPart{Meter: p.meter, version: p.version, quantity: quantity})
		}
		last := &q.parts[len(q.parts)-1]
		last.readings = append(last.readings, p.readings...)
		last.stretches = append(last.stretches, p.stretches()...)
	}
	return q
}

// meteredPiece is a part of the period with one version and one length of the unit's time.
type meteredPiece struct {
	span     span.Span
	version  uint64
	meter    contract.Meter
	contract *contract.Contract
	seconds  int64    // of the unit's time: a month of GB-months
	sum      *big.Rat // of quantities; of levels x seconds where the meter is time-weighted
	readings []*big.Rat
	levelled bool   // the level chooses tiers in some piece
	held     []held // where it does
	states   []inState
	traced   bool
	inputs   []Input
}

// inState is what stood on a meter while its leases were in one state, before it was weighed.
type inState struct {
	step  string   // state stopped 200%
	level *big.Rat // x seconds
}

// meteredPieces cuts the period, as far as it is known, where the version changes, and by local days where a month or year of
// the unit may end inside. Versions without the meter have no piece.
func (c *pricing) meteredPieces(name string) []meteredPiece {
	var out []meteredPiece
	for _, p := range c.contracts.Pieces(c.Contract.ID, span.Span{From: c.Period.From, To: c.until}) {
		m, ok := p.Contract.Meter(name)
		if !ok {
			continue
		}
		for at := p.Span.From; at < p.Span.To; {
			end := p.Span.To
			cycle := p.Contract.Billing.Cycle
			if m.PerTime == contract.GPUMonth && cycle != calendar.Monthly || m.PerTime == contract.GPUYear && cycle != calendar.Yearly {
				zone := p.Contract.Zone
				end = min(end, zone.StartOfDay(zone.DateOf(at).AddDays(1)))
			}
			piece := meteredPiece{
				span: span.Span{From: at, To: end}, version: p.Seq, contract: p.Contract, meter: m, sum: new(big.Rat), traced: c.traced,
			}
			if m.Aggregate == contract.TimeWeighted {
				piece.seconds = price.UnitSeconds(p.Contract, m.PerTime, at)
			}
			out = append(out, piece)
			at = end
		}
	}
	levelled := slices.ContainsFunc(out, func(p meteredPiece) bool { return p.meter.ByLevel })
	for i := range out {
		out[i].levelled = levelled
	}
	return out
}

// weigh adds level x seconds to each piece: a level holds until the next reading of its resource, from whichever period it comes. Of
// a meter that bills by state, the part counts that bills in the state of the lease which is the resource.
func (c *pricing) weigh(pieces []meteredPiece, readings []contract.Reading) {
	for i, x := range readings {
		holds := span.Span{From: x.At, To: span.Open}
		if i+1 < len(readings) {
			holds.To = readings[i+1].At
		}
		first, _ := slices.BinarySearchFunc(pieces, holds.From, func(p meteredPiece, at span.Second) int {
			if p.span.To <= at {
				return -1
			}
			return 1
		})
		for k := first; k < len(pieces) && pieces[k].span.From < holds.To; k++ {
			p := &pieces[k]
			for _, portion := range c.contracts.Portions(p.contract, p.meter.Name, x.Resource, p.span.Intersect(holds)) {
				p.weigh(x, portion)
			}
		}
	}
}

// weigh adds what a level counts during a portion.
func (p *meteredPiece) weigh(x contract.Reading, during contract.Portion) {
	level := new(big.Rat).SetInt64(during.Seconds())
	level.Mul(level, x.Value)
	counts, step := new(big.Rat).Set(level), ""
	if during.Part != nil {
		counts.Mul(counts, during.Part)
		step = "state " + string(during.State) + " " + money.PercentText(during.Part)
		p.note(step, level)
	}
	p.sum.Add(p.sum, counts)
	if p.levelled {
		level := x.Value
		if during.Part != nil {
			level = new(big.Rat).Mul(level, during.Part)
		}
		p.held = append(p.held, held{during.Span, level})
	}
	if p.traced {
		p.inputs = append(p.inputs, Input{
			Kind: InputLevel, Name: x.Resource, Span: during.Span, State: strings.TrimPrefix(step, "state "), Stated: x.Value,
			Counts: counts.Quo(counts, new(big.Rat).SetInt64(p.seconds)), Unit: p.meter.Unit,
		})
	}
}

// note keeps what stood on the meter in a state.
func (p *meteredPiece) note(step string, level *big.Rat) {
	for _, s := range p.states {
		if s.step == step {
			s.level.Add(s.level, level)
			return
		}
	}
	p.states = append(p.states, inState{step, level})
}

// stateSteps shows how states weighed a meter's levels: "state stopped 200%: 0.5" is half a unit that counts twice. What stood there
// outside the life of a lease counts as it is and has no step.
func stateSteps(pieces []meteredPiece) []string {
	sums := map[string]*big.Rat{}
	var steps []string
	for _, p := range pieces {
		for _, s := range p.states {
			if sums[s.step] == nil {
				sums[s.step] = new(big.Rat)
				steps = append(steps, s.step)
			}
			sums[s.step].Add(sums[s.step], new(big.Rat).Quo(s.level, new(big.Rat).SetInt64(p.seconds)))
		}
	}
	slices.Sort(steps)
	for i, step := range steps {
		steps[i] = step + ": " + number(sums[step])
	}
	return steps
}

// collect adds what one resource's readings of the period give to the pieces that hold them.
func collect(pieces []meteredPiece, period span.Span, readings []contract.Reading) {
	within := func(at span.Second) int {
		i, _ := slices.BinarySearchFunc(readings, at, func(x contract.Reading, at span.Second) int { return int(x.At - at) })
		return i
	}
	from, to := within(period.From), within(period.To)
	best := -1 // the reading that counts for its resource
	for i := from; i < to; i++ {
		x := readings[i]
		switch m := pieces[0].meter; {
		case m.Cumulative:
			grown := new(big.Rat).Set(x.Value)
			if i > 0 {
				grown.Sub(grown, readings[i-1].Value)
			}
			add(pieces, x, grown)
		case m.Aggregate == contract.Sum:
			add(pieces, x, x.Value)
		case best < 0 || m.Aggregate == contract.Last || m.Aggregate == contract.Max && x.Value.Cmp(readings[best].Value) > 0:
			best = i
		case m.Aggregate == contract.Unique && readings[best].Value.Sign() == 0:
			best = i
		}
	}
	if best < 0 {
		return
	}
	value := readings[best].Value
	if pieces[0].meter.Aggregate == contract.Unique {
		value = big.NewRat(int64(value.Sign()), 1)
	}
	add(pieces, readings[best], value)
}

// add gives what a reading counts to the piece that holds its instant. A reading is taken only where a version with its meter is in force.
func add(pieces []meteredPiece, x contract.Reading, quantity *big.Rat) {
	for i := range pieces {
		p := &pieces[i]
		if !p.span.Contains(x.At) {
			continue
		}
		p.sum.Add(p.sum, quantity)
		if p.meter.Each != nil {
			p.readings = append(p.readings, quantity)
		}
		if p.traced {
			p.inputs = append(p.inputs, p.reading(x, quantity))
		}
	}
}

func (p *meteredPiece) reading(x contract.Reading, quantity *big.Rat) Input {
	in := Input{
		Kind: InputReading, Name: x.Resource, Span: span.Span{From: x.At, To: x.At}, Stated: x.Value, Counts: new(big.Rat).Set(quantity), Unit: p.meter.Unit,
	}
	if p.meter.Each != nil {
		in.Costs, _ = readingCosts(p.meter, quantity)
	}
	return in
}
