package contract_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/calendar"
	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
)

// seeds is how many random documents a test draws: 2,000, and 10,000 with -rapid.checks=500.
func seeds() uint64 {
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		return 0
	}
	return uint64(20 * checks)
}

// whole compares what same cannot look into.
func whole() cmp.Option {
	return cmp.Options{cmp.AllowUnexported(contract.Schedule{}), cmp.Comparer(func(a, b *calendar.Holidays) bool { return a.Name == b.Name })}
}

func chooser(seed uint64) random.Chooser { return rand.New(rand.NewPCG(seed, 0)).IntN }

// TestRandomContracts: what the language allows is accepted, and reads back from its source.
func TestRandomContracts(t *testing.T) {
	for seed := range seeds() {
		text := random.Contract(chooser(seed))
		c, err := contract.Parse("c.yaml", []byte(text))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		again, err := contract.Parse("c.yaml", c.Source)
		if err != nil {
			t.Fatalf("seed %d: source: %v\n%s", seed, err, text)
		}
		if seed%100 == 0 {
			if diff := cmp.Diff(c, again, same(), whole()); diff != "" {
				t.Fatalf("seed %d (-first +again)\n%s", seed, diff)
			}
		}
		text = random.Book(chooser(seed))
		if _, err := contract.ParseBook("b.yaml", []byte(text)); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
	}
}

// placed tells whether an error names a place of the text and says something.
func placed(err error, text string) bool {
	var errs contract.Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		return false
	}
	lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1 // at most
	for _, e := range errs {
		if e.Line < 1 || e.Line > lines || e.Column < 1 || e.Message == "" {
			return false
		}
	}
	return true
}

// TestBrokenContracts: a document with something wrong is refused with its place, or what was changed is allowed; it never panics.
func TestBrokenContracts(t *testing.T) {
	accepted := 0
	for seed := range seeds() {
		text := random.Broken(chooser(seed))
		switch _, err := contract.Parse("c.yaml", []byte(text)); {
		case err == nil:
			accepted++
		case !placed(err, text):
			t.Errorf("seed %d: %v\n%s", seed, err, text)
		}
		text = random.BrokenBook(chooser(seed))
		if _, err := contract.ParseBook("b.yaml", []byte(text)); err != nil && !placed(err, text) {
			t.Errorf("seed %d: %v\n%s", seed, err, text)
		}
	}
	if share := accepted * 100 / int(max(seeds(), 1)); share < 2 || share > 60 {
		t.Errorf("%d%% of broken contracts are accepted", share)
	}
}

// TestGiantNumbersAreRefusedUnread: no scalar is turned into a number before its exponent is known to be small. A reader that did so
// would allocate hundreds of megabytes for it.
func TestGiantNumbersAreRefusedUnread(t *testing.T) {
	const giant = "1E1000000000"
	for _, clauses := range []string{
		"rates: [{sku: a, on_demand: @/gpu-hour}]", "rates: [{sku: a, on_demand: 1/gpu-hour, region: {x: @%}}]", "rates: [{sku: a, on_demand: 1/gpu-hour, dedicated: @%}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, cap: @/gpu-hour}]", "rates: [{sku: a, on_demand: 1/gpu-hour, spot: {index: a, max: @% of on_demand}}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, reserved: [{name: b, quantity: @, price: 1/gpu-day, from: 2026-01-01, to: open}]}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, reserved: [{name: b, quantity: 1, price: @/gpu-day, from: 2026-01-01, to: open}]}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, forward: [{quantity: 1, price: @/gpu-hour, from: 2026-01-01, to: open}]}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, volume: {by: gpu-hours, method: volume, tiers: [{upto: @, price: 1%}, {price: 1%}]}}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, volume: {by: gpu-hours, method: volume, tiers: [{price: @%}]}}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour, volume: {by: gpu-hours, method: volume, tiers: [{price: 1%, flat: @}]}}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], billing: {minimum: @s}", "rates: [{sku: a, on_demand: 1/gpu-hour}], billing: {anchor: @}",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], schedule: [{name: n, for: [spot], windows: [daily 22:00-06:00], off: @%}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], idle_relief: {below: @%, after: 15m, off: 50%}",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], packages: [{name: p, sku: a, unit: day, quantity: 1, price: @}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], meters: [{name: m, price: @/GB}]", "rates: [{sku: a, on_demand: 1/gpu-hour}], meters: [{name: m, price: 1/@ GB}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], meters: [{name: m, price: 1/GB, free: @ GB}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], meters: [{name: m, price: 1/GB}], bundles: [{with: m, at_least: @ TB, on: a, off: 5%}]",
		"rates: [{sku: a, on_demand: 1/gpu-hour}], addons: [{name: a, price: @/month}]", "rates: [{sku: a, on_demand: 1/gpu-hour}], commitment: {spend: @/month, shortfall: bill}",
	} {
		const head = "{contract: c1, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: open}, "
		if _, err := contract.Parse("c", []byte(head+strings.ReplaceAll(clauses, "@", "1")+"}")); err != nil {
			t.Errorf("%s: the clause itself: %v", clauses, err)
		}
		document := []byte(head + strings.ReplaceAll(clauses, "@", giant) + "}")
		if _, err := contract.Parse("c", document); err == nil {
			t.Errorf("%s is accepted", clauses)
		}
		if mallocs, bytes := work(func() { _, _ = contract.Parse("c", document) }); mallocs > 20_000 || bytes > 4<<20 {
			t.Errorf("%s: refused with %d allocations of %d bytes", clauses, mallocs, bytes)
		}
	}
}

// work counts what a call allocates.
func work(call func()) (mallocs, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// TestLargeDocumentsAreBounded: no document that the bounds let through makes the reader allocate out of proportion.
func TestLargeDocumentsAreBounded(t *testing.T) {
	filled := func(with string) string { return strings.Repeat(with, (contract.MaxBytes-10)/len(with)) }
	var deep strings.Builder
	for i := range 700 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for _, text := range []string{
		`a: "` + filled(`x\n`), "a: '" + filled("''"), filled(`"" `), filled("a: "), filled(":"), filled("\n"), filled("  "), "a: |\n" + filled("  x\n"), "a: >\n" + filled("  x\n\n"),
		"a: x\n" + filled("  y\n"), filled("# x\n"), "a: [" + filled(","), filled("---\n"), filled("...\n"), filled("?\n"), deep.String(), filled("\x00"), filled("\xff"),
		"rates: [" + strings.Repeat("{sku: a},", 800) + "]", strings.Repeat("key:\n", 4000),
	} {
		if mallocs, bytes := work(func() { _, _ = contract.Parse("c", []byte(text)) }); mallocs > 5_000_000 || bytes > 256<<20 {
			t.Errorf("%.20q...: %d allocations of %d bytes", text, mallocs, bytes)
		}
	}
}

// FuzzParse: no document panics or hangs; an accepted one has what rating stands on.
func FuzzParse(f *testing.F) {
	f.Add([]byte("{contract: c1, customer: a, currency: USD, timezone: UTC, term: {from: 2026-01-01, to: open}, rates: [{sku: a, on_demand: 1/gpu-hour}], " +
		"schedule: [{name: n, for: [spot], windows: [Fri-Mon 22:00-08:00, daily 00:00-24:00], holidays: [cn-2025, cn-2026], off: 40%}]}"))
	f.Add([]byte(small))
	f.Add([]byte(full))
	f.Add([]byte("a: &a [*a, *a]\n? b\n: |\n  c\n%YAML\n---\n"))
	for seed := range uint64(100) {
		f.Add([]byte(random.Contract(chooser(seed))))
		f.Add([]byte(random.Broken(chooser(seed))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := contract.Parse("fuzz.yaml", data)
		if err != nil {
			if !placed(err, string(data)) {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		if c.Currency.Digits() < 0 || c.Term.Empty() || c.Period(c.Term.From).Span.From != c.Term.From || len(c.Rates) == 0 && c.PriceBook == "" {
			t.Fatalf("accepted %+v", c)
		}
		for _, r := range c.Rates {
			if r.SKU == "" || r.OnDemand.Amount == nil && r.Spot == nil && c.PriceBook == "" || r.OnDemand.Amount != nil && (r.OnDemand.Amount.Sign() < 0 || r.OnDemand.Unit == 0) {
				t.Fatalf("accepted rate %+v", r)
			}
		}
	})
}

// FuzzParseBook: no price book panics or hangs; an accepted one prices every SKU that it names.
func FuzzParseBook(f *testing.F) {
	for seed := range uint64(50) {
		f.Add([]byte(random.Book(chooser(seed))))
		f.Add([]byte(random.BrokenBook(chooser(seed))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := contract.ParseBook("fuzz.yaml", data)
		if err != nil {
			if !placed(err, string(data)) {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		for _, r := range b.Rates {
			if r.SKU == "" || r.OnDemand.Amount == nil || r.OnDemand.Amount.Sign() < 0 || r.OnDemand.Unit == 0 {
				t.Fatalf("accepted rate %+v", r)
			}
		}
	})
}
