package ingest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/ingest"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

var (
	benchNodes = flag.Int("ingest.nodes", 5000, "distinct simulated nodes")
	benchDials = flag.Int("ingest.dials", 50, "TCP connections that they share")
	benchLanes = flag.Int("ingest.lanes", 0, "lanes, 0 for the default")
)

// BenchmarkIngest has distinct nodes of eight devices each send one batch after the other, every next one after the answer.
// The server syncs before it answers; server, ingest and nodes are this process and talk over loopback TCP.
func BenchmarkIngest(b *testing.B) {
	e, err := natsbus.Start(b.Context(), natsbus.Options{Dir: b.TempDir(), Port: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	door := connect(b, e.URL())
	log := &counted{Log: door}
	in := serve(b, log, door, ingest.Options{Lanes: *benchLanes})
	nodes := benchFleet(b, e.URL())
	warm := len(nodes) // each node's first batch carries its encoding and its connection
	send(b, nodes, warm, nil)

	latencies := make([]time.Duration, 0, b.N)
	log.commits.Store(0)
	began, used := time.Now(), processTime()
	send(b, nodes, b.N, &latencies)
	took, cpu := time.Since(began), processTime()-used
	check(b, in.stop())
	verifyFleet(b, e, nodes)
	slices.Sort(latencies)
	p := func(permille int) time.Duration {
		return latencies[min(len(latencies)*permille/1000, len(latencies)-1)]
	}
	bytes := len(nodes[0].data)
	b.ReportMetric(float64(b.N)/took.Seconds(), "batches/s")
	b.ReportMetric(float64(b.N)*float64(bytes)/took.Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/batch")
	b.ReportMetric(float64(b.N)/float64(log.commits.Load()), "batches/commit")
	b.ReportMetric(p(500).Seconds()*1000, "p50-ms")
	b.ReportMetric(p(990).Seconds()*1000, "p99-ms")
	load, _ := os.ReadFile("/proc/loadavg")
	b.Logf("%d batches of %d bytes (8 devices, 10 s) from %d nodes over %d TCP connections; sync always; "+
		"%d processors, load %s; each in the log exactly once", b.N, bytes, len(nodes), *benchDials, runtime.NumCPU(), strings.TrimSpace(string(load)))
}

// counted counts commits.
type counted struct {
	ingest.Log
	commits atomic.Int64
}

func (c *counted) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	c.commits.Add(1)
	return c.Log.PublishBatch(ctx, ps)
}

// benchNode is a node that keeps up: one batch under way.
type benchNode struct {
	b    usage.Batch
	data []byte
	nc   *nats.Conn
	last uint64
	seq  uint64
}

func benchFleet(b *testing.B, url string) []*benchNode {
	b.Helper()
	conns := make([]*nats.Conn, *benchDials)
	for i := range conns {
		nc, err := nats.Connect(url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		conns[i] = nc
	}
	nodes := make([]*benchNode, *benchNodes)
	for i := range nodes {
		nodes[i] = &benchNode{b: fullBatch(fmt.Sprintf("node%05d", i), i), nc: conns[i%len(conns)]}
	}
	return nodes
}

// fullBatch is ten seconds of a node with eight busy devices, which differ from node to node.
func fullBatch(node string, salt int) usage.Batch {
	minute := span.Minute(29_533_333)
	b := usage.Batch{
		Node: node, Boot: "3f1e0c52-6a1b-4d0e-9d42-0b6f4a2f9c11", Run: 1_772_000_000, Seq: 1, Minute: minute, Spoken: 1<<10 - 1,
		Clock: usage.ClockEvidence{State: usage.ClockSynchronised, OffsetNanos: -18_000, ErrorBoundNano: 420_000},
	}
	for d := range 8 {
		block := usage.Block{Device: fmt.Sprintf("GPU-%08x-0a52-4a37-9d0f-5c2b7e8a1f0%d", uint32(salt)*2654435761, d), Seen: b.Spoken}
		for i := range 10 {
			noise := int64(uint32(salt*31+d*7+i*i) * 2654435761 >> 20)
			block.Busy[i] = uint8(60 + noise%40)
			block.Memory.Set(i, 70<<30+noise/1000<<21)
			block.Power.Set(i, 550_000+noise*30)
			block.Energy.Set(i, 9_000_000_000+int64(salt)*7919+int64(i)*650_000+noise)
			block.Throttle.Set(i, int64(4*(i/8)))
		}
		b.Blocks = append(b.Blocks, block.Append(nil))
	}
	return b
}

// send has the nodes send total batches between them and notes how long each answer took.
func send(b *testing.B, nodes []*benchNode, total int, latencies *[]time.Duration) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(total))
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, n := range nodes {
		group.Go(func() {
			var mine []time.Duration
			for left.Add(-1) >= 0 {
				began := time.Now()
				if err := n.send(b.Context()); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			if latencies != nil {
				*latencies = append(*latencies, mine...)
			}
		})
	}
	group.Wait()
}

func (n *benchNode) send(ctx context.Context) error {
	n.seq++
	n.b.Seq = n.seq
	p, err := codec.EncodeBatch(&n.b)
	if err != nil {
		return err
	}
	n.data = p.Data
	request := wire.Request{Kind: wire.Publish, ExpectLast: n.last, Batches: [][]byte{p.Data}}
	reply, err := n.nc.RequestWithContext(ctx, wire.Subject(p.Subject), request.Append(nil))
	if err != nil {
		return err
	}
	answer, err := wire.ParseAnswer(reply.Data)
	if err != nil || answer.Outcome != wire.Stored {
		return fmt.Errorf("%s sequence %d: %v %s, %w", n.b.Node, n.seq, answer.Outcome, answer.Detail, err)
	}
	n.last = answer.Position
	return nil
}

// verifyFleet reads the whole stream: every batch of every node once and in order.
func verifyFleet(b *testing.B, e bus.Bus, nodes []*benchNode) {
	b.Helper()
	seen := make(map[string]uint64, len(nodes))
	for after := uint64(0); ; {
		messages, err := e.Read(b.Context(), bus.Usage, after, 1000)
		if err != nil {
			b.Fatal(err)
		}
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			batch, q := codec.DecodeBatch(m)
			if q != nil || batch.Seq != seen[batch.Node]+1 {
				b.Fatalf("message %d is %s sequence %d after %d, %v", m.Seq, batch.Node, batch.Seq, seen[batch.Node], q)
			}
			seen[batch.Node]++
		}
		after = messages[len(messages)-1].Seq
	}
	for _, n := range nodes {
		if seen[n.b.Node] != n.seq {
			b.Fatalf("%s: %d batches in the log, %d were answered", n.b.Node, seen[n.b.Node], n.seq)
		}
	}
}
