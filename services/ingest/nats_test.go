package ingest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/ingestlog"
	"github.com/gpuhour/gpuhour/services/ingest"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// childURL makes this test binary an ingest that is going to be killed.
const childURL = "GPUHOUR_TEST_INGEST_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		fmt.Fprintln(os.Stderr, serveForEver(url))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serveForEver(url string) error {
	ctx := context.Background()
	b, err := natsbus.Connect(ctx, url, natsbus.ConnectOptions{})
	if err != nil {
		return err
	}
	open := make(chan struct{})
	go func() { <-open; fmt.Println("open") }()
	return ingest.New(b, obs.NewMetrics("test").Ingest(), ingest.Options{}).Run(ctx, opened{b, open})
}

// child is an ingest in a process of its own; kill is kill -9.
func child(t *testing.T, url string) (kill func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childURL+"="+url)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "open" {
		t.Fatal("the child does not serve")
	}
	return func() {
		check(t, c.Process.Kill())
		if err := c.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
	}
}

func start(t *testing.T) *natsbus.Embedded {
	t.Helper()
	e, err := natsbus.Start(t.Context(), natsbus.Options{Dir: t.TempDir(), Port: -1})
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

// hasty does not wait long for an answer: the ingest that had the question was killed.
type hasty struct{ *natsbus.Bus }

func (h hasty) Ask(ctx context.Context, subject string, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return h.Bus.Ask(ctx, subject, question)
}

// TestThousandsOfNodes on the real server, with two ingests of which one is killed and begun again twice, a cloned node, and
// one that sends garbage: every batch of every node is in the log once, and of the clone only one writer's.
func TestThousandsOfNodes(t *testing.T) {
	count := 3000
	if testing.Short() {
		count = 300
	}
	const batches, salted = 4, 9
	e := start(t)
	here := connect(t, e.URL())
	s := serve(t, here, here, ingest.Options{})
	kill := child(t, e.URL())
	var dials []collector.Log
	for range 10 {
		dials = append(dials, ingestlog.New(hasty{connect(t, e.URL())}))
	}
	nodes := make([]*node, count+1) // the last one is the clone of the first
	for i := range nodes {
		n := &node{log: dials[i%len(dials)], atOnce: 1 + i%2}
		for seq := range uint64(batches) {
			n.batches = append(n.batches, batch(fmt.Sprint("n", i%count), seq+1, byte(i/count*salted)))
		}
		nodes[i] = n
	}
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { errs[i] = n.drain(t.Context()) })
	}
	group.Go(func() { garbage(t, here) })
	for _, at := range []int{count / 2, count * 2} {
		check(t, here.Wait(t.Context(), bus.Usage, uint64(at)))
		kill()
		kill = child(t, e.URL())
	}
	group.Wait()
	kill()
	check(t, s.stop())
	judge(t, nodes, errs, held(t, e))
	if n, err := e.LastSeq(t.Context(), bus.Usage); err != nil || n != uint64(count*batches) {
		t.Errorf("the log has %d messages, %v; want %d", n, err, count*batches)
	}
}

// garbage is refused again and again.
func garbage(t *testing.T, b *natsbus.Bus) {
	r := wire.Request{Kind: wire.Publish, Batches: [][]byte{[]byte("garbage")}}
	for range 50 {
		reply, err := hasty{b}.Ask(t.Context(), wire.Subject(codec.UsageSubject("bad")), r.Append(nil))
		if errors.Is(err, bus.ErrAmbiguous) {
			continue // it went to the one that was killed
		}
		if err != nil {
			t.Error(err)
			return
		}
		if a, err := wire.ParseAnswer(reply); err != nil || a.Outcome != wire.Refused {
			t.Errorf("answer %+v, %v", a, err)
		}
	}
}

// TestRequestsAreNotInTheLog: neither stream holds their subjects, so that nothing answers but an ingest.
func TestRequestsAreNotInTheLog(t *testing.T) {
	e := start(t)
	b := connect(t, e.URL())
	subject, question := asked(t, 0, batch("n", 1, 0))
	if _, err := bus.StreamOf(subject); !errors.Is(err, bus.ErrInvalid) {
		t.Errorf("stream of %s: %v", subject, err)
	}
	if _, err := b.Ask(t.Context(), subject, question); !errors.Is(err, nats.ErrNoResponders) || errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("without an ingest: %v; want %v, and nothing ambiguous", err, nats.ErrNoResponders)
	}
	n := node{log: ingestlog.New(b), atOnce: 1, batches: []usage.Batch{batch("n", 1, 0)}, settled: true}
	out := []collector.Outgoing{{Batch: n.batches[0], ExpectLast: new(uint64)}}
	if _, err := n.log.Publish(t.Context(), out); err == nil || !strings.Contains(err.Error(), "does `gpuhour ingest` run") {
		t.Errorf("a node says %v; want what to do", err)
	}
	s := serve(t, b, b, ingest.Options{})
	check(t, n.drain(t.Context()))
	check(t, s.stop())
	for stream, want := range map[string]uint64{bus.Usage: 1, bus.Facts: 0} {
		if last, err := e.LastSeq(t.Context(), stream); err != nil || last != want {
			t.Errorf("%s has %d messages, %v; want %d", stream, last, err, want)
		}
	}
	if _, err := b.Ask(t.Context(), subject, question); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("after it ended: %v", err)
	}
}

// TestTheServerRestarts under an ingest and its nodes: both find it again, and every batch is in the log once.
func TestTheServerRestarts(t *testing.T) {
	options := natsbus.Options{Dir: t.TempDir(), Port: -1}
	e, err := natsbus.Start(t.Context(), options)
	check(t, err)
	u, err := url.Parse(e.URL())
	check(t, err)
	options.Port, err = strconv.Atoi(u.Port())
	check(t, err)
	soon := natsbus.ConnectOptions{NATS: []nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}}
	dial := func(o natsbus.ConnectOptions) *natsbus.Bus {
		b, err := natsbus.Connect(t.Context(), e.URL(), o)
		check(t, err)
		t.Cleanup(func() { check(t, b.Close()) })
		return b
	}
	back := make(chan struct{}, 1)
	linked := soon
	linked.Link = func(broken error) {
		if broken == nil {
			back <- struct{}{}
		}
	}
	here := dial(linked)
	s := serve(t, here, here, ingest.Options{})
	there := ingestlog.New(hasty{dial(soon)})
	nodes := make([]*node, 50)
	for i := range nodes {
		n := &node{log: there, atOnce: 1 + i%3}
		for seq := range uint64(40) {
			n.batches = append(n.batches, batch(fmt.Sprint("n", i), seq+1, 0))
		}
		nodes[i] = n
	}
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { errs[i] = n.drain(t.Context()) })
	}
	check(t, e.Wait(t.Context(), bus.Usage, 200))
	check(t, e.Close())
	e, err = natsbus.Start(t.Context(), options)
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	<-back
	group.Wait()
	check(t, s.stop())
	judge(t, nodes, errs, held(t, e))
}
