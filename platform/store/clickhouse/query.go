package clickhouse

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/core/span"
)

// query runs a statement, scans each row into targets and calls each. Values travel as parameters only: names may
// hold any text.
func (s *Store) query(ctx context.Context, targets []any, each func() error, statement string, args ...any) error {
	rows, err := s.conn.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// nameHour is what rows are found by: a device's, node's or lease's hour.
type nameHour struct {
	name string
	hour span.Hour
}

// once is a table's rows up to the parameter block, identical ones once: a put that arrives after its sender gave up, cut
// into other blocks than the put that followed it, escapes the deduplication tokens. Rows are a function of the log, so
// such a put brings nothing but rows that are there. The sorting key is among the columns, so the engine forgets what it
// compared as it goes on.
func once(name, where string) string {
	for _, t := range rowTables() {
		if t.name == name {
			return "(SELECT DISTINCT " + t.columns + " FROM " + name + " WHERE " + where + " AND block <= {block:UInt64})"
		}
	}
	panic("no table of rows is named " + name)
}

// inNameHours goes after "(column, hour) IN". The engine reads the set before the table and finds rows by the
// sorting key.
const inNameHours = "(SELECT n, h FROM system.one ARRAY JOIN {names:Array(String)} AS n, {hours:Array(Int64)} AS h)"

// A server takes 128 KiB in one parameter and 1 MiB in a URL, where parameters travel over HTTP: escaping can double
// a name and the URL's own form can triple it again.
const (
	chunkNames = 2000
	chunkBytes = 60 << 10
)

// chunks sorts the list, drops repeats and gives it out as the parameters of inNameHours, in pieces that fit.
func chunks(list []nameHour) iter.Seq[[]any] {
	slices.SortFunc(list, func(a, b nameHour) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.hour, b.hour)) })
	list = slices.Compact(list)
	return func(yield func([]any) bool) {
		for len(list) > 0 {
			var names []string
			var hours []int64
			for size := 0; len(list) > 0 && len(names) < chunkNames && size < chunkBytes; list = list[1:] {
				names, hours = append(names, list[0].name), append(hours, int64(list[0].hour))
				size += len(list[0].name) + 10
			}
			if !yield([]any{clickhouse.Named("names", names), clickhouse.Named("hours", hours)}) {
				return
			}
		}
	}
}

// hoursStarting are the first and last hour that start in s, which is not empty. There are none when last < first.
func hoursStarting(s span.Span) (first, last int64) {
	from := s.From.Hour()
	if from.Start() < s.From {
		from++
	}
	return int64(from), int64((s.To - 1).Hour())
}
