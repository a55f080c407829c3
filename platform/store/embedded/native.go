package embedded

import (
	"bytes"
	"regexp"
	"runtime"
	"strconv"
	"unsafe"
)

// library holds the C functions of libchdb that this package calls. Every pointer is opaque to Go. All text travels
// with its length, because a C string ends at the first NUL byte and binary rows hold many.
type library struct {
	connect      func(argc int32, argv unsafe.Pointer) unsafe.Pointer // to a connection; nil on failure
	closeConn    func(ref unsafe.Pointer)                             // takes what connect returned
	setSignals   func(enabled int32)
	classify     func(conn, text unsafe.Pointer, n uintptr, database unsafe.Pointer, databaseLen uintptr, out unsafe.Pointer) int32
	query        bound
	resultBuffer func(result unsafe.Pointer) unsafe.Pointer
	resultLength func(result unsafe.Pointer) uintptr
	resultError  func(result unsafe.Pointer) string
	freeResult   func(result unsafe.Pointer)
	insert       bound
	insertError  func(stream unsafe.Pointer) string
	appendRows   func(stream, data unsafe.Pointer, n uintptr) int32 // 0 is success; copies the data
	insertDone   func(stream unsafe.Pointer) unsafe.Pointer         // a result
	cancelInsert func(stream unsafe.Pointer)
	freeInsert   func(stream unsafe.Pointer)
}

// bound is the signature of the two calls that take a statement, a format and named parameters.
type bound func(conn, text unsafe.Pointer, textLen uintptr, format unsafe.Pointer, formatLen uintptr,
	names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer

// symbols maps each C name to the field that calls it.
func (l *library) symbols() map[string]any {
	return map[string]any{
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_set_signal_handlers_enabled": &l.setSignals,
		"chdb_classify_query_n":            &l.classify,
		"chdb_query_with_params_n":         &l.query,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_error":                &l.resultError,
		"chdb_destroy_query_result":        &l.freeResult,
		"chdb_stream_insert_with_params_n": &l.insert,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_stream_append":               &l.appendRows,
		"chdb_stream_done":                 &l.insertDone,
		"chdb_stream_cancel_insert":        &l.cancelInsert,
		"chdb_destroy_insert_stream":       &l.freeInsert,
	}
}

// open connects with the given engine arguments and returns nil when the engine refuses.
func (l *library) open(args []string) unsafe.Pointer {
	var p pinned
	defer p.Unpin()
	argv := make([]unsafe.Pointer, 0, len(args)+1)
	for _, arg := range append([]string{"clickhouse"}, args...) {
		text, _ := p.text(arg + "\x00") // the only C strings: arguments cannot hold NUL
		argv = append(argv, text)
	}
	p.Pin(&argv[0])
	return l.connect(int32(len(argv)), unsafe.Pointer(&argv[0]))
}

// call runs a statement function with its named parameters.
func (l *library) call(fn bound, conn unsafe.Pointer, s statement) unsafe.Pointer {
	var p pinned
	defer p.Unpin()
	text, textLen := p.text(s.text)
	format, formatLen := p.text(s.format)
	names, values := make([]string, 0, len(s.params)), make([]string, 0, len(s.params))
	for name, value := range s.params {
		names, values = append(names, name), append(values, value)
	}
	namePtrs, nameLens := p.texts(names)
	valuePtrs, valueLens := p.texts(values)
	return fn(conn, text, textLen, format, formatLen, namePtrs, nameLens, valuePtrs, valueLens, uintptr(len(names)))
}

// take copies a result out of the engine's memory and frees it.
func (l *library) take(result unsafe.Pointer) ([]byte, error) {
	if result == nil {
		return nil, &Error{Code: codeUnknown, Message: "the engine gave no result"}
	}
	defer l.freeResult(result)
	if message := l.resultError(result); message != "" {
		return nil, engineError(message)
	}
	n := l.resultLength(result)
	if n == 0 {
		return nil, nil
	}
	return bytes.Clone(unsafe.Slice((*byte)(l.resultBuffer(result)), n)), nil
}

// Classes of statements as libchdb counts them (chdb_query_class): 0 only reads, 4 is one it does not know.
const (
	classReadOnly = 0
	classUnknown  = 4
)

// classOf parses text without running it. statements is 0 when it does not parse.
func (l *library) classOf(conn unsafe.Pointer, text string) (statements, class uint32) {
	var p pinned
	defer p.Unpin()
	out := &struct{ size, statements, flags, class uint32 }{size: 16, class: classUnknown}
	p.Pin(out)
	sql, n := p.text(text)
	if l.classify(conn, sql, n, nil, 0, unsafe.Pointer(out)) != 0 {
		return 0, classUnknown
	}
	return out.statements, out.class
}

// pinned keeps Go memory in place and alive while C reads it.
type pinned struct{ runtime.Pinner }

func (p *pinned) text(s string) (unsafe.Pointer, uintptr) {
	if s == "" {
		return nil, 0
	}
	data := unsafe.StringData(s)
	p.Pin(data)
	return unsafe.Pointer(data), uintptr(len(s))
}

func (p *pinned) texts(list []string) (pointers, lengths unsafe.Pointer) {
	if len(list) == 0 {
		return nil, nil
	}
	ptrs, lens := make([]unsafe.Pointer, len(list)), make([]uintptr, len(list))
	for i, s := range list {
		if ptrs[i], lens[i] = p.text(s); lens[i] == 0 {
			ptrs[i], _ = p.text("\x00") // an empty value still needs an address
		}
	}
	p.Pin(&ptrs[0])
	p.Pin(&lens[0])
	return unsafe.Pointer(&ptrs[0]), unsafe.Pointer(&lens[0])
}

// Error is a statement refused by the engine or by this package. Code is ClickHouse's error code, so that the client
// reports the same code as with a server.
type Error struct {
	Code    int
	Message string // without the "Code: NNN. " prefix
}

func (e *Error) Error() string {
	return "Code: " + strconv.Itoa(e.Code) + ". " + e.Message
}

// The error codes of ClickHouse (src/Common/ErrorCodes.cpp) that this package answers itself.
const (
	codeBadArguments   = 36
	codeNotImplemented = 48
	codeSyntax         = 62
	codeReadonly       = 164
	codeNetwork        = 210
	codeAborted        = 236
	codeNoSpace        = 243
	codeUnknown        = 1002
)

var engineCode = regexp.MustCompile(`Code: (\d{1,9})\. `)

// engineError reads the code out of the engine's message; anything before it is the library's own wrapping.
func engineError(message string) *Error {
	at := engineCode.FindStringSubmatchIndex(message)
	if at == nil {
		return &Error{Code: codeUnknown, Message: "DB::Exception: " + message}
	}
	code, _ := strconv.Atoi(message[at[2]:at[3]]) // at most nine digits: cannot fail
	return &Error{Code: code, Message: message[at[1]:]}
}

func refuse(code int, message string) *Error {
	return &Error{Code: code, Message: "DB::Exception: " + message}
}
