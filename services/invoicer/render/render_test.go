package render_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// golden holds a text against its file. GOLDEN=rewrite writes it; look at the difference before it is kept.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if os.Getenv("GOLDEN") == "rewrite" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// everywhere renders in both languages at both widths into one golden file each.
func everywhere(t *testing.T, name string, text func(render.Options) string) {
	t.Helper()
	for _, language := range []render.Language{render.English, render.Chinese} {
		for _, width := range []int{80, 100} {
			golden(t, fmt.Sprintf("%s.%s.%d", name, language, width), text(render.Options{Language: language, Width: width}))
		}
	}
}

func TestInvoices(t *testing.T) {
	for name, d := range samples(t) {
		t.Run(name, func(t *testing.T) {
			everywhere(t, name, func(o render.Options) string { return render.Invoice(d, o) })
		})
	}
}

func TestList(t *testing.T) {
	docs := []*bill.Document{normal(t), correction(t), yen(t), dinar(t), hostile(t), preview(t), empty(t), cancellation(t), samples(t)["advance"]}
	everywhere(t, "list", func(o render.Options) string { return render.List(docs, o) })
	if got := render.List(nil, render.Options{}); got != "No invoices.\n" {
		t.Errorf("no invoices: %q", got)
	}
}

func blocks() []bill.Block {
	period := span.Span{From: 1769875200, To: 1772294400}
	return []bill.Block{
		{Contract: "acme-2026", Customer: "acme", Period: period, Reason: "lease train-3 has 3.000000000 refused GPU-hours (no_rate); mend its cause, or state refusal.waived or refusal.carried"},
		{Contract: "云枢-2026", Customer: "云枢科技\u202e", Period: period, Reason: "the customer is halted: hour 12: 10 milli-seconds leased, 9 keyed"},
		{Contract: strings.Repeat("long", 30), Customer: "b", Period: period, Reason: "conservation: leases hold 10 milli-GPU-seconds, the ledger 9"},
		{Contract: "c", Customer: "c", Period: period, Reason: "something new"},
	}
}

func refusals() []meter.Refusal {
	return []meter.Refusal{
		{ID: "lease.stopped/train-1/9", Reason: "after_stop", Detail: "the lease was stopped before", Customer: "acme", Lease: "train-1", At: 1769875260},
		{ID: "usage/9471", Reason: "ahead_of_tick", Detail: "node rack-\x1b]0;x\a7: it speaks of 2026-03-01T00:00:00Z, the tick says 2026-02-01T00:00:00Z"},
		{ID: strings.Repeat("k", 120), Reason: "not_known_yet", Customer: strings.Repeat("客", 40), Lease: "l", At: 1769875261},
	}
}

func TestProblems(t *testing.T) {
	everywhere(t, "blocked", func(o render.Options) string { return render.Blocked(blocks(), o) })
	everywhere(t, "refusals", func(o render.Options) string { return render.Refusals(refusals(), o) })
	zh := render.Options{Language: render.Chinese}
	if got := render.Blocked(nil, zh) + render.Refusals(nil, zh); got != "没有受阻的出账。\n没有被拒收的记录。\n" {
		t.Errorf("nothing to tell: %q", got)
	}
}

// Colour changes no letter and no width: without its codes the page is the plain one.
func TestColour(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, d := range samples(t) {
		coloured := render.Invoice(d, render.Options{Colour: true})
		if !strings.Contains(coloured, "\x1b[1m") {
			t.Errorf("%s has no colour", name)
		}
		if diff := cmp.Diff(render.Invoice(d, render.Options{}), codes.ReplaceAllString(coloured, "")); diff != "" {
			t.Errorf("%s (-plain +coloured):\n%s", name, diff)
		}
	}
}
