package demo

import (
	"context"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/services/importer/openb"
	"github.com/gpuhour/gpuhour/services/importer/shapes"
	"github.com/gpuhour/gpuhour/services/invoicer/render"
)

// findings is what the demo reads back from the tables and the log.
type findings struct {
	invoices []*bill.Document
	devices  []store.DeviceTotal
	seen     int64 // distinct (device, second) in the tables
	refusals []meter.Refusal
	raised   map[string]int // by scope
	resolved int
	messages map[string]uint64
	blocked  []bill.Block
}

func (w *world) report(ctx context.Context) error {
	w.Progress.Stage("reading the results back")
	f, err := w.find(ctx)
	if err != nil {
		return err
	}
	w.Progress.Done()
	w.printDone(f)
	if err := w.printHours(f); err != nil {
		return err
	}
	fmt.Fprintln(w.Out, render.List(f.invoices, w.Look))
	w.printItemised(f)
	w.printCoverage(f)
	w.printNext(f)
	return w.check(f)
}

func (w *world) find(ctx context.Context) (*findings, error) {
	f := &findings{raised: map[string]int{}, messages: map[string]uint64{}}
	rows, err := w.engine.Invoices(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		d, err := bill.ParseDocument(r.Document)
		if err != nil {
			return nil, err
		}
		f.invoices = append(f.invoices, d)
	}
	const all = ^uint64(0)
	if f.devices, err = w.engine.Store().DeviceTotals(ctx, w.window, all); err != nil {
		return nil, err
	}
	if f.seen, err = w.engine.Store().SeenSeconds(ctx, w.window, all); err != nil {
		return nil, err
	}
	if f.refusals, err = w.engine.Store().OpenRefusals(ctx, all); err != nil {
		return nil, err
	}
	standing, err := w.engine.InvoiceStanding(ctx)
	if err != nil {
		return nil, err
	}
	f.blocked = standing.Blocked
	for _, stream := range []string{bus.Facts, bus.Usage} {
		if f.messages[stream], err = w.engine.Bus().LastSeq(ctx, stream); err != nil {
			return nil, err
		}
	}
	return f, w.alerts(ctx, f)
}

// alerts counts the transitions in the log.
func (w *world) alerts(ctx context.Context, f *findings) error {
	for after := uint64(0); ; {
		messages, err := w.engine.Bus().ReadSubject(ctx, bus.Facts, "gh.fact.alert.>", after, 1000)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, m := range messages {
			stated, err := codec.DecodeFact(m)
			if err != nil {
				return err
			}
			switch b := stated.Body.(type) {
			case *fact.AlertRaised:
				f.raised[b.Scope]++
			case *fact.AlertResolved:
				f.resolved++
			}
			after = m.Seq
		}
	}
}

func (w *world) printDone(f *findings) {
	p := func(format string, args ...any) { fmt.Fprintf(w.Out, format+"\n", args...) }
	spooled := w.sampler.Counters()
	p("gpuhour demo: five months of a real GPU cluster, from samples to invoices")
	p("")
	p("  trace      openb (Alibaba GPU cluster trace 2023), its second 0 set to %s", openb.DemoStart)
	p("             %s pods: %s leases; %d asked for GPUs and were never scheduled: they bill nothing",
		thousands(int64(len(w.trace.Pods))), thousands(int64(w.imported.Leases)), w.imported.NeverScheduled)
	p("  samples    %s GPU-seconds, one a second on %d GPUs of %d nodes,", thousands(int64(w.seen)), shapes.DemoWindowDevices, shapes.DemoWindowNodes)
	p("             %s to %s; their shapes are generated", w.window.From, w.window.To)
	p("             from a public cluster's series; outside this window no collector ran")
	p("  road       collector, spool (%s batches), JetStream (%s messages), rater, ClickHouse,",
		thousands(int64(spooled.Published)), thousands(int64(f.messages[bus.Usage])))
	where, opened, work := "all in this process, synced to disk", "start", "rating, alerting and invoicing"
	if w.NATS != "" {
		where, opened = "both engines by address", "reach"
	}
	if w.Elsewhere {
		where, work = "engines and services elsewhere", "waiting for the services"
	}
	p("             cuts, invoices (%s facts in the log): %s", thousands(int64(f.messages[bus.Facts])), where)
	p("  time       %.1f s to %s both engines; %.1f s to play the trace, of which %.1f s sampling and", w.opened.Seconds(), opened, w.total.Seconds(), w.sampled.Seconds())
	p("             publishing, %.1f s %s: %s samples/s through the", w.pumped.Seconds(), work, thousands(perSecond(w.seen, w.sampled+w.pumped)))
	p("             whole road (%d cores, %s/%s)", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	p("")
}

func perSecond(n uint64, d time.Duration) int64 {
	return int64(n) * int64(time.Second) / max(1, int64(d))
}

// printHours holds what was billed against the trace's own arithmetic: a sum over the pods, without leases or hours.
func (w *world) printHours(f *findings) error {
	billed, topUp, byCustomer := billedMilli(f.invoices)
	want := w.traceMilli()
	fmt.Fprintf(w.Out, "GPU-hours billed  %s\n", bill.GPUHours(billed))
	if topUp != 0 {
		fmt.Fprintf(w.Out, "start minimum     %*s  (of them, topped up to %s a start)\n", len(bill.GPUHours(billed)), bill.GPUHours(topUp), w.Minimum)
	}
	fmt.Fprintf(w.Out, "the trace says    %s  (num_gpu x gpu_milli x (deletion - scheduled), summed over its pods)\n\n", bill.GPUHours(want))
	if billed-topUp != want {
		return fmt.Errorf("billed %s GPU-hours of leased time, the trace says %s", bill.GPUHours(billed-topUp), bill.GPUHours(want))
	}
	for _, c := range openb.Customers() {
		fmt.Fprintf(w.Out, "  %-18s %18s GPU-hours\n", c, bill.GPUHours(byCustomer[c]))
	}
	fmt.Fprintln(w.Out)
	return nil
}

func billedMilli(invoices []*bill.Document) (all, topUp int64, byCustomer map[string]int64) {
	byCustomer = map[string]int64{}
	for _, d := range invoices {
		all += d.Quantity.MilliGPUSeconds
		topUp += d.Quantity.Coverage.TopUp
		byCustomer[d.Customer] += d.Quantity.MilliGPUSeconds
	}
	return all, topUp, byCustomer
}

func (w *world) traceMilli() (sum int64) {
	for _, p := range w.trace.Pods {
		if p.GPUs > 0 && p.Scheduled {
			sum += (p.End - p.Start) * p.GPUs * p.GPUMilli
		}
	}
	return sum
}

// printItemised prints the invoice with the most measured time whole.
func (w *world) printItemised(f *findings) {
	if len(f.invoices) == 0 {
		return
	}
	most := slices.MaxFunc(f.invoices, func(a, b *bill.Document) int {
		return int(min(max(a.Quantity.Coverage.Measured-b.Quantity.Coverage.Measured, -1), 1))
	})
	fmt.Fprintln(w.Out, render.Invoice(most, w.Look))
}

func (w *world) printCoverage(f *findings) {
	var sum meter.DeviceSeconds
	var ghosts, leaks []string
	for _, d := range f.devices {
		sum = sum.Plus(d.DeviceSeconds)
		if d.Ghost >= reportSeconds {
			ghosts = append(ghosts, fmt.Sprintf("%s for %s", d.Device, lasting(d.Ghost)))
		}
		if d.Leak >= reportSeconds {
			leaks = append(leaks, fmt.Sprintf("%s for %s", d.Device, lasting(d.Leak)))
		}
	}
	p := func(format string, args ...any) { fmt.Fprintf(w.Out, format+"\n", args...) }
	p("In the sampled window")
	p("  stored     %s GPU-seconds, each once: %s under a lease, %s without", thousands(f.seen), thousands(sum.SeenLeased), thousands(sum.SeenUnleased))
	p("  ghosts     leased, the node spoke, the GPU was not there: %s", orNone(ghosts))
	p("  leaks      busy without a lease: %s", orNone(leaks))
	p("  alerts     under 60 %% busy over 30 minutes: raised on %d leases and %d times on customers;", f.raised["lease"], f.raised["customer"])
	p("             resolved %d times", f.resolved)
	p("  refusals   %s", orNone(w.refused(f)))
	p("  planted    by the generator, for the meter to find (about 9 %% of all seconds are missing as well):")
	for _, planted := range []struct {
		what  string
		place shapes.Place
	}{
		{"a GPU that is gone", w.planted.Ghost},
		{"a busy GPU nobody leases", w.planted.Leak},
		{"a silent node", w.planted.Silent},
		{"unreadable utilisation", w.planted.Unreadable},
	} {
		where := planted.place.Device
		if where == "" {
			where = planted.place.Node
		}
		p("             %-26s %-24s %s", planted.what, where, lasting(planted.place.Span.Seconds()))
	}
	p("")
}

func lasting(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

// reportSeconds is how long a ghost or a leak lasts before it is worth a line.
const reportSeconds = 600

func (w *world) refused(f *findings) []string {
	var out []string
	for _, r := range f.refusals {
		out = append(out, r.ID+" ("+r.Reason+")")
	}
	for _, b := range f.blocked {
		out = append(out, b.Contract+": "+b.Reason)
	}
	return out
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ",\n             ")
}

func (w *world) printNext(f *findings) {
	p := func(format string, args ...any) { fmt.Fprintf(w.Out, format+"\n", args...) }
	at, kept := "--data "+w.Dir, "data"
	if w.NATS != "" {
		at, kept = "--nats-url ... --clickhouse-url ...", "spool"
	}
	p("Try next (the %s stays in %s; delete it when you are done)", kept, w.Dir)
	if n := len(f.invoices); n > 0 {
		p("  gpuhour invoice show %s %s --lang zh", f.invoices[n-1].Invoice, at)
		p("  gpuhour invoice preview %s %s", f.invoices[n-1].Contract, at)
	}
	p("  gpuhour audit %s         (replays the log, trusting no table: the same bytes)", at)
	p("  gpuhour doctor %s", at)
	p("  gpuhour rate core/cases/*.yaml            (price scenarios without any engine)")
	p("  gpuhour serve                             (the same services at the wall clock)")
	p("")
	p("Without installing anything, write `go run ./cmd/gpuhour` for `gpuhour`.")
}

// check fails the demo when samples were lost or doubled on the road.
func (w *world) check(f *findings) error {
	if f.seen != int64(w.seen) {
		return fmt.Errorf("%d GPU-seconds were sampled, the tables hold %d", w.seen, f.seen)
	}
	var sum meter.DeviceSeconds
	for _, d := range f.devices {
		sum = sum.Plus(d.DeviceSeconds)
	}
	if sum.SeenLeased+sum.SeenUnleased != f.seen {
		return fmt.Errorf("%d GPU-seconds are stored, %d lie under leases and %d do not", f.seen, sum.SeenLeased, sum.SeenUnleased)
	}
	if len(f.blocked) > 0 {
		return fmt.Errorf("%d periods could not close", len(f.blocked))
	}
	return nil
}

// thousands groups digits by three.
func thousands(n int64) string {
	digits := new(big.Int).Abs(big.NewInt(n)).String()
	var out []string
	for len(digits) > 3 {
		out = append([]string{digits[len(digits)-3:]}, out...)
		digits = digits[:len(digits)-3]
	}
	text := strings.Join(append([]string{digits}, out...), ",")
	if n < 0 {
		return "-" + text
	}
	return text
}
