package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/internal/nearest"
)

// MaxBytes bounds a scenario file: what happened in it may be long, unlike a contract.
const MaxBytes = 4 << 20

// tree reads the only document of data. Nothing is decoded: scalars keep their text.
func (r *reader) tree(data []byte) (ast.Node, bool) {
	if len(data) > MaxBytes {
		r.fail(nil, "", fmt.Sprintf("the file has %d bytes", len(data)), fmt.Sprintf("keep it within %d", MaxBytes))
		return nil, false
	}
	text, broken := contract.Text(r.file, data)
	if broken != nil {
		r.errs = append(r.errs, *broken)
		return nil, false
	}
	tokens := lexer.Tokenize(text)
	if at := tooDeep(tokens); at != nil {
		r.fail(at, "", fmt.Sprintf("nested more than %d deep", contract.MaxDepth), "flatten it")
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // duplicates are reported with the other errors
	if err != nil {
		message, at := err.Error(), (*token.Token)(nil)
		if syntax := (*yaml.SyntaxError)(nil); errors.As(err, &syntax) {
			message, at = contract.SyntaxMessage(syntax), syntax.Token
		}
		r.fail(at, "", "not YAML: "+message, contract.SyntaxRemedy(at, text))
		return nil, false
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			r.fail(start(doc.Body), "", "a second document begins", "keep one scenario per file")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		r.fail(nil, "", "the file is empty", "write a story, contracts and events")
	}
	return body, len(r.errs) == 0
}

// tooDeep finds nesting that would exhaust a recursive reader, before the parser is one.
func tooDeep(tokens token.Tokens) *token.Token {
	depth, line, entries := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		}
		if max(depth, entries) > contract.MaxDepth {
			return tk
		}
	}
	return nil
}

// reader walks the tree and collects every error instead of stopping at the first.
type reader struct {
	file string
	errs contract.Errors
}

func (r *reader) fail(at *token.Token, field, message, remedy string) {
	e := contract.Error{File: r.file, Line: 1, Column: 1, Field: field, Message: message, Remedy: remedy}
	if at != nil && at.Position != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
	}
	r.errs = append(r.errs, e)
}

// failure reports an error whose text says what to write after a semicolon.
func (r *reader) failure(n ast.Node, field string, err error) {
	message, remedy, _ := strings.Cut(err.Error(), "; ")
	r.fail(start(n), field, message, remedy)
}

// take collects the errors of a document that stands inside this one.
func (r *reader) take(n ast.Node, err error) {
	var inner contract.Errors
	if errors.As(err, &inner) {
		r.errs = append(r.errs, inner...)
		return
	}
	r.failure(n, "", err)
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

// section is a mapping of known fields, each at most once.
type section struct {
	r      *reader
	node   ast.Node
	field  string
	values map[string]ast.Node
	keys   map[string]*token.Token
}

// section reads a mapping; of several choices, the fields are those of all.
func (r *reader) section(n ast.Node, field string, known ...string) (section, bool) {
	s := section{r: r, node: n, field: field, values: map[string]ast.Node{}, keys: map[string]*token.Token{}}
	for _, v := range pairs(n) {
		key := scalarText(v.Key)
		at := v.Key.GetToken()
		switch {
		case s.keys[key] != nil:
			r.fail(at, join(field, key), "the key is written twice", "keep one of them")
		case slices.Contains(known, key):
			s.values[key], s.keys[key] = v.Value, at
		default:
			remedy := "remove it; known here: " + strings.Join(known, ", ")
			if near, ok := nearest.Of(key, known); ok {
				remedy = "did you mean " + near + "?"
			}
			r.fail(at, field, fmt.Sprintf("unknown field %.60q", key), remedy)
		}
	}
	if !isMapping(n) {
		r.fail(start(n), field, "a mapping is expected, not "+kind(n), "write it as `key: value`")
		return s, false
	}
	return s, true
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	default:
		return false
	}
}

func pairs(n ast.Node) []*ast.MappingValueNode {
	switch v := n.(type) {
	case *ast.MappingNode:
		return v.Values
	case *ast.MappingValueNode: // a block mapping of one key
		return []*ast.MappingValueNode{v}
	default:
		return nil
	}
}

// has tells whether the field is stated.
func (s section) has(key string) bool { return s.values[key] != nil }

// missing reports a field that must be there.
func (s section) missing(key, remedy string) {
	s.r.fail(start(s.node), s.field, "`"+key+":` is missing", remedy)
}

// list is the entries of an optional list.
func (s section) list(key string) []ast.Node {
	n, stated := s.values[key]
	if !stated {
		return nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		s.r.fail(start(n), join(s.field, key), "a list is expected, not "+kind(n), "write `- ` in front of each entry")
		return nil
	}
	return list.Values
}

// set reads an optional scalar through a parser of the edge and keeps it when it is good.
func set[T any](s section, key string, parse func(string) (T, error), into *T) {
	n, stated := s.values[key]
	if !stated {
		return
	}
	text := scalarText(n)
	if text == "" {
		s.r.fail(start(n), join(s.field, key), "a plain value is expected, not "+kind(n), "")
		return
	}
	value, err := parse(text)
	if err != nil {
		s.r.failure(n, join(s.field, key), err)
		return
	}
	*into = value
}

// need reads a scalar that must be there.
func need[T any](s section, key, remedy string, parse func(string) (T, error), into *T) {
	if !s.has(key) {
		s.missing(key, remedy)
		return
	}
	set(s, key, parse, into)
}

// text takes a scalar as it is written.
func text(v string) (string, error) { return v, nil }

// scalarText is what was written for a scalar: numbers and booleans are not interpreted. Other nodes have none.
func scalarText(n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	case *ast.LiteralNode: // a block of text: stories
		return strings.TrimSpace(v.Value.Value)
	default:
		return ""
	}
}

func kind(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "empty text"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return "a reference or tag"
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

// sorted puts the errors in the order of the text.
func sorted(errs contract.Errors) contract.Errors {
	slices.SortStableFunc(errs, func(a, b contract.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errs
}
