package scenario

import (
	"fmt"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
)

func limitFields() []string { return []string{"spent", "used", "reached"} }

// limit reads what a document must say of its spend limit: the fields that are stated.
func (p *parsing) limit(s section) map[string]string {
	if !s.has("limit") {
		return nil
	}
	out := map[string]string{}
	f, ok := p.section(s.values["limit"], join(s.field, "limit"), limitFields()...)
	if !ok {
		return out
	}
	for _, k := range limitFields() {
		if k != "reached" && f.has(k) {
			out[k] = *stated(f, k, text)
		}
	}
	if f.has("reached") {
		var parts []string
		for _, n := range f.list("reached") {
			if part := scalarText(n); part != "" {
				parts = append(parts, part)
			} else {
				p.fail(start(n), join(f.field, "reached"), "a plain value is expected, not "+kind(n), "write 80%")
			}
		}
		out["reached"] = strings.Join(parts, ", ")
	}
	return out
}

// limit compares what is stated.
func (c *checking) limit(want map[string]string, got *bill.DocumentLimit) {
	for _, k := range limitFields() {
		if text, stated := want[k]; stated {
			c.same("limit."+k, text, limitTexts(got)[k])
		}
	}
}

func limitTexts(l *bill.DocumentLimit) map[string]string {
	if l == nil {
		return nil
	}
	return map[string]string{"spent": l.Spent, "used": l.Used, "reached": strings.Join(l.Reached, ", ")}
}

// limitPart is the limit as a file writes it, or nothing.
func limitPart(l *bill.DocumentLimit) []string {
	if l == nil {
		return nil
	}
	return []string{fmt.Sprintf("limit: {spent: %s, used: %s, reached: [%s]}", l.Spent, l.Used, strings.Join(l.Reached, ", "))}
}
