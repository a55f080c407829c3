package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/gpuhour/gpuhour/core/internal/nearest"
)

// reader walks a tree and collects every error instead of stopping at the first. Its methods take the node's field name
// for errors; those that return false have reported why.
type reader struct {
	file     string
	contract *Contract // what is read so far: currency, zone, term and billing stand before rates, rates before other clauses
	errs     Errors
	later    []func([]Rate) // checks that wait until all rates are read
}

func (r *reader) fail(at *token.Token, field, message, remedy string) {
	e := Error{File: r.file, Line: 1, Column: 1, Field: field, Message: message, Remedy: remedy}
	if at != nil && at.Position != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
	}
	r.errs = append(r.errs, e)
}

func (r *reader) failf(n ast.Node, field, remedy, format string, args ...any) {
	r.fail(start(n), field, fmt.Sprintf(format, args...), remedy)
}

// start is the first token of a node: of a block mapping, its first key.
func start(n ast.Node) *token.Token {
	switch v := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if len(v.Values) > 0 && !v.IsFlowStyle {
			return v.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return v.Key.GetToken()
	}
	return n.GetToken()
}

// entry is one key of a mapping.
type entry struct {
	key   string
	keyAt *token.Token
	value ast.Node
}

// entries lists a mapping's keys in order, each once.
func (r *reader) entries(n ast.Node, field string) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch v := n.(type) {
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode: // a block mapping of one key
		values = []*ast.MappingValueNode{v}
	default:
		r.failf(n, field, "write it as `key: value`", "a mapping is expected, not %s", kind(n))
		return nil, false
	}
	seen := map[string]bool{}
	var out []entry
	for _, v := range values {
		e := entry{key: scalarText(v.Key), keyAt: v.Key.GetToken(), value: v.Value}
		switch {
		case e.key == "":
			r.fail(e.keyAt, field, "a key is not plain text", "write a name")
		case seen[e.key]:
			r.fail(e.keyAt, join(field, e.key), "the key is written twice", "keep one of them")
		default:
			seen[e.key] = true
			out = append(out, e)
		}
	}
	return out, true
}

// section is a mapping of known fields.
type section struct {
	node   ast.Node
	field  string
	values map[string]ast.Node
}

// section reads a mapping whose keys must be known; unsupported ones belong to the language but not to this version.
func (r *reader) section(n ast.Node, field string, known, unsupported []string) (section, bool) {
	entries, ok := r.entries(n, field)
	s := section{node: n, field: field, values: map[string]ast.Node{}}
	for _, e := range entries {
		switch {
		case slices.Contains(known, e.key):
			s.values[e.key] = e.value
		case slices.Contains(unsupported, e.key):
			r.fail(e.keyAt, join(field, e.key), fmt.Sprintf("`%s:` is not supported by this version", e.key),
				"remove it, or the bill would be wrong")
		default:
			r.unknownField(e, field, known, unsupported)
		}
	}
	return s, ok
}

func (r *reader) unknownField(e entry, field string, known, unsupported []string) {
	message := fmt.Sprintf("unknown field %.60q", e.key)
	if near, ok := nearest.Of(e.key, slices.Concat(known, unsupported)); ok {
		r.fail(e.keyAt, field, message+", did you mean "+near+"?", "")
		return
	}
	r.fail(e.keyAt, field, message, "remove it; known here: "+quotedList(known))
}

// required is a field that must be there.
func (r *reader) required(s section, key, remedy string) (ast.Node, bool) {
	n, ok := s.values[key]
	if !ok {
		r.failf(s.node, s.field, remedy, "`%s:` is missing", key)
	}
	return n, ok
}

// text is a scalar's source text.
func (r *reader) text(n ast.Node, field, remedy string) (string, bool) {
	if text := scalarText(n); text != "" {
		return text, true
	}
	r.failf(n, field, remedy, "a plain value is expected, not %s", kind(n))
	return "", false
}

// read takes a scalar through a parser of the edge, whose error says what to write after a semicolon, or else the field's remedy does.
func read[T any](r *reader, n ast.Node, field, remedy string, parse func(string) (T, error)) (value T, ok bool) {
	text, ok := r.text(n, field, remedy)
	if !ok {
		return value, false
	}
	value, err := parse(text)
	if err != nil {
		message, instead, found := strings.Cut(err.Error(), "; ")
		if found {
			remedy = instead
		}
		r.fail(start(n), field, message, remedy)
	}
	return value, err == nil
}

// set reads an optional scalar and keeps it when it is good.
func set[T any](r *reader, s section, key, remedy string, parse func(string) (T, error), keep func(T)) {
	if n, stated := s.values[key]; stated {
		if value, ok := read(r, n, join(s.field, key), remedy, parse); ok {
			keep(value)
		}
	}
}

// need reads a scalar that must be there.
func need[T any](r *reader, s section, key, remedy string, parse func(string) (T, error)) (value T, ok bool) {
	n, ok := r.required(s, key, remedy)
	if !ok {
		return value, false
	}
	return read(r, n, join(s.field, key), remedy, parse)
}

// scalarText is what was written for a scalar: numbers and booleans are not interpreted. Other nodes have none.
func scalarText(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	default:
		return ""
	}
}

func kind(n ast.Node) string {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.StringNode:
		if v.Value != "" {
			return "a text"
		}
		return "empty text"
	default:
		return "a number or another scalar"
	}
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
