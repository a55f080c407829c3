package clickhouse

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
	"github.com/gpuhour/gpuhour/platform/store/storetest"
)

// startEngine opens the real engine over a directory of the test. A process holds one directory at a time, so no test
// of this package is parallel.
func startEngine(t testing.TB, dir string) *embedded.Engine {
	t.Helper()
	path, err := embedded.Library(t.Context(), nil)
	if err == nil {
		err = embedded.Load(path)
	}
	if err != nil {
		if os.Getenv("REQUIRE_STACK") == "1" {
			t.Fatalf("REQUIRE_STACK=1 and no engine: %v", err)
		}
		t.Skipf("NOT TESTED against ClickHouse: %v", err)
	}
	e, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func openStore(t *testing.T, client *clickhouse.Options, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// opener gives each case a database of its own in one engine.
func opener(client func() *clickhouse.Options) func(*testing.T) store.Store {
	var n atomic.Int64
	return func(t *testing.T) store.Store {
		return openStore(t, client(), Options{Database: fmt.Sprintf("case_%d", n.Add(1))})
	}
}

func TestConformanceEmbedded(t *testing.T) {
	storetest.Run(t, opener(startEngine(t, t.TempDir()).ClientOptions))
}

// TestConformanceHTTP goes over a real HTTP connection: parameters in URLs, chunked bodies.
func TestConformanceHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: run by go test work, not by the short suite")
	}
	server := httptest.NewServer(startEngine(t, t.TempDir()))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	storetest.Run(t, opener(func() *clickhouse.Options { return Server{Address: address}.client(clickhouse.HTTP) }))
}

func TestSocketReadsWhileTheEngineRuns(t *testing.T) {
	e := startEngine(t, t.TempDir())
	s := openStore(t, e.ClientOptions(), Options{Database: "名前"})
	if err := s.Put(t.Context(), blockOf(1)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := embedded.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()

	if _, err := OpenSocket(t.Context(), path, Options{Database: "missing"}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("open a missing database as a reader: %v; want an error that names it", err)
	}
	r, err := OpenSocket(t.Context(), path, Options{Database: "名前"})
	if err != nil {
		t.Fatal(err)
	}
	want := total(t, s)
	if got := total(t, r); got != want || got != 100 {
		t.Errorf("over the socket: %d; in process: %d; want 100", got, want)
	}
	r.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestMigrationsRunOnceAndRowsStay also loses the version table, as a power loss can: a second run does no harm.
func TestMigrationsRunOnceAndRowsStay(t *testing.T) {
	startEngine(t, t.TempDir()).Close() // is there an engine at all?
	dir := t.TempDir()
	for open := range 3 {
		s, _, err := OpenEmbedded(t.Context(), dir, embedded.Options{}, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if open == 0 {
			put(t, s, 1)
		}
		var applied uint64
		if err := s.conn.QueryRow(t.Context(), "SELECT count() FROM goose_db_version WHERE version_id = 1").Scan(&applied); err != nil {
			t.Fatal(err)
		}
		if got := total(t, s); got != 100 || applied != 1 {
			t.Errorf("opened %d times: total %d, migration applied %d times; want 100 and 1", open+1, got, applied)
		}
		if open == 1 {
			if err := s.conn.Exec(t.Context(), "DROP TABLE goose_db_version"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneInsertIsOnePart holds what makes a put whole: more rows than any other put has, one part a table.
func TestOneInsertIsOnePart(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: run by go test work, not by the short suite")
	}
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	o := meter.Outcome{Block: 1}
	for i := range 150_000 {
		e := meter.Entry{Lease: "l", Device: fmt.Sprint("gpu-", i%500), Hour: span.Hour(i), Key: meter.ChargeKey{Contract: "c", PeriodStart: 1}}
		o.Ledger = append(o.Ledger, meter.Difference{Entry: e, Block: 1, Amounts: meter.Amounts{Quantity: 1}})
	}
	if err := s.Put(t.Context(), store.Put{Outcomes: []meter.Outcome{o}, Progress: store.Progress{Service: "rater", Block: 1}}); err != nil {
		t.Fatal(err)
	}
	var parts, rows uint64
	err := s.conn.QueryRow(t.Context(), "SELECT count(), sum(rows) FROM system.parts WHERE database = currentDatabase() AND table = 'quantity'").Scan(&parts, &rows)
	if err != nil || parts != 1 || rows != 150_000 {
		t.Errorf("parts %d, rows %d, %v; want 1 part of 150000 rows", parts, rows, err)
	}
}

// TestProgressDoesNotGrow: a row is put at every tick, and the engine's own merges leave one a service: the highest, whatever
// was put after it.
func TestProgressDoesNotGrow(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	for _, p := range []store.Progress{
		{Service: "rater", Block: 1}, {Service: "rater", Block: 3, At: 7}, {Service: "rater", Block: 2}, {Service: "alerter", Block: 2},
	} {
		if err := s.Put(t.Context(), store.Put{Progress: p}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.conn.Exec(t.Context(), "OPTIMIZE TABLE progress FINAL"); err != nil {
		t.Fatal(err)
	}
	var rows uint64
	if err := s.conn.QueryRow(t.Context(), "SELECT count() FROM progress").Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d rows, %v; want 2", rows, err)
	}
	if p, err := s.Progress(t.Context(), "rater"); err != nil || p.Block != 3 || p.At != 7 {
		t.Errorf("progress %+v, %v; want block 3", p, err)
	}
}

// TestTablesAreSynced holds the settings without which a power loss takes acknowledged rows, or brings deleted ones
// back.
func TestTablesAreSynced(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	var name, ddl string
	tables := 0
	err := s.query(t.Context(), []any{&name, &ddl}, func() error {
		tables++
		for _, setting := range []string{
			"fsync_after_insert = 1", "fsync_part_directory = 1", "min_rows_to_fsync_after_merge = 1",
			"min_compressed_bytes_to_fsync_after_merge = 1",
		} {
			if !strings.Contains(ddl, setting) {
				t.Errorf("table %s has no %s", name, setting)
			}
		}
		return nil
	}, `SELECT name, create_table_query FROM system.tables
		WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name != 'goose_db_version'`)
	if err != nil || tables != 7 {
		t.Errorf("%d tables, %v; want 7", tables, err)
	}
}

func TestSumThatDoesNotFitIsAnError(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	p := blockOf(1)
	p.Outcomes[0].Ledger[0].Quantity = 1<<63 - 1
	if err := s.Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p = blockOf(2)
	p.Outcomes[0].Ledger[0].Quantity = 1<<63 - 1
	if err := s.Put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got, err := s.PeriodTotals(t.Context(), "c", 1, 2); err == nil {
		t.Errorf("a sum of 2^64-2 came back as %v; want an error", got)
	}
}

func TestInvoiceLinesForSQL(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	bill := store.Invoice{Series: "A", Number: 7, Customer: "acme", TotalMinor: "12", Lines: []store.InvoiceLine{
		{Line: 1, SKU: "h100", MilliGPUSeconds: 5, AmountMinor: "10"}, {Line: 2, SKU: "a100", MilliGPUSeconds: 6, AmountMinor: "2"},
	}}
	for range 2 {
		if err := s.PutInvoice(t.Context(), bill); err != nil {
			t.Fatal(err)
		}
	}
	var lines uint64
	var sum int64
	err := s.conn.QueryRow(t.Context(), "SELECT count(), sum(toInt64(amount_minor)) FROM invoice_line WHERE series = 'A' AND number = 7 AND customer = 'acme'").Scan(&lines, &sum)
	if err != nil || lines != 2 || sum != 12 {
		t.Errorf("%d lines of %d in all, %v; want 2 of 12", lines, sum, err)
	}
}

// blockOf is a put of one block with a ledger row of 100, a minute row, a device row and a refusal.
func blockOf(block uint64) store.Put {
	e := meter.Entry{Lease: "l", Device: "gpu", Hour: 10, Key: meter.ChargeKey{Customer: "acme", Contract: "c", PeriodStart: 1}}
	return store.Put{Outcomes: []meter.Outcome{{
		Block:    block,
		Rows:     []usage.Row{{Node: "n", Device: "gpu", Minute: 600, Block: block, Seen: span.Bit(int(block % 60)), Data: []byte{1}}},
		Ledger:   []meter.Difference{{Entry: e, Block: block, Amounts: meter.Amounts{Quantity: 100}}},
		Devices:  []meter.DeviceDifference{{DeviceEntry: meter.DeviceEntry{Node: "n", Device: "gpu", Hour: 10}, Block: block, DeviceSeconds: meter.DeviceSeconds{SeenLeased: 1}}},
		Refusals: []meter.Refusal{{ID: "f", Reason: "overlap", Block: block, Delta: 1}},
	}}, Progress: store.Progress{Service: "rater", Block: block}}
}

// total is the ledger's sum over all blocks.
func total(t *testing.T, s *Store) int64 {
	t.Helper()
	totals, err := s.PeriodTotals(t.Context(), "c", 1, 1<<63)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, row := range totals {
		sum += row.Quantity
	}
	return sum
}
