package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/replay"
)

// Rewrite is the file with its `expect:` block written anew from a result: the documents the block named, those of the
// closing periods, and every correction and bill in advance. All other bytes stay, so comments belong outside the block. It is for
// GOLDEN=rewrite: the difference is then reviewed like any other change.
func (s *Scenario) Rewrite(r *replay.Result) []byte {
	c := &checking{s: s, r: r, used: map[*replay.Issued]bool{}}
	var out strings.Builder
	out.WriteString("expect:\n")
	done := map[periodKey]bool{}
	for _, e := range s.Expect {
		c.write(&out, e.Period, e.Kind, e.Blocked)
		if e.Kind == bill.KindInvoice {
			done[periodKey{e.Contract, e.Span.From}] = true
		}
	}
	for _, p := range s.Close {
		if k := (periodKey{p.Contract, p.Span.From}); !done[k] {
			done[k] = true
			c.write(&out, p, bill.KindInvoice, "")
		}
	}
	for i := range r.Invoices {
		if d := r.Invoices[i].Document; d.Kind != bill.KindInvoice && !c.used[&r.Invoices[i]] {
			from, _, _ := strings.Cut(d.Period.From, "T")
			writeDocument(&out, Period{Contract: d.Contract, text: from}, d)
		}
	}
	return splice(string(s.source), out.String())
}

// splice puts the block in the place of the old one, in front of the blank lines and comments that follow it.
func splice(source, block string) []byte {
	lines := strings.SplitAfter(source, "\n")
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "expect:") })
	if from < 0 {
		return []byte(strings.TrimRight(source, "\n") + "\n" + block)
	}
	to := from + 1
	for i := to; i < len(lines); i++ {
		l := lines[i]
		inside := strings.HasPrefix(l, " ") || strings.HasPrefix(l, "-")
		if inside && strings.TrimSpace(l) != "" {
			to = i + 1
		} else if strings.TrimSpace(l) != "" && !strings.HasPrefix(l, "#") {
			break
		}
	}
	return []byte(strings.Join(lines[:from], "") + block + strings.Join(lines[to:], ""))
}

// write appends what came of one period, if anything did. blocked is kept while it is still part of the reason.
func (c *checking) write(out *strings.Builder, p Period, kind, blocked string) {
	if reason := blockOf(c.r, p); reason != "" && kind == bill.KindInvoice {
		if blocked == "" || !strings.Contains(reason, blocked) {
			blocked = reason
		}
		parts := []string{"contract: " + scalar(p.Contract), "period: " + p.text, "blocked: " + scalar(blocked)}
		writeEntry(out, append(parts, unbilledParts(func(which meter.Standing) map[string]int64 { return standing(c.r, p, which) })...))
		return
	}
	if d := c.document(p, kind); d != nil {
		writeDocument(out, p, d)
	}
}

func writeEntry(out *strings.Builder, parts []string) {
	out.WriteString("  - {" + strings.Join(parts, ", ") + "}\n")
}

func writeDocument(out *strings.Builder, p Period, d *bill.Document) {
	parts := []string{"contract: " + scalar(p.Contract), "period: " + p.text}
	if d.Kind != bill.KindInvoice {
		parts = append(parts, "kind: "+d.Kind)
	}
	var lines []string
	for i := range d.Lines {
		lines = append(lines, documentLine(&d.Lines[i], len(d.Lines) > 1))
	}
	parts = append(parts, "total: "+d.Total+" "+d.Currency, "lines: ["+strings.Join(lines, ", ")+"]")
	parts = append(parts, limitPart(d.Limit)...)
	writeEntry(out, append(parts, unbilledParts(func(which meter.Standing) map[string]int64 { return unbilledOf(d, which) })...))
}

func unbilledParts(of func(meter.Standing) map[string]int64) []string {
	var parts []string
	for _, which := range meter.Unbilled() {
		var list []string
		sums := of(which)
		for _, reason := range slices.Sorted(maps.Keys(sums)) {
			list = append(list, fmt.Sprintf("{reason: %s, quantity: %s}", scalar(reason), quantityText(sums[reason])))
		}
		if list != nil {
			parts = append(parts, string(which)+": ["+strings.Join(list, ", ")+"]")
		}
	}
	return parts
}

// documentLine is a line as a file writes it; named adds what tells it from the others.
func documentLine(l *bill.DocumentLine, named bool) string {
	var parts []string
	if texts := textsOf(l); named {
		for _, k := range lineTexts() {
			if texts[k] != "" && texts[k] != "false" {
				parts = append(parts, k+": "+scalar(texts[k]))
			}
		}
	}
	if l.Item == "" {
		parts = append(parts, "quantity: "+quantityText(l.Quantity.MilliGPUSeconds))
	}
	parts = append(parts, "amount: "+l.Amount)
	if of := coverageOf(l); of["measured"] != 0 || of["inferred"] != 0 || of["top_up"] != 0 {
		var lengths []string
		for _, k := range coverageFields() {
			if of[k] != 0 {
				lengths = append(lengths, k+": "+timeText(of[k]))
			}
		}
		parts = append(parts, "coverage: {"+strings.Join(lengths, ", ")+"}")
	}
	if len(l.Rows) > 1 {
		var rows []string
		for _, r := range l.Rows {
			rows = append(rows, fmt.Sprintf("{quantity: %s, per_gpu_hour: %s}", quantityText(r.MilliGPUSeconds), r.PerGPUHour))
		}
		parts = append(parts, "rows: ["+strings.Join(rows, ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// String is the stated fields, as a file writes them.
func (l *Line) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(l.Texts)) {
		parts = append(parts, k+": "+scalar(l.Texts[k]))
	}
	if l.Quantity != nil {
		parts = append(parts, "quantity: "+quantityText(*l.Quantity))
	}
	if l.Amount != nil {
		parts = append(parts, "amount: "+l.Amount.String())
	}
	for _, k := range slices.Sorted(maps.Keys(l.Coverage)) {
		parts = append(parts, k+": "+timeText(l.Coverage[k]))
	}
	for _, r := range l.Rows {
		if r.Quantity != nil {
			parts = append(parts, "row: "+quantityText(*r.Quantity)+" at "+cmp.Or(r.PerGPUHour, "any price"))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func unbilledText(sums map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, reason+" "+quantityText(sums[reason]))
	}
	return strings.Join(parts, ", ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)

// scalar quotes what YAML would read otherwise.
func scalar(v string) string {
	if plain.MatchString(v) {
		return v
	}
	return strconv.Quote(v)
}

// quantityText is exact: GPU-hours where they end within nine digits, else GPU-seconds.
func quantityText(milli int64) string {
	hours := big.NewRat(milli, 3600*milliPerGPU)
	if places, finite := hours.FloatPrec(); finite && places <= 9 {
		return money.DecimalText(hours, 1, 9) + " gpu-hours"
	}
	return money.DecimalText(big.NewRat(milli, milliPerGPU), 0, 3) + " gpu-seconds"
}

// timeText is the time of a whole GPU, such as 1h30m or 9.5s.
func timeText(milli int64) string {
	if milli == 0 {
		return "0s"
	}
	text := ""
	if milli < 0 {
		text, milli = "-", -milli
	}
	if hours := milli / (3600 * milliPerGPU); hours > 0 {
		text += fmt.Sprintf("%dh", hours)
		milli -= hours * 3600 * milliPerGPU
	}
	if minutes := milli / (60 * milliPerGPU); minutes > 0 {
		text += fmt.Sprintf("%dm", minutes)
		milli -= minutes * 60 * milliPerGPU
	}
	if milli > 0 {
		text += money.DecimalText(big.NewRat(milli, milliPerGPU), 0, 3) + "s"
	}
	return text
}
