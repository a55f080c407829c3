package gpuhour_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/cases"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/scenario"
	"github.com/gpuhour/gpuhour/core/span"
)

// names are what all customers of a provider share a space of; numbered are those of an invoice, which it hands out in turn.
var (
	names    = regexp.MustCompile(`\b(contract|customer|lease|resource|node|device|index|book|price_book): ([\w/.-]+)`)
	numbered = regexp.MustCompile(scenario.Series + `-\d{6}|"number":\d+`)
)

// marked are the case files that say `stack: true`; each has names of its own, so that several make one world.
func marked(t *testing.T) (list []*scenario.Scenario, texts string) {
	t.Helper()
	for i, name := range cases.List() {
		text, err := cases.Read(name)
		must(t, err)
		s, err := scenario.Parse(name, names.ReplaceAll(text, fmt.Appendf(nil, "$1: $2-%d", i)))
		must(t, err)
		if s.Stack {
			list = append(list, s)
			texts += string(text)
		}
	}
	return list, texts
}

// TestMarkedCasesShowEveryClause: what is played on the real engines has every clause, every fact and every kind of outcome.
func TestMarkedCasesShowEveryClause(t *testing.T) {
	list, texts := marked(t)
	if len(list) < 30 {
		t.Errorf("only %d files say `stack: true`", len(list))
	}
	for _, word := range []string{
		"schedule:", "holidays:", "add:", "idle_relief:", "bill_by: observed", "spot:", "lock:", "reclaimed_free_within:", "reserved:", "forward:",
		"take_or_pay: true", "packages:", "price_book:", "cap:", "volume:", "method: volume", "meters:", "aggregate:", "addons:", "bundles:", "commitment:", "states:",
		"pay: advance", "kind: advance", "trial:",
		"region:", "service_tier:", "dedicated:", "minimum:", "granularity:", "Australia/Sydney",
		"lease_resized:", "lease_state_changed:", "refusal_waived:", "refusal_carried:", "contract_amended:", "price_book_published:",
		"spot_price_changed:", "meter_recorded:", "package_purchased:", "samples:", "kind: correction", "blocked:", "refused:", "waived:", "free:", "unobserved:",
	} {
		if !strings.Contains(texts, word) {
			t.Errorf("no marked file has %s", word)
		}
	}
}

// TestCasesOnTheStack plays the marked files, several side by side as customers of one provider, on the embedded NATS and ClickHouse
// by a scripted clock, closing everything twice in between. Documents, ledger, devices and blocked periods are those of
// core/replay, byte for byte; and beside the others each file has the documents that `gpuhour rate` gives of it alone.
func TestCasesOnTheStack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse; left out of -short")
	}
	list, _ := marked(t)
	worlds := map[span.Second][]*scenario.Scenario{}
	for _, s := range list { // a world bills all its contracts up to its end: those that end together stand in one
		season := s.Log().Until / (120 * 24 * span.SecondsPerHour)
		worlds[season] = append(worlds[season], s)
	}
	for _, season := range slices.Sorted(maps.Keys(worlds)) {
		together := worlds[season]
		t.Run(fmt.Sprintf("%d files", len(together)), func(t *testing.T) {
			w := &world{}
			for _, s := range together {
				w.add(t, s)
			}
			w.finish()
			w.stops = append(w.stops, w.restarts()...)
			w.finishStops()
			r, err := replay.Run(w.log(), replay.Options{Series: scenario.Series, Grace: contract.DefaultGraceSeconds})
			must(t, err)
			for _, s := range together {
				checkAlone(t, s, r)
			}
			w.onTheStack(t, billed(r))
		})
	}
}

// add lets a file's story happen in the world too.
func (w *world) add(t *testing.T, s *scenario.Scenario) {
	t.Helper()
	if s.GraceSeconds != contract.DefaultGraceSeconds {
		t.Fatalf("%s has a provider's grace of its own; a provider has one", s.File)
	}
	log := s.Log()
	for _, known := range log.Statements {
		known.Fact.Key = s.File + "/" + known.Fact.Key
		w.statements = append(w.statements, known)
	}
	w.batches = append(w.batches, log.Measurements...)
	w.until = max(w.until, log.Until)
}

// checkAlone holds a file against its own expectations, and finds each of its documents in a common world, which has more cuts and
// goes on after the file's end.
func checkAlone(t *testing.T, s *scenario.Scenario, common *replay.Result) {
	t.Helper()
	alone, err := s.Run()
	must(t, err)
	for _, d := range s.Check(alone) {
		t.Error(d)
	}
	of := map[string]bool{}
	for _, c := range s.Close {
		of[c.Contract] = true
	}
	text := func(r *replay.Result) (list []string) {
		for _, i := range r.Invoices {
			if of[i.Document.Contract] {
				list = append(list, numbered.ReplaceAllString(string(i.Fact.Document), "n"))
			}
		}
		return list
	}
	got := text(common)
	for _, document := range text(alone) {
		if !slices.Contains(got, document) {
			t.Errorf("%s: alone it has\n%s\nand beside others\n%s", s.File, document, strings.Join(got, "\n"))
		}
	}
}

// restarts are two instants of the world. The clock stops there on every road: a blocked period may ask again then.
func (w *world) restarts() []span.Second {
	from := w.statements[0].Known
	first, second := from+(w.until-from)/3, from+(w.until-from)*2/3
	return []span.Second{first - first%60, second - second%60} // no batch straddles a minute
}

// onTheStack plays the world on the embedded engines, which are closed and opened again twice.
func (w *world) onTheStack(t *testing.T, want bills) {
	t.Helper()
	cfg := embeddedConfig(t, t.TempDir())
	cfg.Invoice.Series = scenario.Series
	var e *gpuhour.Engine
	t.Cleanup(func() { // the process serves one directory at a time, also after a failure
		if e != nil {
			_ = e.Close()
		}
	})
	for _, until := range append(w.restarts(), w.until) {
		part := *w
		part.until = until
		e = open(t, cfg, quiet())
		must(t, part.play(t.Context(), e, part.direct(e.Bus()), nowhere))
		if until == w.until {
			equal(t, "embedded engines against core/replay", want, harvest(t, e, want))
		}
		closed(t, e)
	}
}
