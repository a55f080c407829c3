package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/services/collector/ingestlog"
	"github.com/gpuhour/gpuhour/services/ingest"
)

// fault is what becomes of one call to the log.
type fault int

const (
	fine         fault = iota
	unheardCall        // it never arrives, and the caller cannot know
	unheardReply       // it is done, and the caller cannot know
	late               // it is done just before the next call, and nobody hears of it
	full               // it is refused
	faults
)

var errLog = errors.New("the log is not there")

// faulty is a log that injects its faults, one a call, and none when they are used up.
type faulty struct {
	*membus.Bus
	mu     sync.Mutex
	faults []fault
	held   func()
}

func (f *faulty) next() fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		f.held()
		f.held = nil
	}
	if len(f.faults) == 0 {
		return fine
	}
	first := f.faults[0]
	f.faults = f.faults[1:]
	return first
}

func (f *faulty) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	switch f.next() {
	case unheardCall:
		return 0, bus.ErrAmbiguous
	case unheardReply:
		_, _ = f.Bus.PublishBatch(ctx, ps) // its outcome is what stays unheard
		return 0, bus.ErrAmbiguous
	case late:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held = func() { _, _ = f.Bus.PublishBatch(context.WithoutCancel(ctx), ps) }
		return 0, bus.ErrAmbiguous
	case full:
		return 0, bus.ErrFull
	default:
		return f.Bus.PublishBatch(ctx, ps)
	}
}

func (f *faulty) Last(ctx context.Context, subject string) (bus.Message, error) {
	if f.next() != fine {
		return bus.Message{}, errLog
	}
	return f.Bus.Last(ctx, subject)
}

func (f *faulty) ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) ([]bus.Message, error) {
	if f.next() != fine {
		return nil, errLog
	}
	return f.Bus.ReadSubject(ctx, stream, subject, after, max)
}

// process is an ingest that can be killed: from then on nobody hears of it, and what it asks of the log does not arrive.
type process struct {
	ingest.Log
	*hall
	dead  atomic.Bool
	leave func(context.Context) error
}

func (p *process) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	if p.dead.Load() {
		return 0, errLog
	}
	return p.Log.PublishBatch(ctx, ps)
}

func (p *process) Serve(subject, name string, take func(string, []byte, func([]byte) error)) (stop func(context.Context) error, err error) {
	p.leave, err = p.hall.Serve(subject, name, func(subject string, data []byte, answer func([]byte) error) {
		take(subject, data, func(a []byte) error {
			if p.dead.Load() {
				a = nil
			}
			return answer(a)
		})
	})
	return p.leave, err
}

// world is some ingests on one faulty log, and what becomes of questions.
type world struct {
	t       *testing.T
	log     *faulty
	hall    *hall
	mu      sync.Mutex
	alive   []*process
	serving []serving
	losses  []loss
	kills   map[int]bool // by the number of a question
	asked   int
}

func (w *world) begin() {
	p := &process{Log: w.log, hall: w.hall}
	w.alive = append(w.alive, p)
	w.serving = append(w.serving, serve(w.t, p, p, ingest.Options{Lanes: 2, Linger: -1}))
}

// lose kills the oldest ingest at some questions and begins another.
func (w *world) lose() loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked++; w.kills[w.asked] {
		w.alive[0].dead.Store(true)
		check(w.t, w.alive[0].leave(w.t.Context()))
		w.begin()
		w.alive = w.alive[1:]
	}
	if len(w.losses) == 0 {
		return arrives
	}
	first := w.losses[0]
	w.losses = w.losses[1:]
	return first
}

// TestExactlyOnce: whatever is lost, refused, killed or cloned, the log ends with every node's batches, each once and in
// order; of two writers of one name with what one of them said, and the other knows it.
func TestExactlyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, log: &faulty{Bus: memory()}, hall: &hall{}, kills: map[int]bool{}}
		w.log.faults = rapid.SliceOfN(rapid.Map(rapid.IntRange(0, int(faults)-1), func(i int) fault { return fault(i) }), 0, 40).Draw(rt, "faults")
		w.losses = rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 2), func(i int) loss { return loss(i) }), 0, 40).Draw(rt, "losses")
		for _, k := range rapid.SliceOfN(rapid.IntRange(1, 60), 0, 4).Draw(rt, "kills") {
			w.kills[k] = true
		}
		w.hall.lose = w.lose
		for range rapid.IntRange(1, 3).Draw(rt, "ingests") {
			w.begin()
		}
		var nodes []*node
		count := rapid.IntRange(1, 8).Draw(rt, "nodes")
		for i := range count + rapid.IntRange(0, 1).Draw(rt, "clones") {
			n := &node{log: ingestlog.New(w.hall), atOnce: rapid.IntRange(1, 4).Draw(rt, "at once")}
			for seq := range rapid.Uint64Range(1, 8).Draw(rt, "batches") {
				n.batches = append(n.batches, batch(fmt.Sprint("n", i%count), seq+1, byte(i)))
			}
			nodes = append(nodes, n)
		}
		errs := make([]error, len(nodes))
		var group sync.WaitGroup
		for i, n := range nodes {
			group.Go(func() { errs[i] = n.drain(t.Context()) })
		}
		group.Wait()
		for _, s := range w.serving {
			check(t, s.stop())
		}
		w.log.next() // what is late comes now
		judge(t, nodes, errs, held(t, w.log.Bus))
	})
}

func judge(t *testing.T, nodes []*node, errs []error, log map[string][]usage.Batch) {
	t.Helper()
	writers := map[string][]error{}
	for i, n := range nodes {
		name := n.batches[0].Node
		writers[name] = append(writers[name], errs[i])
		if errs[i] == nil {
			equal(t, n.batches, log[name])
		}
	}
	for name, errs := range writers {
		ended := 0
		for _, err := range errs {
			if err == nil {
				ended++
			} else if !errors.Is(err, errCloned) || len(errs) == 1 {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if ended != 1 {
			t.Fatalf("%s: %d of its writers got through, want one", name, ended)
		}
	}
}
