package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
)

// Difference is one thing that came out otherwise than the file says.
type Difference struct {
	File             string
	Line             int    // of the file, 0 for what it does not speak of
	Contract, Period string // empty for refusals and devices
	What, Want, Got  string
}

// String is "b41.yaml:12: c1 2026-02: total: expected 3.60 USD, came 36.00 USD".
func (d Difference) String() string {
	where := d.File
	if d.Line > 0 {
		where = fmt.Sprintf("%s:%d", d.File, d.Line)
	}
	if d.Contract != "" {
		where += ": " + d.Contract + " " + d.Period
	}
	return fmt.Sprintf("%s: %s: expected %s, came %s", where, d.What, cmp.Or(d.Want, "nothing"), cmp.Or(d.Got, "nothing"))
}

// Check holds a result against the file. Beyond what is stated it expects that every closing period gives an invoice, and
// that nothing is blocked, corrected or billed in advance which the file does not name.
func (s *Scenario) Check(r *replay.Result) []Difference {
	c := &checking{s: s, r: r, used: map[*replay.Issued]bool{}, blocked: map[periodKey]bool{}}
	for i := range s.Expect {
		c.expectation(&s.Expect[i])
	}
	c.silent()
	c.refusals()
	c.at = Period{}
	c.unbilled("unbilled", s.Unbilled, standing(r, Period{}, meter.Refused))
	c.devices()
	return c.found
}

type periodKey struct {
	contract string
	from     span.Second
}

type checking struct {
	s       *Scenario
	r       *replay.Result
	at      Period // what is being compared
	found   []Difference
	used    map[*replay.Issued]bool
	blocked map[periodKey]bool
}

func (c *checking) differ(what, want, got string) {
	c.found = append(c.found, Difference{c.s.File, c.at.Line, c.at.Contract, c.at.text, what, want, got})
}

func (c *checking) same(what, want, got string) {
	if want != got {
		c.differ(what, want, got)
	}
}

// document is the first document of a period and kind that no expectation was held against.
func (c *checking) document(p Period, kind string) *bill.Document {
	for i := range c.r.Invoices {
		issued := &c.r.Invoices[i]
		d := issued.Document
		if !c.used[issued] && d.Contract == p.Contract && d.Kind == kind && startOf(d) == p.Span.From {
			c.used[issued] = true
			return d
		}
	}
	return nil
}

// startOf is the period of a document; documents write instants as RFC 3339.
func startOf(d *bill.Document) span.Second {
	at, err := span.Parse(d.Period.From)
	if err != nil {
		return 0
	}
	return at
}

func blockOf(r *replay.Result, p Period) string {
	for _, b := range r.Blocked {
		if b.Contract == p.Contract && b.Period.From == p.Span.From {
			return b.Reason
		}
	}
	return ""
}

func (c *checking) expectation(e *Expectation) {
	c.at = e.Period
	reason := blockOf(c.r, e.Period)
	if e.Blocked != "" {
		c.blocked[periodKey{e.Contract, e.Span.From}] = true
		if !strings.Contains(reason, e.Blocked) || reason == "" {
			c.differ("blocked", e.Blocked, reason)
		}
		for _, which := range meter.Unbilled() {
			c.unbilled(string(which), e.Unbilled[which], standing(c.r, e.Period, which))
		}
		return
	}
	d := c.document(e.Period, e.Kind)
	if d == nil {
		none := "none"
		if !slices.ContainsFunc(c.s.Close, func(p Period) bool { return p.Contract == e.Contract && p.Span == e.Span }) {
			none = "none; name the period in `close:` too, for the scenario to run until it is due"
		}
		c.differ(e.Kind, "one", cmp.Or(reason, none))
		return
	}
	if e.Total != nil {
		c.same("total", e.Total.String()+" "+e.Total.Currency().String(), d.Total+" "+d.Currency)
	}
	if e.Lines != nil {
		c.lines(e.Lines, d.Lines)
	}
	c.limit(e.Limit, d.Limit)
	for _, which := range meter.Unbilled() {
		c.unbilled(string(which), e.Unbilled[which], unbilledOf(d, which))
	}
}

// lines pairs every expected line with the first that says all it says.
func (c *checking) lines(want []Line, got []bill.DocumentLine) {
	rest := slices.Clone(got)
	for i := range want {
		at := slices.IndexFunc(rest, func(l bill.DocumentLine) bool { return len(want[i].differences(&l)) == 0 })
		switch {
		case at >= 0:
			rest = slices.Delete(rest, at, at+1)
		case len(want) == 1 && len(got) == 1:
			for _, d := range want[i].differences(&got[0]) {
				c.differ("lines[0]."+d.What, d.Want, d.Got)
			}
			return
		default:
			c.differ(fmt.Sprintf("lines[%d]", i), want[i].String(), "")
		}
	}
	for i := range rest {
		c.differ("lines", "", documentLine(&rest[i], true))
	}
}

// differences lists in what a line differs from the stated fields.
func (l *Line) differences(got *bill.DocumentLine) []Difference {
	var out []Difference
	same := func(what, want, got string) {
		if want != got {
			out = append(out, Difference{What: what, Want: want, Got: got})
		}
	}
	if l.Quantity != nil {
		same("quantity", quantityText(*l.Quantity), quantityText(got.Quantity.MilliGPUSeconds))
	}
	if l.Amount != nil {
		same("amount", l.Amount.String(), got.Amount)
	}
	texts := textsOf(got)
	for _, k := range slices.Sorted(maps.Keys(l.Texts)) {
		same(k, l.Texts[k], texts[k])
	}
	lengths := coverageOf(got)
	for _, k := range slices.Sorted(maps.Keys(l.Coverage)) {
		same("coverage."+k, timeText(l.Coverage[k]), timeText(lengths[k]))
	}
	if l.Rows != nil {
		same("rows", fmt.Sprint(len(l.Rows)), fmt.Sprint(len(got.Rows)))
		for i := range min(len(l.Rows), len(got.Rows)) {
			if want := l.Rows[i].Quantity; want != nil {
				same(fmt.Sprintf("rows[%d].quantity", i), quantityText(*want), quantityText(got.Rows[i].MilliGPUSeconds))
			}
			if want := l.Rows[i].PerGPUHour; want != "" {
				same(fmt.Sprintf("rows[%d].per_gpu_hour", i), want, got.Rows[i].PerGPUHour)
			}
		}
	}
	return out
}

func textsOf(l *bill.DocumentLine) map[string]string {
	texts := map[string]string{
		"item": string(l.Item), "name": l.Name, "sku": l.SKU, "region": l.Region, "service_tier": l.ServiceTier, "pricing_mode": l.PricingMode,
		"dedicated": fmt.Sprint(l.Dedicated), "window": l.Window, "idle": fmt.Sprint(l.Idle), "commitment": l.Commitment,
		"advance": l.Advance,
	}
	if l.Count != nil {
		texts["count"] = strings.TrimSpace(l.Count.Quantity + " " + l.Count.Unit)
	}
	return texts
}

func coverageOf(l *bill.DocumentLine) map[string]int64 {
	c := l.Quantity.Coverage
	return map[string]int64{"measured": c.Measured, "inferred": c.Inferred, "missing": c.Missing, "top_up": c.TopUp}
}

// standing adds the unbilled time of a period that has no document up from the ledger, with time of the customer that
// found no contract; for no period, all such time.
func standing(r *replay.Result, p Period, which meter.Standing) map[string]int64 {
	out := map[string]int64{}
	for _, t := range r.Totals {
		ours := t.Key.Contract == p.Contract && t.Key.PeriodStart == p.Span.From
		lost := t.Key.Contract == "" && (p.Customer == "" || t.Key.Customer == p.Customer)
		if t.Key.Standing == which && (ours || lost) {
			out[t.Key.Reason] += t.Quantity
		}
	}
	return out
}

func unbilledOf(d *bill.Document, which meter.Standing) map[string]int64 {
	out := map[string]int64{}
	for _, l := range d.Unbilled {
		if l.Standing == which {
			out[l.Reason] += l.Quantity.MilliGPUSeconds
		}
	}
	return out
}

// unbilled compares time by reason, where it is stated.
func (c *checking) unbilled(what string, want []Unbilled, got map[string]int64) {
	if want == nil {
		return
	}
	sums := map[string]int64{}
	for _, u := range want {
		sums[u.Reason] += u.Quantity
	}
	c.same(what, unbilledText(sums), unbilledText(got))
}

// silent finds what the file does not speak of and should.
func (c *checking) silent() {
	for _, p := range c.s.Close {
		c.at = p
		named := slices.ContainsFunc(c.s.Expect, func(e Expectation) bool {
			return e.Contract == p.Contract && e.Span == p.Span && e.Kind == bill.KindInvoice
		})
		if !named && blockOf(c.r, p) == "" && c.document(p, bill.KindInvoice) == nil {
			c.differ(bill.KindInvoice, "one", "none")
		}
	}
	for _, b := range c.r.Blocked {
		if !c.blocked[periodKey{b.Contract, b.Period.From}] {
			c.at = Period{Contract: b.Contract, text: b.Period.From.String()}
			c.differ("blocked", "", b.Reason)
		}
	}
	for i := range c.r.Invoices {
		if d := c.r.Invoices[i].Document; d.Kind != bill.KindInvoice && !c.used[&c.r.Invoices[i]] {
			c.at = Period{Contract: d.Contract, text: d.Period.From}
			c.differ(d.Kind, "", d.Total+" "+d.Currency)
		}
	}
}

func (c *checking) refusals() {
	if c.s.Refusals == nil {
		return
	}
	c.at = Period{}
	var want, got []string
	for _, r := range c.s.Refusals {
		want = append(want, r.Reason)
	}
	for _, r := range c.r.Refusals {
		got = append(got, r.Reason)
	}
	slices.Sort(want)
	slices.Sort(got)
	c.same("refusals", strings.Join(want, ", "), strings.Join(got, ", "))
}

func (c *checking) devices() {
	c.at = Period{}
	for _, d := range c.s.Devices {
		got := secondsOf(c.r.Devices[d.Device])
		for _, k := range slices.Sorted(maps.Keys(d.Seconds)) {
			c.same("device "+d.Device+": "+k, timeText(d.Seconds[k]*milliPerGPU), timeText(got[k]*milliPerGPU))
		}
	}
}

func secondsOf(d meter.DeviceSeconds) map[string]int64 {
	return map[string]int64{"seen_leased": d.SeenLeased, "seen_unleased": d.SeenUnleased, "ghost": d.Ghost, "leak": d.Leak}
}
