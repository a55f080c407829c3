package random

import (
	"slices"
	"strings"
)

// Broken writes a contract of which up to three things are changed: a value, a kind, a key, a part left out or written twice. The
// language may still take it.
func Broken(choose Chooser) string { return spoil(choose, contract(choose)) }

// BrokenBook is Broken for a price book.
func BrokenBook(choose Chooser) string { return spoil(choose, book(choose)) }

func spoil(choose Chooser, root *node) string {
	for range 1 + choose(3) {
		all := root.all()
		n := all[choose(len(all))]
		if len(n.items) == 0 {
			n.spoilValue(choose)
			continue
		}
		n.spoilParts(choose)
	}
	return root.block(choose, 0)
}

// values are what people and generators write by mistake, and what is made to hurt.
func values() []string {
	return []string{
		`""`, "0", "-1", "1", "1.5", "true", "null", "~", "{}", "[]", "[[]]", "{a: b}", "x", "open", "none", "100%", "-5%", "10001%", "5", "50% of on_demand",
		"1E1000000000", "1E1000000000/gpu-hour", "1E1000000000%", "1E1000000000 GB", "1e19/GB", "0.0000000000000000001", "99999999999999999999999999999999999999",
		"999999999999999999999999999999999999999/gpu-hour", "NaN", ".inf", "0x10", "1_000", "2026-02-30", "2026-01-01", "9999-12-31", "24:00", "daily 22:00-06:00",
		"daily 22:00-22:00", "Mon-Foo 22:00-06:00", "35.00/gpu-hour", "35.00/hour", "35.00", "1/month", "1/0 GB", "1/GB-fortnight", "1/%", "'a b'", "\"\\u0007\"", "阿克梅",
		"gpus", "on_demand", "hourly", "time_weighted", "cumulative", "volume", "h100-80g", "999999999999h", "1s1h", "&a x", "*a", "!!int 1", "|", "2026-01-01T00:00:00Z",
	}
}

func (n *node) spoilValue(choose Chooser) {
	*n = node{text: choose.one(values()...)}
}

func (n *node) spoilParts(choose Chooser) {
	at := choose(len(n.items))
	switch choose(6) {
	case 0:
		n.spoilValue(choose)
	case 1: // left out
		n.items = slices.Delete(n.items, at, at+1)
		if n.kind == mapping {
			n.keys = slices.Delete(n.keys, at, at+1)
		}
	case 2: // written twice
		n.items = append(n.items, n.items[at])
		if n.kind == mapping {
			n.keys = append(n.keys, n.keys[at])
		}
	case 3: // another order
		other := choose(len(n.items))
		n.items[at], n.items[other] = n.items[other], n.items[at]
	case 4: // one more
		n.items = append(n.items, text(choose.one(values()...)))
		if n.kind == mapping {
			n.keys = append(n.keys, choose.one("name", "price", "tax", "sla", "pay", "form", "off", "add", "unit", "1", `""`))
		}
	default:
		if n.kind == mapping {
			n.keys[at] = choose.one("name", "prise", "Price", "tiers", "rate", "limits", "flat", "~")
		}
	}
}

// Reworded is the contract that the first chooser draws, with one of its values replaced by one of another contract: an amendment. The
// language may refuse it.
func Reworded(choose, change Chooser) string {
	root, other := contract(choose), contract(change)
	for range 200 {
		a, b := root.all(), other.all()
		n, by := a[change(len(a))], b[change(len(b))]
		if len(n.items) == 0 && len(by.items) == 0 && unitOf(n.text) == unitOf(by.text) {
			n.text = by.text
			break
		}
	}
	return root.block(choose, 0)
}

// unitOf is the part of a value that is no number: what can stand in its place has it too.
func unitOf(text string) string { return strings.TrimLeft(text, "0123456789.eE-") }
