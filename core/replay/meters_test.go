package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/contract/random"
)

// metering are meters whose readings are priced one by one, and meters whose levels choose tiers, weighed by what leases do.
func metering(choose random.Chooser) string {
	one := func(list ...string) string { return list[choose(len(list))] }
	price := func() string { return one("35.00", "4.5", "0.005", "0") }
	tiers := func(unit string) string {
		flat := func() string { return one("", "", ", flat: 35.00", ", flat: 7.77") }
		bounds, out := []string{"0.5", "100", "700", "1000"}[choose(3):], ""
		for _, bound := range bounds {
			out += fmt.Sprintf("{upto: %s, price: %s/%s%s}, ", bound, price(), unit, flat())
		}
		return "[" + out + "{price: " + price() + "/" + unit + flat() + "}]"
	}
	levels := func(name, unit string) string {
		return fmt.Sprintf("{name: %s, model: %s, tiers: %s, tiers_by: %s, flat: %s}",
			name, one("graduated", "volume"), tiers(unit), one("level", "level", "quantity"), one("used", "always"))
	}
	each := fmt.Sprintf("{name: tasks, model: each, price: %s/%s%s%s%s}", price(), one("task", "1000", "10 GB"), one("", ", flat: 4.5"), one("", ", min: 4.5"), one("", ", max: 35.00"))
	out := "meters: [" + levels("seats", one("seat-hour", "seat-day", "seat-month", "seat-year")) + ", " + levels("disk", "GB-month") + ", " + each + "]\n"
	return out + one("", "states: {suspended: {gpu: 30%, seats: 50%}, stopped: {seats: 0%, disk: 200%}}\n", "states: {running: {disk: 125%}, suspended: {disk: 88%}}\n")
}

// Readings that become known late rate anew every second that hangs on them, and every reading alone: the raters agree.
func TestRatersAgreeOnMeters(t *testing.T) {
	t.Parallel()
	drawn, levelled, each := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, shape{late: 2 * day, meters: metering})
		r := agree(t, w)
		drawn++
		tiers, bounds := false, false
		for _, p := range w.periods(r, w.deals[0]) {
			for _, l := range compute(t, r, p).Lines {
				if l.Item == nil {
					continue
				}
				steps := map[string]int{}
				for _, s := range l.Item.Steps {
					name, _, _ := strings.Cut(s, " ")
					steps[name]++
				}
				tiers = tiers || steps["peak"] > 0 && steps["tier"] > 1
				bounds = bounds || steps["readings"] > 0 && steps["at_min"]+steps["at_max"]+steps["by_price"] > 1
			}
		}
		if tiers {
			levelled++
		}
		if bounds {
			each++
		}
	})
	if drawn >= 100 && (levelled < drawn/10 || each < drawn/20) {
		t.Errorf("of %d worlds %d have levels in several tiers, %d readings on both sides of a bound", drawn, levelled, each)
	}
}
