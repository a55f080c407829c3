package bill

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// LineKey is what makes a line: never the lease, a label or a unit price (page 3b, Lines and rounding).
type LineKey struct {
	Item                     ItemKind // of a line that is not GPU time; such lines come last
	Name                     string   // of the fee, add-on, meter ...
	SKU, Region, ServiceTier string
	Dedicated                bool
	PricingMode              string
	Window                   string
	Idle                     bool
	Commitment               string // the reservation, forward or package
	Reason                   string // why it is waived or refused; empty for billed time
}

// compare is the order of lines on a statement: items last, the order of charge keys within.
func (k LineKey) compare(o LineKey) int {
	return cmp.Or(cmp.Compare(k.Item, o.Item), cmp.Compare(k.Name, o.Name), meter.CompareKeys(k.chargeKey(), o.chargeKey()))
}

func (k LineKey) chargeKey() meter.ChargeKey {
	return meter.ChargeKey{
		SKU: k.SKU, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated, PricingMode: k.PricingMode, Reason: k.Reason,
		Conditions: price.Conditions{Window: k.Window, Idle: k.Idle, Commitment: k.Commitment},
	}
}

// Line is one line of a statement before it is written down.
type Line struct {
	Key      LineKey
	Standing meter.Standing
	meter.Amounts
	TopUp           int64 // the part of the quantity that tops up starts, in milli-GPU-seconds: it has no coverage
	Leases, Devices int
	Rows            []Row    // of billed time
	Item            *Item    // of a line that is not GPU time
	Exact           *big.Rat // sum of quantity x price over its rows, or the item's
	Amount          money.Rounded
}

// Row is the part of a line with one unit price and one kind.
type Row struct {
	Kind  meter.Kind
	Price price.UnitPrice
	meter.Amounts
	Exact *big.Rat
	of    meter.ChargeKey // one of those it adds up; all are alike to tiers and bundles
	name  string          // of the row in its line, see rowName
}

// Statement is one contract's period as known at a cut: f(cut).
type Statement struct {
	Contract *contract.Contract // the version in force at the period's end
	Period   span.Span
	Lines    []Line // billed
	Unbilled []Line // waived and refused time, without an amount
	Total    money.Rounded
}

// pricing is a period on its way to a statement.
type pricing struct {
	*Statement
	contracts *contract.Register
	totals    []meter.Total
	until     span.Second // the period's end; of a preview, how far what is known reaches
	traced    bool        // items keep their inputs, see Explain
	ahead     bool        // only fees that are paid in advance are charged, see Advance
}

// phases stand in the order of design page 3b, Order of closing. Those before round work on exact amounts; those after it on
// what the customer sees.
func phases() []func(*pricing) error {
	return []func(*pricing) error{
		(*pricing).time,     // (a) quantities and (b) amounts
		(*pricing).volume,   // (c)
		(*pricing).bundles,  // (d)
		(*pricing).reserved, // (e)
		(*pricing).meters,   // (e)
		(*pricing).addons,   // (e)
		(*pricing).round,    // each line once
		(*pricing).capped,   // (f)
		(*pricing).spend,    // (g)
		(*pricing).settle,   // what is due for the end of the contract counts toward none of these
		(*pricing).total,
	}
}

// phasesInTrial are those of a period in the trial: use is counted and costs nothing, no fee, limit or commitment holds, and only what was
// bought is due.
func phasesInTrial() []func(*pricing) error {
	return []func(*pricing) error{(*pricing).time, (*pricing).purchases, (*pricing).meters, (*pricing).round, (*pricing).total}
}

// inTrial tells whether the period lies in the contract's trial, whose end is the end of a period.
func (s *Statement) inTrial() bool { return s.Contract.InTrial(s.Period.From) }

// Compute prices ledger totals. The totals are those of one contract's period. An empty one owes nothing but them, see
// Invoicer.Statement.
func Compute(contracts *contract.Register, id string, period span.Span, totals []meter.Total) (*Statement, error) {
	return ComputeUntil(contracts, id, period, period.To, totals)
}

// ComputeUntil is Compute for a period that still runs: what would have been taken up until then is known, the rest is not.
func ComputeUntil(contracts *contract.Register, id string, period span.Span, until span.Second, totals []meter.Total) (*Statement, error) {
	return priceTotals(contracts, id, period, until, totals, false)
}

func priceTotals(contracts *contract.Register, id string, period span.Span, until span.Second, totals []meter.Total, traced bool) (*Statement, error) {
	c := &pricing{contracts: contracts, totals: totals, until: min(until, period.To), traced: traced}
	return c.bill(id, period, phases())
}

// bill makes a statement of a period, phase by phase.
func (c *pricing) bill(id string, period span.Span, phases []func(*pricing) error) (*Statement, error) {
	v, ok := c.contracts.Governing(id, max(period.From, period.To-1))
	if !ok {
		return nil, fmt.Errorf("price %s %v: no version of the contract speaks of it", id, period)
	}
	c.Statement = &Statement{Contract: v.Contract, Period: period}
	if c.inTrial() && !c.ahead {
		phases = phasesInTrial()
	}
	for _, phase := range phases {
		if err := phase(c); err != nil {
			return nil, fmt.Errorf("price %s %v: %w", id, period, err)
		}
	}
	return c.Statement, nil
}

// time makes a line of each group of totals.
func (c *pricing) time() error {
	for _, group := range groups(c.totals) {
		line, err := timeLine(c.contracts, group)
		if err != nil {
			return err
		}
		if line.Standing == meter.Priced {
			c.Lines = append(c.Lines, line)
		} else {
			c.Unbilled = append(c.Unbilled, line)
		}
	}
	return nil
}

// round rounds each line once, alone (page 3b, Lines and rounding), and puts them in order.
func (c *pricing) round() error {
	slices.SortFunc(c.Lines, func(a, b Line) int { return a.Key.compare(b.Key) })
	for i := range c.Lines {
		c.Lines[i].Amount = c.rounded(c.Lines[i].Exact)
	}
	return nil
}

func (c *pricing) rounded(exact *big.Rat) money.Rounded {
	return money.New(exact, c.Contract.Currency).Round(c.Contract.Billing.Rounding)
}

// total is the sum of the rounded lines.
func (c *pricing) total() error {
	c.Total = money.FromMinor(new(big.Int), c.Contract.Currency)
	for _, l := range c.Lines {
		c.Total = c.Total.Add(l.Amount)
	}
	return nil
}

type lineOf struct {
	key      LineKey
	standing meter.Standing
}

func keyOf(t meter.Total) lineOf { return lineOf{LineOf(t.Key), t.Key.Standing} }

// LineOf is the line that a charge key belongs to, among those of its standing.
func LineOf(k meter.ChargeKey) LineKey {
	return LineKey{
		SKU: k.SKU, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated, PricingMode: k.PricingMode,
		Window: k.Window, Idle: k.Idle, Commitment: k.Commitment, Reason: k.Reason,
	}
}

// groups splits the totals by line in the order of charge keys.
func groups(totals []meter.Total) [][]meter.Total {
	sorted := slices.Clone(totals)
	slices.SortFunc(sorted, func(a, b meter.Total) int {
		return cmp.Or(meter.CompareKeys(a.Key, b.Key), cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Device, b.Device))
	})
	var out [][]meter.Total
	for i, t := range sorted {
		if i == 0 || keyOf(t) != keyOf(sorted[i-1]) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], t)
	}
	return out
}

// timeLine adds up one group: rows by unit price, one exact amount.
func timeLine(contracts *contract.Register, group []meter.Total) (Line, error) {
	of := keyOf(group[0])
	l := Line{Key: of.key, Standing: of.standing, Exact: new(big.Rat)}
	leases, devices := map[string]bool{}, map[string]bool{}
	rows := map[string]int{}
	row := 0
	for i, t := range group {
		l.Amounts = l.Plus(t.Amounts)
		if t.Key.Kind == meter.TopUp {
			l.TopUp += t.Quantity
		}
		leases[t.Lease] = true
		if t.Device != "" {
			devices[t.Device] = true
		}
		if of.standing != meter.Priced {
			continue
		}
		if i == 0 || !alike(contracts, group[i-1].Key, t.Key) { // the totals of one key stand together, by day
			unit, err := unitPrice(contracts, t.Key, nil)
			if err != nil {
				return Line{}, fmt.Errorf("price lease %s: %w", t.Lease, err)
			}
			row = l.row(rows, t.Key, unit, scales(contracts, t.Key))
		}
		l.Rows[row].Amounts = l.Rows[row].Plus(t.Amounts)
	}
	l.sum()
	l.Leases, l.Devices = len(leases), len(devices)
	return l, nil
}

// alike tells whether two keys are one, or one but for a local day that has the same prices.
func alike(contracts *contract.Register, a, b meter.ChargeKey) bool {
	if a == b {
		return true
	}
	later := b
	if later.LocalDay = a.LocalDay; later != a {
		return false
	}
	v, ok := contracts.Version(a.Version)
	return ok && price.SameUnits(v.Contract, instantOf(v, a), instantOf(v, b))
}

// sum is quantity x price over the rows.
func (l *Line) sum() {
	l.Exact = new(big.Rat)
	for i := range l.Rows {
		r := &l.Rows[i]
		r.Exact = new(big.Rat).Mul(new(big.Rat).SetInt64(r.Quantity), r.Price.PerMilliGPUSecond)
		l.Exact.Add(l.Exact, r.Exact)
	}
}

// row finds or begins the row of one kind and unit price; versions stay apart where each scales it by its own words.
func (l *Line) row(rows map[string]int, k meter.ChargeKey, unit price.UnitPrice, apart bool) int {
	name := rowName(k, unit, apart)
	i, ok := rows[name]
	if !ok {
		i = len(l.Rows)
		rows[name] = i
		l.Rows = append(l.Rows, Row{Kind: k.Kind, Price: unit, of: k, name: name})
	}
	return i
}

// rowName tells the rows of a line apart, before tiers and bundles scale their prices.
func rowName(k meter.ChargeKey, unit price.UnitPrice, apart bool) string {
	name := string(k.Kind) + " " + unit.String()
	if k.SliceMilli > 0 {
		name += fmt.Sprint(" slice ", k.SliceMilli)
	}
	if apart {
		name += fmt.Sprint(" version ", k.Version)
	}
	return name
}

// unitPrice prices a key at the version and local day it names; tiered replaces the on-demand price.
func unitPrice(contracts *contract.Register, k meter.ChargeKey, tiered *price.Tiered) (price.UnitPrice, error) {
	v, ok := contracts.Version(k.Version)
	if !ok {
		return price.UnitPrice{}, fmt.Errorf("contract version %d is not known", k.Version)
	}
	terms := meter.Terms(contracts, v, k)
	terms.Tiered = tiered
	unit, refusal := price.Unit(terms, meter.Condition(k, instantOf(v, k)))
	if refusal != nil {
		return price.UnitPrice{}, fmt.Errorf("the ledger calls it priced, the contract says %s: %s", refusal.Reason, refusal.Detail)
	}
	return unit, nil
}

// instantOf is an instant in a key's local day and period.
func instantOf(v contract.Version, k meter.ChargeKey) span.Second {
	return max(k.PeriodStart, v.Contract.Zone.StartOfDay(k.Day()))
}
