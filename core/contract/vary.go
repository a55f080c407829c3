package contract

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/span"
)

// Variation says how a contract is worded otherwise for a what-if: whatever is not named here stays as it is written.
type Variation struct {
	ID, Customer string      // in place of its own; "" leaves them
	To           span.Second // the end of its term; 0 leaves it
	Bare         bool        // without reservations, forwards and packages
	Reserved     []Retention // of a bare one: the reservations that stay
}

// Retention keeps a reservation with another quantity, from one local date to another. One that is kept several times stands there
// as often, under other names.
type Retention struct {
	SKU, Name, As string // As is its new name, or ""
	Quantity      int64
	From, To      calendar.Date // To is the first day after it
}

// Vary is the contract in other words, read from its own document with those words changed. The error is an Errors, of a document
// that cannot be worded so.
func (c *Contract) Vary(v Variation) (*Contract, error) {
	node, broken := parseYAML(c.ID, c.Source)
	if broken != nil {
		return nil, Errors{*broken}
	}
	return Parse(c.ID, []byte(v.root(node, c)))
}

func (v Variation) root(n ast.Node, c *Contract) string {
	return rewritten(n, func(key string, value ast.Node) (string, bool) {
		switch {
		case key == "contract" && v.ID != "":
			return quoted(v.ID), true
		case key == "customer" && v.Customer != "":
			return quoted(v.Customer), true
		case key == "term" && v.To != 0:
			return rewritten(value, func(key string, value ast.Node) (string, bool) {
				if key == "to" {
					return quoted(c.BoundText(v.To)), true
				}
				return flow(value), true
			}), true
		case key == "trial" && v.To != 0 && c.Trial.To > v.To:
			return `{"until": ` + quoted(c.BoundText(v.To)) + "}", true
		case key == "packages" && v.Bare:
			return "", false
		case key == "rates" && v.Bare:
			return eachItem(value, v.rate), true
		}
		return flow(value), true
	})
}

func (v Variation) rate(n ast.Node) string {
	sku := ""
	for _, p := range pairsOf(n) {
		if scalarText(p.Key) == "sku" {
			sku = scalarText(p.Value)
		}
	}
	return rewritten(n, func(key string, value ast.Node) (string, bool) {
		switch key {
		case "forward":
			return "", false
		case "reserved":
			kept := v.reservations(sku, value)
			return "[" + strings.Join(kept, ",\n") + "]", len(kept) > 0
		}
		return flow(value), true
	})
}

// reservations are those of a SKU that stay, in the order of the document.
func (v Variation) reservations(sku string, n ast.Node) []string {
	var out []string
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil
	}
	for _, item := range list.Values {
		name := ""
		for _, p := range pairsOf(item) {
			if scalarText(p.Key) == "name" {
				name = scalarText(p.Value)
			}
		}
		for _, r := range v.Reserved {
			if r.SKU != sku || r.Name != name || r.Quantity == 0 {
				continue
			}
			changed := map[string]string{
				"name": cmp.Or(r.As, r.Name), "quantity": strconv.FormatInt(r.Quantity, 10), "from": r.From.String(), "to": r.To.String(),
			}
			out = append(out, rewritten(item, func(key string, value ast.Node) (string, bool) {
				if text, ok := changed[key]; ok {
					return quoted(text), true
				}
				return flow(value), true
			}))
		}
	}
	return out
}

// rewritten writes a mapping in flow style, each value as change words it, or not at all.
func rewritten(n ast.Node, change func(key string, value ast.Node) (string, bool)) string {
	var out []string
	for _, p := range pairsOf(n) {
		key := scalarText(p.Key)
		if text, stays := change(key, p.Value); stays {
			out = append(out, quoted(key)+": "+text)
		}
	}
	return "{" + strings.Join(out, ",\n") + "}"
}

func eachItem(n ast.Node, write func(ast.Node) string) string {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return flow(n)
	}
	mendTimes(list.Values)
	out := make([]string, len(list.Values))
	for i, item := range list.Values {
		out[i] = write(item)
	}
	return "[" + strings.Join(out, ",\n") + "]"
}

// flow writes a node in flow style. The reader takes scalars by their text, so all of them may be quoted.
func flow(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return rewritten(n, func(_ string, value ast.Node) (string, bool) { return flow(value), true })
	case *ast.SequenceNode:
		return eachItem(n, flow)
	case nil, *ast.NullNode:
		return "null"
	}
	return quoted(scalarText(n))
}

func pairsOf(n ast.Node) []*ast.MappingValueNode {
	switch v := n.(type) {
	case *ast.MappingNode:
		return v.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{v}
	}
	return nil
}

// quoted writes a text that holds no control characters, as every text of a contract.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
