package contract

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a document. A contract needs a fraction of them; beyond them lie documents made to exhaust a reader.
const (
	MaxBytes   = 256 << 10
	MaxDepth   = 32
	MaxEntries = 4096 // keys and list items: the parser's time grows with their square
)

// parseYAML reads the only document of data as a tree. Nothing is decoded: scalars keep their text.
func parseYAML(file string, data []byte) (ast.Node, *Error) {
	at := func(tk *token.Token, message, remedy string) *Error {
		e := &Error{File: file, Line: 1, Column: 1, Message: message, Remedy: remedy}
		if tk != nil && tk.Position != nil {
			e.Line, e.Column = tk.Position.Line, tk.Position.Column
		}
		return e
	}
	if len(data) > MaxBytes {
		return nil, at(nil, fmt.Sprintf("the document has %d bytes", len(data)), fmt.Sprintf("keep it within %d", MaxBytes))
	}
	text, broken := Text(file, data)
	if broken != nil {
		return nil, broken
	}
	tokens := lexer.Tokenize(text)
	if tk, message, remedy := forbidden(tokens); tk != nil {
		return nil, at(tk, message, remedy)
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // duplicates are reported with the other errors
	if err != nil {
		if syntax := (*yaml.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, at(syntax.Token, "not YAML: "+SyntaxMessage(syntax), SyntaxRemedy(syntax.Token, text))
		}
		return nil, at(nil, "not YAML: "+err.Error(), "")
	}
	var body ast.Node
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			return nil, at(doc.Body.GetToken(), "a second document begins", "keep one contract per file")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return nil, at(nil, "the document is empty", "write a contract")
	}
	return body, nil
}

// byteOrderMark stands before a text that some editors save as UTF-8; YAML reads over it.
const byteOrderMark = "\ufeff"

// Text is a document as UTF-8, which the lexer takes for granted: it would read the bytes of another encoding as letters, and a
// customer's name would stand on bills as nobody wrote it. The error is at the first byte that is none.
func Text(file string, data []byte) (string, *Error) {
	text := strings.TrimPrefix(string(data), byteOrderMark)
	if utf8.ValidString(text) {
		return text, nil
	}
	good := 0
	for c, size := utf8.DecodeRuneInString(text); c != utf8.RuneError || size > 1; c, size = utf8.DecodeRuneInString(text[good:]) {
		good += size
	}
	before := text[:good]
	return "", &Error{
		File: file, Line: 1 + strings.Count(before, "\n"), Column: 1 + utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]),
		Message: "the text is not UTF-8", Remedy: "save the file in that encoding",
	}
}

// SyntaxMessage is what the parser found wrong, without the tab that it quotes.
func SyntaxMessage(err *yaml.SyntaxError) string {
	if strings.Contains(err.Message, "'\t'") {
		return "a tab stands where a line is indented"
	}
	return err.Message
}

// SyntaxRemedy says what to do about the slips that are commonest: tabs, and the punctuation of a Chinese keyboard.
func SyntaxRemedy(at *token.Token, text string) string {
	line := ""
	if at != nil && at.Position != nil {
		lines := strings.Split(text, "\n")
		line = lines[min(max(at.Position.Line, 1), len(lines))-1]
	}
	switch {
	case strings.Contains(line, "\t"):
		return "indent with spaces"
	case strings.ContainsAny(line, "：，｛｝［］－"):
		return "write the punctuation in half width: `key: value`, not `key：value`"
	default:
		return "check brackets, quotes and indentation here and on the line before"
	}
}

// forbidden finds what the parser must not see: references, which make small texts grow without end, tags, which change
// how a scalar reads, nesting deep enough to exhaust a recursive reader, and entries enough to keep it busy.
func forbidden(tokens token.Tokens) (at *token.Token, message, remedy string) {
	depth, line, inLine, entries := 0, 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, inLine = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return tk, "anchors, aliases and merge keys are not read", "write the value out"
		case token.TagType:
			return tk, "tags are not read", "write the plain value"
		case token.DirectiveType:
			return tk, "directives are not read", "remove the line"
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType: // on one line each nests in the one before
			inLine++
			entries++
		case token.MappingValueType, token.CollectEntryType:
			entries++
		}
		if max(depth, inLine) > MaxDepth {
			return tk, fmt.Sprintf("nested more than %d deep", MaxDepth), "flatten it"
		}
		if entries > MaxEntries {
			return tk, fmt.Sprintf("more than %d keys and list items", MaxEntries), "split the contract"
		}
	}
	return nil, "", ""
}

// mendTimes makes texts of the items of a list that the parser takes for mappings: in a flow list inside a flow mapping it reads
// 22:00 as a key and its value. YAML does so only where a space follows the colon.
func mendTimes(items []ast.Node) {
	for i, n := range items {
		if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) == 1 {
			n = m.Values[0]
		}
		pair, ok := n.(*ast.MappingValueNode)
		if !ok || scalarText(pair.Key) == "" || scalarText(pair.Value) == "" {
			continue
		}
		key, value := pair.Key.GetToken(), pair.Value.GetToken()
		if value.Position.Offset == pair.Start.Position.Offset+1 {
			text := *key
			text.Type, text.Value = token.StringType, key.Value+":"+value.Value
			items[i] = ast.String(&text)
		}
	}
}
