package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
)

func lineTexts() []string {
	return []string{"item", "name", "sku", "region", "service_tier", "pricing_mode", "dedicated", "window", "idle", "commitment", "count", "advance"}
}

func coverageFields() []string { return []string{"measured", "inferred", "missing", "top_up"} }

func deviceFields() []string { return []string{"seen_leased", "seen_unleased", "ghost", "leak"} }

// expect reads what one document of a period must say.
func (p *parsing) expect(n ast.Node, field string) {
	known := []string{"contract", "period", "kind", "total", "lines", "limit", "blocked"}
	for _, which := range meter.Unbilled() {
		known = append(known, string(which))
	}
	s, ok := p.section(n, field, known...)
	if !ok {
		return
	}
	e := Expectation{Kind: bill.KindInvoice, Unbilled: map[meter.Standing][]Unbilled{}}
	if e.Period, ok = p.period(s); !ok {
		return
	}
	set(s, "kind", parseKind, &e.Kind)
	set(s, "blocked", text, &e.Blocked)
	if s.has("total") {
		var total money.Rounded
		set(s, "total", parseTotal, &total)
		e.Total = &total
		if total.Currency() != "" && total.Currency() != e.Currency {
			p.fail(start(s.values["total"]), join(field, "total"), fmt.Sprintf("the total is in %s, the contract in %s", total.Currency(), e.Currency),
				"write the contract's currency")
		}
	}
	if e.Blocked != "" && (s.has("total") || s.has("lines")) {
		p.fail(start(s.values["blocked"]), field, "a period that is blocked has no total and no lines", "remove them or `blocked:`")
	}
	if s.has("lines") {
		e.Lines = []Line{}
	}
	for i, n := range s.list("lines") {
		e.Lines = append(e.Lines, p.line(n, fmt.Sprintf("%s.lines[%d]", field, i), e.Currency))
	}
	e.Limit = p.limit(s)
	for _, which := range meter.Unbilled() {
		e.Unbilled[which] = p.unbilled(s, string(which))
	}
	p.s.Expect = append(p.s.Expect, e)
}

// documentKinds are those that a scenario can expect: it loses no log, so nothing is cancelled.
func documentKinds() []string {
	return []string{bill.KindInvoice, bill.KindAdvance, bill.KindCorrection}
}

func parseKind(text string) (string, error) {
	if !slices.Contains(documentKinds(), text) {
		return "", fmt.Errorf("kind %.40q is unknown; write one of %s", text, strings.Join(documentKinds(), ", "))
	}
	return text, nil
}

func (p *parsing) line(n ast.Node, field string, currency money.Currency) Line {
	l := Line{Texts: map[string]string{}, Coverage: map[string]int64{}}
	s, ok := p.section(n, field, append(lineTexts(), "quantity", "amount", "coverage", "rows")...)
	if !ok {
		return l
	}
	for _, k := range lineTexts() {
		if s.has(k) {
			l.Texts[k] = scalarText(s.values[k])
		}
	}
	if l.Texts["window"] == "none" {
		l.Texts["window"] = ""
	}
	l.Quantity = stated(s, "quantity", parseQuantity)
	l.Amount = stated(s, "amount", func(v string) (money.Rounded, error) { return money.ParseRounded(v, currency) })
	if s.has("coverage") {
		p.lengths(s.values["coverage"], join(field, "coverage"), coverageFields(), parseGPUTime, l.Coverage)
	}
	if s.has("rows") {
		l.Rows = []Row{}
	}
	for i, n := range s.list("rows") {
		var r Row
		if f, ok := p.section(n, fmt.Sprintf("%s.rows[%d]", field, i), "quantity", "per_gpu_hour"); ok {
			r.Quantity = stated(f, "quantity", parseQuantity)
			set(f, "per_gpu_hour", text, &r.PerGPUHour)
		}
		l.Rows = append(l.Rows, r)
	}
	return l
}

// stated is an optional value, nil when it is not there.
func stated[T any](s section, key string, parse func(string) (T, error)) *T {
	if !s.has(key) {
		return nil
	}
	var v T
	set(s, key, parse, &v)
	return &v
}

func (p *parsing) lengths(n ast.Node, field string, known []string, parse func(string) (int64, error), into map[string]int64) {
	s, ok := p.section(n, field, known...)
	if !ok {
		return
	}
	for _, k := range known {
		if s.has(k) {
			into[k] = *stated(s, k, parse)
		}
	}
}

func (p *parsing) unbilled(s section, key string) []Unbilled {
	if !s.has(key) {
		return nil
	}
	out := []Unbilled{}
	for i, n := range s.list(key) {
		var u Unbilled
		if f, ok := p.section(n, fmt.Sprintf("%s[%d]", join(s.field, key), i), "reason", "quantity"); ok {
			need(f, "reason", "write one of the closed list, such as overlap", text, &u.Reason)
			need(f, "quantity", "write 0.5 gpu-hours", parseQuantity, &u.Quantity)
		}
		out = append(out, u)
	}
	return out
}

func (p *parsing) refusal(n ast.Node, field string) {
	if s, ok := p.section(n, field, "reason"); ok {
		var r Refusal
		need(s, "reason", "write one of the closed list, such as unknown_lease", text, &r.Reason)
		p.s.Refusals = append(p.s.Refusals, r)
	}
}

func (p *parsing) device(n ast.Node, field string) {
	s, ok := p.section(n, field, append(deviceFields(), "device")...)
	if !ok {
		return
	}
	d := Device{Seconds: map[string]int64{}}
	need(s, "device", "name the device", text, &d.Device)
	for _, k := range deviceFields() {
		if s.has(k) {
			d.Seconds[k] = *stated(s, k, parseSeconds)
		}
	}
	p.s.Devices = append(p.s.Devices, d)
}
