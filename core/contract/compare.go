package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Change is a provision of which two contracts say different things.
type Change struct {
	Clause, Of, Field string
	Was, Is           string // empty where one of them says nothing
}

// Order is the field of a change of nothing but the order in which a clause lists what it speaks of. It decides between windows, and
// between reservations that begin together.
const Order = "order"

// Compare lists what is different, in the order of the language. A default that is written out is no difference.
func Compare(was, is *Contract) []Change {
	type key struct{ clause, of, field string }
	before, after := was.Provisions(), is.Provisions()
	text := map[key]*Change{}
	var out []*Change
	at := func(p Provision) *Change {
		k := key{p.Clause, p.Of, p.Field}
		if text[k] == nil {
			text[k] = &Change{Clause: p.Clause, Of: p.Of, Field: p.Field}
			out = append(out, text[k])
		}
		return text[k]
	}
	var clauses []string
	for _, p := range before {
		at(p).Was = p.Text
		clauses = append(clauses, p.Clause)
	}
	for _, p := range after {
		at(p).Is = p.Text
		clauses = append(clauses, p.Clause)
	}
	clauses = distinct(clauses)
	var changes []Change
	for _, c := range out {
		if c.Was != c.Is {
			changes = append(changes, *c)
		}
	}
	for _, clause := range clauses {
		if a, b := common(before, after, clause), common(after, before, clause); !slices.Equal(a, b) {
			changes = append(changes, Change{clause, "", Order, strings.Join(a, ", "), strings.Join(b, ", ")})
		}
	}
	rank := func(c Change) int { return slices.Index(order(), c.Clause) }
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Of, b.Of)) })
	return changes
}

// order is that of the clauses in Provisions.
func order() []string {
	return []string{
		"contract", "trial", "billing", "rates", "reserved", "forward", "packages", "schedule", "idle_relief", "meters", "bundles", "addons", "commitment",
		"limits", "states", "termination", "arrears",
	}
}

func distinct(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// common lists what a clause of list speaks of that the other one's does too, in the order of list.
func common(list, other []Provision, clause string) []string {
	var names []string
	for _, p := range list {
		if p.Clause == clause && slices.ContainsFunc(other, func(o Provision) bool { return o.Clause == clause && o.Of == p.Of }) {
			names = append(names, p.Of)
		}
	}
	return distinct(names)
}

// Unamendable names what an amendment that turns one contract into the other must not change, "" for nothing: whose contract it is,
// its currency, the term's start, the trial, the meaning of readings, or the unit of a fee. Register refuses it as UnsupportedAmendment.
func Unamendable(signed, amended *Contract) string {
	before := []Version{{Contract: signed}}
	trial := ""
	if trialChange(signed, amended) != "" {
		trial = "the trial"
	}
	return cmp.Or(unsupportedChange(signed, amended), trial, meterChange(before, amended), feeChange(before, amended), sliceChange(before, amended))
}

// ClosesStub tells whether an amendment that changes so much moves the boundaries of billing periods: then it ends the running one
// where it comes into force, see Periods.
func ClosesStub(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool {
		return c.Clause == "contract" && c.Field == "timezone" || c.Clause == "billing" && (c.Field == "cycle" || c.Field == "anchor")
	})
}

// statedIn is the fields that a document states, by their paths: billing.cycle, rates[0].spot.lock.
func statedIn(source []byte) map[string]bool {
	out := map[string]bool{}
	if node, broken := parseYAML("", source); broken == nil {
		statedUnder(node, "", out)
	}
	return out
}

func statedUnder(n ast.Node, path string, out map[string]bool) {
	out[path] = true
	switch v := n.(type) {
	case *ast.MappingNode:
		for _, pair := range v.Values {
			statedUnder(pair.Value, join(path, scalarText(pair.Key)), out)
		}
	case *ast.MappingValueNode:
		statedUnder(v.Value, join(path, scalarText(v.Key)), out)
	case *ast.SequenceNode:
		for i, item := range v.Values {
			statedUnder(item, fmt.Sprintf("%s[%d]", path, i), out)
		}
	}
}
