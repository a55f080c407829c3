package embedded

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// row has one field per column type of the store.
type row struct {
	I  int64            `ch:"i"`
	U  uint64           `ch:"u"`
	D  decimal.Decimal  `ch:"d"`
	S  string           `ch:"s"`
	F  string           `ch:"f"`
	L  string           `ch:"l"`
	T  time.Time        `ch:"t"`
	N  *int64           `ch:"n"`
	ND *decimal.Decimal `ch:"nd"`
	A  []uint64         `ch:"a"`
}

const rowTable = `CREATE TABLE t (k UInt32, i Int64, u UInt64, d Decimal(38, 12), s String, f FixedString(4),
	l LowCardinality(String), t DateTime64(9), n Nullable(Int64), nd Nullable(Decimal(9, 4)), a Array(UInt64)) ENGINE = MergeTree ORDER BY k`

func TestValuesComeBackAsTheyWentIn(t *testing.T) {
	conn := fresh(t, Options{Handles: 2})
	do(t, conn, rowTable)
	minimum, credit := int64(math.MinInt64), decimal.RequireFromString("-0.0171")
	at := time.Date(2026, 3, 29, 1, 59, 59, 123456789, time.UTC)
	want := []row{
		{I: math.MinInt64, U: math.MaxUint64, D: credit, S: "a\x00b\x00", F: "\x00\x01\xff\x00", L: "H100", T: at, N: &minimum, ND: &credit, A: []uint64{0, 1 << 63}},
		{I: math.MaxInt64, U: 1 << 63, D: decimal.RequireFromString("-1.0171"), S: "", F: "abcd", L: "", T: time.Unix(0, 0).UTC(), A: []uint64{}},
		{I: -1, U: 0, D: decimal.RequireFromString("-0.5"), S: "é\n\n;'\\", F: "ab\x00\x00", L: "H100", T: at.AddDate(100, 0, 0), A: []uint64{math.MaxUint64}},
		{D: decimal.RequireFromString("99999999999999999999999999.999999999999"), F: "\x00\x00\x00\x00", T: at, A: []uint64{}},
		{D: decimal.RequireFromString("-0.000000000001"), F: "\x00\x00\x00\x00", T: at, A: []uint64{}},
	}
	rows := make([][]any, len(want))
	for k, r := range want {
		rows[k] = []any{uint32(k), r.I, r.U, r.D, r.S, r.F, r.L, r.T, r.N, r.ND, r.A}
	}
	ok(t, insert(t.Context(), conn, "INSERT INTO t", rows...))
	var got []row
	ok(t, conn.Select(t.Context(), &got, "SELECT * EXCEPT k FROM t ORDER BY k"))
	same(t, "rows", want, got)
	same(t, "decimal as the engine writes it", "-0.0171", one[string](t, conn, "SELECT toString(d) FROM t WHERE k = 0"))
}

func TestAnyValueComesBack(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	do(t, conn, "CREATE TABLE t (k UInt64, d Decimal(38, 12), s String) ENGINE = MergeTree ORDER BY k")
	k := uint64(0)
	rapid.Check(t, func(r *rapid.T) {
		k++
		amount := decimal.New(rapid.Int64().Draw(r, "amount"), -12)
		text := string(rapid.SliceOf(rapid.Byte()).Draw(r, "text"))
		ok(t, insert(t.Context(), conn, "INSERT INTO t", []any{k, amount, text}))
		var gotAmount decimal.Decimal
		var gotText string
		ok(t, conn.QueryRow(t.Context(), "SELECT d, s FROM t WHERE k = $1", k).Scan(&gotAmount, &gotText))
		same(t, "amount", amount.String(), gotAmount.String())
		same(t, "text", text, gotText)
	})
}

func TestEmptyResult(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	rows, err := conn.Query(t.Context(), "SELECT number FROM numbers(10) WHERE number > 10")
	ok(t, err)
	if rows.Next() {
		t.Error("a row came out of an empty result")
	}
	ok(t, rows.Err())
	ok(t, rows.Close())
	do(t, conn, "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a")
	ok(t, insert(t.Context(), conn, "INSERT INTO t"))
	same(t, "rows of an empty batch", uint64(0), one[uint64](t, conn, "SELECT count() FROM t"))
}

// sendNumbers inserts 0..n-1 as one batch, column by column.
func sendNumbers(t testing.TB, send interface {
	Append(v any) error
}, n int,
) {
	t.Helper()
	numbers := make([]uint64, n)
	for i := range numbers {
		numbers[i] = uint64(i)
	}
	ok(t, send.Append(numbers))
}

func TestABatchAboveTheInlineLimitArrivesWhole(t *testing.T) {
	const n = 300_000 // 2.4 MB of Native, nine times the 256 KiB that the engine parses as a statement's text
	conn := fresh(t, Options{Handles: 1})
	do(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO t")
	ok(t, err)
	sendNumbers(t, batch.Column(0), n)
	ok(t, batch.Send())
	same(t, "count", uint64(n), one[uint64](t, conn, "SELECT count() FROM t"))
	same(t, "sum", uint64(n*(n-1)/2), one[uint64](t, conn, "SELECT sum(a) FROM t"))
	same(t, "parts", uint64(1), one[uint64](t, conn, "SELECT count() FROM system.parts WHERE table = 't' AND active"))
}

// Rows in the statement itself: the engine alone ends them at an empty line and drops the rest silently.
func TestInlineRowsArriveWhole(t *testing.T) {
	conn := fresh(t, Options{Handles: 1})
	do(t, conn,
		"CREATE TABLE t (a String) ENGINE = MergeTree ORDER BY a",
		"INSERT INTO t FORMAT TSV\nx\n\n\ny;\nz\n",
		"INSERT INTO t VALUES ('FORMAT\n\n;'), ('b')",
		"INSERT INTO t /* FORMAT TSV */ (a) SELECT 'FORMAT' AS format",
		"INSERT INTO t FORMAT JSONEachRow {\"a\":\"j\"}\n\n{\"a\":\"k\"};",
		"INSERT INTO t VALUES "+strings.Repeat("('0123456789'),", 100_000)+"('end')",
	)
	same(t, "short rows", []string{"", "", "FORMAT", "FORMAT\n\n;", "b", "end", "j", "k", "x", "y;", "z"},
		one[[]string](t, conn, "SELECT groupArray(a) FROM (SELECT a FROM t WHERE a != '0123456789' ORDER BY a)"))
	same(t, "long insert", uint64(100_000), one[uint64](t, conn, "SELECT count() FROM t WHERE a = '0123456789'"))
}

func BenchmarkInsert(b *testing.B) {
	const rows = 1_000_000
	conn := fresh(b, Options{Handles: 2})
	do(b, conn, "CREATE TABLE t (id UInt64, l LowCardinality(String), d Decimal(38, 12), f FixedString(60), t DateTime) ENGINE = MergeTree ORDER BY id")
	device, amount, at := strings.Repeat("d", 60), decimal.RequireFromString("-0.0171"), time.Unix(1_800_000_000, 0)
	var sending time.Duration
	for b.Loop() {
		batch, err := conn.PrepareBatch(b.Context(), "INSERT INTO t")
		ok(b, err)
		for i := range rows {
			ok(b, batch.Append(uint64(i), "H100", amount, device, at))
		}
		filled := time.Now()
		ok(b, batch.Send())
		sending += time.Since(filled)
	}
	same(b, "rows", uint64(rows*b.N), one[uint64](b, conn, "SELECT countIf(f = $1 AND d = $2) FROM t", device, amount))
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(rows*b.N)/sending.Seconds(), "sent-rows/s")
}
