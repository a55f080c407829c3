package bill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

// Kinds of document.
const (
	KindInvoice      = "invoice"
	KindAdvance      = "advance" // closing 0: fees that are paid when their period begins
	KindCorrection   = "correction"
	KindCancellation = "cancellation"
	KindPreview      = "preview"
)

// Format names the document's version; its bytes are frozen (docs/format.md, Invoice document).
const Format = "gpuhour.invoice.v1"

// Document is an invoice as it is hashed and kept: no position, host or clock reading, amounts as decimal strings.
// The order of the fields is the order of the bytes.
type Document struct {
	Format        string         `json:"format"`
	Kind          string         `json:"kind"`
	Invoice       string         `json:"invoice"` // series and number, empty in a preview
	Series        string         `json:"series"`
	Number        uint64         `json:"number"`
	Customer      string         `json:"customer"`
	Contract      string         `json:"contract"`
	Currency      string         `json:"currency"`
	Timezone      string         `json:"timezone"`
	TZVersion     string         `json:"tz_version"`
	Rounding      string         `json:"rounding"`
	Period        DocumentPeriod `json:"period"`
	Closing       int            `json:"closing"`
	Cancels       string         `json:"cancels,omitempty"` // the invoice that a cancellation takes back
	Lines         []DocumentLine `json:"lines"`
	Projected     []DocumentLine `json:"projected,omitempty"` // in a preview: what would be due if the period ended like this, outside the total
	Unbilled      []UnbilledLine `json:"unbilled"`
	Quantity      Quantity       `json:"quantity"`
	Total         string         `json:"total"`
	RoundingBound string         `json:"rounding_bound"` // how far the lines can be from their exact sum, see roundingBound
	Limit         *DocumentLimit `json:"limit,omitempty"`
	TrialUntil    string         `json:"trial_until,omitempty"` // of a period in which nothing is charged for use
}

// DocumentPeriod is [from, to) in the contract's zone.
type DocumentPeriod struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Quantity is an amount of time: exact in milli-GPU-seconds, in GPU-hours to nine digits for people.
type Quantity struct {
	MilliGPUSeconds int64    `json:"milli_gpu_seconds"`
	GPUHours        string   `json:"gpu_hours"`
	Coverage        Coverage `json:"coverage"`
}

// Coverage is how much of the leased time was measured, inferred between two measured seconds, or missing, in
// milli-GPU-seconds. Top-ups of a start minimum have none.
type Coverage struct {
	Measured int64 `json:"measured_milli_gpu_seconds"`
	Inferred int64 `json:"inferred_milli_gpu_seconds"`
	Missing  int64 `json:"missing_milli_gpu_seconds"`
	TopUp    int64 `json:"top_up_milli_gpu_seconds"`
}

// DocumentLine is one billed line. A correction's line carries the difference, and what was billed before and is
// known now.
type DocumentLine struct {
	Line        int           `json:"line"`
	Item        ItemKind      `json:"item,omitempty"` // of a line that is not GPU time: fee, meter, addon ...
	Name        string        `json:"name,omitempty"` // of the item
	SKU         string        `json:"sku"`
	PricingMode string        `json:"pricing_mode"`
	Region      string        `json:"region,omitempty"`
	ServiceTier string        `json:"service_tier,omitempty"`
	Dedicated   bool          `json:"dedicated,omitempty"`
	Window      string        `json:"window,omitempty"`
	Idle        bool          `json:"idle,omitempty"`
	Commitment  string        `json:"commitment,omitempty"`
	Leases      int           `json:"leases"`
	Devices     int           `json:"devices"`
	Quantity    Quantity      `json:"quantity"`
	Rows        []DocumentRow `json:"rows"`
	Count       *ItemCount    `json:"count,omitempty"` // of an item
	Before      string        `json:"billed_before,omitempty"`
	Now         string        `json:"known_now,omitempty"`
	Advance     string        `json:"advance,omitempty"` // of a line that takes off what was billed in advance: the invoice that did
	Amount      string        `json:"amount"`
}

// ItemCount is the quantity of an item, and its exact amount before rounding with the factors that made it.
type ItemCount struct {
	Quantity      string   `json:"quantity"`
	Unit          string   `json:"unit,omitempty"`
	Steps         []string `json:"steps"`
	Exact         string   `json:"exact"`
	ExactFraction string   `json:"exact_fraction"`
}

// DocumentRow is the part of a line with one unit price: its factors in order, and the exact product.
type DocumentRow struct {
	Kind            meter.Kind `json:"kind"`
	MilliGPUSeconds int64      `json:"milli_gpu_seconds"`
	Steps           []string   `json:"steps"`                    // on_demand 36.00/gpu-hour, region cn-west 88% ...
	PerGPUHour      string     `json:"per_gpu_hour"`             // the unit price they give
	SliceMilli      int64      `json:"slice_milli,omitempty"`    // share of the slice, where a price is per slice
	PerSliceHour    string     `json:"per_slice_hour,omitempty"` // the unit price of such a slice
	Exact           string     `json:"exact"`                    // quantity x price before rounding, cut with … when it does not end
	ExactFraction   string     `json:"exact_fraction"`           // the same as a fraction, always exact
}

// UnbilledLine is time that was leased and is not billed, with the reason beside it.
type UnbilledLine struct {
	Standing meter.Standing `json:"standing"`
	Reason   string         `json:"reason"`
	SKU      string         `json:"sku"`
	Leases   int            `json:"leases"`
	Quantity Quantity       `json:"quantity"`
}

const milliGPUSecondsPerHour = 3600 * 1000

// GPUHours writes milli-GPU-seconds as GPU-hours with nine digits, half away from zero.
func GPUHours(milli int64) string {
	return big.NewRat(milli, milliGPUSecondsPerHour).FloatString(9)
}

// NewDocument writes a statement down without a number: closing n of its period, or a preview for n = 0. For n > 1,
// before is the statement of the closing before, and the document holds the differences only.
func NewDocument(s, before *Statement, n int) *Document {
	c := s.Contract
	d := &Document{
		Format: Format, Kind: KindInvoice, Customer: c.Customer, Contract: c.ID, Currency: c.Currency.String(),
		Timezone: c.Zone.String(), TZVersion: calendar.TZVersion, Rounding: c.Billing.Rounding.String(),
		Period:  DocumentPeriod{From: c.Zone.Text(s.Period.From), To: c.Zone.Text(s.Period.To)},
		Closing: n, Lines: []DocumentLine{}, Unbilled: []UnbilledLine{}, Limit: s.ownLimit(),
	}
	if s.inTrial() {
		d.TrialUntil = c.Zone.Text(c.Trial.To)
	}
	switch {
	case n == 0:
		d.Kind = KindPreview
	case n > 1:
		d.Kind = KindCorrection
	}
	var sum amountsByKind
	total := s.Total
	for _, l := range lineDifferences(s, before) {
		if n == 0 && l.key.Item == ItemCommitment {
			d.Projected = append(d.Projected, l.document(len(d.Projected)+1))
			total = total.Sub(l.amount)
			continue
		}
		d.Lines = append(d.Lines, l.document(len(d.Lines)+1))
		sum.add(l.leased, l.topUp)
	}
	for _, l := range s.Unbilled {
		a := split(&l)
		d.Unbilled = append(d.Unbilled, UnbilledLine{l.Standing, l.Key.Reason, l.Key.SKU, l.Leases, quantity(a.leased, a.topUp)})
	}
	d.Quantity = quantity(sum.leased, sum.topUp)
	if before != nil {
		total = total.Sub(before.Total)
	}
	d.Total = total.String()
	roundings := len(d.Lines)
	if before != nil {
		roundings *= 2 // what is known now and what was billed before were each rounded
	}
	d.RoundingBound = roundingBound(c, roundings)
	return d
}

// roundingBound is how far rounded lines can be from their exact sum: half a minor unit a rounding to the nearest, a
// whole one when the contract always rounds up or down.
func roundingBound(c *contract.Contract, roundings int) string {
	bound := money.FromMinor(big.NewInt(int64(roundings)), c.Currency).Amount().Rat()
	if r := c.Billing.Rounding; r != money.Up && r != money.Down {
		bound.Quo(bound, big.NewRat(2, 1))
	}
	return money.DecimalText(bound, c.Currency.Digits(), 12)
}

// amountsByKind keeps leased time, which has coverage, apart from top-ups.
type amountsByKind struct {
	leased meter.Amounts
	topUp  int64
}

func (a *amountsByKind) add(leased meter.Amounts, topUp int64) {
	a.leased = a.leased.Plus(leased)
	a.topUp += topUp
}

func split(l *Line) amountsByKind {
	return amountsByKind{l.Minus(meter.Amounts{Quantity: l.TopUp}), l.TopUp}
}

func quantity(leased meter.Amounts, topUp int64) Quantity {
	milli := leased.Quantity + topUp
	return Quantity{milli, GPUHours(milli), Coverage{leased.Measured, leased.Inferred, leased.Missing, topUp}}
}

// lineDifference is a line of the document: what is known now less what was billed before.
type lineDifference struct {
	key         LineKey
	now, before *Line // nil where the statement has no such line
	amountsByKind
	count  *big.Rat // of an item
	amount money.Rounded
}

// lineDifferences pairs the lines of two statements by key, in order of key, leaving out what did not change.
// Without a statement before, every line is one.
func lineDifferences(s, before *Statement) []lineDifference {
	if before == nil {
		before = &Statement{}
	}
	var out []lineDifference
	i, j := 0, 0
	for i < len(s.Lines) || j < len(before.Lines) {
		var d lineDifference
		var order int
		switch {
		case j == len(before.Lines):
			order = -1
		case i == len(s.Lines):
			order = 1
		default:
			order = s.Lines[i].Key.compare(before.Lines[j].Key)
		}
		if order <= 0 {
			d.now = &s.Lines[i]
			i++
		}
		if order >= 0 {
			d.before = &before.Lines[j]
			j++
		}
		if d.settle(money.FromMinor(new(big.Int), s.Contract.Currency)) {
			out = append(out, d)
		}
	}
	return out
}

// settle computes the difference and tells whether anything of it is left. Coverage alone is no correction: samples that
// come after the close change no amount and no quantity, and the ledger has them.
func (d *lineDifference) settle(zero money.Rounded) bool {
	d.amount, d.count = zero, new(big.Rat)
	if d.now != nil {
		d.key, d.amount = d.now.Key, d.now.Amount
		a := split(d.now)
		d.add(a.leased, a.topUp)
		if d.now.Item != nil {
			d.count.Add(d.count, d.now.Item.Quantity)
		}
	}
	if d.before != nil {
		d.key, d.amount = d.before.Key, d.amount.Sub(d.before.Amount)
		a := split(d.before)
		d.add(meter.Amounts{}.Minus(a.leased), -a.topUp)
		if d.before.Item != nil {
			d.count.Sub(d.count, d.before.Item.Quantity)
		}
	}
	return !d.amount.IsZero() || d.leased.Quantity != 0 || d.topUp != 0 || d.count.Sign() != 0
}

func (d *lineDifference) document(number int) DocumentLine {
	l := DocumentLine{
		Line: number, Item: d.key.Item, Name: d.key.Name, Window: d.key.Window, Idle: d.key.Idle, Commitment: d.key.Commitment,
		SKU: d.key.SKU, PricingMode: d.key.PricingMode, Region: d.key.Region, ServiceTier: d.key.ServiceTier,
		Dedicated: d.key.Dedicated, Quantity: quantity(d.leased, d.topUp), Rows: []DocumentRow{}, Amount: d.amount.String(),
	}
	shown := d.now
	if shown == nil {
		shown = d.before
	}
	l.Leases, l.Devices = shown.Leases, shown.Devices
	if d.before != nil {
		l.Before, l.Now = d.before.Amount.String(), d.before.Amount.Sub(d.before.Amount).String()
		if d.now != nil {
			l.Now = d.now.Amount.String()
		}
	}
	if item := shown.Item; item != nil {
		exact := new(big.Rat)
		if d.now != nil {
			exact = d.now.Exact
		}
		l.Count = &ItemCount{
			Quantity: money.DecimalText(d.count, 0, 12), Unit: item.Unit, Steps: append([]string{}, item.Steps...),
			Exact: money.DecimalText(exact, 2, 12), ExactFraction: exact.RatString(),
		}
	}
	if d.now == nil {
		return l
	}
	for _, r := range d.now.Rows {
		l.Rows = append(l.Rows, r.document())
	}
	return l
}

func (r Row) document() DocumentRow {
	perHour := new(big.Rat).Mul(r.Price.PerMilliGPUSecond, big.NewRat(milliGPUSecondsPerHour, 1))
	row := DocumentRow{
		Kind: r.Kind, MilliGPUSeconds: r.Quantity, Steps: []string{},
		PerGPUHour: money.DecimalText(perHour, 2, 12), Exact: money.DecimalText(r.Exact, 2, 12), ExactFraction: r.Exact.RatString(),
	}
	if slice := r.of.SliceMilli; slice > 0 {
		row.SliceMilli = slice
		row.PerSliceHour = money.DecimalText(perHour.Mul(perHour, big.NewRat(slice, fact.WholeShareMilli)), 2, 12)
	}
	for _, step := range r.Price.Steps {
		row.Steps = append(row.Steps, step.String())
	}
	return row
}

// Numbered gives the document its number in a series.
func (d *Document) Numbered(series string, number uint64) *Document {
	out := *d
	out.Series, out.Number, out.Invoice = series, number, InvoiceName(series, number)
	return &out
}

// InvoiceName is how an invoice is called: series and number, six digits at least.
func InvoiceName(series string, number uint64) string { return fmt.Sprintf("%s-%06d", series, number) }

// Bytes are the frozen form: compact JSON in field order.
func (d *Document) Bytes() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("write invoice %s: %w", d.Invoice, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// ParseDocument reads an invoice's bytes back.
func ParseDocument(data []byte) (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("read invoice document: %w", err)
	}
	if d.Format != Format {
		return nil, fmt.Errorf("read invoice document: format %q is not %s", d.Format, Format)
	}
	return d, nil
}
