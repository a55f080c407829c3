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
	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/must"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/journal"
	"github.com/gpuhour/gpuhour/platform/store"
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
	raters  []*rater.Rater
	invoice []*invoicer.Invoicer
	alert   *alerter.Alerter
	agents  []*agent
	watch   *watcher
	figures Figures
	onePlan bool // all services are one process and die together
	copied  [2]uint64
	noisy   []noise // not yet sent
	memory  *memory // of planted bugs
	nested  bool    // a rater works while a call of somebody else is under way
	resumes int
	carried map[string]bool
	last    error // of a service that could not work, while everything is healed
	err     error // the first broken promise
}

func newRoad(seed uint64, o Options) *road {
	s := write(seed, o.Plain)
	s.leaveOut(o.Without)
	r := &road{seed: seed, o: o, story: s, f: newFaults(seed, o), dice: rand.New(rand.NewPCG(seed, 3)), queue: slices.Clone(s.events), noisy: s.noisy, carried: map[string]bool{}}
	r.f.tell = o.Tell
	r.now = s.from - 600
	r.log = &failingBus{r.f, newLog(func() int64 { return r.now })}
	r.tables = &failingStore{Store: r.newTables(), faults: r.f}
	r.onePlan = r.dice.IntN(3) == 0 && s.raters == 1
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
	r.raters = make([]*rater.Rater, s.raters)
	for what, n := range s.tally() {
		r.figures.count("drawn: "+what, n)
	}
	r.boot()
	return r
}

// ports are the log and the tables as a service gets them: a planted bug sits between. Raters are named by number, from 0.
func (r *road) ports(who string, k int) (bus.Bus, store.Store) {
	return plant(r.o.Bug, who, r.log, r.client(k), r.memory)
}

// boot starts every service and writer anew.
func (r *road) boot() {
	r.memory = &memory{first: map[store.Period]uint64{}}
	r.people = journal.NewWriter(r.log)
	for i := range r.clocks {
		r.clocks[i] = journal.NewWriter(r.log)
	}
	for i := range r.invoice {
		r.bootInvoicer(i)
	}
	for k := range r.raters {
		r.bootRater(k)
	}
	r.bootAlerter()
}

func (r *road) bootInvoicer(i int) {
	b, s := r.ports(invoicer.Service, -1)
	r.invoice[i] = invoicer.New(b, s, series, providerGrace)
}

func (r *road) bootRater(k int) {
	r.raters[k] = rater.New(r.ports(rater.Service, k))
	r.raters[k].Blocks, r.raters[k].Rows = pick(r.dice, 1, 2, 9, 256), pick(r.dice, 1, 30, 50_000)
}

func (r *road) bootAlerter() {
	b, s := r.ports(alerter.Service, -1)
	r.alert = alerter.New(b, s, alert.Default())
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
	case injected(err), errors.Is(err, bus.ErrConflict), r.taken(err), r.refusesTime(err):
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

// worker is one service: what a step of it is, and how it starts anew.
type worker struct {
	who  string
	step func(context.Context) (bool, error)
	boot func()
}

func (r *road) worker(k int) worker {
	switch n := len(r.invoice); {
	case k == 0:
		return worker{"rater", r.raters[0].Step, func() { r.bootRater(0) }}
	case k <= n:
		return worker{fmt.Sprintf("invoicer %d", k), r.invoice[k-1].Step, func() { r.bootInvoicer(k - 1) }}
	case k == n+1:
		return worker{"alerter", r.alert.Step, r.bootAlerter}
	default:
		return worker{"rater 2", r.raters[1].Step, func() { r.bootRater(1) }}
	}
}

func (r *road) services() int { return len(r.invoice) + 1 + len(r.raters) }

// service lets one service take a step and tells whether it did anything. One that dies starts anew.
func (r *road) service(k int) (worked bool) {
	w := r.worker(k)
	died := r.act(w.who, func() (err error) {
		worked, err = w.step(context.Background())
		return err
	})
	switch {
	case died && r.onePlan:
		r.boot()
	case died:
		w.boot()
	}
	for _, i := range r.invoice {
		for _, b := range i.Blocked() { // people's facts may block a close, never our own sums
			if strings.HasPrefix(b.Reason, "conservation") {
				r.fails("%s %v: %s", b.Contract, b.Period, b.Reason)
			}
		}
	}
	r.look()
	r.believes()
	return worked || died
}

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
			r.tables.Store = r.newTables()
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
	r.makeNoise(next)
	r.resume(next)
	for _, a := range r.agents {
		r.collect(a, next)
	}
	r.now = next
	i := r.dice.IntN(len(r.clocks))
	at := span.Second(next)
	if i > 0 {
		at -= span.Second(r.dice.IntN(pick(r.dice, 20, 300))) // a second clock lags
	}
	if r.act("clock", func() error { _, err := r.tick(r.clocks[i], at); return err }) {
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
		if err := r.people.Declare(ctx, r.mode()); err != nil || len(due) == 0 {
			return err
		}
		var facts []fact.Fact
		for _, e := range due {
			facts = append(facts, fact.Fact{Key: e.key, Body: e.body})
			r.f.tells("  stated %s: %+v", e.key, e.body)
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
	r.noisy = r.story.noisy
	after, err := copyOf(before, r.copied, func() int64 { return r.now })
	if err != nil {
		r.fails("copy the log: %w", err)
		return
	}
	r.log.inner, r.f.waiting, r.queue = after, nil, slices.Clone(r.story.events)
	believed := r.watch.time.good().seq
	r.watch = newWatcher(r.story)
	r.watch.believed = believed
	for _, a := range r.agents {
		a.restored = true
	}
	r.boot()
	for range r.dice.IntN(4) { // the log goes on in another way before the services are back
		r.round(r.now + 20)
	}
	r.f.off, r.nested = true, true // nobody works meanwhile
	r.expectStop(rater.Service, r.raters[0].Step, before)
	r.expectStop(alerter.Service, r.alert.Step, before)
	r.f.off, r.nested = false, false
	r.tables.Store = r.newTables()
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
	if len(r.raters) > 1 {
		r.raters = r.raters[:1+r.dice.IntN(2)]
	}
	if r.dice.IntN(2) == 0 { // else it has to come right without a restart
		r.boot()
	}
	r.settle(max(r.end(), r.now+60, r.watch.last))
	waited := false
	for i := 0; i < 400 && r.err == nil; i++ {
		due := int64(r.invoice[0].NextDue(span.Second(r.now)))
		blocked := r.blocked()
		idle := due == int64(span.Open) && len(blocked) == 0
		if idle && waited {
			break
		}
		waited = idle
		if len(blocked) > 0 {
			r.carry()
		}
		next := due
		if idle || len(blocked) > 0 { // what became due by a late amendment or was unblocked is asked for in an hour
			next = min(next, r.now+hour)
		}
		r.settle(next)
	}
	r.closeTail()
}

// blocked are the periods that somebody can unblock: not those of a halted customer.
func (r *road) blocked() []bill.Block {
	return slices.DeleteFunc(slices.Clone(r.invoice[0].Blocked()), func(b bill.Block) bool { return r.watch.halted[b.Customer] > 0 })
}

// carry is the operator who lets periods close without their refused time. It does not help a halted customer.
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
		rounding: "down", rates: []rate{{sku: "h100", hundredth: 1, unit: "gpu-hour"}}, location: time.UTC, names: map[int64]string{},
	}
	r.story.terms[tail.document()] = tail
	r.queue = append(r.queue, event{
		known: r.now, key: "contract tail", body: &fact.ContractSigned{Contract: tail.id, Customer: tail.customer, Document: tail.document()},
	})
	r.settle(r.now + 1)
	r.settle(from + hour)
	if b := r.blocked(); len(b) > 0 {
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
		r.resume(to)
		r.act("clock", func() error {
			ticked, err := r.tick(r.clocks[0], span.Second(to))
			worked = worked || ticked
			return err
		})
		if !worked && r.last == nil {
			if r.err == nil {
				r.err = r.watch.unpaidAhead()
			}
			return
		}
	}
	r.fails("nothing fails any more and yet the services do not come to rest at %s: %v", instantText(to), r.last)
}
