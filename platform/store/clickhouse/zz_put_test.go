package clickhouse

import (
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func named(n string, v any) driver.NamedValue { return clickhouse.Named(n, v) }

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestZZPut(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	dir := t.TempDir()
	e := startEngine(t, dir)
	s := openStore(t, e.ClientOptions(), Options{})
	b := uint64(0)
	lap := func(what string, n int, f func(i int)) {
		f(-1)
		t0 := time.Now()
		c0 := cpu()
		for i := range n {
			f(i)
		}
		t.Logf("%s: %v cpu %v", what, time.Since(t0)/time.Duration(n), (cpu()-c0)/time.Duration(n))
	}
	f := func(name string) {
		for _, tb := range rowTables() {
			tb := tb
			lap(name+" "+tb.name, 20, func(i int) {
				b++
				rows := rowsOf(tb.name, blockOf(b).Outcomes)
				if err := s.insert(t.Context(), tb, token(tb, 0, b, b, rows), rows); err != nil {
					t.Fatal(err)
				}
			})
			lap(name+" notoken "+tb.name, 20, func(i int) {
				b++
				rows := rowsOf(tb.name, blockOf(b).Outcomes)
				if err := s.insert(t.Context(), tb, "", rows); err != nil {
					t.Fatal(err)
				}
			})
		}
		lap(name+" progress", 20, func(i int) { s.insert(t.Context(), progressTable, "", [][]any{progressRow(blockOf(1).Progress)}) })
	}
	lap("describe", 20, func(i int) {
		r, err := s.conn.Query(t.Context(), "DESCRIBE TABLE quantity")
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	})
	return
	f("fsync")
	_ = exec.Command
	if err := s.conn.Exec(t.Context(), "SYSTEM STOP MERGES"); err != nil {
		t.Log(err)
	}
	f("nomerge")
	for _, tb := range append(rowTables(), progressTable) {
		if err := s.conn.Exec(t.Context(), "ALTER TABLE "+tb.name+" MODIFY SETTING fsync_after_insert=0, fsync_part_directory=0"); err != nil {
			t.Fatal(err)
		}
	}
	f("nosync")
	fd, _ := os.Create(dir + "/x")
	lap("raw fsync", 50, func(i int) { fmt.Fprint(fd, "x"); fd.Sync() })
	lap("raw create+fsync", 50, func(i int) { fd, _ := os.Create(dir + fmt.Sprint("/y", i)); fmt.Fprint(fd, "x"); fd.Sync(); fd.Close() })
}
