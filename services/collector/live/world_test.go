package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/live"
	"github.com/gpuhour/gpuhour/services/collector/live/livetest"
	"github.com/gpuhour/gpuhour/services/collector/spool"
	"github.com/gpuhour/gpuhour/services/collector/spool/spooltest"
)

const start = span.Second(1_767_196_800) // 2025-12-31T16:00:00Z, a whole minute

// tick is what the sampler said in one second.
type tick struct {
	at       span.Second
	life     int
	readings []collector.Reading
	failed   bool
	excused  bool // it may be lost without a trace, see world.forget
}

// watched is a sampler whose answers are written down while its process is alive.
type watched struct {
	*live.Sampler
	w *world
}

func (s watched) Sample(at span.Second, into []collector.Reading) ([]collector.Reading, error) {
	from := len(into)
	readings, err := s.Sampler.Sample(at, into)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if !s.w.disk.Dead() {
		s.w.ticks = append(s.w.ticks, tick{at, s.w.lives, slices.Clone(readings[from:]), err != nil, false})
	}
	return readings, err
}

// world is a node with everything around it, through several lives of its collector. It lives in a bubble.
type world struct {
	clock *livetest.Clock
	node  *livetest.Node
	log   *livetest.Stream
	disk  *spooltest.Disk
	boot  int
	cuts  int // into slices, so that each has its own name
	lives int
	opts  spool.Options
	cfg   live.Config // MaxHeld

	mu       sync.Mutex
	ticks    []tick
	stats    live.Stats  // at the end of the last life
	end      span.Second // from where on the next life will say that nothing was seen
	badly    bool        // the last life ended with an error
	hung     int
	releases []func() // of stalls of the disk
}

// newWorld begins in the middle of a second.
func newWorld(names ...string) *world {
	return &world{
		clock: livetest.NewClock(time.Unix(int64(start), 300_000_000)),
		node:  livetest.NewNode(names...), log: &livetest.Stream{}, disk: spooltest.New(), boot: 1,
	}
}

// event is something that happens while a collector lives.
type event struct {
	after time.Duration // after the one before
	do    func(*world)
}

// live is one life of the collector: it ends when the events are over, or when the process dies at the disk.
func (w *world) live(t *testing.T, events ...event) error {
	w.lives++
	disk := w.disk
	w.log.Owner(disk.Dead)
	sp, err := spool.Open(disk, w.opts)
	if err != nil {
		return err
	}
	sampler := live.NewSampler(live.SamplerConfig{Open: w.node.Open})
	cfg := w.cfg
	cfg.Node = collector.Node{Name: "n", Source: watched{sampler, w}}
	cfg.Boot, cfg.Clock, cfg.Spool, cfg.Log = fmt.Sprint("boot ", w.boot), w.clock, sp, w.log
	cfg.Logger = slog.New(slog.DiscardHandler)
	l := live.New(cfg)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for alive := true; alive && len(events) > 0; events = events[1:] {
		select {
		case <-time.After(events[0].after):
			if events[0].do != nil {
				events[0].do(w)
			}
		case <-disk.Died():
			alive = false
		case err := <-done:
			done <- err
			alive = false
		}
	}
	stop()
	err = <-done
	w.stats = l.Stats()
	w.hung, _ = closed(t, sampler)
	if errors.Is(err, live.ErrStuck) {
		return err
	}
	return errors.Join(err, sp.Close())
}

func closed(t *testing.T, s *live.Sampler) (int, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return s.Close(ctx)
}

// kill is the next process's disk after a kill -9.
func (w *world) kill() { w.disk = w.disk.Killed() }

// reboot is another boot, after a power loss or an orderly end.
func (w *world) reboot(keep int, late bool) {
	w.disk = w.disk.PowerLost(keep, late)
	w.boot++
}

type device struct {
	name string
	at   span.Second
}

// counted merges what the log holds as the rater does: every second seen, with its value. A second that is in two rows of one run is
// an error.
func counted(batches []usage.Batch) (map[device]uint8, error) {
	type key struct {
		device string
		minute span.Minute
	}
	pieces := map[key][]usage.Piece{}
	for i := range batches {
		b := &batches[i]
		if err := errors.Join(b.Validate(), b.ValidateBlocks()); err != nil {
			return nil, fmt.Errorf("run %d sequence %d: %w", b.Run, b.Seq, err)
		}
		for _, raw := range b.Blocks {
			name, err := usage.BlockDevice(raw)
			if err != nil {
				return nil, err
			}
			k := key{name, b.Minute}
			pieces[k] = append(pieces[k], usage.Piece{Run: b.Run, Seq: b.Seq, Spoken: b.Spoken, Block: raw})
		}
	}
	seen := map[device]uint8{}
	for k, p := range pieces {
		var m usage.Minute
		for _, row := range usage.Rows("n", k.device, k.minute, p, nil) {
			m.AddRow(&row)
		}
		m.Seen.Each(func(i int) { seen[device{k.device, k.minute.Start() + span.Second(i)}] = m.Busy[i] })
	}
	return seen, nil
}

// gapsOf spreads gap records over their seconds; the node's are those of no device. The first reason counts.
func gapsOf(batches []usage.Batch) map[device]usage.GapReason {
	gaps := map[device]usage.GapReason{}
	for _, b := range batches {
		for _, g := range b.Gaps {
			for at := g.From; at < g.To; at++ {
				if _, ok := gaps[device{g.Device, at}]; !ok {
					gaps[device{g.Device, at}] = g.Reason
				}
			}
		}
	}
	return gaps
}

// settled checks the promise: every second between the first and the last tick, for every device that was there, is counted once or in
// a gap, and what counts is what was measured in that second. It returns for each life how many seconds that were sampled are lost.
func (w *world) settled() (lost map[int]int, err error) {
	batches := w.log.Held()
	seen, err := counted(batches)
	if err != nil {
		return nil, err
	}
	gaps, measured, lost := gapsOf(batches), map[device][]int64{}, map[int]int{}
	for i, k := range w.ticks {
		if i > 0 && !k.excused && !w.ticks[i-1].excused {
			for at := w.ticks[i-1].at + 1; at < k.at; at++ {
				if _, gap := gaps[device{"", at}]; !gap && !spoken(batches, at) {
					return nil, fmt.Errorf("second %d without a tick is in no gap", at-start)
				}
			}
		}
		missing := false
		_, whole := gaps[device{"", k.at}]
		for _, r := range k.readings {
			d := device{r.Device, k.at}
			if r.Seen() {
				measured[d] = append(measured[d], r.Busy.Value)
			}
			_, part := gaps[d]
			_, in := seen[d]
			if !in && !whole && !part && !k.excused && !w.goneLater(i, d) {
				return nil, fmt.Errorf("second %d of %s (life %d) is in no batch and in no gap", k.at-start, r.Device, k.life)
			}
			missing = missing || r.Seen() && !in
		}
		if k.failed && !k.excused && !whole && !spoken(batches, k.at) {
			return nil, fmt.Errorf("second %d that failed is in no gap", k.at-start)
		}
		if missing {
			lost[k.life]++
		}
	}
	for d, busy := range seen {
		found := false
		for _, v := range measured[d] {
			found = found || v == int64(busy)
		}
		if !found {
			return nil, fmt.Errorf("second %d of %s counts with %d, measured was %v", d.at-start, d.name, busy, measured[d])
		}
	}
	return lost, gapless(batches)
}

// goneLater tells whether a device's second came again after a clock was set back, when the device was not there any more: of the first
// time a kill may have left nothing.
func (w *world) goneLater(i int, d device) bool {
	again := false
	for _, k := range w.ticks[i+1:] {
		if k.at == d.at {
			again = !slices.ContainsFunc(k.readings, func(r collector.Reading) bool { return r.Device == d.name })
		}
	}
	return again
}

func spoken(batches []usage.Batch, at span.Second) bool {
	for _, b := range batches {
		if b.Minute == at.Minute() && b.Spoken&span.Bit(int(at-at.Minute().Start())) != 0 {
			return true
		}
	}
	return false
}

// sampledAgain counts the ticks of seconds that had one before.
func (w *world) sampledAgain() int {
	all := map[span.Second]bool{}
	for _, k := range w.ticks {
		all[k.at] = true
	}
	return len(w.ticks) - len(all)
}

// gapless is an error unless sequences of each run go up by one, and a run's first batch names the last before.
func gapless(batches []usage.Batch) error {
	var last spool.Name
	for _, b := range batches {
		switch {
		case b.Run == last.Run && b.Seq == last.Seq+1:
		case b.Run > last.Run && b.Seq == 1 && (spool.Name{Run: b.PreviousRun, Seq: b.PreviousSeq}) == last:
		default:
			return fmt.Errorf("run %d sequence %d follows %s", b.Run, b.Seq, last)
		}
		last = spool.Name{Run: b.Run, Seq: b.Seq}
	}
	return nil
}

// nodeGaps writes the gaps of the whole node down, in seconds from the start.
func nodeGaps(batches []usage.Batch) (out string) {
	var all []usage.Gap
	for _, b := range batches {
		for _, g := range b.Gaps {
			if g.Device == "" {
				all = usage.AppendGap(all, g)
			}
		}
	}
	for _, g := range all {
		out += fmt.Sprintf("%d-%d %s, ", g.From-start, g.To-start, g.Reason)
	}
	return out
}

func total(lost map[int]int) (sum int) {
	for n := range maps.Values(lost) {
		sum += n
	}
	return sum
}
