package clickhouse

import "testing"

// TestDatabase: the first incarnation has the name that is set, as every log had before there were others.
func TestDatabase(t *testing.T) {
	for n, want := range map[uint64]string{0: "gpuhour", 1: "gpuhour", 2: "gpuhour_2", 13: "gpuhour_13"} {
		if got := Database("gpuhour", n); got != want {
			t.Errorf("incarnation %d is in %s; want %s", n, got, want)
		}
	}
}
