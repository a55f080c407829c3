package clickhouse

import (
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// TestTraps shows what ClickHouse does to who does not know it, one line for each trap, and beside it what keeps it away
// from money. Where the answer needs more than a line, the test that shows it is named.
func TestTraps(t *testing.T) {
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	one := func(what, query, want string) {
		t.Helper()
		var got string
		if err := s.conn.QueryRow(t.Context(), "SELECT toString("+query+")").Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s is %q, %v; want %q", what, query, got, err, want)
		}
	}
	do := func(statement string, settings ...clickhouse.Settings) {
		t.Helper()
		ctx := t.Context()
		for _, v := range settings {
			ctx = clickhouse.Context(ctx, clickhouse.WithSettings(v))
		}
		if err := s.conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	ours := "(SELECT count() FROM system.tables WHERE database = currentDatabase() AND name IN ('minute', 'quantity', 'device_hour', 'refusal', 'invoice') AND "

	one("sums wrap", "(SELECT sum(x) FROM (SELECT toInt64(9223372036854775807) AS x FROM numbers(2)))", "-2")
	// TestSumThatDoesNotFitIsAnError.

	one("a decimal division loses digits silently", "toDecimal32('0.0001', 4) / toDecimal32('3', 4)", "0")
	one("no column of ours is a decimal or a float", `(SELECT count() FROM system.columns
		WHERE database = currentDatabase() AND (type LIKE '%Decimal%' OR type LIKE '%Float%'))`, "0")

	one("inserts are acknowledged before they are stored", "(SELECT default FROM system.settings WHERE name = 'async_insert')", "1")
	one("not ours", "getSetting('async_insert')", "false")

	one("acknowledged rows are not synced", "(SELECT groupArray(value) FROM system.merge_tree_settings WHERE name IN ('fsync_after_insert', 'fsync_part_directory'))", "['0','0']")
	// TestTablesAreSynced.

	token := clickhouse.Settings{"insert_deduplication_token": "the same"}
	do("CREATE TABLE dedup (x Int64) ENGINE = MergeTree ORDER BY x SETTINGS non_replicated_deduplication_window = 10")
	do("INSERT INTO dedup SELECT 1", token)
	do("INSERT INTO dedup SELECT 2", token)
	one("a token drops other rows too", "(SELECT groupArray(x) FROM dedup)", "[1]")
	// TestLateInsertIsDropped: our tokens hold the rows. TestLateInsertCutOtherwise: what no token catches.

	do("CREATE TABLE replaced (x Int64, v Int64) ENGINE = ReplacingMergeTree(v) PARTITION BY v ORDER BY x")
	do("INSERT INTO replaced SELECT 1, 1")
	do("INSERT INTO replaced SELECT 1, 2")
	one("rows that are to be replaced are there", "(SELECT sum(v) FROM replaced)", "3")
	one("FINAL does not see through partitions", "(SELECT sum(v) FROM replaced FINAL SETTINGS do_not_merge_across_partitions_select_final = 1)", "3")
	one("no row of ours is replaced, and no table has partitions", ours+"engine = 'MergeTree' AND partition_key = '')", "5")
	// TestProgressDoesNotGrow: progress is replaced, and read by its highest block.

	do("CREATE TABLE parts (x Int64) ENGINE = MergeTree PARTITION BY x ORDER BY x")
	do("INSERT INTO parts SELECT number FROM numbers(3)")
	one("one insert is many parts", "(SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = 'parts')", "3")
	// TestOneInsertIsOnePart; and of several tables: "rows above the block are invisible" in storetest, TestKilledWhileItPuts.

	do("CREATE TABLE viewed (x Int64) ENGINE = MergeTree ORDER BY x")
	do("CREATE MATERIALIZED VIEW seen ENGINE = MergeTree ORDER BY x AS SELECT x FROM viewed")
	do("INSERT INTO viewed SELECT 1")
	do("INSERT INTO viewed SELECT 1")
	one("views take every try of an insert", "(SELECT count() FROM seen)", "2")
	do("DROP VIEW seen")
	one("there is no view of ours that stores rows", "(SELECT count() FROM system.tables WHERE database = currentDatabase() AND engine = 'MaterializedView')", "0")
}

// TestManyOpenAtOnce: services that start together each make the database and the tables.
func TestManyOpenAtOnce(t *testing.T) {
	e := startEngine(t, t.TempDir())
	for round := range 3 {
		o := Options{Database: "at_once_" + strings.Repeat("i", round+1)}
		var wg sync.WaitGroup
		failed := make([]error, 4)
		for i := range failed {
			wg.Go(func() {
				s, err := Open(t.Context(), e.ClientOptions(), o)
				if err == nil {
					err = s.Close()
				}
				failed[i] = err
			})
		}
		wg.Wait()
		for _, err := range failed {
			if err != nil {
				t.Error(err)
			}
		}
		put(t, openStore(t, e.ClientOptions(), o), 1)
	}
}
