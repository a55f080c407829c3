package gpuhour_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
)

// TestBootWorksThroughTheLastCut: an invoicer that starts again does not price all cuts of its life again, and knows what is
// blocked as before. Without its progress, as in rebuilt tables, it does, and comes to the same.
func TestBootWorksThroughTheLastCut(t *testing.T) {
	b, tables := membus.New(stamp), memstore.New()
	var invoices int
	life := func(run func(e *gpuhour.Engine) error) (cuts int, e *gpuhour.Engine) {
		t.Helper()
		invoices = 0
		watch := &calls{at: func(_ int, name string, after bool) error {
			if name == "changed periods" && after {
				cuts++
			}
			if name == "put invoice" && after {
				invoices++
			}
			return nil
		}}
		e = gpuhour.OpenOn(b, watchedStore{tables, watch})
		must(t, run(e))
		return cuts, e
	}
	w := rich()
	all, first := life(func(e *gpuhour.Engine) error { return w.play(t.Context(), e, w.direct(b), nowhere) })
	projected := invoices
	end, err := b.LastSeq(t.Context(), bus.Facts)
	must(t, err)
	pump := func(e *gpuhour.Engine) error { return e.Pump(t.Context()) }
	again, second := life(pump)
	if invoices >= projected {
		t.Errorf("%d invoices are projected again; want those of the last cut, of %d", invoices, projected)
	}
	if now, err := b.LastSeq(t.Context(), bus.Facts); err != nil || now != end {
		t.Errorf("the log grew from %d to %d facts, %v", end, now, err)
	}
	tables = memstore.New()
	rebuilt, third := life(pump)
	if all < 3 || again != 1 || rebuilt != all {
		t.Errorf("cuts worked through: %d, after a restart %d, on new tables %d; want 3 or more, 1, all", all, again, rebuilt)
	}
	for _, e := range []*gpuhour.Engine{second, third} {
		if diff := gocmp.Diff(first.Blocked(), e.Blocked()); diff != "" {
			t.Errorf("blocked (-before +after the restart)\n%s", diff)
		}
	}
}
