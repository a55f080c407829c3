package clickhouse

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/store"
)

func TestZZBulk(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	s := openStore(t, startEngine(t, t.TempDir()).ClientOptions(), Options{})
	r := rand.New(rand.NewPCG(1, 1))
	var names []string
	for range 1000 {
		names = append(names, fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32N(65536), r.Uint32N(65536), r.Uint32N(65536), r.Uint64()>>16))
	}
	var q, m []meter.Outcome
	for h := range 100 {
		o := meter.Outcome{Block: uint64(1000 + h*360)}
		for i, n := range names {
			key := meter.ChargeKey{Customer: fmt.Sprint("customer-", i/50), Contract: fmt.Sprint("contract-", i/50), Version: uint64(i/50 + 3), PeriodStart: 1782864000, LocalDay: int32(20260701 + h/24), SKU: "h100-80gb-sxm", PricingMode: "on_demand", Region: "eu-1", Kind: meter.Leased, Standing: meter.Priced}
			full := int64(3600_000)
			if r.IntN(10) == 0 {
				full = int64(r.IntN(3600)) * 1000
			}
			miss := int64(0)
			if r.IntN(20) == 0 {
				miss = int64(r.IntN(60)) * 1000
				miss = min(miss, full)
			}
			o.Ledger = append(o.Ledger, meter.Difference{Block: o.Block, Entry: meter.Entry{Lease: fmt.Sprintf("lease-%06d", i/8), Device: n, Hour: span.Hour(495240 + h), Key: key}, Amounts: meter.Amounts{Quantity: full, Measured: full - miss, Missing: miss}})
		}
		q = append(q, o)
	}
	for k := range 100 {
		o := meter.Outcome{Block: uint64(1000 + k*6)}
		for i, n := range names {
			data := make([]byte, 0, 260)
			data = append(data, 1, 40)
			data = append(data, n...)
			level := r.IntN(100)
			for range 60 {
				data = append(data, byte(max(0, min(100, level+r.IntN(7)-3))))
			}
			for range 60 {
				data = append(data, byte(r.IntN(4)))
			}
			for range 60 {
				data = append(data, byte(r.IntN(100)))
			}
			for range 30 {
				data = append(data, byte(r.IntN(256)))
			}
			seen := span.FullMinute
			if r.IntN(20) == 0 {
				seen &^= span.Bit(r.IntN(60))
			}
			o.Rows = append(o.Rows, usage.Row{Node: fmt.Sprintf("node-%04d", i/8), Device: n, Minute: span.Minute(29714400 + k), Run: uint64(1782864000000 + i/8), Block: o.Block, SeqFirst: uint64(k*6 + 1), SeqLast: uint64(k*6 + 6), Spoken: span.FullMinute, Seen: seen, Data: data})
		}
		m = append(m, o)
	}
	t0 := time.Now()
	c0 := cpu()
	if err := s.Put(t.Context(), store.Put{Outcomes: q, Progress: store.Progress{Service: "rater", Block: 1 << 40}}); err != nil {
		t.Fatal(err)
	}
	t.Logf("100k quantity rows: %v cpu %v", time.Since(t0), cpu()-c0)
	t0, c0 = time.Now(), cpu()
	if err := s.Put(t.Context(), store.Put{Outcomes: m, Progress: store.Progress{Service: "rater", Block: 1 << 40}}); err != nil {
		t.Fatal(err)
	}
	t.Logf("100k minute rows: %v cpu %v", time.Since(t0), cpu()-c0)
	t0, c0 = time.Now(), cpu()
	x, err := s.PeriodTotals(t.Context(), "contract-3", 1782864000, 1<<40)
	t.Logf("period totals %d: %v %v", len(x), time.Since(t0), err)
	t0, c0 = time.Now(), cpu()
	var units []meter.UnitHour
	for h := range 20 {
		for _, n := range names {
			units = append(units, meter.UnitHour{Unit: meter.Unit{Device: n}, Hour: span.Hour(495240 + h)})
		}
	}
	y, _, err := s.Standing(t.Context(), units, 1<<40)
	t.Logf("standing %d: %v %v", len(y), time.Since(t0), err)
	t0 = time.Now()
	var ranges []meter.MinuteRange
	for _, n := range names {
		ranges = append(ranges, meter.MinuteRange{Device: n, From: 29714400, To: 29714460})
	}
	z, err := s.Minutes(t.Context(), ranges, 1<<40)
	t.Logf("minutes 1000 ranges, %d rows: %v %v", len(z), time.Since(t0), err)
	t0 = time.Now()
	n, err := s.SeenSeconds(t.Context(), span.Span{To: span.Open}, 1<<40)
	t.Logf("seen %d: %v %v", n, time.Since(t0), err)

	size := func(tb string) {
		var name string
		var b, rows uint64
		var line strings.Builder
		s.query(t.Context(), []any{&name, &b, &rows}, func() error { fmt.Fprintf(&line, " %s=%.2f", name, float64(b)/float64(rows)); return nil },
			"select column, sum(column_data_compressed_bytes), sum(rows) from system.parts_columns where active and database=currentDatabase() and table={t:String} group by column order by column", named("t", tb))
		s.query(t.Context(), []any{&b, &rows}, func() error { fmt.Fprintf(&line, " TOTAL=%.1f", float64(b)/float64(rows)); return nil },
			"select sum(bytes_on_disk), sum(rows) from system.parts where active and database=currentDatabase() and table={t:String}", named("t", tb))
		t.Log(tb, line.String())
	}
	for _, tb := range []string{"minute", "quantity"} {
		size(tb)
		for i, mod := range [][2]string{
			{"Delta, ZSTD(1)", "ZSTD(1)"}, {"Delta, ZSTD(1)", "DoubleDelta, ZSTD(1)"}, {"CODEC(ZSTD(1))", "CODEC(LZ4)"}, {"ZSTD(1)", "ZSTD(3)"}, {"LowCardinality(String)", "String CODEC(ZSTD(1))"},
			{"CODEC(ZSTD(1))", "CODEC(T64, ZSTD(1))"}, {"UInt64 CODEC(ZSTD(1))", "UInt64 CODEC(Delta, ZSTD(1))"}, {"Int64 CODEC(ZSTD(1))", "Int64 CODEC(Delta, ZSTD(1))"},
		} {
			var ddl string
			s.conn.QueryRow(t.Context(), "select create_table_query from system.tables where database=currentDatabase() and name={t:String}", named("t", tb)).Scan(&ddl)
			v := fmt.Sprintf("%s_v%d", tb, i)
			ddl = strings.Replace(ddl, "."+tb+" ", "."+v+" ", 1)
			ddl = strings.ReplaceAll(ddl, "Delta(8)", "Delta")
			ddl = strings.ReplaceAll(ddl, mod[0], mod[1])
			if i == 5 {
				ddl = strings.ReplaceAll(ddl, "frozen form' CODEC(T64, ", "frozen form' CODEC(")
			}
			if err := s.conn.Exec(t.Context(), ddl); err != nil {
				t.Log(err, ddl)
				continue
			}
			t0 = time.Now()
			if err := s.conn.Exec(t.Context(), "insert into "+v+" select * from "+tb); err != nil {
				t.Log(err)
			}
			t.Log(mod, time.Since(t0))
			size(v)
		}
	}
}
