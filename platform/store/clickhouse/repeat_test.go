package clickhouse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// TestLateInsertIsDropped: the sender of block 2 gave up and starts again. Boot finds nothing to delete, because the
// first insert is still under way; it lands, and the same rows are put again.
func TestLateInsertIsDropped(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	put(t, s, 1)
	if err := s.Trim(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.putRows(t.Context(), blockOf(2)); err != nil { // lands late
		t.Fatal(err)
	}
	put(t, s, 2)
	if got := total(t, s); got != 200 {
		t.Errorf("total %d; want 200: the rows of block 2 count once", got)
	}
	other := blockOf(2)
	other.Outcomes[0].Ledger[0].Quantity = 7
	if err := s.putRows(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := total(t, s); got != 207 {
		t.Errorf("total %d; want 207: other rows of the same block are no repeat", got)
	}
}

// TestDeletedRowsCanBePutAgain in another process too, where only the tables remember that there was a delete.
func TestDeletedRowsCanBePutAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: run by go test work, not by the short suite")
	}
	dir := t.TempDir()
	for round := range 3 {
		e := startEngine(t, dir)
		s := openStore(t, e.ClientOptions(), Options{})
		if err := s.putRows(t.Context(), blockOf(2)); err != nil {
			t.Fatal(err)
		}
		if got := total(t, s); got != 100 {
			t.Errorf("round %d: total %d; want 100: rows put after a delete are no repeat", round, got)
		}
		if err := s.Trim(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := total(t, s); got != 0 {
			t.Errorf("round %d: total %d after trim; want 0", round, got)
		}
		s.Close()
		e.Close()
	}
}

// TestKilledWhileItPuts kills a process between two answers, again and again: what was acknowledged is there, and no
// row counts twice.
func TestKilledWhileItPuts(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: run by go test work, not by the short suite")
	}
	startEngine(t, t.TempDir()).Close() // is there an engine at all?
	dir := t.TempDir()
	for round := range 3 {
		acknowledged := killAfter(t, "put", dir, 3+4*round)
		e := startEngine(t, dir)
		s := openStore(t, e.ClientOptions(), Options{})
		p, err := s.Progress(t.Context(), "rater")
		if err != nil {
			t.Fatal(err)
		}
		if p.Block < acknowledged {
			t.Errorf("progress %d; block %d was acknowledged", p.Block, acknowledged)
		}
		if err := s.Trim(t.Context(), p.Block); err != nil {
			t.Fatal(err)
		}
		if got, want := total(t, s), int64(p.Block)*100; got != want {
			t.Errorf("total %d at block %d; want %d", got, p.Block, want)
		}
		s.Close()
		e.Close()
	}
}

// TestKilledWhileItDeletes: the delete of the process that was killed goes on in the next one, and must not meet the
// rows that are put again.
func TestKilledWhileItDeletes(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: run by go test work, not by the short suite")
	}
	startEngine(t, t.TempDir()).Close()
	dir := t.TempDir()
	killAfter(t, "delete", dir, 1)
	for range 2 { // the second time nothing is to be done, and nothing has changed
		e := startEngine(t, dir)
		s := openStore(t, e.ClientOptions(), Options{})
		if err := boot(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		p, err := s.Progress(t.Context(), "rater")
		if err != nil {
			t.Fatal(err)
		}
		for p.Block < 3 {
			p.Block++
			put(t, s, p.Block)
		}
		if got := total(t, s); got != 300 {
			t.Errorf("total %d; want 300", got)
		}
		var rows uint64
		if err := s.conn.QueryRow(t.Context(), "SELECT (SELECT count() FROM minute) * 100 + (SELECT count() FROM refusal)").Scan(&rows); err != nil || rows != 303 {
			t.Errorf("rows %d, %v; want 303", rows, err)
		}
		s.Close()
		e.Close()
	}
}

func put(t *testing.T, s *Store, block uint64) {
	t.Helper()
	if err := s.Put(t.Context(), blockOf(block)); err != nil {
		t.Fatal(err)
	}
}

func boot(ctx context.Context, s *Store) error {
	p, err := s.Progress(ctx, "rater")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.Trim(ctx, p.Block)
}

// childEnv makes the test binary a process that a test kills: it names what to do.
const childEnv = "GPUHOUR_STORE_TEST_CHILD"

// killAfter starts a child over dir and kills it when it has written a number of lines; the last one is returned.
func killAfter(t *testing.T, what, dir string, lines int) uint64 {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+what, childEnv+"_DIR="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var block uint64
	scanner := bufio.NewScanner(out)
	for range lines {
		if !scanner.Scan() {
			t.Fatalf("the child ended before it was killed: %v", child.Wait())
		}
		if _, err := fmt.Sscan(scanner.Text(), &block); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, out)
	child.Wait() // an error: it was killed
	return block
}

func TestMain(m *testing.M) {
	what := os.Getenv(childEnv)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := child(context.Background(), what, os.Getenv(childEnv+"_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(ctx context.Context, what, dir string) error {
	s, _, err := OpenEmbedded(ctx, dir, embedded.Options{}, nil, Options{})
	if err != nil {
		return err
	}
	if what == "delete" {
		return deleteUntilKilled(ctx, s)
	}
	if err := boot(ctx, s); err != nil {
		return err
	}
	p, err := s.Progress(ctx, "rater")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for block := p.Block + 1; ; block++ {
		if err := s.Put(ctx, blockOf(block)); err != nil {
			return err
		}
		fmt.Println(block)
	}
}

// deleteUntilKilled leaves block 3 without progress and its delete begun but not waited for.
func deleteUntilKilled(ctx context.Context, s *Store) error {
	for block := range uint64(2) {
		if err := s.Put(ctx, blockOf(block+1)); err != nil {
			return err
		}
	}
	if err := s.putRows(ctx, blockOf(3)); err != nil {
		return err
	}
	at := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 0, "lightweight_deletes_sync": 0}))
	for _, t := range rowTables() {
		if err := s.insert(ctx, trimTable(), "", [][]any{{t.name, uint64(2), uint64(1)}}); err != nil {
			return err
		}
		if err := s.conn.Exec(at, "DELETE FROM "+t.name+" WHERE block > 2"); err != nil {
			return err
		}
	}
	fmt.Println(3)
	select {}
}
