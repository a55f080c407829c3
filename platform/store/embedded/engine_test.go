package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

// holdEnv makes this test binary another process that has a directory open (see holdElsewhere).
const holdEnv = "EMBEDDED_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// hold opens dir, stores three rows, says so, and keeps it open until its input ends.
func hold(dir string) error {
	path, err := Library(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := Load(path); err != nil {
		return err
	}
	e, err := Open(dir, Options{Handles: 1})
	if err != nil {
		return err
	}
	for _, text := range []string{
		"CREATE TABLE kept (a Int64) ENGINE = MergeTree ORDER BY a",
		"INSERT INTO kept VALUES (1), (2), (3)",
	} {
		if _, err := e.run(context.Background(), statement{text: text}); err != nil {
			return err
		}
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// holdElsewhere has another process open dir. kill ends it as a crash does.
func holdElsewhere(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
	})
	t.Cleanup(kill)
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("the other process said %q", line)
	}
	return kill
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// load finds and loads the real library. Without it the tests are worth nothing, so CI sets REQUIRE_STACK=1.
func load(t testing.TB) {
	t.Helper()
	path, err := Library(context.Background(), func(stage string, done, total int64) {
		t.Logf("engine library: %s %d of %d bytes", stage, done, total)
	})
	if err == nil {
		err = Load(path)
	}
	if err != nil && os.Getenv("REQUIRE_STACK") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("NOT TESTED, THE ENGINE IS MISSING: %v", err)
	}
}

func open(t testing.TB, dir string, o Options) *Engine {
	t.Helper()
	load(t)
	e, err := Open(dir, o)
	ok(t, err)
	t.Cleanup(e.Close)
	return e
}

func dial(t testing.TB, o *clickhouse.Options) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(o)
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// fresh is a client of an engine over an empty directory.
func fresh(t testing.TB, o Options) driver.Conn {
	t.Helper()
	return dial(t, open(t, t.TempDir(), o).ClientOptions())
}

func do(t testing.TB, conn driver.Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// one reads the one value that a query answers.
func one[T any](t testing.TB, conn driver.Conn, text string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// insert sends rows as one batch.
func insert(ctx context.Context, conn driver.Conn, text string, rows ...[]any) error {
	batch, err := conn.PrepareBatch(ctx, text)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := batch.Append(row...); err != nil {
			return errors.Join(err, batch.Abort())
		}
	}
	return batch.Send()
}

// codeOf is ClickHouse's number of the error, as the client reports it; 0 when it has none.
func codeOf(err error) int32 {
	var exception *clickhouse.Exception
	if !errors.As(err, &exception) {
		return 0
	}
	return exception.Code
}

func contains(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

func TestReopenSeesTheRowsAndAnotherDirectoryOpensAfterClose(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	e := open(t, dir, Options{Handles: 2})
	conn := dial(t, e.ClientOptions())
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a", "INSERT INTO t VALUES (7)")

	_, err := Open(other, Options{Handles: 1})
	contains(t, err, "this process has", "close that one first")
	e.Close()
	_, err = conn.Query(t.Context(), "SELECT 1")
	same(t, "code after Close", int32(codeAborted), codeOf(err))

	second := open(t, other, Options{Handles: 1})
	same(t, "tables of the other directory", 0, int(one[uint64](t, dial(t, second.ClientOptions()), "SELECT count() FROM system.tables WHERE database = 'default'")))
	second.Close()

	again := dial(t, open(t, dir, Options{Handles: 1}).ClientOptions())
	same(t, "row after reopening", int64(7), one[int64](t, again, "SELECT a FROM t"))
}

func TestRowsSurviveAKilledProcessAndItsDirectoryIsLockedBefore(t *testing.T) {
	load(t)
	dir := t.TempDir()
	kill := holdElsewhere(t, dir)
	_, err := Open(dir, Options{Handles: 1})
	contains(t, err, dir, "another process has it open", "PID: ")
	if !errors.Is(err, ErrLocked) {
		t.Errorf("%v is not ErrLocked", err)
	}
	kill()
	conn := dial(t, open(t, dir, Options{Handles: 1}).ClientOptions())
	same(t, "rows of the killed process", []int64{1, 2, 3}, one[[]int64](t, conn, "SELECT groupArray(a) FROM (SELECT a FROM kept ORDER BY a)"))
}

func TestTwoGoroutinesOpenTheSameDirectory(t *testing.T) {
	load(t)
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	ok(t, os.Symlink(dir, link))
	engines, errs := make([]*Engine, 2), make([]error, 2)
	var wg sync.WaitGroup
	for i, name := range []string{dir, link} {
		wg.Go(func() { engines[i], errs[i] = Open(name, Options{Handles: 1}) })
	}
	wg.Wait()
	ok(t, errors.Join(errs...))
	t.Cleanup(engines[1].Close)
	do(t, dial(t, engines[0].ClientOptions()), "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a", "INSERT INTO t VALUES (5)")
	engines[0].Close()
	same(t, "row seen by the other engine", int64(5), one[int64](t, dial(t, engines[1].ClientOptions()), "SELECT a FROM t"))
}

func TestCloseWaitsForRunningStatements(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 1})
	running, err := e.acquire(t.Context())
	ok(t, err)
	closed := make(chan struct{})
	go func() { e.Close(); close(closed) }()
	<-e.closing
	select {
	case <-closed:
		t.Fatal("Close returned while a statement ran")
	default:
	}
	out, err := running.run(t.Context(), statement{text: "SELECT 1", format: "TSV"})
	ok(t, err)
	same(t, "answer while closing", "1\n", string(out))
	e.pool <- running
	<-closed
	if _, err := e.acquire(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("acquire after Close: %v", err)
	}
}

func TestWaitingForASessionEndsWithTheContext(t *testing.T) {
	e := open(t, t.TempDir(), Options{Handles: 1})
	conn := dial(t, e.ClientOptions())
	ok(t, conn.Ping(t.Context()))
	busy, err := e.acquire(t.Context())
	ok(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- conn.Exec(ctx, "SELECT 1") }()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	e.pool <- busy
	ok(t, conn.Exec(t.Context(), "SELECT 1"))
}

func TestOpenRefuses(t *testing.T) {
	load(t)
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	_, err := Open("", Options{})
	contains(t, err, "no name")
	_, err = Open(file, Options{})
	contains(t, err, file, "not a directory")
	_, err = Open(t.TempDir(), Options{Handles: -1})
	contains(t, err, "negative")
	contains(t, Load(file), "loaded already")
}

func TestMemoryLimitEndsTheStatementAndNotTheEngine(t *testing.T) {
	conn := fresh(t, Options{Handles: 2, MemoryLimitBytes: 256 << 20})
	err := conn.Exec(t.Context(), "SELECT length(groupArray(number)) FROM numbers(200000000)")
	same(t, "code", int32(241), codeOf(err))
	same(t, "next answer", uint8(1), one[uint8](t, conn, "SELECT 1"))
}

func TestConcurrentInsertersAndReaders(t *testing.T) {
	const inserters, batches, rows = 8, 10, 500
	conn := fresh(t, Options{Handles: 4})
	do(t, conn, "CREATE TABLE t (who UInt8, n UInt64) ENGINE = MergeTree ORDER BY (who, n)")
	var wg sync.WaitGroup
	for who := range inserters {
		wg.Go(func() {
			for b := range batches {
				block := make([][]any, rows)
				for i := range block {
					block[i] = []any{uint8(who), uint64(b*rows + i)}
				}
				if err := insert(t.Context(), conn, "INSERT INTO t", block...); err != nil {
					t.Errorf("inserter %d: %v", who, err)
				}
			}
		})
		wg.Go(func() {
			for range batches {
				var whole bool
				if err := conn.QueryRow(t.Context(), "SELECT count() % 500 = 0 FROM t WHERE who = $1", uint8(who)).Scan(&whole); err != nil || !whole {
					t.Errorf("reader %d: whole batches %v, %v", who, whole, err)
				}
			}
		})
	}
	wg.Wait()
	same(t, "rows", uint64(inserters*batches*rows), one[uint64](t, conn, "SELECT count() FROM t"))
	same(t, "distinct rows", uint64(inserters*batches*rows), one[uint64](t, conn, "SELECT uniqExact(who, n) FROM t"))
}
