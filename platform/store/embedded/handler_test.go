package embedded

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

func settings(t testing.TB, s clickhouse.Settings) context.Context {
	return clickhouse.Context(t.Context(), clickhouse.WithSettings(s))
}

func TestErrorsCarryTheEnginesCode(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	for text, code := range map[string]int32{
		"SELECT * FROM nosuch":               60,
		"SELEC 1":                            62,
		"SELECT throwIf(1, 'stop')":          395,
		"INSERT INTO nosuch VALUES (1)":      60,
		"INSERT INTO nosuch FORMAT TSV\n1":   60,
		"SELECT {missing:Int64}":             456,
		"SELECT 1; SELECT 2":                 codeSyntax,
		"INSERT INTO x VALUES (1); SELECT 2": codeSyntax,
		"SET max_threads = 1":                codeNotImplemented,
		" -- x\n/* y */ USE system":          codeNotImplemented,
		"CREATE TEMPORARY TABLE x (a Int8)":  codeNotImplemented,
	} {
		err := conn.Exec(t.Context(), text)
		same(t, text, code, codeOf(err))
		same(t, "answer after "+text, uint8(1), one[uint8](t, conn, "SELECT 1"))
	}
	contains(t, conn.Exec(t.Context(), "SELECT throwIf(1, 'stop')"), "395", "stop")
}

// Case B141: a good batch must not fail because the one before it on the connection was bad.
func TestAGoodBatchFollowsABadOne(t *testing.T) {
	o := open(t, t.TempDir(), Options{Handles: 1}).ClientOptions()
	o.MaxOpenConns, o.MaxIdleConns = 1, 1
	conn := dial(t, o)
	do(t, conn, "CREATE TABLE t (a Int64, CONSTRAINT small CHECK a < 10) ENGINE = MergeTree ORDER BY a")
	same(t, "code of the bad batch", int32(469), codeOf(insert(t.Context(), conn, "INSERT INTO t", []any{int64(1)}, []any{int64(11)})))
	ok(t, insert(t.Context(), conn, "INSERT INTO t", []any{int64(2)}, []any{int64(3)}))
	same(t, "rows", []int64{2, 3}, one[[]int64](t, conn, "SELECT groupArray(a) FROM (SELECT a FROM t ORDER BY a)"))
}

// post sends one request to the handler as any HTTP client would, and returns the answer's code and body.
func post(e *Engine, method, url string, body io.Reader, header ...string) (code, text string) {
	r := httptest.NewRequest(method, url, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w.Header().Get("X-ClickHouse-Exception-Code"), w.Body.String()
}

func TestPlainHTTP(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 1})
	_, text := post(e, "GET", "/ping", nil)
	same(t, "ping", "Ok.\n", text)
	_, text = post(e, "POST", "/", strings.NewReader("SELECT 1, 'a\tb'"))
	same(t, "TabSeparated by default", "1\ta\\tb\n", text)
	_, text = post(e, "GET", "/?query=SELECT+2&default_format=JSONEachRow", nil)
	same(t, "format of the URL", "{\"2\":2}\n", text)
	_, text = post(e, "POST", "/?query=SELECT+3%2B", strings.NewReader("4 FORMAT CSV"))
	same(t, "statement in two halves", "7\n", text)
	code, _ := post(e, "GET", "/?query=CREATE+TABLE+g+(a+Int8)+ENGINE%3DMemory", nil)
	same(t, "GET that changes", "164", code)
	_, text = post(e, "POST", "/?database=system", strings.NewReader("SELECT currentDatabase()"))
	same(t, "database", "system\n", text)
	_, text = post(e, "POST", "/", strings.NewReader("SELECT currentDatabase()"))
	same(t, "database of the next request", "default\n", text)
	code, _ = post(e, "POST", "/?database=nosuch", strings.NewReader("SELECT 1"))
	same(t, "unknown database", "81", code)

	for name, status := range map[string]int{"PUT /": 405, "GET /replicas_status": 404} {
		method, path, _ := strings.Cut(name, " ")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		same(t, name, status, w.Code)
	}
}

func TestRefusesWhatItWouldMisread(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 1})
	for url, want := range map[string]string{
		"/?compress=1":        "48 compression is off",
		"/?decompress=1":      "48 compression is off",
		"/?session_id=a":      "48 sessions are not supported",
		"/?async_insert=1":    "36 async_insert is off",
		"/?a%3D1%2Cb=2":       "36 no name of a setting",
		"/?nosuch_setting=1":  "115 Unknown setting",
		"/?max_threads=loads": "",
	} {
		code, text := post(e, "POST", url, strings.NewReader("SELECT 1"))
		wantCode, wantText, _ := strings.Cut(want, " ")
		if code == "" || (wantCode != "" && code != wantCode) || !strings.Contains(text, wantText) {
			t.Errorf("%s: code %s, %s; want %s", url, code, text, want)
		}
		_, text = post(e, "POST", "/", strings.NewReader("SELECT 1"))
		same(t, "answer after "+url, "1\n", text)
	}
	code, _ := post(e, "POST", "/", strings.NewReader("x"), "Content-Encoding", "gzip")
	same(t, "gzip body", "48", code)
	code, _ = post(e, "POST", "/", strings.NewReader("x"), "Content-Type", "multipart/form-data; boundary=x")
	same(t, "external table", "48", code)

	o := e.ClientOptions()
	o.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	contains(t, dial(t, o).Ping(t.Context()), "compression is off here")
}

// A request that breaks off must leave nothing behind, even when it breaks off between two whole rows.
func TestABrokenOffInsertStoresNothing(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 1})
	conn := dial(t, e.ClientOptions())
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
	const url = "/?query=INSERT+INTO+t+FORMAT+TSV"
	code, text := post(e, "POST", url, io.MultiReader(strings.NewReader("1\n2\n"), broken{io.ErrUnexpectedEOF}))
	same(t, "code", "210", code)
	if !strings.Contains(text, "unexpected EOF") {
		t.Errorf("the reason is missing: %s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("POST", url, io.MultiReader(strings.NewReader("1\n2\n"), canceling{cancel})).WithContext(ctx)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	same(t, "code of a cancelled insert", "236", w.Header().Get("X-ClickHouse-Exception-Code"))
	code, _ = post(e, "POST", "/?query=INSERT+INTO+t+FORMAT+Native", strings.NewReader("\x01\x05\x01a\x05Int64\x00\x00"))
	same(t, "code of a truncated block", "33", code)
	same(t, "rows", uint64(0), one[uint64](t, conn, "SELECT count() FROM t"))
	ok(t, insert(t.Context(), conn, "INSERT INTO t", []any{int64(1)}))
	same(t, "rows after a good insert", uint64(1), one[uint64](t, conn, "SELECT count() FROM t"))
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

type canceling struct{ cancel func() }

func (c canceling) Read([]byte) (int, error) { c.cancel(); return 0, io.EOF }

func TestSettingsHoldForOneStatement(t *testing.T) {
	conn := fresh(t, Options{Handles: 1, MemoryLimitBytes: 1 << 30})
	const text = "SELECT concat(toString(getSetting('max_threads') = 3), toString(getSetting('async_insert')), getSetting('session_timezone'), toString(getSetting('max_memory_usage')))"
	const base = "0falseUTC1073741824"
	same(t, "before", base, one[string](t, conn, text))
	var got string
	ok(t, conn.QueryRow(settings(t, clickhouse.Settings{"max_threads": 3, "session_timezone": "Asia/Tokyo", "max_memory_usage": 0}), text).Scan(&got))
	same(t, "with settings", "1falseAsia/Tokyo0", got)
	same(t, "after", base, one[string](t, conn, text))
	// A setting that forbids changing settings must not survive its statement.
	ok(t, conn.QueryRow(settings(t, clickhouse.Settings{"readonly": 1}), "SELECT 'x'").Scan(&got))
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
	same(t, "code of an unknown setting", int32(115), codeOf(conn.Exec(settings(t, clickhouse.Settings{"max_threads": 3, "nosuch": 1}), "SELECT 1")))
	same(t, "after an unknown setting", base, one[string](t, conn, text))
	ok(t, conn.QueryRow(settings(t, clickhouse.Settings{"log_comment": "it's \\ '"}), "SELECT getSetting('log_comment')").Scan(&got))
	same(t, "quoted value", "it's \\ '", got)
}

func TestAsyncInsertIsRefused(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
	err := insert(clickhouse.Context(t.Context(), clickhouse.WithAsync(false)), conn, "INSERT INTO t", []any{int64(1)})
	contains(t, err, "async_insert is off here")
	same(t, "rows", uint64(0), one[uint64](t, conn, "SELECT count() FROM t"))
}

func TestDeduplicationTokenIsHonoured(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100")
	for _, put := range []struct {
		token string
		value int64
	}{{"one", 1}, {"one", 2}, {"two", 3}, {"two", 3}, {"three", 3}} {
		ok(t, insert(settings(t, clickhouse.Settings{"insert_deduplication_token": put.token}), conn, "INSERT INTO t", []any{put.value}))
	}
	same(t, "rows", []int64{1, 3, 3}, one[[]int64](t, conn, "SELECT groupArray(a) FROM (SELECT a FROM t ORDER BY a)"))
	// Without a token the block's own hash counts, so a token must not linger on the session.
	ok(t, insert(t.Context(), conn, "INSERT INTO t", []any{int64(4)}))
	same(t, "rows without a token", uint64(4), one[uint64](t, conn, "SELECT count() FROM t"))
}

func TestNamedParameters(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	text := "O'Brien \\ \"x\"\t\n{a:Int64} ; é \x00 end"
	same(t, "string", text, one[string](t, conn, "SELECT {s:String}", clickhouse.Named("s", text)))
	same(t, "empty string", "", one[string](t, conn, "SELECT {s:String}", clickhouse.Named("s", "")))
	same(t, "smallest integer", int64(math.MinInt64), one[int64](t, conn, "SELECT {i:Int64}", clickhouse.Named("i", int64(math.MinInt64))))
	same(t, "array", []uint64{1, math.MaxUint64}, one[[]uint64](t, conn, "SELECT {a:Array(UInt64)}", clickhouse.Named("a", []uint64{1, math.MaxUint64})))
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
	ok(t, conn.Exec(t.Context(), "INSERT INTO {table:Identifier} VALUES ({a:Int64})", clickhouse.Named("table", "t"), clickhouse.Named("a", 8)))
	same(t, "inserted", int64(8), one[int64](t, conn, "SELECT a FROM t"))
}

func TestTheServerIsTheRealOne(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 1})
	conn := dial(t, e.ClientOptions())
	v, err := conn.ServerVersion()
	ok(t, err)
	same(t, "version", one[string](t, conn, "SELECT version()"), e.EngineVersion())
	same(t, "revision of the handshake", uint64(0), v.Revision)
	same(t, "time zone of the handshake", one[string](t, conn, "SELECT timezone()"), v.Timezone.String())
}

func TestUnixSocketEndToEnd(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 2})
	path := t.TempDir() + "/ch.sock"
	l, err := Listen(path)
	ok(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()

	conn := dial(t, SocketOptions(path))
	do(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10")
	for range 2 {
		batch, err := conn.PrepareBatch(settings(t, clickhouse.Settings{"insert_deduplication_token": "x"}), "INSERT INTO t")
		ok(t, err)
		sendNumbers(t, batch.Column(0), 300_000)
		ok(t, batch.Send())
	}
	same(t, "rows", uint64(300_000), one[uint64](t, conn, "SELECT count() FROM t"))
	same(t, "rows seen in process", uint64(300_000), one[uint64](t, dial(t, e.ClientOptions()), "SELECT count() FROM t"))
	same(t, "code", int32(60), codeOf(conn.Exec(t.Context(), "SELECT * FROM nosuch")))
	same(t, "big result", 300_000, count(t, conn, "SELECT a FROM t"))
	_, err = Listen(path)
	contains(t, err, path, "another process answers there")

	stop()
	ok(t, <-served)
	_, err = dial(t, SocketOptions(path)).ServerVersion()
	contains(t, err, path, "is the process that serves it running?")
}

func count(t testing.TB, conn driver.Conn, text string) int {
	t.Helper()
	rows, err := conn.Query(t.Context(), text)
	ok(t, err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	ok(t, rows.Err())
	return n
}

func TestListenReplacesOnlyADeadSocket(t *testing.T) {
	path := t.TempDir() + "/dead.sock"
	first, err := Listen(path)
	ok(t, err)
	info, err := os.Stat(path)
	ok(t, err)
	same(t, "mode", os.FileMode(0o600), info.Mode().Perm())
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	ok(t, first.Close())
	second, err := Listen(path)
	ok(t, err)
	ok(t, second.Close())
	ok(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err = Listen(path)
	contains(t, err, path, "no socket")
	text, err := os.ReadFile(path)
	ok(t, err)
	same(t, "the file is untouched", "mine", string(text))
}

// A RoundTripper owes the body its Close, also when the caller has gone.
func TestTransportClosesTheBody(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-leave })
	ctx, cancel := context.WithCancel(t.Context())
	body := &closing{Reader: strings.NewReader("x"), closed: make(chan struct{})}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", body)
	ok(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := transport{h}.RoundTrip(r)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("want context.Canceled, got %v, %v", res, err)
		}
	})
	<-entered
	cancel()
	wg.Wait()
	close(leave)
	<-body.closed
}

type closing struct {
	io.Reader
	closed chan struct{}
}

func (c *closing) Close() error { close(c.closed); return nil }
