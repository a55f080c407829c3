package embedded

import (
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func split(t testing.TB, text string) (head, format, rows string, ok bool) {
	t.Helper()
	s := statement{text: text}
	if !s.splitInsert() {
		return text, "", "", false
	}
	data, err := io.ReadAll(s.rows)
	if err != nil {
		t.Fatal(err)
	}
	return s.text, s.format, string(data), true
}

func TestSplitInsert(t *testing.T) {
	for _, c := range []struct{ text, head, format, rows string }{
		{"INSERT INTO t FORMAT Native", "INSERT INTO t", "Native", ""},
		{"insert into t(a,`format`) format TSV\n\n1\n", "insert into t(a,`format`)", "TSV", "\n1\n"},
		{"-- FORMAT A\nINSERT INTO db.t FORMAT CSV\r\n1;2\n", "-- FORMAT A\nINSERT INTO db.t", "CSV", "1;2\n"},
		{"INSERT INTO t SETTINGS log_comment = 'FORMAT x' FORMAT CSV 1", "INSERT INTO t SETTINGS log_comment = 'FORMAT x'", "CSV", "1"},
		{`INSERT INTO "a\" FORMAT B" FORMAT CSV ; `, `INSERT INTO "a\" FORMAT B"`, "CSV", ""},
		{"INSERT INTO t FORMAT TSV ;1\n", "INSERT INTO t", "TSV", ";1\n"},
	} {
		head, format, rows, ok := split(t, c.text)
		if !ok || head != c.head || format != c.format || rows != c.rows {
			t.Errorf("%q: %v %q %q %q", c.text, ok, head, format, rows)
		}
	}
	for _, text := range []string{
		"", "SELECT 1 FORMAT CSV", "INSERT INTO t VALUES ('FORMAT CSV')", "INSERT INTO t SELECT 1 FORMAT CSV",
		"INSERT INTO t (FORMAT CSV", "INSERT INTO t 'FORMAT CSV", "INSERT INTO t; DROP TABLE t FORMAT CSV", "INSERT INTO t /* FORMAT CSV",
	} {
		if _, _, _, ok := split(t, text); ok {
			t.Errorf("%q was taken for an insert of rows", text)
		}
	}
}

// Whatever a table, a comment or a row holds, the rows come out as they went in.
func TestSplitInsertKeepsRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table := quote(rapid.String().Draw(r, "table"), '`')
		comment := strings.ReplaceAll(rapid.String().Draw(r, "comment"), "*/", "")
		rows := string(rapid.SliceOf(rapid.Byte()).Draw(r, "rows"))
		want := "INSERT INTO " + table + " /*" + comment + " */ (a, b)"
		head, format, got, ok := split(t, want+" FORMAT RowBinary\n"+rows)
		if !ok || head != want || format != "RowBinary" || got != rows {
			r.Fatalf("%v %q %q %q", ok, head, format, got)
		}
	})
}

func FuzzSplitInsert(f *testing.F) {
	for _, seed := range []string{"INSERT INTO t FORMAT CSV\n1", "INSERT INTO `a\\` (b) -- c", "insert /*", "INSERT '\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		head, format, rows, ok := split(t, text)
		inOrder := strings.HasSuffix(text, rows) || rows == ""
		if ok && (!inOrder || !strings.Contains(text, head) || format == "" || len(head)+len(format)+len(rows) > len(text)) {
			t.Errorf("%q: %q %q %q", text, head, format, rows)
		}
	})
}
