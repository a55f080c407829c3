package gpuhour_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/services/importer/openb"
)

// traced is the openb trace under the demo's contract with something more in its billing, its rate or behind its rates, without
// samples, with a stop a day.
func traced(billing, rate, behind string) (*world, error) {
	trace, err := openb.Embedded()
	if err != nil {
		return nil, err
	}
	im, err := trace.Import(openb.DemoStart)
	if err != nil {
		return nil, err
	}
	w := &world{until: openb.DemoStart + 190*86400}
	for _, customer := range openb.Customers() {
		text := document(customer+"-2026", customer, "CNY", "Asia/Shanghai", "cycle: monthly, anchor: 1, grace: 3h, granularity: second"+billing,
			"  - {sku: "+openb.SKU+", on_demand: 12.00/gpu-hour"+rate+"}\n"+behind)
		text = strings.ReplaceAll(text, "{from: 2026-02-01, to: 2027-02-01}", "{from: 2026-01-01, to: 2027-01-01}")
		w.know(openb.DemoStart, "c/"+customer, signed(customer+"-2026", customer, text))
	}
	for _, f := range im.Facts {
		w.statements = append(w.statements, replay.Statement{Known: occupancy.At(f.Body), Fact: f})
	}
	for at := openb.DemoStart; at < w.until; at += 86400 {
		w.stops = append(w.stops, at)
	}
	return w.finish(), nil
}

// openbBilled bills the trace and sums the invoices by customer.
func openbBilled(t *testing.T, minimum string) map[string]int64 {
	t.Helper()
	w, err := traced(minimum, "", "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Run(w.log(), replay.Options{Series: "GH"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Blocked) > 0 || len(r.Refusals) > 0 {
		t.Fatalf("blocked: %v, refused: %v", r.Blocked, r.Refusals)
	}
	sums := map[string]int64{}
	for _, i := range r.Invoices {
		d := i.Document
		sums["total"] += d.Quantity.MilliGPUSeconds
		sums["topup"] += d.Quantity.Coverage.TopUp
		sums[d.Customer] += d.Quantity.MilliGPUSeconds - d.Quantity.Coverage.TopUp
	}
	return sums
}

// openbCounted is what awk, or Python where there is no awk, counts in the trace's own file.
func openbCounted(t *testing.T) map[string]int64 {
	t.Helper()
	const at = "services/importer/openb/"
	out, err := exec.CommandContext(t.Context(), "awk", "-f", at+"independent.awk", at+openb.PodFile).Output()
	if err != nil {
		t.Logf("awk: %v; counting with Python", err)
		if out, err = exec.CommandContext(t.Context(), "python3", at+"independent.py", at+openb.PodFile).Output(); err != nil {
			t.Fatalf("neither awk nor python3 counts the trace: %v", err)
		}
	}
	customers := map[string]string{"LS": "openb-ls", "BE": "openb-be", "Burstable": "openb-burstable", "Guaranteed": "openb-guaranteed"}
	sums := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		var name string
		var v int64
		if _, err := fmt.Sscan(line, &name, &v); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if customer, ok := customers[name]; ok {
			name = customer
		}
		sums[name] = v
	}
	return sums
}

// TestOpenbBillsWhatAwkCounts: five months of a real cluster, billed to the milli-GPU-second as a few lines count them.
func TestOpenbBillsWhatAwkCounts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("replays 12,406 facts twice; left out of -short")
	}
	counted := openbCounted(t)
	if got := bill.GPUHours(counted["total"]); got != "51470.674158333" || counted["total"] != 185_294_426_970 {
		t.Fatalf("awk counts %s GPU-hours", got)
	}
	want := maps.Clone(counted)
	delete(want, "leases")
	want["topup"] = 0
	if d := gocmp.Diff(want, openbBilled(t, "")); d != "" {
		t.Fatalf("(-awk +billed)\n%s", d)
	}
	want["topup"] = counted["topup"]
	want["total"] += counted["topup"]
	if want["topup"] != 8_405_080 {
		t.Fatalf("awk counts %d milli-GPU-seconds of top-ups", want["topup"])
	}
	if d := gocmp.Diff(want, openbBilled(t, ", minimum: 60s")); d != "" {
		t.Fatalf("with a minimum of 60 s (-awk +billed)\n%s", d)
	}
	if names := slices.Sorted(maps.Keys(want)); len(names) != 6 {
		t.Fatalf("compared only %v", names)
	}
}
