package clickhouse

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

func TestZZIns(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	dir := t.TempDir()
	e := startEngine(t, dir)
	s := openStore(t, e.ClientOptions(), Options{})
	lap := func(what string, n int, f func(i int) error) {
		if err := f(-1); err != nil {
			t.Log(what, err)
			return
		}
		t0 := time.Now()
		c0 := cpu()
		for i := range n {
			if err := f(i); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %v cpu %v", what, time.Since(t0)/time.Duration(n), (cpu()-c0)/time.Duration(n))
	}
	s.conn.Exec(t.Context(), "SYSTEM STOP MERGES")
	with := func(set clickhouse.Settings) context.Context { return clickhouse.Context(t.Context(), clickhouse.WithSettings(set)) }
	p := [][]any{progressRow(blockOf(1).Progress)}
	s.conn.Exec(t.Context(), "create table nul (a UInt64) engine=Null")
	s.conn.Exec(t.Context(), "create table plain (a UInt64) engine=MergeTree order by a")
	s.conn.Exec(t.Context(), "create table lg (a UInt64) engine=Log")
	for round := range 3 {
	for i, set := range []string{"", "auto_statistics_types=''", "max_compress_block_size=65536,min_compress_block_size=65536", "ratio_of_defaults_for_sparse_serialization=1",
	"write_marks_for_substreams_in_compact_parts=0,columns_and_secondary_indices_sizes_lazy_calculation=0", "use_adaptive_write_buffer_for_dynamic_subcolumns=1,adaptive_write_buffer_initial_size=4096", "compress_marks=0,compress_primary_key=0", "marks_compress_block_size=4096,primary_key_compress_block_size=4096",
	} {
		name := "v" + string(rune('a'+i)) + string(rune('a'+round))
		q := "create table " + name + " (a UInt64) engine=MergeTree order by a"
		if set != "" {
			q += " settings " + set
		}
		if err := s.conn.Exec(t.Context(), q); err != nil {
			t.Log(err)
			continue
		}
		lap(set, 100, func(i int) error { return s.insert(t.Context(), table{name, "a"}, "", [][]any{{uint64(1)}}) })
	}
	lap("setting max_threads 1", 100, func(i int) error { return s.insert(with(clickhouse.Settings{"max_threads": 1,"max_insert_threads":1}), table{"va" + string(rune('a'+round)), "a"}, "", [][]any{{uint64(1)}}) })
	}
	_ = p
	_ = context.Background
}
