package contract_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
)

func parsed(t *testing.T, document string) *contract.Contract {
	t.Helper()
	c, err := contract.Parse("c.yaml", []byte(document))
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return c
}

func TestCompare(t *testing.T) {
	was := parsed(t, full)
	if got := contract.Compare(was, parsed(t, strings.Replace(full, "  granularity: minute\n", "  granularity: minute\n  bill_by: leased\n", 1))); got != nil {
		t.Errorf("a default that is written out: %v", got)
	}
	is := parsed(t, strings.NewReplacer("35.00", "33.00", "    dedicated: 125%\n", "", "88%", "90%", "to: 2027-01-01", "to: open",
		"sku: a100, on_demand: 0.005/gpu-second", "sku: b200, spot: {index: b200}", "grace: 0", "minimum: 0").Replace(strings.Replace(full, "  minimum: 1h30m\n", "", 1)))
	want := []contract.Change{
		{"contract", "", "to", "2027-01-01", "open"},
		{"billing", "", "grace", "0", "the provider's"},
		{"billing", "", "minimum", "1h30m", "0"},
		{"rates", "a100", "on_demand", "0.005/gpu-second", ""},
		{"rates", "b200", "on_demand", "", "not sold"},
		{"rates", "b200", "spot index", "", "b200"},
		{"rates", "b200", "spot lock", "", "none"},
		{"rates", "b200", "spot reclaimed_free_within", "", "0"},
		{"rates", "h100-80g", "on_demand", "35.00/gpu-hour", "33.00/gpu-hour"},
		{"rates", "h100-80g", "region", "cn-east 100%, cn-west 88%", "cn-east 100%, cn-west 90%"},
		{"rates", "h100-80g", "dedicated", "125%", ""},
	}
	if diff := cmp.Diff(want, contract.Compare(was, is)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The first window that matches holds, so their order is a provision too.
func TestOrderIsCompared(t *testing.T) {
	const a, b = "{name: a, for: [spot], windows: [daily 22:00-06:00], off: 5%}", "{name: b, for: [spot], windows: [Sat-Sun 00:00-24:00], off: 9%}"
	was, is := parsed(t, full+"schedule: ["+a+", "+b+"]\n"), parsed(t, full+"schedule: ["+b+", "+a+"]\n")
	if diff := cmp.Diff([]contract.Change{{"schedule", "", contract.Order, "a, b", "b, a"}}, contract.Compare(was, is)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestProvisionsAreAll: random contracts of which Compare says that nothing is different are the same, and what it calls different is.
func TestProvisionsAreAll(t *testing.T) {
	documents, different := seeds()/5, 0
	for seed := range documents {
		text := random.Contract(chooser(seed))
		was := parsed(t, text)
		is, err := contract.Parse("c.yaml", []byte(random.Reworded(chooser(seed), chooser(seed+1_000_000))))
		if err != nil {
			continue
		}
		changes := contract.Compare(was, is)
		diff := cmp.Diff(was, is, same(), whole(), cmpopts.EquateEmpty())
		if (changes != nil) != (diff != "") {
			t.Fatalf("seed %d: changes %v (-was +is)\n%s\n%s", seed, changes, diff, text)
		}
		if changes != nil {
			different++
		}
	}
	if different < int(documents)/5 {
		t.Errorf("only %d of %d differ", different, documents)
	}
}

// Unamendable is what a register refuses.
func TestUnamendable(t *testing.T) {
	was := parsed(t, full+"meters: [{name: egress, price: 0.80/GB}]\n")
	for change, want := range map[string]string{
		"acme-2026>acme-2027": "contract or customer", "CNY>USD": "currency", "Asia/Shanghai>Asia/Tokyo": "", "quarterly>yearly": "",
		"from: 2026-01-01>from: 2026-01-02": "the term's start", "0.80/GB>0.80/TB": "the unit, aggregate or value of meter egress", "35.00>36.00": "", "88%>87%": "",
	} {
		old, replacement, _ := strings.Cut(change, ">")
		if got := contract.Unamendable(was, parsed(t, strings.Replace(string(was.Source), old, replacement, 1))); got != want {
			t.Errorf("%s: %q, want %q", change, got, want)
		}
	}
}

// What moves the boundaries of periods closes a stub.
func TestClosesStub(t *testing.T) {
	was := parsed(t, full)
	for change, want := range map[string]bool{"Asia/Shanghai>Asia/Tokyo": true, "quarterly>yearly": true, "anchor: 31>anchor: 30": true, "35.00>36.00": false, "grace: 0>grace: 1h": false} {
		old, replacement, _ := strings.Cut(change, ">")
		is := parsed(t, strings.Replace(string(was.Source), old, replacement, 1))
		changes := contract.Compare(was, is)
		if len(changes) != 1 || contract.ClosesStub(changes) != want {
			t.Errorf("%s: %v, closes a stub: %v", change, changes, !want)
		}
	}
}

func TestBoundsAndRangesAsText(t *testing.T) {
	for _, text := range []string{"Mon-Fri 22:00-08:00", "daily 00:00-24:00", "Fri-Mon 12:30-00:00", "Sun 02:00-03:00", "Sat-Sun 00:00-24:00"} {
		c := parsed(t, full+"schedule: [{name: a, for: [spot], windows: ["+text+"], off: 5%}]\n")
		if got := c.Schedule.Windows[0].Ranges[0].String(); got != text && got != strings.TrimSuffix(text, "00:00")+"24:00" {
			t.Errorf("%s reads %s", text, got)
		}
	}
	for seconds, want := range map[int64]string{0: "0", 60: "1m", 5400: "1h30m", 129600: "1d12h", 86399: "23h59m59s"} {
		if got := contract.DurationText(seconds); got != want {
			t.Errorf("%d: %s, want %s", seconds, got, want)
		}
	}
}
