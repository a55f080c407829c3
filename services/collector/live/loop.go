package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// Config is one node's loop. Zero values are replaced by those named.
type Config struct {
	Node    collector.Node
	Boot    string // see BootID
	Clock   Clock  // Machine
	Spool   *spool.Spool
	Log     collector.Log
	Signer  collector.Signer // of what is published; nil: it goes unsigned
	Logger  *slog.Logger
	MaxHeld int // closed batches that may wait in memory for the disk; 360, an hour of them
	// Attempt bounds one attempt to publish what waits, 1 min; Farewell what the disk, and then the log, get at the end, 10 s.
	Attempt, Farewell time.Duration
	// Spread is the time over which the nodes of a fleet spread what they publish, see the package comment; 8 s, less than 0: none.
	Spread time.Duration
}

// Loop is a live collector: one tick a second, with disk and log behind it. Run is called once; Stats by any goroutine.
type Loop struct {
	cfg       Config
	run       *collector.Run
	publisher *collector.Publisher
	alarms    *alarms
	line      timeline
	last      span.Second // sampled; of the goroutine of the ticks
	thinned   int         // batches, as of the last alarm; of the goroutine that stores

	wake   chan struct{} // batches wait for the disk
	stored chan struct{} // batches wait for the log
	ending chan struct{} // no more ticks come
	leave  chan struct{} // no more batches come to the spool

	mu     sync.Mutex
	held   []usage.Batch
	begin  span.Second // since when seconds are sampled of which the spool knows nothing and no batch is closed; 0: none
	delays delays
	now    span.Second // the latest second sampled
	stats  Stats
	acked  time.Duration // on the clock that runs on in sleep
}

// ErrStuck means that the disk or the log did not even answer in the time that the end gives them.
var ErrStuck = errors.New("it did not answer; end the process, the next run goes on from what the disk holds")

// New prepares a run: its number is the Unix second of its start, so that a lost spool never brings an old number back.
func New(cfg Config) *Loop {
	if cfg.Clock == nil {
		cfg.Clock = Machine{}
	}
	if cfg.MaxHeld == 0 {
		cfg.MaxHeld = 360
	}
	if cfg.Attempt == 0 {
		cfg.Attempt = time.Minute
	}
	if cfg.Farewell == 0 {
		cfg.Farewell = 10 * time.Second
	}
	if cfg.Spread == 0 {
		cfg.Spread = 8 * time.Second
	}
	now := cfg.Clock.Now()
	run := collector.NewRun(collector.Config{
		Boot: cfg.Boot, FirstRun: uint64(max(now.Wall.Unix(), 1)), Clock: cfg.Clock.Evidence(),
	}, []collector.Node{cfg.Node}, cfg.Spool)
	l := &Loop{
		cfg: cfg, run: run, publisher: collector.NewPublisher(cfg.Log, cfg.Spool), alarms: newAlarms(cfg.Logger), acked: now.Boot,
		wake: make(chan struct{}, 1), stored: make(chan struct{}, 1), ending: make(chan struct{}), leave: make(chan struct{}),
	}
	l.publisher.Signer = cfg.Signer
	l.stats.Spool = cfg.Spool.Stats()
	return l
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run samples until the context ends, and then ends as it should: open batch, spool, record of the stop, log. It returns nil when the
// spool has everything; what the log has not taken then waits there. An error says why it ended by itself, or what was lost in the end. After
// ErrStuck the spool must not be closed: a call still hangs in it.
func (l *Loop) Run(ctx context.Context) error {
	work, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	network, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	kept, sent := make(chan error, 1), make(chan error, 1)
	go func() { kept <- ended(l.keep(), fail) }()
	go func() { sent <- ended(l.send(network), fail) }()
	l.ticks(work)
	l.hand(l.run.Stop(nil))
	close(l.ending)
	stored := wait(kept, l.cfg.Farewell, "store the last batches")
	close(l.leave)
	defer time.AfterFunc(l.cfg.Farewell, hangUp).Stop()
	return errors.Join(stored, wait(sent, l.cfg.Farewell+time.Second, "publish the last batches"))
}

// ended ends the ticks when one of the goroutines behind them cannot go on.
func ended(err error, fail context.CancelCauseFunc) error {
	if err != nil {
		fail(err)
	}
	return err
}

func wait(done <-chan error, d time.Duration, what string) error {
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("%s: %w", what, ErrStuck)
	}
}

// ticks is the clock of the collector. Nothing in it waits for disk or log.
func (l *Loop) ticks(ctx context.Context) {
	for ctx.Err() == nil {
		now := l.cfg.Clock.Now()
		d := l.line.wait(now)
		if set := second(now) >= firstSet; !set {
			l.alarms.raise("clock_not_set", "the machine's clock is before 2024; nothing is sampled until it is set", "clock", now.Wall)
			l.note(0, false)
		}
		if d > 0 {
			if l.cfg.Clock.Sleep(ctx, d) != nil {
				return
			}
			continue
		}
		l.tick(now)
	}
}

// tick settles the seconds up to now: gaps for those that passed without a tick, and a sample of the last one.
func (l *Loop) tick(now Instant) {
	steps, slept := l.line.steps, l.line.slept
	ended, gaps := l.line.advance(now)
	if l.line.steps != steps || l.line.slept != slept {
		l.alarms.raise("clock_moved", "the clock was set, or the machine slept", "before", at(ended), "missing", gaps)
	}
	for _, g := range gaps {
		l.run.Gap(g.From, g.To, g.Reason)
	}
	sampled := uint64(0)
	if l.full() {
		l.run.Gap(ended, ended+1, usage.GapPaused)
		l.alarms.raise("paused", "too many batches wait for the disk; nothing is sampled until it takes them")
	} else {
		closed := l.run.Sample(ended, nil)
		l.hand(closed)
		l.began(ended, closed)
		sampled = 1
	}
	l.mu.Lock()
	l.delays.add(now.Wall.Sub(at(ended + 1)))
	l.mu.Unlock()
	l.note(sampled, true)
}

// began lets the disk know of seconds before their batch is closed where the next run could not tell from the batch before that there
// are some: the first ones of a run, and those after the clock was set back.
func (l *Loop) began(at span.Second, closed []usage.Batch) {
	known := l.last > 0 && at > l.last
	l.last = at
	if n := len(closed); known || n > 0 && closed[n-1].Last() == at {
		return
	}
	l.mu.Lock()
	l.begin = at
	l.mu.Unlock()
	signal(l.wake)
}

func (l *Loop) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) >= l.cfg.MaxHeld
}

// hand gives closed batches to the disk. One that breaks the format is a bug of ours; as a gap it cannot block those behind it.
func (l *Loop) hand(batches []usage.Batch) {
	if len(batches) == 0 {
		return
	}
	for i := range batches {
		b := &batches[i]
		err := b.Validate()
		if err == nil {
			err = b.ValidateBlocks()
		}
		if err != nil {
			l.alarms.raise("invalid_batch", "a batch breaks the format and is given up, please report it", "batch", b.Seq, "error", err)
			hollow(b)
		}
	}
	l.mu.Lock()
	l.held, l.begin = append(l.held, batches...), 0
	l.mu.Unlock()
	signal(l.wake)
}

// hollow leaves nothing of a batch but its name, and that its seconds failed.
func hollow(b *usage.Batch) {
	b.Blocks, b.Topology, b.Gaps = nil, nil, nil
	b.Spoken.Each(func(i int) {
		from := b.Minute.Start() + span.Second(i)
		b.Gaps = usage.AppendGap(b.Gaps, usage.Gap{From: from, To: from + 1, Reason: usage.GapError})
	})
}

// note takes the clock's evidence for the next batch, and a picture of what belongs to the ticks.
func (l *Loop) note(sampled uint64, set bool) {
	evidence := l.cfg.Clock.Evidence()
	l.run.SetClock(evidence)
	seen, failed := l.run.Samples()
	unseen, dropped := l.run.Unseen(), l.run.Dropped()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := &l.stats
	st.Seconds += sampled
	st.DeviceSeconds, st.Failed, st.Dropped, st.Unseen = seen, failed, dropped, unseen
	st.ClockSteps, st.Suspensions, st.ClockSet, st.Clock = l.line.steps, l.line.slept, set, evidence
	l.now = l.run.Now()
}

// Stats is the state as of the last tick, and of the last answers of disk and log: it waits for neither.
func (l *Loop) Stats() Stats {
	boot, counts := l.cfg.Clock.Now().Boot, l.alarms.counts()
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.stats
	st.Held, st.SinceAck, st.Jitter, st.Alarms = len(l.held), boot-l.acked, l.delays.jitter(), counts
	return st
}
