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
	SKU, Region, ServiceTier string
	Dedicated                bool
	PricingMode              string
	Reason                   string // why it is waived or refused; empty for billed time
}

// compare is the order of lines on a statement, the order of charge keys.
func (k LineKey) compare(o LineKey) int {
	return meter.CompareKeys(k.chargeKey(), o.chargeKey())
}

func (k LineKey) chargeKey() meter.ChargeKey {
	return meter.ChargeKey{
		SKU: k.SKU, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated, PricingMode: k.PricingMode, Reason: k.Reason,
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
	Exact           *big.Rat // sum of quantity x price over its rows
	Amount          money.Rounded
}

// Row is the part of a line with one unit price and one kind.
type Row struct {
	Kind  meter.Kind
	Price price.UnitPrice
	meter.Amounts
	Exact *big.Rat
}

// Statement is one contract's period as known at a cut: f(cut).
type Statement struct {
	Contract *contract.Contract // the version in force at the period's end
	Period   span.Span
	Lines    []Line // billed
	Unbilled []Line // waived and refused time, without an amount
	Total    money.Rounded
}

// Compute prices ledger totals. The totals are those of one contract's period.
func Compute(contracts *contract.Register, id string, period span.Span, totals []meter.Total) (*Statement, error) {
	v, ok := contracts.Governing(id, period.To-1)
	if !ok {
		return nil, fmt.Errorf("price %s %v: no version of the contract speaks of it", id, period)
	}
	s := &Statement{Contract: v.Contract, Period: period}
	for _, group := range groups(totals) {
		line, err := s.line(contracts, group)
		if err != nil {
			return nil, err
		}
		if line.Standing == meter.Priced {
			s.Lines = append(s.Lines, line)
		} else {
			s.Unbilled = append(s.Unbilled, line)
		}
	}
	s.Total = money.FromMinor(new(big.Int), s.Contract.Currency)
	for _, l := range s.Lines {
		s.Total = s.Total.Add(l.Amount)
	}
	return s, nil
}

type lineOf struct {
	key      LineKey
	standing meter.Standing
}

func keyOf(t meter.Total) lineOf {
	k := t.Key
	return lineOf{LineKey{k.SKU, k.Region, k.ServiceTier, k.Dedicated, k.PricingMode, k.Reason}, k.Standing}
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

// line adds up one group: rows by unit price, one exact amount, rounded once.
func (s *Statement) line(contracts *contract.Register, group []meter.Total) (Line, error) {
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
		if i == 0 || t.Key != group[i-1].Key { // the totals of one key stand together
			unit, err := unitPrice(contracts, t)
			if err != nil {
				return Line{}, err
			}
			row = l.row(rows, t.Key.Kind, unit)
		}
		l.Rows[row].Amounts = l.Rows[row].Plus(t.Amounts)
	}
	for i := range l.Rows {
		r := &l.Rows[i]
		r.Exact = new(big.Rat).Mul(new(big.Rat).SetInt64(r.Quantity), r.Price.PerMilliGPUSecond)
		l.Exact.Add(l.Exact, r.Exact)
	}
	l.Leases, l.Devices = len(leases), len(devices)
	l.Amount = money.New(l.Exact, s.Contract.Currency).Round(s.Contract.Billing.Rounding)
	return l, nil
}

// row finds or begins the row of one kind and unit price.
func (l *Line) row(rows map[string]int, kind meter.Kind, unit price.UnitPrice) int {
	name := string(kind) + " " + unit.String()
	i, ok := rows[name]
	if !ok {
		i = len(l.Rows)
		rows[name] = i
		l.Rows = append(l.Rows, Row{Kind: kind, Price: unit})
	}
	return i
}

// unitPrice prices one total at the version and local day its key names.
func unitPrice(contracts *contract.Register, t meter.Total) (price.UnitPrice, error) {
	v, ok := contracts.Version(t.Key.Version)
	if !ok {
		return price.UnitPrice{}, fmt.Errorf("price lease %s: contract version %d is not known", t.Lease, t.Key.Version)
	}
	at := max(t.Key.PeriodStart, v.Contract.Zone.StartOfDay(t.Key.Day()))
	unit, refusal := price.Unit(v.Contract, meter.Condition(t.Key, at))
	if refusal != nil {
		return price.UnitPrice{}, fmt.Errorf("price lease %s: the ledger calls it priced, the contract says %s: %s", t.Lease, refusal.Reason, refusal.Detail)
	}
	return unit, nil
}
