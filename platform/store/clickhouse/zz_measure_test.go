package clickhouse

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
)

func TestZZLatency(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	e := startEngine(t, t.TempDir())
	for _, set := range []clickhouse.Settings{{}, {"compile_expressions": 0, "compile_aggregate_expressions": 0, "compile_sort_description": 0}} {
		c := e.ClientOptions()
		c.Settings = set
		s := openStore(t, c, Options{Database: fmt.Sprint("d", len(set))})
		lap := func(what string, n int, f func(i int)) {
			f(-1)
			t0 := time.Now()
			for i := range n {
				f(i)
			}
			t.Logf("%v %s: %v", len(set), what, time.Since(t0)/time.Duration(n))
		}
		all := span.Span{To: span.Open}
		b := uint64(1)
		lap("put small", 40, func(i int) {
			b++
			if err := s.Put(t.Context(), blockOf(b)); err != nil {
				t.Fatal(err)
			}
		})
		lap("insert progress", 20, func(i int) { s.insert(t.Context(), progressTable, "", [][]any{progressRow(blockOf(1).Progress)}) })
		lap("ping", 20, func(i int) { var n uint8; s.conn.QueryRow(t.Context(), "SELECT 1").Scan(&n) })
		lap("progress", 20, func(i int) { s.Progress(t.Context(), "rater") })
		lap("totals", 20, func(i int) { s.PeriodTotals(t.Context(), "c", 1, math.MaxUint64) })
		lap("minutes", 20, func(i int) { s.Minutes(t.Context(), []meter.MinuteRange{{Device: "gpu", From: 0, To: 600}}, math.MaxUint64) })
		lap("standing", 20, func(i int) {
			s.Standing(t.Context(), []meter.UnitHour{{Unit: meter.Unit{Node: "n", Device: "gpu"}, Hour: 10}}, math.MaxUint64)
		})
		lap("seen", 20, func(i int) { s.SeenSeconds(t.Context(), all, math.MaxUint64) })
		lap("refusals", 20, func(i int) { s.OpenRefusals(t.Context(), math.MaxUint64) })
		lap("last", 20, func(i int) { s.LastMinutes(t.Context(), math.MaxUint64) })
		lap("trim nothing", 20, func(i int) { s.Trim(t.Context(), math.MaxUint64) })
		lap("trim something", 3, func(i int) { b++; s.Put(t.Context(), blockOf(b)); s.Trim(t.Context(), b-1) })
	}
}
