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

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
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

// TestLateInsertCutOtherwise: a rater was killed while its server took the rows of blocks 2 and 3. The next one finds nothing
// to delete and puts the same rows, cut into other blocks: no token knows them. Each row counts once.
func TestLateInsertCutOtherwise(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	put(t, s, 1)
	if err := s.Trim(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	late := blockOf(2)
	late.Outcomes = append(late.Outcomes, blockOf(3).Outcomes...)
	if err := s.putRows(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	put(t, s, 2)
	put(t, s, 3)
	var stored uint64
	if err := s.conn.QueryRow(t.Context(), "SELECT count() FROM quantity").Scan(&stored); err != nil || stored != 5 {
		t.Fatalf("%d rows are stored, %v; want 5, two of them twice", stored, err)
	}
	if got := total(t, s); got != 300 {
		t.Errorf("total %d; want 300", got)
	}
	unit := []meter.UnitHour{{Unit: meter.Unit{Device: "gpu"}, Hour: 10}}
	ledger, devices, err := s.Standing(t.Context(), unit, 3)
	if e := blockOf(1).Outcomes[0]; err != nil || ledger[e.Ledger[0].Entry].Quantity != 300 || devices[e.Devices[0].DeviceEntry].SeenLeased != 3 {
		t.Errorf("standing %v, %v, %v; want 300 and 3", ledger, devices, err)
	}
	rows, err := s.Minutes(t.Context(), []meter.MinuteRange{{Device: "gpu", From: 600, To: 601}}, 3)
	if err != nil || len(rows) != 3 {
		t.Errorf("%d minute rows, %v; want 3", len(rows), err)
	}
	refusals, err := s.OpenRefusals(t.Context(), 3)
	if err != nil || len(refusals) != 1 || refusals[0].Delta != 3 {
		t.Errorf("refusals %v, %v; want one, raised three times", refusals, err)
	}
	seconds, err := s.DeviceTotals(t.Context(), span.Span{From: 0, To: span.Open}, 3)
	if err != nil || len(seconds) != 1 || seconds[0].SeenLeased != 3 {
		t.Errorf("device totals %v, %v; want 3 seconds", seconds, err)
	}
}

// TestTwoWriters: a second rater starts while the first one has put rows of block 3 and not yet its progress. Whatever either
// of them does then, the rows below progress are whole and count once.
func TestTwoWriters(t *testing.T) {
	e := startEngine(t, t.TempDir())
	first, second := openStore(t, e.ClientOptions(), Options{}), openStore(t, e.ClientOptions(), Options{})
	stands := func(what string, block uint64) {
		t.Helper()
		for _, s := range []*Store{first, second} {
			if p, err := s.Progress(t.Context(), "rater"); err != nil || p.Block != block {
				t.Errorf("%s: progress is %d, %v; want %d", what, p.Block, err, block)
			}
			totals, err := s.PeriodTotals(t.Context(), "c", 1, block)
			if err != nil || len(totals) != 1 || totals[0].Quantity != int64(block)*100 {
				t.Errorf("%s: up to block %d stands %v, %v", what, block, totals, err)
			}
		}
	}
	put(t, first, 1)
	put(t, first, 2)
	if err := first.putRows(t.Context(), blockOf(3)); err != nil {
		t.Fatal(err)
	}
	if err := second.Trim(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := first.insert(t.Context(), progressTable(), "", [][]any{progressRow(blockOf(3).Progress, first.run)}); err != nil {
		t.Fatal(err)
	}
	stands("the first one's progress comes after the second one's delete", 2)
	if err := first.conn.Exec(t.Context(), "OPTIMIZE TABLE progress FINAL"); err != nil {
		t.Fatal(err)
	}
	stands("and the engine merges", 2)
	if err := first.Put(t.Context(), blockOf(4)); !errors.Is(err, store.ErrOtherWriter) {
		t.Errorf("the first one puts on: %v", err)
	}
	if err := first.putRows(t.Context(), blockOf(3)); err != nil { // an insert that was under way all the time
		t.Fatal(err)
	}
	if err := first.Trim(t.Context(), 3); !errors.Is(err, store.ErrOtherWriter) {
		t.Errorf("the first one starts at a progress that it read before the delete: %v", err)
	}
	put(t, second, 3)
	stands("the second one puts the block again", 3)
	if err := first.Trim(t.Context(), 3); err != nil { // it starts again
		t.Fatal(err)
	}
	put(t, first, 4)
	put(t, second, 4)
	stands("both put the same block", 4)
}

// TestRowsAlikeInOneBlock: they add up, where they are put, before reads count what is alike once.
func TestRowsAlikeInOneBlock(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	p := blockOf(1)
	o := &p.Outcomes[0]
	o.Ledger, o.Devices, o.Refusals = append(o.Ledger, o.Ledger...), append(o.Devices, o.Devices...), append(o.Refusals, o.Refusals...)
	if err := s.Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := total(t, s); got != 200 {
		t.Errorf("total %d; want 200", got)
	}
	if r, err := s.OpenRefusals(t.Context(), 1); err != nil || len(r) != 1 || r[0].Delta != 2 {
		t.Errorf("refusals %v, %v; want one, raised twice", r, err)
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
	if err := s.beginRun(ctx, 2); err != nil {
		return err
	}
	for _, t := range rowTables() {
		if err := s.conn.Exec(at, "DELETE FROM "+t.name+" WHERE block > 2"); err != nil {
			return err
		}
	}
	fmt.Println(3)
	select {}
}
