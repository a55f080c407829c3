package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gpuhour/gpuhour/core/alert"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
	"github.com/gpuhour/gpuhour/platform/store/memstore"
	"github.com/gpuhour/gpuhour/services/alerter"
	"github.com/gpuhour/gpuhour/services/invoicer"
	"github.com/gpuhour/gpuhour/services/rater"
)

const (
	series        = "S"
	providerGrace = 900
)

// road is the log, the tables, and everybody who works on them.
type road struct {
	seed    uint64
	o       Options
	dice    *rand.Rand
	story   *story
	f       *faults
	log     *failingBus
	tables  *failingStore
	now     int64
	queue   []event // known or not, and not yet stated
	people  *journal.Writer
	clocks  []*journal.Writer
	rater   *rater.Rater
	invoice []*invoicer.Invoicer
	alert   *alerter.Alerter
	agents  []*agent
	watch   *watcher
	figures Figures
	onePlan bool // all services are one process and die together
	copied  [2]uint64
	carried map[string]bool
	last    error // of a service that could not work, while everything is healed
	err     error // the first broken promise
}

func newRoad(seed uint64, o Options) *road {
	s := write(seed)
	s.leaveOut(o.Without)
	r := &road{seed: seed, o: o, story: s, f: newFaults(seed, o), dice: rand.New(rand.NewPCG(seed, 3)), queue: slices.Clone(s.events), carried: map[string]bool{}}
	r.f.tell = o.Tell
	r.log = &failingBus{r.f, newLog()}
	r.tables = &failingStore{memstore.New(), r.f}
	r.now = s.from - 600
	r.onePlan = r.dice.IntN(3) == 0
	for i := range s.nodes {
		if n := &s.nodes[i]; !o.Without["node "+n.name] {
			r.agents = append(r.agents, newAgent(r.f, n, 0, o.Bug))
			if n.cloned && !o.Without["clone of "+n.name] {
				r.agents = append(r.agents, newAgent(r.f, n, 1, o.Bug))
			}
		}
	}
	r.watch = newWatcher(s)
	r.clocks = make([]*journal.Writer, s.clocks)
	r.invoice = make([]*invoicer.Invoicer, s.invoicer)
	r.boot()
	return r
}

// ports are the log and the tables as the services get them: a planted bug sits between.
func (r *road) ports() (bus.Bus, store.Store) { return plant(r.o.Bug, r.log, r.tables) }

// boot starts every service and writer anew.
func (r *road) boot() {
	b, s := r.ports()
	r.people = journal.NewWriter(r.log)
	for i := range r.clocks {
		r.clocks[i] = journal.NewWriter(r.log)
	}
	for i := range r.invoice {
		r.bootInvoicer(i, b, s)
	}
	r.bootRater(b, s)
	r.alert = alerter.New(b, s, alert.Default())
}

func (r *road) bootInvoicer(i int, b bus.Bus, s store.Store) {
	r.invoice[i] = invoicer.New(b, s, series, providerGrace)
}

func (r *road) bootRater(b bus.Bus, s store.Store) {
	r.rater = rater.New(b, s)
	r.rater.Blocks, r.rater.Rows = pick(r.dice, 1, 2, 9, 256), pick(r.dice, 1, 30, 50_000)
}

// act lets somebody work. It tells whether the process died; an error that nobody injected breaks a promise.
func (r *road) act(who string, work func() error) (died bool) {
	if r.err != nil {
		return false
	}
	r.f.who = who
	defer func() {
		r.f.away = false
		switch p := recover().(type) {
		case nil:
		case crashed:
			r.figures.Crashes++
			died = true
		case *must.Failure:
			r.err = fmt.Errorf("%s: %w", who, p)
		default:
			panic(p)
		}
	}()
	err := work()
	switch {
	case err == nil:
	case injected(err), errors.Is(err, bus.ErrConflict):
		r.f.note("  %s: %v", who, err)
		r.last = fmt.Errorf("%s: %w", who, err)
	default:
		r.err = fmt.Errorf("%s: %w", who, err)
	}
	return false
}

// fails notes a broken promise.
func (r *road) fails(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// service lets one service take a step and tells whether it did anything. One that dies starts anew.
func (r *road) service(k int) (worked bool) {
	step, who := r.alert.Step, "alerter"
	switch {
	case k == 0:
		step, who = r.rater.Step, "rater"
	case k <= len(r.invoice):
		step, who = r.invoice[k-1].Step, fmt.Sprintf("invoicer %d", k)
	}
	died := r.act(who, func() (err error) {
		worked, err = step(context.Background())
		return err
	})
	if died {
		worked = true
		b, s := r.ports()
		switch {
		case r.onePlan:
			r.boot()
		case k == 0:
			r.bootRater(b, s)
		case k <= len(r.invoice):
			r.bootInvoicer(k-1, b, s)
		default:
			r.alert = alerter.New(b, s, alert.Default())
		}
	}
	for _, i := range r.invoice {
		for _, b := range i.Blocked() { // people's facts may block a close, never our own sums
			if strings.HasPrefix(b.Reason, "conservation") {
				r.fails("%s %v: %s", b.Contract, b.Period, b.Reason)
			}
		}
	}
	r.look()
	return worked
}

func (r *road) services() int { return len(r.invoice) + 2 }

// look holds what is new in the log against what must never happen.
func (r *road) look() {
	if r.err == nil {
		r.err = r.watch.look(r.log.inner, r.f)
	}
}

// safety is the phase with faults: nobody has to get anywhere, but nothing wrong may be done.
func (r *road) safety() {
	end := r.end()
	restore, copied, rebuild := -1, -1, -1
	if r.story.restore {
		restore = 5 + r.dice.IntN(40)
		copied = restore - 1 - r.dice.IntN(4)
	}
	if r.story.rebuild {
		rebuild = r.dice.IntN(60)
	}
	for round := 0; r.now < end && r.err == nil; round++ {
		r.dice = rand.New(rand.NewPCG(r.seed, 1000+uint64(round))) // what is left out of a round changes no later one
		switch round {
		case copied:
			r.copied = [2]uint64{r.length(bus.Facts), r.length(bus.Usage)}
		case restore:
			r.restore()
		case rebuild:
			r.f.note("the tables are lost")
			r.figures.Rebuilt++
			r.tables.Store = memstore.New()
			r.boot()
		}
		r.round(r.next(end))
		for range r.dice.IntN(6) {
			r.service(r.dice.IntN(r.services()))
		}
	}
}

// end is when the last term is over and the last fact is known.
func (r *road) end() int64 {
	end := r.story.to + hour
	for _, e := range r.story.events {
		end = max(end, e.known+1)
	}
	for _, t := range r.story.terms {
		end = max(end, t.to+hour+1)
	}
	return end
}

func (r *road) next(end int64) int64 {
	step := pick(r.dice, int64(20), 200, 600, 1200)
	if r.now > r.story.to {
		step = pick(r.dice, hour, 6*hour, day)
	}
	next := min(r.now+step, end)
	if due := int64(r.invoice[0].NextDue(span.Second(r.now))); r.dice.IntN(3) > 0 {
		next = min(next, due)
	}
	return next
}

// round is what the world does up to an instant: people state, collectors measure, a clock ticks.
func (r *road) round(next int64) {
	r.f.head(instantText(next))
	r.declareAndState(next)
	for _, a := range r.agents {
		r.collect(a, next)
	}
	r.now = next
	i := r.dice.IntN(len(r.clocks))
	at := span.Second(next)
	if i > 0 {
		at -= span.Second(r.dice.IntN(pick(r.dice, 20, 300))) // a second clock lags
	}
	if r.act("clock", func() error { _, err := r.clocks[i].Tick(context.Background(), at); return err }) {
		r.clocks[i] = journal.NewWriter(r.log)
	}
	r.look()
}

// declareAndState states what is known by now, in an order of its own but for contradictions, which come second.
func (r *road) declareAndState(next int64) {
	var due, rest []event
	waiting := map[string]bool{}
	for _, e := range r.queue {
		if e.known > next || e.twin && waiting[e.key] {
			rest = append(rest, e)
			continue
		}
		waiting[e.key] = true
		due = append(due, e)
	}
	rand.New(rand.NewPCG(r.seed, uint64(next))).Shuffle(len(due), func(i, k int) { due[i], due[k] = due[k], due[i] })
	died := r.act("people", func() error {
		ctx := context.Background()
		if err := r.people.Declare(ctx, fact.Scripted); err != nil || len(due) == 0 {
			return err
		}
		var facts []fact.Fact
		for _, e := range due {
			facts = append(facts, fact.Fact{Key: e.key, Body: e.body})
			r.f.note("  stated %s: %+v", e.key, e.body)
		}
		if err := r.people.State(ctx, facts); err != nil {
			return err
		}
		r.queue = rest
		return nil
	})
	if died {
		r.people = journal.NewWriter(r.log)
	}
}

func (r *road) length(stream string) uint64 {
	n, _ := r.log.inner.LastSeq(context.Background(), stream) // the memory log answers
	return n
}

// restore brings the log back from the older copy. What people stated since is stated again; collectors send what they still
// have. A service whose position is not in this log any more must stop and say so; then its tables are rebuilt.
func (r *road) restore() {
	r.f.note("the log is restored from a copy of %d facts and %d usage messages", r.copied[0], r.copied[1])
	r.figures.Restored++
	before := r.log.inner
	after, err := copyOf(before, r.copied[0], r.copied[1])
	if err != nil {
		r.fails("copy the log: %w", err)
		return
	}
	r.log.inner, r.f.waiting, r.queue = after, nil, slices.Clone(r.story.events)
	r.watch = newWatcher(r.story)
	for _, a := range r.agents {
		a.restored = true
	}
	r.boot()
	for range r.dice.IntN(4) { // the log goes on in another way before the services are back
		r.round(r.now + 20)
	}
	r.f.off = true
	r.expectStop(rater.Service, r.rater.Step, before)
	r.expectStop(alerter.Service, r.alert.Step, before)
	r.f.off = false
	r.tables.Store = memstore.New()
	r.boot()
}

func (r *road) expectStop(service string, step func(context.Context) (bool, error), before bus.Bus) {
	ctx := context.Background()
	p, err := r.tables.Store.Progress(ctx, service)
	if err != nil || p.Block == 0 {
		return
	}
	at := func(b bus.Bus) string {
		ms, _ := b.Read(ctx, bus.Usage, p.Block-1, 1)
		if len(ms) == 0 {
			return "nothing"
		}
		return ms[0].Subject + string(ms[0].Data)
	}
	_, err = step(ctx)
	gone := at(before) != at(r.log.inner)
	if stopped := err != nil && strings.Contains(err.Error(), "does not hold the tick"); stopped != gone {
		r.fails("after a restore the %s's position %d is gone %v, and it says: %v", service, p.Block, gone, err)
	}
}

// liveness is the phase without faults: everything known is stated and billed, in bounded work.
func (r *road) liveness() {
	r.f.heal()
	r.invoice = r.invoice[:1]
	if r.dice.IntN(2) == 0 { // else it has to come right without a restart
		r.boot()
	}
	r.settle(max(r.end(), r.now+60))
	for i := 0; i < 400 && r.err == nil; i++ {
		due := int64(r.invoice[0].NextDue(span.Second(r.now)))
		blocked := r.invoice[0].Blocked()
		if due == int64(span.Open) && len(blocked) == 0 {
			break
		}
		next := due
		if len(blocked) > 0 {
			r.carry()
			next = min(next, r.now+hour)
		}
		r.settle(next)
	}
	r.closeTail()
}

// carry is the operator who lets periods close without their refused time.
func (r *road) carry() {
	for _, b := range r.invoice[0].Blocked() {
		key := fmt.Sprintf("carry/%s/%d", b.Contract, b.Period.From)
		if !r.carried[key] {
			r.carried[key] = true
			r.figures.Carried++
			body := &fact.RefusalCarried{Contract: b.Contract, PeriodStart: b.Period.From, By: "ops"}
			r.queue = append(r.queue, event{known: r.now, key: key, body: body})
		}
	}
}

// closeTail signs a last small contract, whose close brings the corrections that nobody else's would.
func (r *road) closeTail() {
	from := (r.now/hour + 1) * hour
	tail := &terms{
		id: "tail", customer: "tail", currency: "USD", zone: "UTC", cycle: "hourly", anchor: 1, from: from, to: from + hour, granularity: 1,
		rounding: "down", rates: []rate{{sku: "h100", hundredth: 1, unit: "gpu-hour"}}, location: time.UTC,
	}
	r.story.terms[tail.document()] = tail
	r.queue = append(r.queue, event{
		known: r.now, key: "contract tail", body: &fact.ContractSigned{Contract: tail.id, Customer: tail.customer, Document: tail.document()},
	})
	r.settle(r.now + 1)
	r.settle(from + hour)
	if b := r.invoice[0].Blocked(); len(b) > 0 {
		r.fails("%s %v stays blocked: %s", b[0].Contract, b[0].Period, b[0].Reason)
	}
}

// settle moves the world to an instant and lets everybody work until nobody has anything to do.
func (r *road) settle(to int64) {
	if r.err != nil {
		return
	}
	clocks := r.clocks
	r.clocks = clocks[:1]
	r.round(to)
	r.clocks = clocks
	for range 200 {
		if r.err != nil {
			return
		}
		r.last = nil
		worked := false
		for k := range r.services() {
			worked = r.service(k) || worked
		}
		r.act("clock", func() error {
			ticked, err := r.clocks[0].Tick(context.Background(), span.Second(to))
			worked = worked || ticked
			return err
		})
		if !worked && r.last == nil {
			return
		}
	}
	r.fails("nothing fails any more and yet the services do not come to rest at %s: %v", instantText(to), r.last)
}
