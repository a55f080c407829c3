package gpuhour_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

const all = ^uint64(0)

// bills is what one road gave.
type bills struct {
	Documents []string
	Totals    []meter.Total // of every period of every contract, and what found none
	Devices   map[string]meter.DeviceSeconds
	Blocked   []string
}

// replayed gives the world to core/replay.
func (w *world) replayed(t rapid.TB) bills {
	t.Helper()
	cfg := gpuhour.DefaultConfig()
	r, err := replay.Run(w.log(), replay.Options{Series: cfg.Invoice.Series, Grace: int64(cfg.Invoice.Grace.Seconds())})
	if err != nil {
		t.Fatal(err)
	}
	return billed(r)
}

// billed is what a replay gave.
func billed(r *replay.Result) bills {
	b := bills{Totals: r.Totals, Devices: r.Devices}
	for _, i := range r.Invoices {
		b.Documents = append(b.Documents, string(i.Fact.Document))
	}
	for _, x := range r.Blocked {
		b.Blocked = append(b.Blocked, x.Contract+": "+x.Reason)
	}
	return b.normal()
}

// harvest reads an engine's log and tables; want names what to ask for.
func harvest(t rapid.TB, e *gpuhour.Engine, want bills) bills {
	t.Helper()
	var b bills
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	invoices, err := e.Invoices(context.Background())
	fail(err)
	for i, r := range invoices {
		b.Documents = append(b.Documents, string(r.Document))
		if r.Number != uint64(i+1) {
			t.Fatalf("invoice %d has the number %d", i+1, r.Number)
		}
	}
	type period struct {
		contract, customer string
		start              span.Second
	}
	asked := map[period]bool{}
	for _, k := range want.Totals {
		p := period{k.Key.Contract, k.Key.Customer, k.Key.PeriodStart}
		if asked[p] {
			continue
		}
		asked[p] = true
		totals, err := e.Store().PeriodTotals(context.Background(), p.contract, p.start, all)
		if p.contract == "" {
			totals, err = e.Store().UncontractedTotals(context.Background(), p.customer, span.Span{From: 0, To: span.Open}, all)
		}
		fail(err)
		b.Totals = append(b.Totals, totals...)
	}
	devices, err := e.Store().DeviceTotals(context.Background(), span.Span{From: 0, To: span.Open}, all)
	fail(err)
	b.Devices = map[string]meter.DeviceSeconds{}
	for _, d := range devices {
		b.Devices[d.Device] = b.Devices[d.Device].Plus(d.DeviceSeconds)
	}
	for _, x := range e.Blocked() {
		b.Blocked = append(b.Blocked, x.Contract+": "+x.Reason)
	}
	return b.normal()
}

// normal orders the totals and names a contract's versions, and the price books, by their order: their positions in the log
// differ where services state facts of their own in between.
func (b bills) normal() bills {
	versions, books := map[string][]uint64{}, []uint64{0}
	for _, t := range b.Totals {
		versions[t.Key.Contract] = append(versions[t.Key.Contract], t.Key.Version)
		books = append(books, t.Key.Book)
	}
	nth := func(list []uint64, at uint64) uint64 {
		list = slices.Compact(slices.Sorted(slices.Values(list)))
		return uint64(slices.Index(list, at))
	}
	b.Totals = slices.Clone(b.Totals)
	for i := range b.Totals {
		k := &b.Totals[i].Key
		k.Version, k.Book = nth(versions[k.Contract], k.Version), nth(books, k.Book)
	}
	slices.SortFunc(b.Totals, func(x, y meter.Total) int {
		return cmp.Or(meter.CompareKeys(x.Key, y.Key), cmp.Compare(x.Lease, y.Lease), cmp.Compare(x.Device, y.Device))
	})
	if b.Devices == nil {
		b.Devices = map[string]meter.DeviceSeconds{}
	}
	for d, s := range b.Devices {
		if s == (meter.DeviceSeconds{}) {
			delete(b.Devices, d)
		}
	}
	return b
}

// equal compares two roads.
func equal(t rapid.TB, name string, want, got bills) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // cheaper than a difference
		return
	}
	if d := gocmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("%s (-want +got)\n%s", name, d)
	}
}

// embeddedConfig is a directory of the test with both engines inside, or no test: loudly, and with REQUIRE_STACK=1 a failure.
func embeddedConfig(t testing.TB, dir string) gpuhour.Config {
	t.Helper()
	if _, err := embedded.Library(t.Context(), nil); err != nil {
		if os.Getenv("REQUIRE_STACK") == "1" {
			t.Fatalf("REQUIRE_STACK=1 and no engine: %v", err)
		}
		t.Skipf("NOT TESTED on the embedded engines: %v", err)
	}
	cfg := gpuhour.DefaultConfig()
	cfg.Data, cfg.NATS.Listen = dir, ""
	return cfg
}

func quiet() gpuhour.Options { return gpuhour.Options{Logger: slog.New(slog.DiscardHandler)} }

func open(t testing.TB, cfg gpuhour.Config, o gpuhour.Options) *gpuhour.Engine {
	t.Helper()
	e, err := gpuhour.Open(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closed(t testing.TB, e *gpuhour.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func nowhere(span.Second) {}

// TestSameBillsOnEveryRoad: core/replay, the memory engines and the embedded stack give the same documents, byte for byte,
// and the same ledger.
func TestSameBillsOnEveryRoad(t *testing.T) {
	w := rich()
	want := w.replayed(t)
	checkRich(t, want)
	t.Run("memory", func(t *testing.T) {
		o := quiet()
		o.Memory = true
		e := open(t, gpuhour.DefaultConfig(), o)
		if err := errors.Join(w.play(t.Context(), e, w.direct(e.Bus()), nowhere)); err != nil {
			t.Fatal(err)
		}
		equal(t, "memory engines against core/replay", want, harvest(t, e, want))
		closed(t, e)
	})
	t.Run("embedded", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts ClickHouse; left out of -short")
		}
		e := open(t, embeddedConfig(t, t.TempDir()), quiet())
		if err := w.play(t.Context(), e, w.direct(e.Bus()), nowhere); err != nil {
			t.Fatal(err)
		}
		equal(t, "embedded engines against core/replay", want, harvest(t, e, want))
		closed(t, e)
	})
}

// checkRich holds the world to what it is meant to show, so that three equal lists are not three empty ones.
func checkRich(t *testing.T, b bills) {
	t.Helper()
	var got []string
	for _, text := range b.Documents {
		d, err := bill.ParseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s, %d lines, %d unbilled", d.Invoice, d.Kind, d.Contract, d.Period.From[:7], len(d.Lines), len(d.Unbilled)))
		if c := d.Quantity.Coverage; d.Number == 1 && (c.Measured == 0 || c.Inferred == 0 || c.Missing == 0 || c.TopUp == 0) {
			t.Errorf("the first invoice's coverage is %+v", c)
		}
	}
	want := []string{
		"GH-000001 invoice acme-2026 2026-02, 3 lines, 1 unbilled", "GH-000002 invoice nimbus-2026 2026-02, 1 lines, 1 unbilled",
		"GH-000003 invoice orbit-2026 2026-02, 1 lines, 0 unbilled",
		"GH-000004 correction acme-2026 2026-02, 2 lines, 0 unbilled", // nimbus's late samples change coverage alone
		"GH-000005 invoice acme-2026 2026-03, 3 lines, 0 unbilled", "GH-000006 invoice orbit-2026 2026-03, 1 lines, 0 unbilled",
		"GH-000007 invoice nimbus-2026 2026-03, 1 lines, 0 unbilled",
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	ghosts := int64(0)
	for _, d := range b.Devices {
		ghosts += d.Ghost
	}
	if ghosts == 0 {
		t.Error("no ghost was seen")
	}
}
