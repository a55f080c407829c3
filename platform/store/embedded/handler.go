package embedded

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// helloQuery is the first query of every connection of the Go client over HTTP. It decodes the answer by the protocol
// revision that it asked for, which the library does not speak.
const helloQuery = "SELECT displayName(), version(), revision(), timezone()"

// ServeHTTP answers ClickHouse's HTTP interface: a statement at /, with POST or (reading only) GET, and /ping. Errors
// have status 500, the message as body and its number in X-ClickHouse-Exception-Code, as a server's have.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/ping":
		answer(w, "text/plain; charset=UTF-8", []byte("Ok.\n"))
	case r.URL.Path != "/" && r.URL.Path != "":
		http.Error(w, "there is / for statements and /ping", http.StatusNotFound)
	case r.Method != http.MethodPost && r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "send statements by POST, or by GET to read", http.StatusMethodNotAllowed)
	default:
		e.serveStatement(w, r)
	}
}

func (e *Engine) serveStatement(w http.ResponseWriter, r *http.Request) {
	s, err := parseRequest(r)
	if err != nil {
		fail(w, err)
		return
	}
	var out []byte
	if strings.TrimSpace(s.text) == helloQuery {
		out, err = hello(e.version, r.URL.Query().Get("client_protocol_version"))
	} else {
		out, err = e.run(r.Context(), s)
	}
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("X-ClickHouse-Format", s.format)
	answer(w, "application/octet-stream", out)
}

// answer sets the length always: the client takes a length of 0 for "no rows".
func answer(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client is gone when this fails, and the statement is done
}

func fail(w http.ResponseWriter, err error) {
	var refused *Error
	switch {
	case errors.As(err, &refused):
	case errors.Is(err, ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		refused = refuse(codeAborted, err.Error()+" (ABORTED)")
	default:
		refused = refuse(codeUnknown, err.Error())
	}
	body := refused.Error() + "\n"
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(refused.Code))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write([]byte(body)) // as in answer
}

// hello answers the handshake in the client's revision and names our own revision 0: from then on the client reads
// every answer as plain Native, which is what the library writes.
func hello(version, clientRevision string) ([]byte, error) {
	revision, err := strconv.ParseUint(clientRevision, 10, 32)
	if err != nil {
		revision = 0 // a client that names none reads plain Native
	}
	var block proto.Block
	for _, c := range [][2]string{
		{"displayName()", "String"}, {"version()", "String"}, {"revision()", "UInt32"}, {"timezone()", "String"},
	} {
		if err := block.AddColumn(c[0], column.Type(c[1])); err != nil {
			return nil, err
		}
	}
	if err := block.Append("embedded", version, uint32(0), "UTC"); err != nil { // UTC: see session_timezone
		return nil, err
	}
	buffer := new(chproto.Buffer)
	if err := block.Encode(buffer, min(revision, clickhouse.ClientTCPProtocolVersion)); err != nil {
		return nil, err
	}
	return buffer.Buf, nil
}
