package embedded

import (
	"context"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// statement is one request to the engine.
type statement struct {
	text     string
	format   string            // of the answer, or of rows
	settings map[string]string // for this statement only
	params   map[string]string // values of {name:Type}, in ClickHouse's escaped text form
	database string            // "" is "default"
	readOnly bool              // refuse a statement that would change anything
	rows     io.Reader         // what an INSERT inserts; nil for any other statement
}

// rowChunkBytes is how much of an insert is handed over at once. It does not cut the insert: the engine cuts blocks
// where the client's Native blocks end.
const rowChunkBytes = 1 << 20

const defaultDatabase = "default"

// session is one connection to the engine. It runs one statement at a time; the pool sees to that.
type session struct {
	lib      *library
	args     []string          // of connect
	base     map[string]string // settings that every statement starts from
	ref      unsafe.Pointer    // what connect returned; nil when not connected
	changed  map[string]string // settings that differ from base now, left by the statement before
	database string            // the current one
	buffer   []byte            // of rowChunkBytes, made by the first insert
}

func newSession(lib *library, dir string, memoryLimitBytes int64) *session {
	limit := strconv.FormatInt(memoryLimitBytes, 10)
	base := map[string]string{
		"async_insert":     "0", // 1 would acknowledge before the rows are stored, and ignore the dedup token
		"session_timezone": "UTC",
		"max_memory_usage": limit,
	}
	args := []string{"--path=" + dir, "--max_server_memory_usage=" + limit}
	for name, value := range base {
		args = append(args, "--"+name+"="+value)
	}
	return &session{lib: lib, args: args, base: base}
}

func (s *session) connect() error {
	ref := s.lib.open(s.args)
	if ref == nil {
		return errors.New("the engine cannot open it, and its reason is on stderr: look for missing permission, a full disk or another engine version's data")
	}
	s.ref, s.changed, s.database = ref, nil, defaultDatabase
	return nil
}

func (s *session) hangUp() {
	if s.ref != nil {
		s.lib.closeConn(s.ref)
		s.ref = nil
	}
}

// renew replaces the connection by a fresh one, whose settings are known. The new one comes first, because closing
// the last connection of the process would stop the engine.
func (s *session) renew() error {
	old := *s
	if err := s.connect(); err != nil {
		return err
	}
	old.hangUp()
	return nil
}

func (s *session) conn() unsafe.Pointer { return *(*unsafe.Pointer)(s.ref) }

// run prepares the session, checks the statement and runs it. Whatever happens, the session serves the next one.
func (s *session) run(ctx context.Context, st statement) ([]byte, error) {
	if err := s.prepare(st); err != nil {
		return nil, err
	}
	if err := s.check(st); err != nil {
		return nil, err
	}
	if st.rows != nil {
		return nil, s.insert(ctx, st)
	}
	return s.lib.take(s.lib.call(s.lib.query, s.conn(), st))
}

// prepare gives the session exactly the statement's settings and database. When that fails the session is renewed
// and tried once more: a setting such as readonly, left by the statement before, can forbid its own removal.
func (s *session) prepare(st statement) error {
	err := s.adjust(st)
	if err == nil {
		return nil
	}
	if renewErr := s.renew(); renewErr != nil {
		return errors.Join(err, renewErr)
	}
	if err = s.adjust(st); err == nil {
		return nil
	}
	return errors.Join(err, s.renew()) // the statement itself is wrong; part of it may have been set
}

func (s *session) adjust(st statement) error {
	if text := s.settingChange(st.settings); text != "" {
		if err := s.exec(text); err != nil {
			return err
		}
		s.changed = maps.Clone(st.settings)
	}
	database := st.database
	if database == "" {
		database = defaultDatabase
	}
	if database != s.database {
		if err := s.exec("USE " + quote(database, '`')); err != nil {
			return err
		}
		s.database = database
	}
	return nil
}

func (s *session) exec(text string) error {
	_, err := s.lib.take(s.lib.call(s.lib.query, s.conn(), statement{text: text, format: "Null"}))
	return err
}

// settingChange is the SET statement that leads from the session's settings to base plus want, or "". Names are
// sorted, so that the statement (and an error in it) is the same every time.
func (s *session) settingChange(want map[string]string) string {
	var change []string
	for _, name := range slices.Sorted(maps.Keys(s.changed)) {
		if _, wanted := want[name]; wanted {
			continue
		}
		if value, ok := s.base[name]; ok {
			change = append(change, name+" = "+quote(value, '\''))
		} else {
			change = append(change, name+" = DEFAULT")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, set := s.changed[name]; !set || value != want[name] {
			change = append(change, name+" = "+quote(want[name], '\''))
		}
	}
	if len(change) == 0 {
		return ""
	}
	return "SET " + strings.Join(change, ", ")
}

// sessionState matches statements whose effect would stay in the session, for whoever gets it next.
var sessionState = regexp.MustCompile(`(?is)^(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:SET|USE|CREATE\s+(?:OR\s+REPLACE\s+)?TEMPORARY)\b`)

// check refuses what a server would refuse: several statements in one request (62), and a change asked for by GET
// (164); and what would stay in the session. A statement that does not parse is left to the engine's own message.
func (s *session) check(st statement) error {
	if sessionState.MatchString(st.text) {
		return refuse(codeNotImplemented, "SET, USE and temporary tables end with the request here: send settings and database as URL parameters (client options or context) (NOT_IMPLEMENTED)")
	}
	text := st.text
	if st.rows != nil {
		text += " FORMAT " + st.format
	}
	statements, class := s.lib.classOf(s.conn(), text)
	if statements > 1 {
		return refuse(codeSyntax, "Multi-statements are not allowed: send "+strconv.Itoa(int(statements))+" requests (SYNTAX_ERROR)")
	}
	if st.readOnly && statements > 0 && class != classReadOnly {
		return refuse(codeReadonly, "a GET request only reads: use POST to change anything (READONLY)")
	}
	return nil
}

// insert streams rows into the engine. Nothing is committed unless the rows ended properly and the caller is still
// there, except blocks that the engine wrote before (an insert of one block is all or nothing).
func (s *session) insert(ctx context.Context, st statement) error {
	stream := s.lib.call(s.lib.insert, s.conn(), st)
	if stream == nil {
		return &Error{Code: codeUnknown, Message: "the engine gave no insert stream"}
	}
	defer s.lib.freeInsert(stream)
	if message := s.lib.insertError(stream); message != "" {
		return engineError(message)
	}
	if s.buffer == nil {
		s.buffer = make([]byte, rowChunkBytes)
	}
	for more := true; more; {
		n, err := fill(st.rows, s.buffer)
		more = err == nil
		if more || errors.Is(err, io.EOF) {
			err = ctx.Err()
		}
		if err != nil {
			s.lib.cancelInsert(stream)
			return err
		}
		if n > 0 && s.lib.appendRows(stream, unsafe.Pointer(&s.buffer[0]), uintptr(n)) != 0 {
			break // done returns the reason
		}
	}
	_, err := s.lib.take(s.lib.insertDone(stream))
	return err
}

// quote writes text as a ClickHouse string or identifier, by the escapes that both share.
func quote(text string, mark byte) string {
	m := string(mark)
	return m + strings.NewReplacer(`\`, `\\`, m, `\`+m).Replace(text) + m
}

// fill reads until the buffer is full or reading ends. Unlike io.ReadFull it keeps io.EOF, the proper end, apart from
// io.ErrUnexpectedEOF, which is how a request that broke off reads and must not be committed.
func fill(r io.Reader, buffer []byte) (int, error) {
	n := 0
	for n < len(buffer) {
		m, err := r.Read(buffer[n:])
		n += m
		if err == io.EOF {
			return n, io.EOF
		}
		if err != nil {
			return n, refuse(codeNetwork, "read the rows to insert: "+err.Error()+" (NETWORK_ERROR)")
		}
	}
	return n, nil
}
