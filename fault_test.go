package gpuhour_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
)

// calls counts what is asked of log and tables, and tells around each call whether it fails there.
type calls struct {
	n  int
	at func(n int, name string, after bool) error // before and after the n-th call's effect
}

// do is one call: it fails before its effect, or after it.
func (c *calls) do(name string, effect func() error) error {
	c.n++
	n := c.n
	if err := c.at(n, name, false); err != nil {
		return err
	}
	outcome := effect()
	if err := c.at(n, name, true); err != nil {
		return err
	}
	return outcome
}

// watchedBus puts calls around every method of a log that asks or tells it something.
type watchedBus struct {
	bus.Bus
	*calls
}

func (b watchedBus) Publish(ctx context.Context, p bus.Publication) (seq uint64, err error) {
	err = b.do("publish "+p.Subject, func() (err error) { seq, err = b.Bus.Publish(ctx, p); return err })
	return seq, err
}

func (b watchedBus) PublishBatch(ctx context.Context, ps []bus.Publication) (last uint64, err error) {
	err = b.do("publish batch", func() (err error) { last, err = b.Bus.PublishBatch(ctx, ps); return err })
	return last, err
}

func (b watchedBus) Last(ctx context.Context, subject string) (m bus.Message, err error) {
	err = b.do("last "+subject, func() (err error) { m, err = b.Bus.Last(ctx, subject); return err })
	return m, err
}

func (b watchedBus) LastSeq(ctx context.Context, stream string) (seq uint64, err error) {
	err = b.do("last sequence", func() (err error) { seq, err = b.Bus.LastSeq(ctx, stream); return err })
	return seq, err
}

func (b watchedBus) Read(ctx context.Context, stream string, after uint64, max int) (ms []bus.Message, err error) {
	err = b.do("read", func() (err error) { ms, err = b.Bus.Read(ctx, stream, after, max); return err })
	return ms, err
}

func (b watchedBus) ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) (ms []bus.Message, err error) {
	err = b.do("read subject", func() (err error) { ms, err = b.Bus.ReadSubject(ctx, stream, subject, after, max); return err })
	return ms, err
}

// watchedStore does the same around the tables as the services use them.
type watchedStore struct {
	store.Store
	*calls
}

func (s watchedStore) Put(ctx context.Context, p store.Put) error {
	return s.do("put", func() error { return s.Store.Put(ctx, p) })
}

func (s watchedStore) Trim(ctx context.Context, block uint64) error {
	return s.do("trim", func() error { return s.Store.Trim(ctx, block) })
}

func (s watchedStore) Progress(ctx context.Context, service string) (p store.Progress, err error) {
	err = s.do("progress", func() (err error) { p, err = s.Store.Progress(ctx, service); return err })
	return p, err
}

func (s watchedStore) Minutes(ctx context.Context, ranges []meter.MinuteRange, block uint64) (rows []usage.Row, err error) {
	err = s.do("minutes", func() (err error) { rows, err = s.Store.Minutes(ctx, ranges, block); return err })
	return rows, err
}

func (s watchedStore) Standing(ctx context.Context, units []meter.UnitHour, block uint64) (
	l map[meter.Entry]meter.Amounts, d map[meter.DeviceEntry]meter.DeviceSeconds, err error,
) {
	err = s.do("standing", func() (err error) { l, d, err = s.Store.Standing(ctx, units, block); return err })
	return l, d, err
}

func (s watchedStore) LastMinutes(ctx context.Context, block uint64) (last map[meter.Unit]span.Minute, err error) {
	err = s.do("last minutes", func() (err error) { last, err = s.Store.LastMinutes(ctx, block); return err })
	return last, err
}

func (s watchedStore) PeriodTotals(ctx context.Context, contract string, start span.Second, block uint64) (ts []meter.Total, err error) {
	err = s.do("period totals", func() (err error) { ts, err = s.Store.PeriodTotals(ctx, contract, start, block); return err })
	return ts, err
}

func (s watchedStore) UncontractedTotals(ctx context.Context, customer string, within span.Span, block uint64) (ts []meter.Total, err error) {
	err = s.do("uncontracted totals", func() (err error) {
		ts, err = s.Store.UncontractedTotals(ctx, customer, within, block)
		return err
	})
	return ts, err
}

func (s watchedStore) ChangedPeriods(ctx context.Context, after, block uint64) (ps []store.Period, err error) {
	err = s.do("changed periods", func() (err error) { ps, err = s.Store.ChangedPeriods(ctx, after, block); return err })
	return ps, err
}

func (s watchedStore) OpenRefusals(ctx context.Context, block uint64) (rs []meter.Refusal, err error) {
	err = s.do("open refusals", func() (err error) { rs, err = s.Store.OpenRefusals(ctx, block); return err })
	return rs, err
}

func (s watchedStore) PutInvoice(ctx context.Context, row store.Invoice) error {
	return s.do("put invoice", func() error { return s.Store.PutInvoice(ctx, row) })
}

// small is a world with a close, a correction, a late signature, a bill in advance and samples, for which every call can fail once.
func small() *world {
	w := &world{until: instant("2026-03-01T09:02:00Z")}
	at := func(text string) span.Second { return instant("2026-" + text + "Z") }
	billing := "cycle: hourly, grace: 60s, minimum: 60s"
	text := func(id, customer string) string {
		return "contract: " + id + "\ncustomer: " + customer + "\ncurrency: CNY\ntimezone: UTC\nterm: {from: 2026-03-01T06:00:00Z, to: 2026-04-01}\n" +
			"billing: {" + billing + "}\nrates:\n  - {sku: h100, on_demand: 35.00/gpu-hour}\n" +
			"  - {sku: a100, on_demand: 9.00/gpu-hour, reserved: [{name: base, quantity: 1, price: 24.00/gpu-day, from: 2026-03-01, to: 2026-04-01, pay: advance}]}\n"
	}
	w.know(at("03-01T06:00:00"), "c/acme", signed("acme-1", "acme", text("acme-1", "acme")))
	w.know(at("03-01T07:30:00"), "c/late", signed("late-1", "late", text("late-1", "late")))
	w.know(at("03-01T06:10:00"), "l/a", lease("a", "acme", "h100", at("03-01T06:10:00"), share("n-a", 0, 1000)))
	w.know(at("03-01T06:20:00"), "l/b", lease("b", "late", "h100", at("03-01T06:20:00"), share("n-a", 1, 500)))
	w.know(at("03-01T07:20:00"), "l/b/stop", &fact.LeaseStopped{Lease: "b", At: at("03-01T07:20:00"), By: fact.ByCustomer})
	w.know(at("03-01T08:20:00"), "l/a/stop", &fact.LeaseStopped{Lease: "a", At: at("03-01T06:40:20"), By: fact.ByFault})
	window := span.Span{From: at("03-01T06:59:00"), To: at("03-01T07:01:00")}
	w.nodes = []sampled{{"n-a", recording("n-a", window), 0}}
	w.stops = []span.Second{window.To, at("03-01T08:30:00")}
	return w.finish()
}

// TestEveryCallFailsOnce lets the k-th call of log or tables fail, before its effect and after it, for every k: the world
// then goes on, in the same process or in a new one, and comes to the same bills and the same rows.
func TestEveryCallFailsOnce(t *testing.T) {
	t.Parallel()
	w := small()
	want := w.replayed(t)
	if len(want.Documents) < 5 {
		t.Fatalf("the small world has only %d invoices", len(want.Documents))
	}
	last := faulty(t, w, want, func(int, string, bool) error { return nil }, false)
	for k := 1; k <= last; k++ {
		for variant := range 4 {
			if testing.Short() && variant != k%4 {
				continue
			}
			after, restart := variant&1 == 1, variant&2 == 2
			failed := ""
			faulty(t, w, want, func(n int, name string, now bool) error {
				if n != k || now != after {
					return nil
				}
				failed = name
				return fmt.Errorf("call %d, %s, after its effect %v, then a new process %v: %w", n, name, after, restart, errInjected)
			}, restart)
			if failed == "" && k < last/2 {
				t.Fatalf("call %d of %d did not fail", k, last)
			}
		}
	}
	t.Logf("each of %d calls failed before and after its effect", last)
}

// TestDrawnWorldsSurviveFaults holds random worlds on failing engines against core/replay.
func TestDrawnWorldsSurviveFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() { // fewer worlds, always the same
		worlds := rapid.Custom(draw)
		for seed := range 50 {
			survives(t, worlds.Example(seed), uint64(seed))
		}
		return
	}
	rapid.Check(t, func(rt *rapid.T) { survives(rt, draw(rt), rapid.Uint64().Draw(rt, "seed")) })
}

func survives(t rapid.TB, w *world, seed uint64) {
	t.Helper()
	want := w.replayed(t)
	dice := rand.New(rand.NewPCG(seed, 0))
	one := []int{20, 60, 200, 1 << 30}[dice.IntN(4)]
	faulty(t, w, want, func(n int, name string, after bool) error {
		if dice.IntN(2*one) > 0 {
			return nil
		}
		return fmt.Errorf("seed %d: call %d, %s, after its effect %v: %w", seed, n, name, after, errInjected)
	}, dice.IntN(2) == 0)
}

// errInjected leaves open what happened, as a broken connection does.
var errInjected = fmt.Errorf("injected: %w", bus.ErrAmbiguous)

// faulty plays the world to its end through failing engines and returns how many calls it took.
func faulty(t rapid.TB, w *world, want bills, at func(int, string, bool) error, restart bool) int {
	t.Helper()
	var met error
	c := &calls{at: func(n int, name string, after bool) error {
		err := at(n, name, after)
		if err != nil {
			met = err
		}
		return err
	}}
	log, tables := watchedBus{membus.New(stamp), c}, watchedStore{memstore.New(), c}
	e := gpuhour.OpenOn(log, tables)
	for {
		err := w.play(context.Background(), e, w.direct(log), nowhere)
		if err == nil {
			break
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("after %v: %v", met, err)
		}
		if restart {
			e = gpuhour.OpenOn(log, tables)
		}
	}
	took := c.n
	plain := gpuhour.OpenOn(log.Bus, tables.Store)
	got := harvest(t, plain, want)
	got.Blocked = want.Blocked // a service's own memory of its last cut
	equal(t, fmt.Sprintf("after %v", met), want, got)
	seen, err := tables.SeenSeconds(context.Background(), span.Span{From: 0, To: span.Open}, all)
	if err != nil || seen != w.seen() {
		t.Fatalf("after %v: %d seconds of devices are stored (%v), %d were sampled", met, seen, err, w.seen())
	}
	return took
}

// seen counts the device-seconds of the recordings.
func (w *world) seen() (n int64) {
	for _, node := range w.nodes {
		for at := node.source.Window.From; at < node.source.Window.To; at++ {
			if readings, err := node.source.Sample(at, nil); err == nil {
				n += int64(len(readings))
			}
		}
	}
	return n
}
