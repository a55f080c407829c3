package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/membus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/ingest"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

func memory() *membus.Bus { return membus.New(func() time.Time { return time.Unix(1, 0) }) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, url string) *natsbus.Bus {
	t.Helper()
	b, err := natsbus.Connect(t.Context(), url, natsbus.ConnectOptions{})
	check(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// serving is an ingest that runs.
type serving struct {
	metrics *obs.Metrics
	stop    func() error // asks it to end, and waits until it has
}

// serve runs an ingest until the test ends, or stop.
func serve(t testing.TB, log ingest.Log, door ingest.Door, o ingest.Options) serving {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := serving{metrics: obs.NewMetrics("test")}
	ctx, cancel := context.WithCancel(context.Background())
	in, open := ingest.New(log, s.metrics.Ingest(), o), make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx, opened{door, open}) }()
	<-open
	s.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// opened tells when a door serves.
type opened struct {
	ingest.Door
	open chan struct{}
}

func (o opened) Serve(subject, name string, take func(string, []byte, func([]byte) error)) (func(context.Context) error, error) {
	defer close(o.open)
	return o.Door.Serve(subject, name, take)
}

// count reads one figure, such as requests_total{result="busy"}; 0 when it is not there.
func (s serving) count(t testing.TB, name string) (n float64) {
	t.Helper()
	w := httptest.NewRecorder()
	s.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, "gpuhour_ingest_"+name+" "); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// hall is question and answer in memory: each question goes to one of those that serve, in turn.
type hall struct {
	mu    sync.Mutex
	turn  int
	doors int
	takes map[int]func(string, []byte, func([]byte) error)
	// lose is asked for each question, nil is never: what becomes of it on its way.
	lose func() loss
}

type loss int

const (
	arrives      loss = iota
	lostQuestion      // it never arrives
	lostAnswer        // it arrives, and nobody hears the answer; nor is it waited for
)

var errNobody = errors.New("nobody serves")

func (h *hall) Serve(_, _ string, take func(string, []byte, func([]byte) error)) (func(context.Context) error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takes == nil {
		h.takes = map[int]func(string, []byte, func([]byte) error){}
	}
	h.doors++
	id := h.doors
	h.takes[id] = take
	return func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.takes, id)
		return nil
	}, nil
}

// send puts a question into the hall; the answer comes into the channel, if it comes.
func (h *hall) send(subject string, question []byte) (<-chan []byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]int, 0, len(h.takes))
	for id := range h.takes {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, errNobody
	}
	slices.Sort(ids)
	h.turn++
	answered := make(chan []byte, 1)
	h.takes[ids[h.turn%len(ids)]](subject, question, func(a []byte) error { answered <- a; return nil })
	return answered, nil
}

// Ask implements ingestlog.Asker.
func (h *hall) Ask(ctx context.Context, subject string, question []byte) ([]byte, error) {
	l := arrives
	if h.lose != nil {
		l = h.lose()
	}
	if l == lostQuestion {
		return nil, bus.ErrAmbiguous
	}
	answered, err := h.send(subject, question)
	switch {
	case err != nil:
		return nil, err
	case l == lostAnswer:
		return nil, bus.ErrAmbiguous
	}
	select {
	case a := <-answered:
		if a == nil { // who had it died
			return nil, bus.ErrAmbiguous
		}
		return a, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", bus.ErrAmbiguous, ctx.Err())
	}
}

// batch is a small one of a node; salt tells apart what two writers of one name say.
func batch(node string, seq uint64, salt byte) usage.Batch {
	b := usage.Batch{Node: node, Boot: "boot", Run: 1, Seq: seq, Minute: span.Minute(29_500_000 + seq), Spoken: 1}
	block := usage.Block{Device: node + "/0", Seen: 1}
	block.Busy[0] = salt
	b.Blocks = [][]byte{block.Append(nil)}
	return b
}

// asked is a request to publish, ready to be sent.
func asked(t testing.TB, expect uint64, batches ...usage.Batch) (subject string, question []byte) {
	t.Helper()
	r := wire.Request{Kind: wire.Publish, ExpectLast: expect}
	for i := range batches {
		p, err := codec.EncodeBatch(&batches[i])
		check(t, err)
		subject = wire.Subject(p.Subject)
		r.Batches = append(r.Batches, p.Data)
	}
	return subject, r.Append(nil)
}

// answerOf waits for an answer.
func answerOf(t testing.TB, answered <-chan []byte) wire.Answer {
	t.Helper()
	a, err := wire.ParseAnswer(<-answered)
	check(t, err)
	return a
}

// say sends a request and waits for its answer.
func (h *hall) say(t testing.TB, expect uint64, batches ...usage.Batch) wire.Answer {
	t.Helper()
	answered, err := h.send(asked(t, expect, batches...))
	check(t, err)
	return answerOf(t, answered)
}

// held is what the log holds of each node, in order.
func held(t testing.TB, b bus.Bus) map[string][]usage.Batch {
	t.Helper()
	all := map[string][]usage.Batch{}
	for after := uint64(0); ; {
		messages, err := b.Read(t.Context(), bus.Usage, after, 1000)
		check(t, err)
		if len(messages) == 0 {
			return all
		}
		for _, m := range messages {
			one, q := codec.DecodeBatch(m)
			if q != nil {
				t.Fatalf("message %d: %v", m.Seq, q)
			}
			all[one.Node] = append(all[one.Node], one)
		}
		after = messages[len(messages)-1].Seq
	}
}

var errCloned = errors.New("the log holds what this node never said")

// node is a writer with its spool, as small as can be: it publishes most batches at once, and when the answer says that it
// cannot know, it reads what stands. It is written apart from collector.Publisher, so that the two judge the ingest alike.
type node struct {
	log     collector.Log
	batches []usage.Batch
	atOnce  int
	sent    int // of batches, in the log
	last    uint64
	settled bool
}

// drain publishes all. Its retries stand for the flushes of a node that lives on.
func (n *node) drain(ctx context.Context) error {
	for n.sent < len(n.batches) && ctx.Err() == nil {
		if !n.settled {
			if err := n.settle(ctx); errors.Is(err, errCloned) {
				return err
			} else if err != nil {
				continue
			}
		}
		some := n.batches[n.sent:min(n.sent+n.atOnce, len(n.batches))]
		if len(some) == 0 {
			continue // the log holds all already
		}
		out := make([]collector.Outgoing, len(some))
		for i := range some {
			out[i].Batch = some[i]
		}
		expect := n.last
		out[0].ExpectLast = &expect
		last, err := n.log.Publish(ctx, out)
		if n.settled = err == nil; n.settled {
			n.last = last
			n.sent += len(some)
		}
	}
	return ctx.Err()
}

func (n *node) settle(ctx context.Context) error {
	h, err := n.log.Last(ctx, n.batches[0].Node)
	if err != nil {
		return err
	}
	at := 0
	if h.Position > 0 {
		at = int(h.Batch.Seq)
		if at > len(n.batches) || at < n.sent || string(h.Batch.Blocks[0]) != string(n.batches[at-1].Blocks[0]) {
			return fmt.Errorf("%s: sequence %d: %w", h.Batch.Node, h.Batch.Seq, errCloned)
		}
	}
	n.sent, n.last, n.settled = at, h.Position, true
	return nil
}

// processTime is what this process used of all processors so far.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
