package embedded

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// maxTextBytes bounds a statement's own text, in the URL or the body. Rows of a streamed insert do not count.
const maxTextBytes = 64 << 20

// transportParams are the URL parameters of ClickHouse's HTTP interface that are no settings. The ones without a
// meaning here (accounts, response buffering, ids) are accepted, because every client sends some.
var transportParams = regexp.MustCompile(`^(query|database|default_format|client_protocol_version|query_id|quota_key|user|password|role|` +
	`session_timeout|session_check|compress|decompress|buffer_size|wait_end_of_query|stacktrace|close_session)$`)

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// parseRequest reads a statement out of an HTTP request. The statement is in the URL, in the body, or begins in the
// URL and ends in the body; the rows of an INSERT ... FORMAT X follow it.
func parseRequest(r *http.Request) (statement, error) {
	params := r.URL.Query()
	if err := refuseUnread(r, params); err != nil {
		return statement{}, err
	}
	s := statement{
		text: params.Get("query"), format: params.Get("default_format"), database: params.Get("database"),
		settings: map[string]string{}, params: map[string]string{}, readOnly: r.Method == http.MethodGet,
	}
	if s.format == "" {
		s.format = "TabSeparated"
	}
	for name, values := range params {
		if parameter, ok := strings.CutPrefix(name, "param_"); ok {
			s.params[parameter] = values[0]
			continue
		}
		if transportParams.MatchString(name) {
			continue
		}
		if !settingName.MatchString(name) {
			return statement{}, refuse(codeBadArguments, "the URL parameter "+quote(name, '`')+" is no name of a setting (BAD_ARGUMENTS)")
		}
		s.settings[name] = values[0]
	}
	return s, s.readBody(r.Body)
}

// refuseUnread refuses what this handler would otherwise misread.
func refuseUnread(r *http.Request, params url.Values) error {
	on := func(name string) bool { v := params.Get(name); return v != "" && v != "0" && v != "false" }
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case encoding != "" && encoding != "identity", on("compress"), on("decompress"):
		return refuse(codeNotImplemented, "compression is off here: open the client without Compression (NOT_IMPLEMENTED)")
	case strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/"):
		return refuse(codeNotImplemented, "external tables are not supported here: put the values in a table or a parameter (NOT_IMPLEMENTED)")
	case params.Has("session_id"):
		return refuse(codeNotImplemented, "sessions are not supported here: send settings with each request (NOT_IMPLEMENTED)")
	case on("async_insert"):
		return refuse(codeBadArguments, "async_insert is off here: it acknowledges rows before they are stored and ignores insert_deduplication_token (BAD_ARGUMENTS)")
	}
	return nil
}

// readBody completes the statement from the body. The rows of an insert stay in the body unread, because the engine's
// own reading of inline rows ends them at an empty line, silently.
func (s *statement) readBody(body io.Reader) error {
	if body == nil {
		body = http.NoBody
	}
	if s.splitInsert() {
		s.rows = io.MultiReader(s.rows, body)
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(body, maxTextBytes+1))
	if err != nil {
		return refuse(codeNetwork, "read the statement: "+err.Error()+" (NETWORK_ERROR)")
	}
	if len(text) > maxTextBytes {
		return refuse(codeSyntax, "the statement is longer than 64 MiB: send rows as a batch (INSERT ... FORMAT) (SYNTAX_ERROR)")
	}
	if s.text != "" && len(text) > 0 {
		s.text += "\n"
	}
	s.text += string(text)
	s.splitInsert()
	return nil
}

// splitInsert cuts "INSERT ... FORMAT X rows" into the statement, the format and the first rows, and reports whether
// it is such an insert. An INSERT with VALUES or SELECT is a statement like any other.
func (s *statement) splitInsert() bool {
	words := scanner{text: s.text}
	if !strings.EqualFold(words.next(), "INSERT") {
		return false
	}
	for word := words.next(); word != ""; word = words.next() {
		switch strings.ToUpper(word) {
		case "VALUES", "SELECT", "WITH", ";":
			return false
		case "FORMAT":
			head := s.text[:words.start]
			format := words.next()
			if !settingName.MatchString(format) {
				return false // a column or table by that name
			}
			s.text, s.format, s.rows = strings.TrimSpace(head), format, strings.NewReader(inlineRows(s.text[words.end:]))
			return true
		}
	}
	return false
}

// inlineRows drops what separates the format's name from the rows: blanks and one line end, or a closing semicolon.
func inlineRows(rest string) string {
	rest = strings.TrimLeft(rest, " \t\f")
	if after, ok := strings.CutPrefix(rest, "\r\n"); ok {
		return after
	}
	if after, ok := strings.CutPrefix(rest, "\n"); ok {
		return after
	}
	if after, ok := strings.CutPrefix(rest, ";"); ok && strings.TrimSpace(after) == "" {
		return ""
	}
	return rest
}

// scanner walks the words of a statement at its top level: it steps over comments, quoted text and parentheses.
type scanner struct {
	text       string
	start, end int // of the last word
}

// next returns the next word, or another single character that begins none, or "" at the end.
func (s *scanner) next() string {
	depth, i := 0, s.end
	for i < len(s.text) {
		c := s.text[i]
		switch {
		case strings.HasPrefix(s.text[i:], "--"):
			i += lengthTo(s.text[i:], "\n")
		case strings.HasPrefix(s.text[i:], "/*"):
			i += lengthTo(s.text[i:], "*/")
		case c == '\'' || c == '"' || c == '`':
			i += quotedLength(s.text[i:])
		case c == '(':
			depth, i = depth+1, i+1
		case c == ')':
			depth, i = depth-1, i+1
		case depth > 0 || strings.IndexByte(" \t\r\n\f\v,.", c) >= 0:
			i++
		default:
			s.start, s.end = i, i+1
			for isWord(c) && s.end < len(s.text) && isWord(s.text[s.end]) {
				s.end++
			}
			return s.text[s.start:s.end]
		}
	}
	s.start, s.end = len(s.text), len(s.text)
	return ""
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// lengthTo is the length up to and including mark, or of everything.
func lengthTo(text, mark string) int {
	if at := strings.Index(text, mark); at >= 0 {
		return at + len(mark)
	}
	return len(text)
}

// quotedLength is the length of the quoted text that begins here. A backslash escapes; a doubled quote begins the
// next quoted text, which comes to the same.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return len(text)
}
