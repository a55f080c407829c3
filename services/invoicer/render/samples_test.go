package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

const hour = 3600 * 1000 // milli-GPU-seconds of a GPU-hour

// world is one contract in force, with what the ledger holds of its second month.
type world struct {
	t         testing.TB
	contracts *contract.Register
	document  string
	base      meter.ChargeKey
	totals    []meter.Total
}

const (
	twoRates = `{sku: h100-sxm, on_demand: 18.00/gpu-hour, region: {cn-east: 100%, cn-west: 88%}, service_tier: {t3: 100%, t4: 108%}, dedicated: 125%},
		{sku: a100-80g, on_demand: 9000.00/gpu-month}`
)

func newWorld(t testing.TB, currency, zone, billing, rates string) *world {
	t.Helper()
	w := &world{t: t, contracts: contract.NewRegister()}
	document := fmt.Sprintf("{contract: acme-2026, customer: acme, currency: %s, timezone: %s, term: {from: 2026-01-01, to: open}, billing: {%s}, rates: [%s]}",
		currency, zone, billing, rates)
	w.document = document
	w.contracts.Apply(fact.Fact{Seq: 1, Key: "1", Body: &fact.ContractSigned{Contract: "acme-2026", Customer: "acme", Document: document}})
	latest := w.contracts.Latest()
	if len(latest) != 1 {
		t.Fatalf("the sample contract was not taken: %+v", w.contracts.Problems("acme-2026"))
	}
	c := latest[0].Contract
	start := c.Period(c.Period(c.Term.From).Span.To).Span.From
	w.base = meter.ChargeKey{
		Customer: "acme", Contract: c.ID, Version: 1, PeriodStart: start, LocalDay: 20260201, SKU: "h100-sxm",
		PricingMode: "on_demand", Region: "cn-west", ServiceTier: "t3", Kind: meter.Leased, Standing: meter.Priced,
	}
	return w
}

// raise replaces the rates from the 15th on.
func (w *world) raise(currency, zone, rates string) {
	c := w.contracts.Latest()[0].Contract
	day := c.Zone.DateOf(w.base.PeriodStart).AddDays(14)
	document := fmt.Sprintf("{contract: acme-2026, customer: acme, currency: %s, timezone: %s, term: {from: 2026-01-01, to: open}, billing: {}, rates: [%s]}",
		currency, zone, rates)
	w.contracts.Apply(fact.Fact{Seq: 2, Key: "2", Body: &fact.ContractAmended{Contract: c.ID, Effective: c.Zone.StartOfDay(day), Document: document}})
	if p := w.contracts.Problems("acme-2026"); len(p) > 0 {
		w.t.Fatalf("the amendment was not taken: %+v", p)
	}
}

// add holds milli-GPU-seconds of a lease on a device; of them so many are inferred and missing.
func (w *world) add(lease, device string, quantity, inferred, missing int64, change func(*meter.ChargeKey)) {
	key := w.base
	if change != nil {
		change(&key)
	}
	a := meter.Amounts{Quantity: quantity, Measured: quantity - inferred - missing, Inferred: inferred, Missing: missing}
	if key.Kind == meter.TopUp {
		a = meter.Amounts{Quantity: quantity}
	}
	w.totals = append(w.totals, meter.Total{Lease: lease, Device: device, Key: key, Amounts: a})
}

func (w *world) statement() *bill.Statement {
	w.t.Helper()
	c := w.contracts.Latest()[0].Contract
	s, err := bill.Compute(w.contracts, c.ID, c.Period(w.base.PeriodStart).Span, w.totals)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) invoice(number uint64) *bill.Document {
	return bill.NewDocument(w.statement(), nil, 1).Numbered("GH-2026", number)
}

func topUp(k *meter.ChargeKey)     { k.Kind = meter.TopUp }
func a100(k *meter.ChargeKey)      { k.SKU, k.Region, k.ServiceTier = "a100-80g", "", "" }
func dedicated(k *meter.ChargeKey) { k.Region, k.ServiceTier, k.Dedicated = "cn-east", "t4", true }

func normal(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", twoRates)
	for i := range 8 {
		w.add(fmt.Sprintf("train-%d", i/4), fmt.Sprintf("GPU-%d", i), 672*hour, 1000, 0, nil)
	}
	w.add("serve-1", "GPU-9", 100*hour+1234567, 4000, 300*1000, dedicated)
	w.add("batch-1", "GPU-10", 36*hour+500, 0, 30*hour, a100)
	return w.invoice(7)
}

// windows has nights and working days at prices of their own.
func windows(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", twoRates+`], schedule: [{name: night, for: [on_demand], windows: [Mon-Fri 22:00-08:00, Sat-Sun 00:00-24:00], holidays: cn-2026, off: 40%},
		{name: 早高峰, for: [on_demand], windows: [Mon-Fri 09:00-11:00], holidays: cn-2026, add: 12.5%}`)
	w.add("train-1", "GPU-1", 250*hour, 0, 0, nil)
	w.add("train-1", "GPU-1", 392*hour, 0, 0, func(k *meter.ChargeKey) { k.Window = "night" })
	w.add("train-1", "GPU-1", 30*hour, 0, 0, func(k *meter.ChargeKey) { k.Window = "早高峰" })
	w.add("train-2", "GPU-2", 2*hour, 0, 0, func(k *meter.ChargeKey) { k.Standing, k.Reason = meter.Refused, contract.NoHolidayCalendar })
	return w.invoice(16)
}

// committed has time that a reservation, a forward and a package cover, and what these cost.
func committed(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", `{sku: h100-sxm, on_demand: 18.00/gpu-hour, region: {cn-west: 88%},
		reserved: [{name: base/2026, quantity: 8, price: 7560.00/gpu-month, from: 2026-01-01, to: 2026-02-15}],
		forward: [{name: 春季, quantity: 4, price: 12.00/gpu-hour, from: 2026-02-10, to: 2026-02-12, take_or_pay: true}]}], packages: [{name: day, sku: h100-sxm, unit: day, quantity: 8, price: 1500.00}`)
	w.contracts.Apply(fact.Fact{Seq: 5, Key: "p", Body: &fact.PackagePurchased{Contract: "acme-2026", Package: "day", At: w.base.PeriodStart + 90000, Count: 2}})
	w.add("train-1", "GPU-1", 300*hour, 0, 0, func(k *meter.ChargeKey) { k.Commitment = "base/2026" })
	w.add("train-1", "GPU-2", 100*hour, 0, 0, func(k *meter.ChargeKey) { k.Commitment = "春季" })
	w.add("train-1", "GPU-3", 24*hour, 0, 0, func(k *meter.ChargeKey) { k.Commitment = "day" })
	w.add("train-1", "GPU-4", 10*hour, 0, 0, nil)
	return w.invoice(20)
}

// prepaid is a month whose reservation and add-on are billed when it begins, and the month's bill, which a raise in mid-month made dearer.
func prepaid(t testing.TB) (advance, closed *bill.Document) {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", `{sku: h100-sxm, on_demand: 18.00/gpu-hour,
		reserved: [{name: base, quantity: 8, price: 7560.00/gpu-month, from: 2026-01-01, to: open, pay: advance}]}],
		addons: [{name: support-gold, price: 3000.00/month, prorate: true, pay: advance}, {name: seat, price: 99.00/month}`)
	c := w.contracts.Latest()[0].Contract
	s, err := bill.Advance(w.contracts, c.ID, c.Period(w.base.PeriodStart).Span)
	if err != nil {
		t.Fatal(err)
	}
	advance = bill.NewAdvance(s).Numbered("GH-2026", 21)
	w.contracts.Apply(fact.Fact{Seq: 2, Key: "2", Body: &fact.ContractAmended{
		Contract: "acme-2026", Effective: w.base.PeriodStart + 14*86400, Document: strings.ReplaceAll(w.document, "7560.00", "8000.01"),
	}})
	w.add("train-1", "GPU-1", 300*hour, 0, 0, func(k *meter.ChargeKey) { k.Commitment, k.Region = "base", "" })
	w.add("train-1", "GPU-2", 10*hour, 0, 0, func(k *meter.ChargeKey) { k.Region = "" })
	closed = bill.NewDocument(w.statement(), nil, 1)
	if err := closed.TakeOff(advance); err != nil {
		t.Fatal(err)
	}
	return advance, closed.Numbered("GH-2026", 22)
}

// charged is a month with volume tiers, metered use, add-ons, a bundle and a commitment that the charges do not reach.
func charged(t testing.TB) *world {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", `{sku: h100-sxm, on_demand: 18.00/gpu-hour, region: {cn-east: 100%, cn-west: 88%},
		volume: {by: gpu-hours, method: graduated, tiers: [{upto: 1000, price: 100%}, {price: 90%, flat: 500.00}]}},
		{sku: a100-80g, on_demand: 12.00/gpu-hour, volume: {by: gpu-hours, method: graduated, tiers: [{upto: 100, price: 10.00/gpu-hour}, {price: 8.00/gpu-hour}]}}],
		commitment: {spend: 50000.00/month, shortfall: bill}, meters: [{name: egress, price: 0.80/GB, free: 100 GB}, {name: storage-ssd, price: 0.35/GB-month}, {name: training-steps, price: 2.00/1000, model: package},
		{name: 短信, model: graduated, tiers: [{upto: 1000, price: 0.05/条}, {price: 0.045/条}]}],
		bundles: [{with: storage-ssd, at_least: 1 TB-month, on: a100-80g, off: 5%}],
		addons: [{name: support-gold, price: 3000.00/month, prorate: true}, {name: ai-enterprise, price: 3.20/gpu-hour}`)
	w.contracts.Apply(fact.Fact{Seq: 2, Key: "2", Body: &fact.ContractAmended{
		Contract: "acme-2026", Effective: w.base.PeriodStart + 14*86400, Document: strings.NewReplacer("3000.00", "4500.00", "{name: ai-enterprise", "{name: setup, price: 150.00/once}, {name: review, price: 900.00/quarter, prorate: true}, {name: ai-enterprise").Replace(w.document),
	}})
	for i, r := range []fact.MeterRecorded{
		{Meter: "storage-ssd", Resource: "v1", Quantity: "1000"},
		{Meter: "storage-ssd", Resource: "v1", At: 14 * 86400, Quantity: "2500.5"},
		{Meter: "egress", At: 3600, Quantity: "512.75"},
		{Meter: "training-steps", At: 7200, Quantity: "6001"},
		{Meter: "短信", At: 9000, Quantity: "1234"},
	} {
		r.Contract, r.At = "acme-2026", w.base.PeriodStart+r.At
		w.contracts.Apply(fact.Fact{Seq: uint64(10 + i), Key: fmt.Sprint("r", i), Body: &r})
	}
	if p := w.contracts.Problems("acme-2026"); len(p) > 0 {
		t.Fatalf("%+v", p)
	}
	east := func(k *meter.ChargeKey) { k.Region = "cn-east" }
	w.add("train-1", "GPU-1", 600*hour, 0, 0, nil)
	w.add("train-2", "GPU-2", 600*hour, 0, 0, east)
	w.add("batch-1", "GPU-3", 130*hour, 0, 0, a100)
	return w
}

func charges(t testing.TB) *bill.Document { return charged(t).invoice(17) }

func chargesPreview(t testing.TB) *bill.Document {
	return bill.NewDocument(charged(t).statement(), nil, 0)
}

// chargesCorrection learns of more egress and of more hours.
func chargesCorrection(t testing.TB) *bill.Document {
	w := charged(t)
	before := w.statement()
	w.contracts.Apply(fact.Fact{Seq: 20, Key: "late", Body: &fact.MeterRecorded{Contract: "acme-2026", Meter: "egress", At: w.base.PeriodStart + 99, Quantity: "87.25"}})
	w.add("train-3", "GPU-4", 100*hour, 0, 0, nil)
	return bill.NewDocument(w.statement(), before, 2).Numbered("GH-2026", 18)
}

// items alone have no table of GPU time.
func items(t testing.TB) *bill.Document {
	w := charged(t)
	w.totals = nil
	return w.invoice(19)
}

func minimums(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", twoRates)
	w.add("short-1", "GPU-1", 20*1000, 0, 0, nil)
	w.add("short-1", "GPU-1", 40*1000, 0, 0, topUp)
	w.add("short-2", "GPU-1", 7*1000, 0, 0, nil)
	w.add("short-2", "GPU-1", 53*1000, 0, 0, topUp)
	return w.invoice(8)
}

func twoPrices(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", twoRates)
	w.raise("CNY", "Asia/Shanghai", `{sku: h100-sxm, on_demand: 20.50/gpu-hour, region: {cn-west: 90%}}`)
	w.add("train-1", "GPU-1", 336*hour, 0, 0, nil)
	w.add("train-1", "GPU-1", 335*hour+1800*1000+333, 0, 0, func(k *meter.ChargeKey) { k.Version, k.LocalDay = 2, 20260215 })
	w.add("train-1", "GPU-1", 1000, 0, 0, func(k *meter.ChargeKey) { k.Version, k.LocalDay, k.Kind = 2, 20260215, meter.TopUp })
	return w.invoice(9)
}

func correction(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "America/New_York", "", twoRates)
	w.base.LocalDay = 20260201
	w.add("train-1", "GPU-1", 100*hour, 0, 3*hour, nil)
	w.add("gone-1", "GPU-2", 10*hour, 0, 0, a100)
	before := w.statement()
	w.totals = nil
	w.add("train-1", "GPU-1", 90*hour+1000, 1000, 0, nil)
	w.add("serve-1", "GPU-3", 5*hour, 0, 0, dedicated)
	return bill.NewDocument(w.statement(), before, 2).Numbered("GH-2026", 10)
}

func unbilled(t testing.TB) *bill.Document {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", twoRates)
	w.add("train-1", "GPU-1", 100*hour, 0, 0, nil)
	refused := func(reason string) func(*meter.ChargeKey) {
		return func(k *meter.ChargeKey) { k.Standing, k.Reason = meter.Refused, reason }
	}
	w.add("train-2", "GPU-1", 12*hour, 0, 0, refused(meter.ReasonOverlap))
	w.add("train-3", "GPU-4", 3*hour, 0, 0, func(k *meter.ChargeKey) { refused("no_rate")(k); k.SKU = "b200-nvl" })
	w.add("train-4", "GPU-5", 2*hour, 0, 0, func(k *meter.ChargeKey) { refused("no_region")(k); k.Standing = meter.Waived })
	return w.invoice(11)
}

func empty(t testing.TB) *bill.Document {
	return newWorld(t, "CNY", "Asia/Shanghai", "", twoRates).invoice(12)
}

func preview(t testing.TB) *bill.Document {
	w := newWorld(t, "USD", "America/New_York", "", `{sku: h100-sxm, on_demand: 2.99/gpu-hour}`)
	w.base.PeriodStart = w.contracts.Latest()[0].Contract.Period(w.base.PeriodStart + 40*86400).Span.From // March: clocks change
	w.base.LocalDay = 20260305
	w.add("train-1", "GPU-1", 17*hour, 0, 17*hour, nil)
	w.add("train-2", "GPU-2", 2*hour, 0, 0, func(k *meter.ChargeKey) { k.Standing, k.Reason, k.SKU = meter.Refused, "no_rate", "b200-nvl" })
	return bill.NewDocument(w.statement(), nil, 0)
}

// hostile has names that try to break the page.
func hostile(t testing.TB) *bill.Document {
	d := normal(t)
	d.Customer = "Evil\u202e\u200bCorp\x1b[2J\r\nTotal: 0.00 🚀👍🏽👨\u200d👩 שלום z\u0301\u0302\u0303\u0304\u0305algo"
	d.Contract = "长名字" + fmt.Sprintf("%0200d", 7)
	d.Lines[0].SKU = "h100\tsxm\u2066 😀 한국어 e\u0301"
	d.Lines[1].Region = "东数西算\u3000枢纽节点\x00"
	d.Lines[2].SKU = fmt.Sprintf("%s%0190d", "xxxxxxxxxx", 1)
	d.Lines[1].Rows[0].Steps[1] = "region \u202e%88 tsew-nc"
	d.Timezone = "Asia/\x07Shanghai"
	return d
}

// yen has no minor digits.
func yen(t testing.TB) *bill.Document {
	w := newWorld(t, "JPY", "Asia/Tokyo", "", `{sku: h100-sxm, on_demand: 450.5/gpu-hour}`)
	w.add("train-1", "GPU-1", 10_001*hour, 0, 0, nil)
	return w.invoice(13)
}

func dinar(t testing.TB) *bill.Document {
	w := newWorld(t, "KWD", "Asia/Kuwait", "", `{sku: h100-sxm, on_demand: 0.9215/gpu-hour}`)
	w.add("train-1", "GPU-1", 1_234_567*hour+hour/3, 0, 0, nil)
	return w.invoice(14)
}

// down rounds in a way that is not to the nearest.
func down(t testing.TB) *bill.Document {
	w := newWorld(t, "JPY", "Asia/Tokyo", "rounding: down", `{sku: h100-sxm, on_demand: 450.5/gpu-hour}`)
	w.add("train-1", "GPU-1", 10_001*hour, 0, 0, nil)
	return w.invoice(15)
}

// cancellation takes back an invoice that was given out and lost with the end of the log.
func cancellation(t testing.TB) *bill.Document {
	d, err := normal(t).Cancellation()
	if err != nil {
		t.Fatal(err)
	}
	return d.Numbered("GH-2026", 16)
}

func samples(t testing.TB) map[string]*bill.Document {
	advance, closed := prepaid(t)
	return map[string]*bill.Document{
		"normal": normal(t), "minimum": minimums(t), "two-prices": twoPrices(t), "correction": correction(t), "unbilled": unbilled(t),
		"empty": empty(t), "preview": preview(t), "hostile": hostile(t), "jpy": yen(t), "kwd": dinar(t), "down": down(t), "windows": windows(t), "cancellation": cancellation(t),
		"charges": charges(t), "charges-preview": chargesPreview(t), "charges-correction": chargesCorrection(t), "items": items(t), "committed": committed(t),
		"capped": capped(t), "limit-ahead": limitAhead(t),
		"advance": advance, "advance-closed": closed,
	}
}

// limitedTo is a month under a spend limit.
func limitedTo(t testing.TB, limits string) *world {
	w := newWorld(t, "CNY", "Asia/Shanghai", "", `{sku: h100-sxm, on_demand: 18.00/gpu-hour, region: {cn-west: 88%}}], limits: {`+limits+`}, arrears: [{at: 0, do: warn}`)
	w.add("train-1", "GPU-1", 100*hour, 0, 0, nil)
	return w
}

func capped(t testing.TB) *bill.Document {
	return limitedTo(t, "spend: 1500.00/month, action: cap").invoice(21)
}

// limitAhead is a preview of a limit that what runs may pass.
func limitAhead(t testing.TB) *bill.Document {
	s := limitedTo(t, "spend: 1600.00/month, action: stop, overshoot: 10.00, alert_at: [50%, 80%, 99%, 100%]").statement()
	d := bill.NewDocument(s, nil, 0)
	spent, err := money.ParseRounded("1615.84", s.Contract.Currency)
	if err != nil {
		t.Fatal(err)
	}
	d.Limit = bill.NewLimit(s.Contract, s.Period, s.Charges(), &bill.Ahead{At: s.Period.From + 864300, Spent: spent})
	return d
}
