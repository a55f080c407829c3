package gpuhour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/gpuhour/gpuhour"
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/replay"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	logv1 "github.com/gpuhour/gpuhour/proto/gpuhour/log/v1"
)

// lengths are how many messages a log holds: a moment of it.
type lengths struct{ facts, usage uint64 }

// remembering is a log that remembers its moments.
type remembering struct {
	bus.Bus
	moments []lengths
}

func (r *remembering) Publish(ctx context.Context, p bus.Publication) (uint64, error) {
	seq, err := r.Bus.Publish(ctx, p)
	r.remember(ctx)
	return seq, err
}

func (r *remembering) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	seq, err := r.Bus.PublishBatch(ctx, ps)
	r.remember(ctx)
	return seq, err
}

func (r *remembering) remember(ctx context.Context) {
	facts, _ := r.LastSeq(ctx, bus.Facts) // the memory log answers
	usage, _ := r.LastSeq(ctx, bus.Usage)
	r.moments = append(r.moments, lengths{facts, usage})
}

// restored is a log as it was at a moment.
func restored(t *testing.T, from bus.Bus, n lengths) *membus.Bus {
	t.Helper()
	to := membus.New(stamp)
	for stream, last := range map[string]uint64{bus.Facts: n.facts, bus.Usage: n.usage} {
		for after := uint64(0); after < last; {
			messages, err := from.Read(t.Context(), stream, after, int(min(1000, last-after)))
			must(t, err)
			for _, m := range messages {
				_, err := to.Publish(t.Context(), bus.Publication{Subject: m.Subject, Header: m.Header, Data: m.Data})
				must(t, err)
				after = m.Seq
			}
		}
	}
	return to
}

// given sums all documents that customers ever got, and holds their numbers.
func given(t *testing.T, e *gpuhour.Engine) (sums map[string]string, documents []string) {
	t.Helper()
	invoices, err := e.Invoices(t.Context())
	must(t, err)
	total := map[string]*big.Rat{}
	for i, r := range invoices {
		d, err := bill.ParseDocument(r.Document)
		must(t, err)
		amount, ok := new(big.Rat).SetString(d.Total)
		if name := fmt.Sprintf("GH-%06d", i+1); d.Invoice != name || !ok {
			t.Fatalf("%s calls itself %s, its total %q", name, d.Invoice, d.Total)
		}
		k := d.Customer + " " + d.Currency
		if total[k] == nil {
			total[k] = new(big.Rat)
		}
		total[k].Add(total[k], amount)
		documents = append(documents, string(r.Document))
	}
	sums = map[string]string{}
	for k, v := range total {
		sums[k] = v.FloatString(2)
	}
	return sums, documents
}

// facts is where the fact stream ends.
func facts(t *testing.T, b bus.Bus) uint64 {
	t.Helper()
	n, err := b.LastSeq(t.Context(), bus.Facts)
	must(t, err)
	return n
}

// undisturbed is the rich world played to its end in memory.
func undisturbed(t *testing.T) (*remembering, *memstore.Store, map[string]string, []string) {
	t.Helper()
	b, tables, sums, documents := played(t, rich())
	if len(documents) != 7 {
		t.Fatalf("%d invoices; want 7", len(documents))
	}
	return b, tables, sums, documents
}

// played is a world played to its end in memory.
func played(t *testing.T, w *world) (*remembering, *memstore.Store, map[string]string, []string) {
	t.Helper()
	b, tables := &remembering{Bus: membus.New(stamp)}, memstore.New()
	e := gpuhour.OpenOn(b, tables)
	must(t, w.play(t.Context(), e, w.direct(b), nowhere))
	sums, documents := given(t, e)
	return b, tables, sums, documents
}

// TestRecoverAtEveryMoment: whatever moment of a log is restored under tables that had come to its end, nothing works until it
// is recovered; then numbers go on without a gap, every document that was given out is still there, and all documents of a
// customer sum to what they would have without the loss.
func TestRecoverAtEveryMoment(t *testing.T) {
	step := 5
	if testing.Short() {
		step = 40
	}
	recoverAtMoments(t, rich, step)
	recoverAtMoments(t, prepaid, 1)
}

func recoverAtMoments(t *testing.T, story func() *world, step int) {
	t.Helper()
	b, tables, want, before := played(t, story())
	recovered := 0
	for at := 0; at < len(b.moments); at += step {
		moment := b.moments[at]
		if facts(t, restored(t, b, lengths{moment.facts, 0})) == 0 {
			continue
		}
		log := restored(t, b, moment)
		old := gpuhour.OpenOn(log, tables)
		found, err := old.Recovery(t.Context())
		must(t, err)
		if found.Incarnation == 0 {
			continue
		}
		recovered++
		standstill(t, old, log)
		if _, err := old.Recover(t.Context(), "ops-2", "a test restored it"); err != nil {
			t.Fatalf("moment %v: %v", moment, err)
		}
		fresh, w := gpuhour.OpenOn(log, memstore.New()), story()
		must(t, w.play(t.Context(), fresh, w.direct(log), nowhere))
		sums, after := given(t, fresh)
		if diff := gocmp.Diff(want, sums); diff != "" {
			t.Errorf("moment %v: sums (-undisturbed +recovered)\n%s", moment, diff)
		}
		for _, d := range before {
			if !slices.Contains(after, d) {
				t.Errorf("moment %v: a document that was given out is gone: %.120s", moment, d)
			}
		}
		lost := len(found.Invoices)
		report, err := gpuhour.Audit(t.Context(), log, gpuhour.DefaultConfig(), nil)
		if err != nil || len(report.Differences) > 0 || report.Recovered != lost || report.Cancelled != lost || len(after) != len(before)+2*lost {
			t.Errorf("moment %v: %d lost, %d documents, audit %+v, %v", moment, lost, len(after), report, err)
		}
		if again, err := fresh.Recovery(t.Context()); err != nil || again.Incarnation != 0 {
			t.Errorf("moment %v: after the recovery there is to recover %+v, %v", moment, again, err)
		}
	}
	if recovered < 10 && !testing.Short() || recovered == 0 {
		t.Errorf("%d moments had to be recovered", recovered)
	}
}

// standstill expects that no service works on tables of another log, and that none writes.
func standstill(t *testing.T, e *gpuhour.Engine, log bus.Bus) {
	t.Helper()
	end := facts(t, log)
	for i, step := range e.Steps()[:2] {
		for range 2 { // at boot, and at the boot after that
			if _, err := step(t.Context()); !errors.Is(err, journal.ErrRewound) && (i == 1 || err != nil) {
				t.Errorf("service %d: %v", i, err)
			}
		}
	}
	if now := facts(t, log); now != end {
		t.Errorf("the log grew by %d facts before it was recovered", now-end)
	}
}

// changing is a log that is replaced under a running process.
type changing struct{ bus.Bus }

// TestReplacedUnderRunningServices: services that stand at the end of a log notice that it was replaced, also when the other
// log has grown past them meanwhile; none states anything.
func TestReplacedUnderRunningServices(t *testing.T) {
	whole, _, _, _ := undisturbed(t)
	for _, grown := range []bool{false, true} {
		b, w := &changing{restored(t, whole, lengths{})}, rich()
		e := gpuhour.OpenOn(b, memstore.New())
		must(t, w.play(t.Context(), e, w.direct(b), nowhere))
		end := whole.moments[len(whole.moments)-1]
		older := restored(t, whole, whole.moments[len(whole.moments)/2])
		for k := 0; grown && k < int(end.usage); k++ {
			other := gpuhour.OpenOn(older, memstore.New())
			must(t, other.State(t.Context(), fact.Fact{Key: fmt.Sprint("grown/", k), Body: &fact.LeaseStopped{Lease: "none", At: w.until, By: fact.ByFault}}))
			must(t, other.Tick(t.Context(), w.until))
		}
		b.Bus = older
		stated := facts(t, older)
		for i, step := range e.Steps() {
			if _, err := step(t.Context()); !errors.Is(err, journal.ErrRewound) {
				t.Errorf("grown %v, service %d: %v", grown, i, err)
			}
		}
		if now := facts(t, older); now != stated {
			t.Errorf("grown %v: the services stated %d facts", grown, now-stated)
		}
	}
}

// TestRecoverRefuses: logs that cannot go on are named, with what to restore.
func TestRecoverRefuses(t *testing.T) {
	b, tables, _, _ := undisturbed(t)
	end := b.moments[len(b.moments)-1]
	rows, err := tables.Invoices(t.Context())
	must(t, err)
	holding := func(edit func(*store.Invoice)) *memstore.Store {
		s := memstore.New()
		for _, r := range rows {
			edit(&r)
			must(t, s.PutInvoice(t.Context(), r))
		}
		return s
	}
	early := b.moments[len(b.moments)/4]
	var pair lengths // a closing whose invoice is cut off
	for seq := uint64(1); seq < end.facts && pair.facts == 0; seq++ {
		messages, err := b.Read(t.Context(), bus.Facts, seq-1, 1)
		must(t, err)
		f, err := codec.DecodeFact(messages[0])
		must(t, err)
		if _, ok := f.Body.(*fact.PeriodClosed); ok {
			pair = lengths{seq, end.usage}
		}
	}
	for name, c := range map[string]struct {
		moment lengths
		tables store.Store
		want   string
	}{
		"nothing at all":            {lengths{}, tables, "the log holds nothing"},
		"facts from before":         {lengths{early.facts, end.usage}, tables, "the streams were restored from two moments"},
		"usage from before":         {lengths{end.facts, early.usage}, tables, "which the usage stream does not hold"},
		"no usage":                  {lengths{end.facts, 0}, tables, "which the usage stream does not hold"},
		"a cut that has no end":     {lengths{pair.facts, 0}, tables, "whose invoice is cut off"},
		"a number with two bills":   {end, holding(func(r *store.Invoice) { r.Document = slices.Concat(r.Document, []byte(" ")) }), "GH-000001 in the log is not the one that was given out"},
		"an unknown number between": {early, holding(func(r *store.Invoice) { r.Number += r.Number / 3 }), "know no invoice GH-000003"},
		"no document":               {early, holding(func(r *store.Invoice) { r.Document = []byte("{}") }), `format "" is not`},
		"another's document":        {early, holding(func(r *store.Invoice) { r.Series = "OTHER" }), "calls itself GH-000001"},
		"lines that do not sum": {early, holding(func(r *store.Invoice) {
			r.Document = []byte(strings.Replace(string(r.Document), `"total":"`, `"total":"1`, 1))
		}), "gpuhour did not write it"},
		"a currency that is none": {early, holding(func(r *store.Invoice) {
			r.Document = []byte(strings.Replace(string(r.Document), `"currency":"`, `"currency":"X`, 1))
		}), "cancel invoice GH-000001"},
	} {
		e := gpuhour.OpenOn(restored(t, b, c.moment), c.tables)
		before := facts(t, e.Bus())
		_, err := e.Recover(t.Context(), "ops-2", "a test")
		if err == nil || !strings.Contains(err.Error(), c.want) || facts(t, e.Bus()) != before {
			t.Errorf("%s: %v; want %q and nothing stated", name, err, c.want)
		}
	}
	e := gpuhour.OpenOn(restored(t, b, early), tables)
	for _, c := range [][3]string{{"", "a test", "by is missing"}, {"ops-2", "", "reason is missing"}, {"ops\n2", "a test", "control character"}} {
		if _, err := e.Recover(t.Context(), c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("by %q, reason %q: %v", c[0], c[1], err)
		}
	}
}

// TestRecoverGoesOnAfterACrash: a recovery that fails at any of its publications is finished by the next.
func TestRecoverGoesOnAfterACrash(t *testing.T) {
	b, tables, want, _ := undisturbed(t)
	for fails := 1; ; fails++ {
		log := restored(t, b, b.moments[len(b.moments)/4])
		n := 0
		failing := watchedBus{log, &calls{at: func(_ int, name string, after bool) error {
			if strings.HasPrefix(name, "publish ") && !after {
				if n++; n == fails {
					return errors.New("the cable was pulled")
				}
			}
			return nil
		}}}
		_, err := gpuhour.OpenOn(failing, tables).Recover(t.Context(), "ops-2", "a test")
		if err == nil {
			if fails < 3 {
				t.Errorf("the recovery has %d publications", fails-1)
			}
			return
		}
		_, err = gpuhour.OpenOn(log, tables).Recover(t.Context(), "ops-2", "a test")
		must(t, err)
		e, w := gpuhour.OpenOn(log, memstore.New()), rich()
		must(t, w.play(t.Context(), e, w.direct(log), nowhere))
		if sums, _ := given(t, e); !gocmp.Equal(want, sums) {
			t.Errorf("after a failure at publication %d: %s", fails, gocmp.Diff(want, sums))
		}
	}
}

// TestAuditOfARecoveredLog: what was recovered is taken as stated, with its number the next; its cancellation is decided again.
func TestAuditOfARecoveredLog(t *testing.T) {
	b, tables, _, _ := undisturbed(t)
	log := restored(t, b, b.moments[len(b.moments)/4])
	_, err := gpuhour.OpenOn(log, tables).Recover(t.Context(), "ops-2", "a test")
	must(t, err)
	e, w := gpuhour.OpenOn(log, memstore.New()), rich()
	must(t, w.play(t.Context(), e, w.direct(log), nowhere))
	var text bytes.Buffer
	must(t, journal.Dump(t.Context(), log, &text))
	if report := audit(t, text.String()); len(report.Differences) > 0 || report.Recovered == 0 || report.Recovered != report.Cancelled {
		t.Fatalf("an honest log: %+v", report)
	}
	lines := strings.SplitAfter(text.String(), "\n")
	change := func(edit func(*logv1.InvoiceRecovered)) func(string) string {
		return func(line string) string {
			var m logv1.InvoiceRecovered
			if !strings.Contains(line, string(fact.TypeInvoiceRecovered)) || proto.Unmarshal(dataOf(line), &m) != nil {
				return line
			}
			edit(&m)
			data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
			must(t, err)
			return body(line, data)
		}
	}
	for want, edit := range map[string]func(string) string{
		"its number comes after 0": change(func(m *logv1.InvoiceRecovered) { m.Number = 9 }),
		"the documents differ": change(func(m *logv1.InvoiceRecovered) {
			m.Document = bytes.Replace(m.Document, []byte("acme"), []byte("akme"), 1)
		}),
		"the documents differ: at": amountChanged, // the first that was issued here is a cancellation
	} {
		report := audit(t, strings.Join(edited(t, lines, edit), ""))
		if len(report.Differences) == 0 || !strings.Contains(report.Differences[0], want) {
			t.Errorf("differences %.300q; want one with %q", report.Differences, want)
		}
	}
}

// TestReplayCancels: core/replay alone cancels what is recovered, by the next numbers and before it closes.
func TestReplayCancels(t *testing.T) {
	_, _, want, before := undisturbed(t)
	w := rich()
	at := w.statements[0].Known
	for i, text := range before[:2] {
		d, err := bill.ParseDocument([]byte(text))
		must(t, err)
		w.know(at, fmt.Sprint("lost/", i), &fact.InvoiceRecovered{
			Incarnation: 2, Series: d.Series, Number: d.Number, Customer: d.Customer, Closing: "lost", Document: []byte(text),
		})
	}
	w.know(at, "recovered", &fact.LogRecovered{Incarnation: 2, By: "ops-2", Reason: "a test"})
	r, err := replay.Run(w.finish().log(), replay.Options{Series: "GH", Grace: 3 * 3600})
	must(t, err)
	sums := map[string]*big.Rat{}
	for i, issued := range r.Invoices {
		d := issued.Document
		if d.Number != uint64(i+3) || (d.Kind == bill.KindCancellation) != (i < 2) {
			t.Errorf("document %d is %s %s", i, d.Kind, d.Invoice)
		}
		total, _ := new(big.Rat).SetString(d.Total)
		if k := d.Customer + " " + d.Currency; sums[k] == nil {
			sums[k] = total
		} else {
			sums[k].Add(sums[k], total)
		}
	}
	for _, text := range before[:2] {
		d, err := bill.ParseDocument([]byte(text))
		must(t, err)
		total, _ := new(big.Rat).SetString(d.Total)
		sums[d.Customer+" "+d.Currency].Add(sums[d.Customer+" "+d.Currency], total)
	}
	for k, v := range sums {
		if v.FloatString(2) != want[k] {
			t.Errorf("%s: %s in all; want %s", k, v.FloatString(2), want[k])
		}
	}
}

// TestRecoverOnTheStack: a JetStream directory is copied, the world goes on, the copy is put back; recovered twice, the second
// time from before the first recovery.
func TestRecoverOnTheStack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ClickHouse; left out of -short")
	}
	dir, w := t.TempDir(), rich()
	cfg := embeddedConfig(t, dir)
	until := func(at string) {
		t.Helper()
		w.until = instant(at)
		e := open(t, cfg, quiet())
		must(t, w.play(t.Context(), e, w.direct(e.Bus()), nowhere))
		closed(t, e)
	}
	nats, kept := filepath.Join(dir, "nats"), filepath.Join(dir, "kept")
	until("2026-03-01T12:00:00Z")
	must(t, os.CopyFS(kept, os.DirFS(nats)))
	until("2026-03-15T00:00:00Z")
	lost := 0
	for round, until := range []string{"2026-04-02T00:00:00Z", "2026-04-05T00:00:00Z"} {
		must(t, errors.Join(os.RemoveAll(nats), os.CopyFS(nats, os.DirFS(kept))))
		e := open(t, cfg, quiet())
		if err := e.Pump(t.Context()); !errors.Is(err, journal.ErrRewound) || !strings.Contains(err.Error(), "gpuhour recover --by NAME") {
			t.Fatalf("round %d: services step on the older copy: %v", round, err)
		}
		end := facts(t, e.Bus())
		found, err := e.Recovery(t.Context())
		must(t, err)
		if found.Incarnation != uint64(round+2) || len(found.Invoices) <= lost || facts(t, e.Bus()) != end {
			t.Fatalf("round %d: found %+v", round, found)
		}
		lost = len(found.Invoices)
		_, err = e.Recover(t.Context(), "ops-2", "the disk was lost")
		must(t, err)
		if err := e.Pump(t.Context()); round == 0 && (err == nil || !strings.Contains(err.Error(), "start this process again")) {
			t.Fatalf("a process that outlives the recovery: %v", err)
		}
		closed(t, e)
		w.until = instant(until)
		e = open(t, cfg, quiet())
		must(t, w.play(t.Context(), e, w.direct(e.Bus()), nowhere))
		closed(t, e)
	}
	e := open(t, cfg, quiet())
	_, _, want, _ := undisturbed(t)
	sums, documents := given(t, e)
	if diff := gocmp.Diff(want, sums); diff != "" || len(documents) != 7+2*lost {
		t.Errorf("%d documents, %d lost, sums (-undisturbed +recovered)\n%s", len(documents), lost, diff)
	}
	report, err := gpuhour.Audit(t.Context(), e.Bus(), cfg, nil)
	if err != nil || len(report.Differences) > 0 || report.Recovered != lost || report.Cancelled != lost {
		t.Errorf("audit %+v, %v", report, err)
	}
	if again, err := e.Recovery(t.Context()); err != nil || again.Incarnation != 0 {
		t.Errorf("there is to recover %+v, %v", again, err)
	}
	closed(t, e)
}
